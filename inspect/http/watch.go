package inspecthttp

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/inspect"
)

const (
	// lookInterval is the least time between two looks at the cache, and lookShare the part of the time that looks may
	// take: one in so many.
	lookInterval, lookShare = 100 * time.Millisecond, 10
	// mostBytes bounds the bytes of data that the cache keeps, keptData those of one node.
	mostBytes, keptData = 64 << 20, 1 << 10
	// mostNodes is the most nodes that are read.
	mostNodes = 1_000_000
)

// watchTree keeps a cache, and puts its content on the board, until ctx ends. It then leaves the board empty.
func (p *Page) watchTree(ctx context.Context) {
	m := newScreenModel(time.Now())
	defer p.board.clear()
	nodes, err := cache.NewTree(p.client, p.root, cache.WithFilter(isUserNode), cache.WithDecoder(p.trimData),
		cache.WithDataLimit(mostBytes))
	if err != nil {
		p.board.putScreen(m.errorScreen(err, cache.Progress{}))
		<-ctx.Done()
		return
	}
	defer nodes.Close()
	changed := make(chan struct{}, 1)
	followed := make(chan struct{})
	defer func() { <-followed }()
	go func() {
		defer close(followed)
		for _, err := range nodes.Events(ctx) { // nil until the end
			if signalChange(changed); err != nil {
				return
			}
		}
	}()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	var news syncRequest
	var graph inspect.Graph
	var connected reportedSessions
	var asking sync.WaitGroup
	defer asking.Wait()
	answers := make(chan reportedSessions, 1)
	ask := time.Now()            // when to ask for the connections; zero while the servers are asked
	var resting <-chan time.Time // while it is too early for another look
	due := changed
	for {
		select {
		case <-ctx.Done():
			return
		case <-second.C:
			p.recordMargin(ctx)
			if !m.loaded { // how far it is
				signalChange(changed)
			}
			if now := time.Now(); !ask.IsZero() && !now.Before(ask) && p.hasViewers() {
				ask = time.Time{}
				seen := graph
				asking.Go(func() { answers <- p.askConnections(ctx, seen) })
			}
			if news.isAnswered(ctx, nodes) {
				m.rings.setKnown(news.sentAt)
				signalChange(changed)
			} else if m.rings.needsProof(time.Now()) {
				news.sendSync(ctx, p.client, p.root)
			}
			continue
		case connected = <-answers:
			ask = connected.nextRequest()
			signalChange(changed)
			continue
		case <-resting:
			resting, due = nil, changed
			continue
		case <-due:
		}
		began := time.Now()
		var err error
		graph, err = inspect.WhyIn(nodes, inspect.WithMostNodes(mostNodes), inspect.WithMostData(keptData))
		if progress := nodes.Progress(); err != nil {
			p.board.putScreen(m.errorScreen(err, progress))
		} else {
			p.board.putScreen(m.nextScreen(graph, progress, connected.dropOutdated(began), began))
		}
		resting, due = time.After(max(lookInterval, lookShare*time.Since(began))), nil
	}
}

func signalChange(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// isUserNode excludes the servers' own nodes.
func isUserNode(path string) bool { return path != "/zookeeper" }

// trimData returns the part of a node's data that the cache keeps: none that would not be shown.
func (p *Page) trimData(path string, data []byte) ([]byte, error) {
	if plain, err := p.client.Unpacked(path, data); err == nil {
		data = plain
	}
	if len(data) > keptData {
		return nil, nil
	}
	return bytes.Clone(data), nil
}

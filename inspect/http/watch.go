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
	// computeInterval is the least pause between two computations of the screen, and restFactor the least ratio of the
	// pause to the computation before it.
	computeInterval, restFactor = 100 * time.Millisecond, 10
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
	var proof syncRequest // that the tree is new, for rings
	var graph inspect.Graph
	var connected reportedSessions
	var requests sync.WaitGroup
	defer requests.Wait()
	replies := make(chan reportedSessions, 1)
	requestAt := time.Now()      // when to request the connections; zero while a request is in flight
	var resting <-chan time.Time // until the next computation
	due := changed
	for {
		select {
		case <-ctx.Done():
			return
		case <-second.C:
			p.recordMargin(ctx)
			if !m.loaded { // to show the progress
				signalChange(changed)
			}
			if now := time.Now(); !requestAt.IsZero() && !now.Before(requestAt) && p.hasViewers() {
				requestAt = time.Time{}
				seen := graph
				requests.Go(func() { replies <- p.requestConnections(ctx, seen) })
			}
			if proof.isAnswered(ctx, nodes) {
				m.rings.setKnown(proof.sentAt)
				signalChange(changed)
			} else if m.rings.needsProof(time.Now()) {
				proof.sendSync(ctx, p.client, p.root)
			}
			continue
		case connected = <-replies:
			requestAt = connected.nextRequest()
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
		resting, due = time.After(max(computeInterval, restFactor*time.Since(began))), nil
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

// trimData returns the data of a node as the cache keeps them: unpacked, and none if they are longer than keptData.
func (p *Page) trimData(path string, data []byte) ([]byte, error) {
	if plain, err := p.client.Unpacked(path, data); err == nil {
		data = plain
	}
	if len(data) > keptData {
		return nil, nil
	}
	return bytes.Clone(data), nil
}

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
	// pace is the least time between two looks at the cache, and share the part of the time that looks may
	// take: one in so many.
	pace, share = 100 * time.Millisecond, 10
	// mostBytes bounds the bytes of data that the cache keeps, keptData those of one node.
	mostBytes, keptData = 64 << 20, 1 << 10
	// mostNodes is the most nodes that are read.
	mostNodes = 1_000_000
)

// watch keeps a cache, and puts its content on the board, until ctx ends. It then leaves the board empty.
func (p *Page) watch(ctx context.Context) {
	m := newModel(time.Now())
	defer p.board.reset()
	nodes, err := cache.NewTree(p.client, p.root, cache.WithFilter(interesting), cache.WithDecoder(p.keep),
		cache.WithDataLimit(mostBytes))
	if err != nil {
		p.board.put(m.failed(err, cache.Progress{}))
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
			if poke(changed); err != nil {
				return
			}
		}
	}()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	var news question
	var graph inspect.Graph
	var connected told
	var asking sync.WaitGroup
	defer asking.Wait()
	answers := make(chan told, 1)
	ask := time.Now()            // when to ask for the connections; zero while the servers are asked
	var resting <-chan time.Time // while it is too early for another look
	due := changed
	for {
		select {
		case <-ctx.Done():
			return
		case <-second.C:
			p.feel(ctx)
			if !m.loaded { // how far it is
				poke(changed)
			}
			if now := time.Now(); !ask.IsZero() && !now.Before(ask) && p.watched() {
				ask = time.Time{}
				seen := graph
				asking.Go(func() { answers <- p.connections(ctx, seen) })
			}
			if news.answered(ctx, nodes) {
				m.rings.confirm(news.at)
				poke(changed)
			} else if m.rings.due(time.Now()) {
				news.ask(ctx, p.client, p.root)
			}
			continue
		case connected = <-answers:
			ask = connected.next()
			poke(changed)
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
			p.board.put(m.failed(err, progress))
		} else {
			p.board.put(m.update(graph, progress, connected.current(began), began))
		}
		resting, due = time.After(max(pace, share*time.Since(began))), nil
	}
}

func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// interesting excludes the servers' own nodes.
func interesting(path string) bool { return path != "/zookeeper" }

// keep returns the part of a node's data that the cache keeps: none that would not be shown.
func (p *Page) keep(path string, data []byte) ([]byte, error) {
	if plain, err := p.client.Unpacked(path, data); err == nil {
		data = plain
	}
	if len(data) > keptData {
		return nil, nil
	}
	return bytes.Clone(data), nil
}

package sim

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
)

func init() { kinds["cache"] = newCacheWork }

// cacheWork: everybody changes a tree, and has a cache of it with a listener.
type cacheWork struct {
	path string

	mu      sync.Mutex
	caches  map[int]*cache.Cache
	replays map[int]*replay
}

// replay is what the events amount to.
type replay struct {
	mu     sync.Mutex
	nodes  map[string]*cache.Node
	inits  int
	done   chan struct{}
	closed error
}

func newCacheWork(w *world) workload {
	k := &cacheWork{path: root + "/cache", caches: map[int]*cache.Cache{}, replays: map[int]*replay{}}
	w.must(w.ens.Member(0).Create(k.path, nil))
	return k
}

func (k *cacheWork) turn(ctx context.Context, a *actor) error {
	time.Sleep(below(a.r, 2*time.Second))
	if err := k.begin(a); err != nil {
		return err
	}
	path := fmt.Sprintf("%s/%d", k.path, a.r.IntN(8))
	if a.r.IntN(2) == 0 {
		path += fmt.Sprintf("/%d", a.r.IntN(4))
	}
	data := fmt.Appendf(nil, "%d by %d", a.turn, a.id)
	var err error
	what := a.r.IntN(4)
	done := a.timed(ctx, "a change")
	switch what {
	case 0:
		err = a.c.Delete().Quietly().DeletingChildrenIfNeeded().ForPath(ctx, path)
	default:
		_, err = a.c.Create().OrSetData().CreatingParentsIfNeeded().ForPath(ctx, path, data)
	}
	done()
	// Others change the tree at the same time.
	for _, usual := range []error{framework.ErrNoNode, framework.ErrNotEmpty, framework.ErrNodeExists, framework.ErrBadVersion} {
		if isErr(err, usual) {
			return nil
		}
	}
	return err
}

// begin makes the client's cache.
func (k *cacheWork) begin(a *actor) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.caches[a.id] != nil {
		return nil
	}
	opts := []cache.TreeOption{cache.WithBuffer(1 + a.r.IntN(20))}
	if a.w.plan.OneShot {
		opts = append(opts, cache.WithOneShotWatches())
	}
	c, err := cache.NewTree(a.c, k.path, opts...)
	if err != nil {
		return err
	}
	r := &replay{nodes: map[string]*cache.Node{}, done: make(chan struct{})}
	k.caches[a.id], k.replays[a.id] = c, r
	go func() {
		defer close(r.done)
		for ev, err := range c.Events(background) {
			if err != nil {
				r.closed = err
				return
			}
			r.play(a, ev)
		}
	}()
	return nil
}

// play checks that an event fits to those before it.
func (r *replay) play(a *actor, ev cache.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	bad := func(why string) { a.w.violate("cache: client %d: %v, but %s", a.id, ev, why) }
	before := r.nodes[ev.Path]
	switch ev.Type {
	case cache.Created:
		if before != nil {
			bad("it was there")
		}
		r.nodes[ev.Path] = ev.New
	case cache.Changed:
		switch {
		case before == nil:
			bad("it was not there")
		case before.Stat.Mzxid >= ev.New.Stat.Mzxid:
			bad("it was newer")
		case before.Stat.Czxid != ev.New.Stat.Czxid:
			bad("it is another node")
		}
		r.nodes[ev.Path] = ev.New
	case cache.Deleted:
		if before == nil {
			bad("it was not there")
		}
		delete(r.nodes, ev.Path)
	case cache.Initialized:
		if r.inits++; r.inits > 1 {
			bad("it was already")
		}
	case cache.Failed:
		bad("nothing is wrong with the node")
	}
}

func (k *cacheWork) settle(w *world) {
	l := w.ens.Leader()
	if l < 0 {
		return
	}
	tree := w.ens.Member(l).Tree()
	for id, c := range k.caches {
		r := k.replays[id]
		r.mu.Lock()
		nodes := 0
		for path, want := range tree {
			if path != k.path && !strings.HasPrefix(path, k.path+"/") {
				continue
			}
			nodes++
			if got, ok := c.Get(path); !ok || string(got.Data) != string(want.Data) || got.Stat.Mzxid != want.Stat.Mzxid || got.Stat.Pzxid != want.Stat.Pzxid {
				w.violate("cache: client %d has %s as %q %v (%t), and it is %q %v", id, path, got.Data, got.Stat, ok, want.Data, want.Stat)
			}
			if got := r.nodes[path]; got == nil || string(got.Data) != string(want.Data) || got.Stat.Mzxid != want.Stat.Mzxid {
				w.violate("cache: client %d's events make %s %v, and it is %q %v", id, path, got, want.Data, want.Stat)
			}
		}
		if c.Len() != nodes || len(r.nodes) != nodes {
			w.violate("cache: client %d has %d nodes, %d by its events, of %d", id, c.Len(), len(r.nodes), nodes)
		}
		r.mu.Unlock()
		_ = c.Close()
		<-r.done
	}
}

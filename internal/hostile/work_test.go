package hostile

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/semaphore"
)

// The two clients.
const (
	victim = iota // its connections go through the man in the middle
	other
)

// plant makes the tree.
func (w *world) plant() {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	for i := range 8 {
		must(w.srv.Create(fmt.Sprintf("/tree/%d", i), []byte("branch")))
		for k := range 3 {
			must(w.srv.Create(fmt.Sprintf("/tree/%d/%d", i, k), []byte("leaf")))
		}
	}
	for i := range 200 {
		must(w.srv.Create(fmt.Sprintf("/many/child-with-a-name-%d", i), nil))
	}
	must(w.srv.Create("/node", []byte("0")))
	must(w.srv.Create("/own/protected", nil))
}

// acquirer acquires a lock or a lease, and returns its nodes with it.
type acquirer func(ctx context.Context) (hold, []string, error)

// rights returns the holds for which the two clients compete.
func (w *world) rights(who int) map[string]acquirer {
	c := w.victim
	if who == other {
		c = w.honest
	}
	lock := mutex.New(c, "/lock", mutex.WithLossPolicy(w.script.loss()))
	leases := semaphore.New(c, "/lease", 1, semaphore.WithLossPolicy(w.script.loss()))
	return map[string]acquirer{
		"the lock": func(ctx context.Context) (hold, []string, error) {
			l, err := lock.Acquire(ctx)
			if err != nil {
				return nil, nil, err
			}
			return l, []string{l.Path()}, nil
		},
		"the lease": func(ctx context.Context) (hold, []string, error) {
			l, err := leases.Acquire(ctx, 1)
			if err != nil {
				return nil, nil, err
			}
			return l, l.Paths(), nil
		},
	}
}

// contend makes the honest client acquire and release.
func (w *world) contend(ctx context.Context, wg *sync.WaitGroup) {
	for name, acquire := range w.rights(other) {
		wg.Go(func() { w.turns(ctx, name, other, acquire, time.Second) })
	}
}

// turns acquires and releases in a loop; each turn is long.
func (w *world) turns(ctx context.Context, name string, who int, acquire acquirer, long time.Duration) {
	for ctx.Err() == nil {
		var h hold
		var paths []string
		err := w.call(ctx, "acquire "+name, 15*time.Second, func(ctx context.Context) (err error) {
			h, paths, err = acquire(ctx)
			return err
		})
		if err == nil {
			w.holds(name, who, h)
			for end := time.Now().Add(long); time.Now().Before(end) && ctx.Err() == nil; {
				w.looksAt(name, who, h, paths)
				time.Sleep(200 * time.Millisecond)
			}
			w.looksAt(name, who, h, paths)
			w.holds(name, who, nil)
			_ = w.call(context.Background(), "release "+name, 5*time.Second, h.Release)
		}
		w.pause(ctx, 300*time.Millisecond)
	}
}

func (w *world) holds(name string, who int, h hold) {
	w.mu.Lock()
	defer w.mu.Unlock()
	both := w.holders[name]
	both[who] = h
	w.holders[name] = both
}

func (w *world) pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// write changes the tree during the attack, as other clients would.
func (w *world) write(ctx context.Context, wg *sync.WaitGroup) {
	wg.Go(func() {
		r := rand.New(rand.NewPCG(w.script.seed, 1))
		for i := 0; ctx.Err() == nil; i++ {
			path := fmt.Sprintf("/tree/%d", r.IntN(8))
			switch r.IntN(5) {
			case 0:
				_ = w.srv.Create(fmt.Sprintf("%s/new-%d", path, i), []byte("new"))
			case 1:
				_ = w.srv.DeleteAll(path)
			case 2:
				_ = w.srv.Create(path, []byte("again"))
			default:
				_ = w.srv.Set(path, fmt.Appendf(nil, "value %d", i))
			}
			_ = w.srv.Set("/node", fmt.Appendf(nil, "%d", i))
			w.pause(ctx, 700*time.Millisecond)
		}
	})
}

// caches opens the caches, once.
func (w *world) caches(ctx context.Context, wg *sync.WaitGroup) (*cache.Cache, *cache.Single, func()) {
	var opts []cache.TreeOption
	if w.script.settings.has(oneShot) {
		opts = append(opts, cache.WithOneShotWatches())
	}
	tree, err := cache.NewTree(w.victim, "/tree", opts...)
	node, err2 := cache.NewNode(w.victim, "/node")
	if err := errors.Join(err, err2); err != nil {
		panic(err)
	}
	wg.Go(func() {
		for ev, err := range tree.Events(ctx) {
			w.hear("cache event", ev)
			if err != nil {
				w.hear("cache", err)
			}
		}
	})
	wg.Go(func() {
		for ctx.Err() == nil {
			_ = w.call(ctx, "WaitSynced", 5*time.Second, tree.WaitSynced)
			_ = w.call(ctx, "WaitSynced of the node", 5*time.Second, node.WaitSynced)
			w.pause(ctx, 3*time.Second)
		}
	})
	return tree, node, func() { _, _ = tree.Close(), node.Close() }
}

// work starts the victim's operations.
func (w *world) work(ctx context.Context, wg *sync.WaitGroup) {
	for name, acquire := range w.rights(victim) {
		wg.Go(func() { w.turns(ctx, name, victim, acquire, 4*time.Second) })
	}
	wg.Go(func() {
		for change := range w.victim.StateChanges(ctx) {
			w.hear("state", change)
			w.hear("health", w.victim.Health())
		}
	})
	wg.Go(func() { w.persistent(ctx) })
	wg.Go(func() { w.foreground(ctx) })
	wg.Go(func() { w.background(ctx) })
	if w.script.settings.has(library) {
		w.guest.Go(func() { w.library(ctx) })
	}
}

// persistent sets a watch, listens for a while, and removes it.
func (w *world) persistent(ctx context.Context) {
	for ctx.Err() == nil {
		var watch *framework.Watch
		err := w.call(ctx, "watch", 5*time.Second, func(ctx context.Context) (err error) {
			watch, err = w.victim.Watches().Add().ForPath(ctx, "/tree")
			return err
		})
		if err == nil {
			w.listen(ctx, watch, 7*time.Second)
		}
		w.pause(ctx, time.Second)
	}
}

// listen receives a watch's events for so long, and stops it.
func (w *world) listen(ctx context.Context, watch *framework.Watch, long time.Duration) {
	for over := time.After(long); ; {
		select {
		case ev, open := <-watch.C:
			if !open {
				return
			}
			w.hear("event", ev)
			continue
		case <-over:
		case <-ctx.Done():
		}
		break
	}
	watch.Stop()
	for end := time.After(time.Second); ; {
		select {
		case _, open := <-watch.C:
			if !open {
				return
			}
		case <-end:
			w.violate("a watch that was stopped goes on")
			return
		}
	}
}

// foreground makes calls one after the other.
func (w *world) foreground(ctx context.Context) {
	c := w.victim
	for i := 0; ctx.Err() == nil; i++ {
		own := fmt.Sprintf("/own/%d", i%4)
		for _, one := range []struct {
			name string
			call action
		}{
			{"getData", func(ctx context.Context) error {
				_, err := c.GetData().ForPath(ctx, "/node")
				return err
			}},
			{"getChildren", func(ctx context.Context) error {
				_, err := c.GetChildren().ForPath(ctx, "/many")
				return err
			}},
			{"exists", func(ctx context.Context) error {
				_, err := c.CheckExists().ForPath(ctx, "/not/there")
				return err
			}},
			{"getACL", func(ctx context.Context) error {
				_, err := c.GetACL().ForPath(ctx, "/node")
				return err
			}},
			{"sync", func(ctx context.Context) error { return c.Sync().ForPath(ctx, "/") }},
			{"multiRead", func(ctx context.Context) error {
				node, many := framework.ReadData("/node"), framework.ReadChildren("/many")
				_, err := c.MultiRead().ForReads(ctx, node, many, framework.ReadData("/not/there"))
				return err
			}},
			{"create", func(ctx context.Context) error {
				_, err := c.Create().OrSetData().ForPath(ctx, own, []byte("x"))
				return err
			}},
			{"transaction", func(ctx context.Context) error {
				op := c.TransactionOp()
				_, err := c.Transaction(ctx,
					op.Check().ForPath("/own"),
					op.SetData().ForPath(own, []byte("y")),
					op.Create().ForPath(own+"/below", nil))
				return err
			}},
			{"delete", func(ctx context.Context) error {
				return c.Delete().DeletingChildrenIfNeeded().Quietly().ForPath(ctx, own)
			}},
			{"protected", func(ctx context.Context) error {
				create := c.Create().WithProtection().WithMode(framework.EphemeralSequential)
				path, err := create.ForPath(ctx, "/own/protected/n-", nil)
				if err != nil {
					return err
				}
				return c.Delete().Guaranteed().ForPath(ctx, path)
			}},
			{"one-shot watch", func(ctx context.Context) error {
				_, watch, err := c.GetData().WithWatch().ForPath(ctx, "/node")
				if err == nil {
					w.listen(ctx, watch, 500*time.Millisecond)
				}
				return err
			}},
			{"getConfig", func(ctx context.Context) error {
				_, err := c.GetConfig(ctx)
				return err
			}},
			{"participants", func(ctx context.Context) error {
				_, err := mutex.New(c, "/lock").Participants(ctx)
				return err
			}},
		} {
			_ = w.call(ctx, one.name, 4*time.Second, one.call)
		}
		w.pause(ctx, 500*time.Millisecond)
	}
}

// background sends several requests at the same time.
func (w *world) background(ctx context.Context) {
	for ctx.Err() == nil {
		_ = w.call(ctx, "background", 6*time.Second, func(ctx context.Context) error {
			var all []*framework.Pending[framework.DataResult]
			for i := range 8 {
				all = append(all, w.victim.GetData().InBackground().ForPath(ctx, fmt.Sprintf("/tree/%d", i)))
			}
			lists := w.victim.GetChildren().InBackground().ForPath(ctx, "/many")
			set := w.victim.SetData().InBackground().ForPath(ctx, "/own", []byte("z"))
			var errs []error
			for _, p := range all {
				_, err := p.Wait(context.Background()) // the operation's own context ends it
				errs = append(errs, err)
			}
			_, err := lists.Wait(context.Background())
			_, err2 := set.Wait(context.Background())
			return errors.Join(append(errs, err, err2)...)
		})
		w.pause(ctx, 400*time.Millisecond)
	}
}

// library makes calls through Client.Conn, the interface of go-zookeeper. They have no context: if a request is lost on a
// connection that stays, its call ends only with the client.
func (w *world) library(ctx context.Context) {
	for ctx.Err() == nil {
		conn := w.victim.Conn()
		if _, _, err := conn.Get("/node"); err != nil {
			w.hear("go-zookeeper", err)
		}
		if _, _, err := conn.Children("/many"); err != nil {
			w.hear("go-zookeeper", err)
		}
		w.pause(ctx, 600*time.Millisecond)
	}
}

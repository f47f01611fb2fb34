package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/queue"
)

func init() { kinds["simplequeue"] = newSimpleWork }

// simpleWork: all clients put items into a simple queue, and take them off. No item is returned twice, none is lost,
// and none passes another that is in the queue during the whole call. An item whose outcome is unknown may have been
// taken.
type simpleWork struct {
	path string

	mu      sync.Mutex
	queues  map[*framework.Client]*queue.Simple
	items   map[string]*simpleItem
	numbers map[string]string // the names of the nodes that were seen, by item
}

type simpleItem struct {
	put, refused bool   // certainly
	unknown      bool   // it was returned, but may not have been taken off
	by           string // the call that has taken it off
}

func newSimpleWork(w *world) workload {
	k := &simpleWork{path: root + "/simple", queues: map[*framework.Client]*queue.Simple{}, items: map[string]*simpleItem{},
		numbers: map[string]string{}}
	w.directory(k.path)
	return k
}

// queue returns the queue that the actors of a client share.
func (k *simpleWork) queue(c *framework.Client) *queue.Simple {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.queues[c] == nil {
		k.queues[c] = queue.NewSimple(c, k.path)
	}
	return k.queues[c]
}

func (k *simpleWork) turn(ctx context.Context, a *actor) error {
	a.rest()
	q := k.queue(a.c)
	for range a.r.IntN(6) {
		if err := k.offer(ctx, a, q); err != nil {
			return err
		}
	}
	for range a.r.IntN(6) {
		limited, cancel := context.WithTimeout(ctx, below(a.r, 3*time.Second))
		err := k.take(limited, a, q)
		cancel()
		if errors.Is(err, queue.ErrEmpty) || limited.Err() != nil && ctx.Err() == nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (k *simpleWork) offer(ctx context.Context, a *actor, q *queue.Simple) error {
	item := &simpleItem{}
	k.mu.Lock()
	name := fmt.Sprintf("%d-%d", a.who, len(k.items))
	k.items[name] = item
	k.mu.Unlock()
	done := a.timed(ctx, "Offer")
	err := q.Offer(ctx, []byte(name))
	done()
	k.mu.Lock()
	defer k.mu.Unlock()
	item.put = err == nil
	item.refused = err != nil && !errors.Is(err, framework.ErrOutcomeUnknown)
	if item.refused && (item.by != "" || item.unknown) {
		a.w.violate("simple: %s was taken, but not put: %v", name, err)
	}
	if errors.Is(err, framework.ErrOutcomeUnknown) {
		return fmt.Errorf("%w: %w", errNotNow, err)
	}
	return err
}

// inQueue returns the items in the queue, by the names of their nodes; nil if that is not known.
func (k *simpleWork) inQueue(w *world) map[string]string {
	leader := w.newest()
	if leader == nil {
		return nil
	}
	names, _ := leader.Children(k.path)
	items := map[string]string{}
	for _, name := range names {
		data, _, err := leader.Get(k.path + "/" + name)
		if err == nil {
			items[name] = string(data)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, item := range items {
		k.numbers[item] = name
	}
	return items
}

func (k *simpleWork) take(ctx context.Context, a *actor, q *queue.Simple) error {
	before := k.inQueue(a.w)
	call := q.Take
	if a.who < 0 || a.r.IntN(2) == 0 {
		call = q.Poll
	}
	done := a.timed(ctx, "Take")
	data, err := call(ctx)
	done()
	unknown := errors.Is(err, framework.ErrOutcomeUnknown)
	if err != nil && !unknown || unknown && data == nil {
		return err
	}
	after := k.inQueue(a.w)
	k.mu.Lock()
	defer k.mu.Unlock()
	name, by := string(data), fmt.Sprint(a.who, " ", a.turn)
	item := k.items[name]
	switch {
	case item == nil:
		a.w.violate("simple: no client has put %q", name)
		return err
	case item.refused:
		a.w.violate("simple: %s was taken, but not put", name)
	case item.by != "" && !unknown:
		a.w.violate("simple: %s has taken %s, after %s", by, name, item.by)
	}
	if unknown {
		item.unknown = true
		return fmt.Errorf("%w: %w", errNotNow, err)
	}
	item.by = by
	if a.w.plan.Restored || a.w.plan.Meddling {
		return nil // numbers begin again, or other nodes come and go
	}
	own := k.numbers[name]
	for node, other := range after {
		if before[node] == other && own != "" && node < own {
			a.w.violate("simple: %s has taken %s (%s), and %s (%s) is still there", by, name, own, other, node)
		}
	}
	return nil
}

// settle takes the items that are left. Then every item that was put has been taken, or its outcome is unknown.
func (k *simpleWork) settle(w *world) {
	clients := w.present()
	if len(clients) == 0 || w.ens.Leader() < 0 {
		return
	}
	a := &actor{w: w, c: clients[0], who: -1, r: rand.New(rand.NewPCG(w.plan.Seed, 1<<51))}
	ctx, cancel := context.WithTimeout(background, 10*time.Minute)
	defer cancel()
	for q := k.queue(a.c); ; {
		err := k.take(ctx, a, q)
		if err == nil || errors.Is(err, errNotNow) {
			continue
		}
		if errors.Is(err, queue.ErrEmpty) {
			break
		}
		w.violate("simple: %v", err)
		return
	}
	time.Sleep(11 * time.Second) // marks stay for ten seconds
	w.empty(k.path)
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, item := range k.items {
		if item.put && item.by == "" && !item.unknown {
			w.violate("simple: %s was put and never taken", name)
		}
	}
}

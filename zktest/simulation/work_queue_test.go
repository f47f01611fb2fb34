package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/queue"
)

func init() {
	kinds["queue"] = func(w *world) workload { return newQueueWork(w, "queue") }
	kinds["lockedqueue"] = func(w *world) workload {
		return newQueueWork(w, "lockedqueue", queue.WithLockPath(root+"/itemlocks"))
	}
}

// queueWork: all clients put items, and consume them, some a few at a time. An item that was certainly put is handled:
// with a lock path at least once, and again only if the lock was lost or the handler has failed; without a lock path at
// most once, and a missing item was reported. An item that was certainly not put is never handled.
type queueWork struct {
	name, path string
	opts       []queue.Option
	locked     bool

	mu     sync.Mutex
	queues map[*framework.Client]*queue.Queue
	items  map[string]*queued
	before map[int64]bool // sessions from before the queue's numbers began again
}

// queued is the state of an item.
type queued struct {
	put     bool // certainly put
	refused bool // certainly not put
	missed  bool // a consumer has reported that it may be lost
	times   int  // number of times that it was handled
	now     context.Context
	by      string // the last handler, and below its session
	session int64
	done    bool // the last handler has returned nil
}

func newQueueWork(w *world, name string, opts ...queue.Option) workload {
	k := &queueWork{name: name, path: root + "/" + name, opts: opts, locked: len(opts) > 0,
		queues: map[*framework.Client]*queue.Queue{}, items: map[string]*queued{}, before: map[int64]bool{}}
	if !w.plan.Restored {
		w.directory(k.path)
		return k
	}
	for n := range 20 { // the numbers below 14 were given out before, and a new item may get any of the others
		name := fmt.Sprint("old-", n)
		k.items[name] = &queued{put: true}
		data := append([]byte{0, 1, 0, 1, 1, 0, 0, 0, byte(len(name))}, name...)
		w.must(w.ens.Member(0).Create(fmt.Sprintf("%s/queue-%010d", k.path, 14+n), append(data, 2)))
	}
	return k
}

// begunAnew lets the numbers of the queue's node begin where a restored node's begin.
func (k *queueWork) begunAnew(w *world) {
	m := w.ens.Member(0)
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range m.Sessions() {
		k.before[s.ID] = true
	}
	names, err := m.Children(k.path)
	w.must(err)
	w.must(m.SetSequence(k.path, int32(len(names))))
}

// last returns the largest number of all items, or the number of one item; -1 if there is none or it is not known.
func (k *queueWork) last(w *world, item string) (last int) {
	last = -1
	leader := w.newest()
	if leader == nil {
		return last
	}
	names, _ := leader.Children(k.path)
	for _, name := range names {
		if !strings.HasPrefix(name, "queue-") { // a stranger
			continue
		}
		var n int
		if _, err := fmt.Sscanf(name[len(name)-10:], "%d", &n); err != nil {
			w.violate("%s: an item's node is %s", k.name, name)
		}
		if item != "" {
			data, _, err := leader.Get(k.path + "/" + name)
			if err != nil || string(data[9:len(data)-1]) != item {
				continue
			}
		}
		last = max(last, n)
	}
	return last
}

// behind checks that an item was put behind those in the queue: in every session after the queue's numbers began again.
func (k *queueWork) behind(a *actor, name string, last int, session int64) {
	now := sessionOf(a.c)
	k.mu.Lock()
	defer k.mu.Unlock()
	if session == 0 || session != now || k.before[session] {
		return
	}
	if n := k.last(a.w, name); n >= 0 && n <= last {
		a.w.violate("%s: %s was put as number %d, and %d was there", k.name, name, n, last)
	}
}

// queue returns the queue that the actors of a client share.
func (k *queueWork) queue(c *framework.Client) *queue.Queue {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.queues[c] == nil {
		k.queues[c] = queue.New(c, k.path, append(slices.Clip(k.opts), queue.OnFailure(k.failed))...)
	}
	return k.queues[c]
}

// failed records that an item may have been lost.
func (k *queueWork) failed(err *queue.ItemError) queue.Fate {
	if errors.Is(err, framework.ErrOutcomeUnknown) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.items[string(err.Data[9:len(err.Data)-1])].missed = true
	}
	return queue.Requeue
}

func (k *queueWork) turn(ctx context.Context, a *actor) error {
	a.rest()
	q := k.queue(a.c)
	for range a.r.IntN(4) {
		item := &queued{}
		k.mu.Lock()
		name := fmt.Sprintf("%d-%d", a.who, len(k.items))
		k.items[name] = item
		k.mu.Unlock()
		last, session := k.last(a.w, ""), sessionOf(a.c)
		done := a.timed(ctx, "Put")
		err := q.Put(ctx, []byte(name))
		done()
		if err == nil {
			k.behind(a, name, last, session)
		}
		if errors.Is(err, framework.ErrOutcomeUnknown) && ctx.Err() == nil && a.w.Elapsed() < a.w.plan.first() {
			a.w.violate("%s: a put of which no reply was lost but those to creates of directories: %v", k.name, err)
		}
		k.mu.Lock()
		item.put = err == nil
		item.refused = err != nil && !errors.Is(err, framework.ErrOutcomeUnknown)
		if item.refused && item.times > 0 {
			a.w.violate("%s: %s was handled, but not put: %v", k.name, name, err)
		}
		k.mu.Unlock()
		if errors.Is(err, framework.ErrOutcomeUnknown) {
			return fmt.Errorf("%w: %w", errNotNow, err)
		}
		if err != nil {
			return err
		}
	}
	limited, cancel := context.WithTimeout(ctx, below(a.r, 3*time.Second))
	defer cancel()
	return k.consume(limited, a, q)
}

// consume consumes until ctx ends, which is not a failure.
func (k *queueWork) consume(ctx context.Context, a *actor, q *queue.Queue) error {
	err := q.Consume(ctx, func(ctx context.Context, item []byte) error { return k.handle(ctx, a, string(item)) })
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

func (k *queueWork) handle(ctx context.Context, a *actor, name string) error {
	k.begins(ctx, a, name)
	takes := below(a.r, 50*time.Millisecond)
	if a.r.IntN(10) == 0 && !a.w.calm() { // as long as it takes to lose a session
		takes = below(a.r, 3*a.w.plan.SessionTimeout)
	}
	select {
	case <-ctx.Done():
	case <-time.After(takes):
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	item := k.items[name]
	if item.now == ctx {
		item.now = nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if k.locked && a.r.IntN(10) == 0 && !a.w.calm() {
		return errNotNow
	}
	item.done = true
	return nil
}

// begins checks the conditions for handling an item.
func (k *queueWork) begins(ctx context.Context, a *actor, name string) {
	session := sessionOf(a.c)
	k.mu.Lock()
	defer k.mu.Unlock()
	item := k.items[name]
	if item == nil {
		a.w.violate("%s: nobody has put %q", k.name, name)
		return
	}
	by := fmt.Sprint(a.who, " ", a.turn)
	switch item.times++; {
	case item.refused:
		a.w.violate("%s: %s was handled, but not put", k.name, name)
	case !k.locked && item.times > 1:
		a.w.violate("%s: %s handles %s, after %s", k.name, by, name, item.by)
	case k.locked && item.now != nil && item.now.Err() == nil && !a.w.plan.Meddling:
		a.w.violate("%s: %s handles %s while %s does", k.name, by, name, item.by)
	case k.locked && item.done && k.lives(a.w, item.session) && !a.w.plan.Meddling:
		a.w.violate("%s: %s handles %s once more, and the session of %s lives", k.name, by, name, item.by)
	}
	item.now, item.by, item.done, item.session = ctx, by, false, session
}

// lives reports whether a session certainly exists.
func (k *queueWork) lives(w *world, id int64) bool {
	leader := w.newest()
	if leader == nil || id == 0 {
		return false
	}
	for _, s := range leader.Sessions() {
		if s.ID == id {
			return true
		}
	}
	return false
}

// left returns the number of items in the queue; 1 if it is not known.
func (k *queueWork) left(w *world) int {
	l := w.ens.Leader()
	if l < 0 {
		return 1
	}
	left, err := w.ens.Member(l).Children(k.path)
	if err != nil {
		return 1
	}
	return len(left)
}

// settle consumes the items that are left. Then every item that was put has been handled, or was reported as lost, and
// the queue is empty.
func (k *queueWork) settle(w *world) {
	clients := w.present()
	if len(clients) == 0 || w.ens.Leader() < 0 {
		return
	}
	a := &actor{w: w, c: clients[0], who: -1, r: rand.New(rand.NewPCG(w.plan.Seed, 1<<50))}
	ctx, cancel := context.WithTimeout(background, 10*time.Minute)
	defer cancel()
	var watching sync.WaitGroup
	watching.Go(func() {
		defer cancel()
		for ctx.Err() == nil && k.left(w) > 0 { // 70 items at two lagging replies each take two minutes
			time.Sleep(time.Second)
		}
	})
	if err := k.consume(ctx, a, k.queue(a.c)); err != nil {
		w.violate("%s: %v", k.name, err)
	}
	cancel()
	watching.Wait()
	w.empty(k.path)
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, item := range k.items {
		if item.put && item.times == 0 && !item.missed {
			w.violate("%s: %s was put and never handled", k.name, name)
		}
	}
}

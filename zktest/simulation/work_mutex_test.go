package simulation_test

import (
	"context"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
)

func init() { kinds["mutex"] = newMutexWork }

// mutexWork: all clients want the same lock.
type mutexWork struct {
	l    *ledger
	path string

	mu    sync.Mutex
	locks map[*framework.Client]*mutex.Mutex // which remember how long holds last; guarded by mu
}

func newMutexWork(w *world) workload {
	return &mutexWork{
		l: newLedger(w, "mutex").oneAtATime(), path: root + "/mutex", locks: map[*framework.Client]*mutex.Mutex{},
	}
}

func (k *mutexWork) turn(ctx context.Context, a *actor) error {
	m := k.lock(a)
	get := m.Acquire
	if a.r.IntN(5) == 0 && !a.w.calm() {
		get = m.TryAcquire
	}
	done := k.l.wants(ctx, a, "Acquire")
	lock, err := get(ctx)
	done()
	if err != nil {
		return notTaken(err, mutex.ErrNotAcquired)
	}
	g := k.l.granted(a, &grant{hold: lock, path: lock.Path(), token: lock.FencingToken()})
	k.l.use(a, g, one(lock.Guard))
	return release(a, k.l, g, lock.Release)
}

func (k *mutexWork) lock(a *actor) *mutex.Mutex {
	k.mu.Lock()
	defer k.mu.Unlock()
	m := k.locks[a.c]
	if m == nil {
		m = mutex.New(a.c, k.path, mutex.WithLossPolicy(a.w.plan.Loss))
		k.locks[a.c] = m
	}
	return m
}

func (k *mutexWork) settle(w *world) {
	k.l.settle()
	w.empty(k.path)
}

// release releases a hold. The turn does not fail if that takes too long.
func release(a *actor, l *ledger, g *grant, give func(context.Context) error) error {
	ctx, cancel := a.within(10 * time.Second)
	defer cancel()
	defer a.timed(ctx, "Release")()
	a.w.Logf("%s is released by %v", l.name, g)
	g.claim.Returning()
	if err := give(ctx); err != nil {
		a.expected(ctx, err)
	}
	return nil
}

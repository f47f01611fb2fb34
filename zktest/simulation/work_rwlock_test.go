package simulation_test

import (
	"context"

	"github.com/go-curator/curator/recipes/rwlock"
)

func init() { kinds["rwlock"] = newRWLockWork }

// rwlockWork: readers and writers; sometimes a writer downgrades.
type rwlockWork struct {
	l    *ledger
	path string
}

func newRWLockWork(w *world) workload { return &rwlockWork{newLedger(w, "rwlock"), root + "/rwlock"} }

func (k *rwlockWork) turn(ctx context.Context, a *actor) error {
	rw := rwlock.New(a.c, k.path, rwlock.WithLossPolicy(a.w.plan.Loss))
	side := rw.ReadLock()
	if a.r.IntN(2) == 0 {
		side = rw.WriteLock()
	}
	lock, g, err := k.acquire(ctx, a, side)
	if err != nil {
		return err
	}
	k.l.use(a, g, one(lock.Guard))
	if lock.Kind() == rwlock.Write && a.r.IntN(2) == 0 {
		both, cancel := context.WithTimeout(lock.Context(), a.w.plan.patience())
		reader, beside, err := k.acquire(both, a, rw.ReadLock())
		cancel()
		if err == nil {
			_ = release(a, k.l, g, lock.Release)
			k.l.use(a, beside, one(reader.Guard))
			lock, g = reader, beside
		}
	}
	return release(a, k.l, g, lock.Release)
}

func (k *rwlockWork) acquire(ctx context.Context, a *actor, side *rwlock.Side) (*rwlock.Lock, *grant, error) {
	get := side.Acquire
	if a.r.IntN(6) == 0 && !a.w.calm() {
		get = side.TryAcquire
	}
	done := k.l.wants(ctx, a, "Acquire")
	lock, err := get(ctx)
	done()
	if err != nil {
		return nil, nil, notTaken(err, rwlock.ErrNotAcquired)
	}
	g := &grant{
		hold:   lock,
		path:   lock.Path(),
		token:  lock.FencingToken(),
		shared: side.Kind() == rwlock.Read,
		owner:  1 + a.who + 10_000*a.turn,
	}
	return lock, k.l.granted(a, g), nil
}

func (k *rwlockWork) settle(w *world) {
	k.l.settle()
	w.empty(k.path)
}

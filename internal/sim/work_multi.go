package sim

import (
	"context"
	"time"

	"github.com/go-curator/curator/recipes/mutex"
)

func init() {
	kinds["multi"] = func(w *world) workload {
		return &multiWork{[]*ledger{newLedger(w, "multi-a"), newLedger(w, "multi-b")}, []string{root + "/multi-a", root + "/multi-b"}}
	}
	kinds["revocation"] = func(w *world) workload { return &revocationWork{newLedger(w, "revocation"), root + "/revocation"} }
}

// multiWork: two locks, or one of them.
type multiWork struct {
	ledgers []*ledger
	paths   []string
}

func (k *multiWork) turn(ctx context.Context, a *actor) error {
	locks := make([]*mutex.Mutex, len(k.paths))
	parts := make([]mutex.Part, len(k.paths))
	for i, path := range k.paths {
		locks[i] = mutex.New(a.c, path, mutex.WithLossPolicy(a.w.plan.Loss))
		parts[i] = mutex.Of(locks[i])
	}
	if i := a.r.IntN(2 * len(locks)); i < len(locks) && !a.w.calm.Load() { // one alone
		lock, err := locks[i].Acquire(ctx)
		if err != nil {
			return err
		}
		g := k.enter(a, i, lock)
		k.ledgers[i].use(a, g, lock.Guard)
		return release(a, k.ledgers[i], g, lock.Release)
	}
	done := a.timed(ctx, "Acquire")
	both, err := mutex.NewMulti(parts...).Acquire(ctx)
	done()
	if err != nil {
		return err
	}
	var grants []*grant
	for i, held := range both.Parts() {
		if lock, ok := held.(*mutex.Lock); ok {
			grants = append(grants, k.enter(a, i, lock))
		}
	}
	if len(grants) != len(parts) {
		a.w.violate("multi: %d parts instead of %d", len(grants), len(parts))
		return nil
	}
	timer := time.NewTimer(below(a.r, time.Second))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-both.Context().Done():
	}
	for i, g := range grants {
		k.ledgers[i].noticed(g)
		k.ledgers[i].save(g)
		if both.Valid() && !g.Valid() {
			a.w.violate("multi: valid without %v", g)
		}
	}
	return release(a, k.ledgers[0], grants[0], both.Release)
}

func (k *multiWork) enter(a *actor, i int, lock *mutex.Lock) *grant {
	return k.ledgers[i].granted(a, &grant{hold: lock, path: lock.Path(), token: lock.FencingToken()})
}

func (k *multiWork) settle(w *world) {
	for i, l := range k.ledgers {
		l.settle()
		w.empty(k.paths[i])
	}
}

// revocationWork: locks that are given up when somebody asks for it, and somebody does.
type revocationWork struct {
	l    *ledger
	path string
}

func (k *revocationWork) turn(ctx context.Context, a *actor) error {
	m := mutex.New(a.c, k.path, mutex.WithLossPolicy(a.w.plan.Loss), mutex.WithRevocation())
	if a.r.IntN(3) == 0 {
		if holder, ok, err := m.Holder(ctx); err == nil && ok {
			done := a.timed(ctx, "Revoke")
			err = mutex.Revoke(ctx, a.c, holder.Path)
			done()
			if err != nil {
				return err
			}
		}
	}
	done := a.timed(ctx, "Acquire")
	lock, err := m.Acquire(ctx)
	done()
	if err != nil {
		return err
	}
	g := k.l.granted(a, &grant{hold: lock, path: lock.Path(), token: lock.FencingToken()})
	timer := time.NewTimer(below(a.r, 3*time.Second))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-lock.Revoked():
		a.w.tell("REVOKED %v", g)
	case <-lock.Context().Done():
	}
	k.l.save(g)
	return release(a, k.l, g, lock.Release)
}

func (k *revocationWork) settle(w *world) {
	k.l.settle()
	w.empty(k.path)
}

package simulation_test

import (
	"context"
	"sync"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/semaphore"
)

func init() {
	kinds["semaphore"] = newSemaphoreWork
	kinds["leases"] = newLeasesWork
}

// leases is the semaphore's number of leases.
const leases = 3

// semaphoreWork: one or two leases of three, or all.
type semaphoreWork struct {
	l    *ledger
	path string
}

func newSemaphoreWork(w *world) workload {
	return &semaphoreWork{ledgerOf(w, "semaphore", leases), root + "/semaphore"}
}

func (k *semaphoreWork) turn(ctx context.Context, a *actor) error {
	s := semaphore.New(a.c, k.path, leases, semaphore.WithLossPolicy(a.w.plan.Loss))
	get := s.Acquire
	if a.r.IntN(5) == 0 && !a.w.calm() {
		get = s.TryAcquire
	}
	done := k.l.wants(ctx, a, "Acquire")
	most := 2
	if a.w.plan.Java { // it holds a part while it waits for the next, so a contender that wants all must give way
		most = leases
	}
	lease, err := get(ctx, 1+a.r.IntN(most))
	done()
	if err != nil {
		return notTaken(err, semaphore.ErrNotAcquired)
	}
	paths := lease.Paths()
	g := k.l.granted(
		a,
		&grant{hold: lease, path: paths[0], more: paths[1:], weight: lease.Count(), token: lease.ID(),
			line: line(s.Participants, func(p semaphore.Participant) string { return p.Path })},
	)
	k.l.use(a, g, lease.Guards)
	return release(a, k.l, g, lease.Release)
}

// leasesWork: one lease of three, sometimes all, with a Semaphore for each client, which remembers the leases before.
type leasesWork struct {
	l    *ledger
	path string

	mu   sync.Mutex
	sems map[*framework.Client]*semaphore.Semaphore // guarded by mu
}

func newLeasesWork(w *world) workload {
	return &leasesWork{
		l: ledgerOf(w, "leases", leases), path: root + "/leases", sems: map[*framework.Client]*semaphore.Semaphore{},
	}
}

func (k *leasesWork) of(a *actor) *semaphore.Semaphore {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.sems[a.c] == nil {
		k.sems[a.c] = semaphore.New(a.c, k.path, leases, semaphore.WithLossPolicy(a.w.plan.Loss))
	}
	return k.sems[a.c]
}

func (k *leasesWork) turn(ctx context.Context, a *actor) error {
	s, n := k.of(a), 1
	if a.r.IntN(8) == 0 { // the others have to wait in the line
		n = leases
	}
	done := k.l.wants(ctx, a, "Acquire")
	lease, err := s.Acquire(ctx, n)
	done()
	if err != nil {
		return notTaken(err, semaphore.ErrNotAcquired)
	}
	paths := lease.Paths()
	g := k.l.granted(a, &grant{hold: lease, path: paths[0], more: paths[1:], weight: lease.Count(), token: lease.ID()})
	k.l.use(a, g, lease.Guards)
	return release(a, k.l, g, lease.Release)
}

func (k *leasesWork) settle(w *world) {
	k.l.settle()
	w.empty(k.path + "/leases")
	w.empty(k.path + "/locks")
}

func (k *semaphoreWork) settle(w *world) {
	k.l.settle()
	w.empty(k.path + "/leases")
	w.empty(k.path + "/locks")
}

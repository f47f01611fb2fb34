package simulation_test

import (
	"context"
	"slices"
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

	mu      sync.Mutex
	locks   map[*framework.Client]*mutex.Mutex  // which record how long holds last; guarded by mu
	cohorts map[*framework.Client]*mutex.Cohort // guarded by mu
	turns   int                                 // of cohorts; guarded by mu
	nodes   map[string]*passed                  // of cohorts; guarded by mu
}

// passed is a node that contenders of a client pass on.
type passed struct {
	turns int
	since time.Time
}

func newMutexWork(w *world) workload {
	return &mutexWork{
		l: newLedger(w, "mutex").oneAtATime(), path: root + "/mutex", locks: map[*framework.Client]*mutex.Mutex{},
		cohorts: map[*framework.Client]*mutex.Cohort{}, nodes: map[string]*passed{},
	}
}

func (k *mutexWork) turn(ctx context.Context, a *actor) error {
	if a.w.plan.Seldom && a.id > 0 && !a.w.calm() {
		time.Sleep(below(a.r, 20*time.Second))
	}
	try := a.r.IntN(5) == 0 && !a.w.calm()
	if m := k.cohort(a); m != nil {
		return k.pass(ctx, a, m, try)
	}
	m := k.lock(a)
	get := m.Acquire
	if try {
		get = m.TryAcquire
	}
	done := k.l.wants(ctx, a, "Acquire")
	lock, err := get(ctx)
	done()
	if err != nil {
		return notTaken(err, mutex.ErrNotAcquired)
	}
	g := k.l.granted(a, &grant{hold: lock, path: lock.Path(), token: lock.FencingToken(), line: holders(a, m)})
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

// cohort returns the cohort of the client's contenders; nil if each stands in line.
func (k *mutexWork) cohort(a *actor) *mutex.Cohort {
	if a.id >= len(a.w.plan.Cohorts) || a.w.plan.Cohorts[a.id].Turns == 0 {
		return nil
	}
	c := a.w.plan.Cohorts[a.id]
	k.mu.Lock()
	defer k.mu.Unlock()
	m := k.cohorts[a.c]
	if m == nil {
		opts := []mutex.Option{mutex.WithLossPolicy(a.w.plan.Loss), mutex.WithTurns(c.Turns, c.Long)}
		if c.Idle > 0 {
			opts = append(opts, mutex.WithKept(c.Idle))
		}
		m = mutex.NewCohort(a.c, k.path, opts...)
		k.cohorts[a.c] = m
	}
	return m
}

// pass has a turn of a cohort.
func (k *mutexWork) pass(ctx context.Context, a *actor, m *mutex.Cohort, try bool) error {
	get := m.Acquire
	if try {
		get = m.TryAcquire
	}
	done := k.l.wants(ctx, a, "Acquire")
	turn, err := get(ctx)
	done()
	if err != nil {
		return notTaken(err, mutex.ErrNotAcquired)
	}
	owner := k.count(a, turn)
	g := k.l.granted(a, &grant{hold: turn, path: turn.Path(), passed: true, owner: owner, line: holders(a, m)})
	k.l.use(a, g, nil)
	return release(a, k.l, g, turn.Release)
}

// asked has the queries that a mutex and a cohort share.
type asked interface {
	Participants(ctx context.Context) ([]mutex.Participant, error)
	Holder(ctx context.Context) (mutex.Participant, bool, error)
}

// holders lists all contenders or the first.
func holders(a *actor, m asked) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		if a.r.IntN(2) == 0 {
			return line(m.Participants, func(p mutex.Participant) string { return p.Path })(ctx)
		}
		first, found, err := m.Holder(ctx)
		if err != nil || !found {
			return nil, err
		}
		return []string{first.Path}, nil
	}
}

// count reports a node that has more turns than its share. A cohort that keeps its lock may have more while no other
// contender waits.
func (k *mutexWork) count(a *actor, turn *mutex.Turn) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.turns++
	a.w.Count("turns of a cohort", 1)
	c, n := a.w.plan.Cohorts[a.id], k.nodes[turn.Path()]
	if n == nil {
		n = &passed{since: time.Now()}
		k.nodes[turn.Path()] = n
	}
	if n.turns++; n.turns > 1 {
		a.w.Count("turns that were passed on", 1)
	}
	if c.Idle == 0 && (n.turns > c.Turns || time.Since(n.since) >= c.Long && n.turns > 1) {
		a.w.violate("mutex: client %d has %s for the %dth turn, %v after the first: it may have %d, and %v",
			a.id, turn.Path()[len(root):], n.turns, time.Since(n.since), c.Turns, c.Long)
	}
	return k.turns
}

func (k *mutexWork) settle(w *world) {
	k.l.settle()
	k.disturb(w)
	w.empty(k.path)
}

// disturb creates a contender's node and deletes it, so that a cohort releases the lock that it keeps.
func (k *mutexWork) disturb(w *world) {
	leader := w.ens.Leader()
	if leader < 0 || !slices.ContainsFunc(w.plan.Cohorts, func(c cohort) bool { return c.Idle > 0 }) {
		return
	}
	if m := w.ens.Member(leader); m.Exists(k.path) {
		w.must(m.Create(k.path+"/somebody", nil))
		w.must(m.Delete(k.path + "/somebody"))
	}
	time.Sleep(time.Second + 4*(w.plan.Lag+w.plan.PeerDelay))
}

// release releases a hold. A release that takes too long does not fail the turn.
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

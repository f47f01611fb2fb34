package simulation_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/rwlock"
)

func init() { kinds["readers"] = newReadersWork }

// readersWork: a read-write lock whose readers share the nodes of their client; some readers have a node of their own,
// and sometimes a writer downgrades.
type readersWork struct {
	l    *ledger
	path string

	mu     sync.Mutex
	shared map[*framework.Client]*sharers // guarded by mu
	nodes  map[string]*together           // guarded by mu
	claims int                            // guarded by mu
}

// sharers is shared by the contenders of a client.
type sharers struct {
	*rwlock.Readers
	joins int
	long  time.Duration
}

// together is a node that contenders share.
type together struct {
	since time.Time // when it was granted
	joins int       // joins after the grant
	lost  time.Time // when a contender first saw the loss; zero: not yet
}

func newReadersWork(w *world) workload {
	return &readersWork{
		l: newLedger(w, "readers"), path: root + "/readers",
		shared: map[*framework.Client]*sharers{}, nodes: map[string]*together{},
	}
}

func (k *readersWork) turn(ctx context.Context, a *actor) error {
	rw := rwlock.New(a.c, k.path, rwlock.WithLossPolicy(a.w.plan.Loss))
	switch n := a.r.IntN(10); {
	case n < 6:
		return k.read(ctx, a, k.sharers(a))
	case n == 6:
		lock, g, err := k.acquire(ctx, a, rw.ReadLock())
		if err != nil {
			return err
		}
		k.l.use(a, g, one(lock.Guard))
		return release(a, k.l, g, lock.Release)
	}
	lock, g, err := k.acquire(ctx, a, rw.WriteLock())
	if err != nil {
		return err
	}
	k.l.use(a, g, one(lock.Guard))
	if a.r.IntN(3) > 0 {
		return release(a, k.l, g, lock.Release)
	}
	both, cancel := context.WithTimeout(lock.Context(), a.w.plan.patience())
	defer cancel()
	reading, beside, err := k.share(both, a, k.sharers(a), wish{beside: g})
	_ = release(a, k.l, g, lock.Release)
	if err == nil {
		k.l.use(a, beside, one(reading.Guard))
		return k.done(a, reading, beside)
	}
	return nil
}

// read reads with the other contenders of the client. In the same turn it may read once more, as another goroutine of
// the client would, or enter again. It releases in any order.
func (k *readersWork) read(ctx context.Context, a *actor, r *sharers) error {
	reading, g, err := k.share(ctx, a, r, wish{try: a.r.IntN(6) == 0 && !a.w.calm()})
	if err != nil {
		return err
	}
	type held struct {
		*rwlock.Reading
		g *grant
	}
	all := []held{{reading, g}}
	for len(all) < 4 && a.r.IntN(3) > 0 && !a.w.calm() {
		time.Sleep(below(a.r, r.long/2))
		from, how := ctx, wish{try: true} // does not wait for a writer that waits for this reader
		if a.r.IntN(3) == 0 {
			from, how.inner = reading.Context(), true
		}
		limited, cancel := context.WithTimeout(from, a.w.plan.patience())
		other, g, err := k.share(limited, a, r, how)
		if err != nil {
			a.expected(limited, err)
			cancel()
			break
		}
		cancel()
		all = append(all, held{other, g})
	}
	a.r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, h := range all {
		k.l.use(a, h.g, one(h.Guard))
		k.left(h.Reading)
		_ = k.done(a, h.Reading, h.g)
	}
	return nil
}

// done releases. A contender that has not released is still a reader: no other may have released the node.
func (k *readersWork) done(a *actor, reading *rwlock.Reading, g *grant) error {
	if errors.Is(context.Cause(reading.Context()), framework.ErrReleased) {
		a.w.violate("readers: client %d still reads with %v, which is released", a.id, g)
	}
	return release(a, k.l, g, reading.Release)
}

// wish describes how to acquire.
type wish struct {
	try    bool
	inner  bool   // enters again
	beside *grant // the write lock, if there is one
}

// share acquires with the Readers that the contenders of the client share.
func (k *readersWork) share(
	ctx context.Context, a *actor, r *sharers, how wish,
) (*rwlock.Reading, *grant, error) {
	get := r.Acquire
	if how.try {
		get = r.TryAcquire
	}
	done := k.l.wants(ctx, a, "Acquire")
	reading, err := get(ctx)
	done()
	if err != nil {
		return nil, nil, notTaken(err, rwlock.ErrNotAcquired)
	}
	g := &grant{hold: reading, path: reading.Path(), token: reading.FencingToken(), shared: true}
	switch {
	case how.beside != nil:
		g.owner = how.beside.owner
	case !how.inner:
		k.joined(a, r, reading)
	}
	return reading, k.l.granted(a, g), nil
}

func (k *readersWork) acquire(ctx context.Context, a *actor, side *rwlock.Side) (*rwlock.Lock, *grant, error) {
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
		hold: lock, path: lock.Path(), token: lock.FencingToken(), shared: side.Kind() == rwlock.Read,
	}
	k.mu.Lock()
	k.claims++
	g.owner = k.claims
	k.mu.Unlock()
	return lock, k.l.granted(a, g), nil
}

// sharers returns the sharers of the contender's client.
func (k *readersWork) sharers(a *actor) *sharers {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.shared[a.c]
	if r == nil {
		random := rand.New(rand.NewPCG(a.w.plan.Seed, 1<<46+uint64(a.id)))
		r = &sharers{
			joins: pick(random, 1, 2, 5, 1000),
			long:  pick(random, 10*time.Millisecond, time.Second, 3*time.Second, 20*time.Second),
		}
		r.Readers = rwlock.NewReaders(
			a.c, k.path, rwlock.WithLossPolicy(a.w.plan.Loss), rwlock.WithJoins(r.joins, r.long),
		)
		k.shared[a.c] = r
	}
	return r
}

// joined reports a contender that has joined too late, or too many, or a node that was lost before. Contenders that had
// waited for the node join at the instant of the grant.
func (k *readersWork) joined(a *actor, r *sharers, reading *rwlock.Reading) {
	k.mu.Lock()
	defer k.mu.Unlock()
	a.w.Count("readings", 1)
	now := time.Now()
	n := k.nodes[reading.Path()]
	if n == nil {
		n = &together{since: now}
		k.nodes[reading.Path()] = n
	}
	if !n.lost.IsZero() && n.lost.Before(now) {
		a.w.violate("readers: client %d joins %s, which was lost %v ago", a.id, reading.Path()[len(root):], now.Sub(n.lost))
	}
	if now.Equal(n.since) {
		return
	}
	a.w.Count("readings that have joined", 1)
	if n.joins++; n.joins > r.joins || now.Sub(n.since) >= r.long {
		a.w.violate("readers: client %d is the %dth that joins %s, %v after the grant: %d may, for %v",
			a.id, n.joins, reading.Path()[len(root):], now.Sub(n.since), r.joins, r.long)
	}
}

// left records a loss.
func (k *readersWork) left(reading *rwlock.Reading) {
	lost := reading.Lost() != nil
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := k.nodes[reading.Path()]; lost && n != nil && n.lost.IsZero() {
		n.lost = time.Now()
	}
}

func (k *readersWork) settle(w *world) {
	k.l.settle()
	w.empty(k.path)
}

package semaphore_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/semaphore"
	"github.com/go-curator/curator/zktest"
)

// The simulation has semaphores of a fixed size. This file adds clients that acquire leases in Curator's way, and a count that
// changes.

// ledger checks all leases of a simulation: never more than max live ones.
type ledger struct {
	max int

	mu     sync.Mutex
	held   map[context.Context]int
	grants int
}

func (l *ledger) granted(t *testing.T, ctx context.Context, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grants++
	l.held[ctx] = n
	live := 0
	for ctx, n := range l.held {
		if ctx.Err() == nil { // it may be lost already
			live += n
		} else {
			delete(l.held, ctx)
		}
	}
	assert.LessOrEqual(t, live, l.max, "leases held at a time")
}

// worker acquires leases repeatedly, with its own client.
type worker struct {
	t       *testing.T
	l       *ledger
	r       *rand.Rand
	sem     *semaphore.Semaphore
	java    *peer // if not nil, it acquires leases in Curator's way
	most    int   // the most leases at a time
	patient bool  // it never uses TryAcquire
}

// turn acquires leases, works and releases. It returns false if it got none.
func (w *worker) turn() bool {
	limit := time.Minute
	if w.r.IntN(4) == 0 {
		limit = recipetest.Below(w.r, 2*time.Second)
	}
	ctx, cancel := context.WithTimeout(background, limit)
	defer cancel()
	n := 1 + w.r.IntN(w.most)
	held, release, known, err := w.take(ctx, n)
	if err != nil {
		known = append(known, context.DeadlineExceeded, semaphore.ErrNotAcquired)
		assert.True(w.t, isOneOf(err, known...) || framework.Retryable(err), "%v", err)
		return false
	}
	w.l.granted(w.t, held, n)
	select {
	case <-time.After(recipetest.Below(w.r, time.Second)):
	case <-held.Done():
	}
	ctx, cancel = context.WithTimeout(background, recipetest.Below(w.r, 10*time.Second))
	defer cancel()
	_ = release(ctx) // with any result
	return true
}

// take acquires leases. The errors in known may occur besides those of every acquire.
func (w *worker) take(ctx context.Context, n int) (
	held context.Context, release func(context.Context) error, known []error, err error,
) {
	fragile := []error{framework.ErrSessionLost, framework.ErrNodeDeleted}
	if w.java != nil {
		parts, err := w.java.several(ctx, n)
		if err != nil {
			return nil, nil, fragile, err
		}
		return parts[0].hold.Context(), func(context.Context) error { returned(parts); return nil }, nil, nil
	}
	acquire := w.sem.Acquire
	if !w.patient && w.r.IntN(4) == 0 {
		acquire, known = w.sem.TryAcquire, fragile
	}
	lease, err := acquire(ctx, n)
	if err != nil {
		return nil, nil, known, err
	}
	return lease.Context(), lease.Release, nil, nil
}

// Many clients, and a network and a server that fail at random. In even seeds some clients are Java's, in odd ones the count
// changes. There must never be more holders than leases, each client gets leases in the end, and nothing is left. A failing seed
// fails again.
func TestSimulation(t *testing.T) {
	seeds := uint64(40)
	if testing.Short() {
		seeds = 6
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			simulate(t, seed)
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		})
	}
}

func simulate(t *testing.T, seed uint64) {
	const workers, rounds, max = 6, 8, 4
	s := zktest.RunT(t)
	var opts []semaphore.Option
	var setCount func()
	shared := seed%2 == 1
	if shared {
		opts = append(opts, semaphore.WithSharedCount(countPath))
		random := rand.New(rand.NewPCG(seed, workers+1))
		setCount = func() { _ = s.Set(countPath, []byte{0, 0, 0, byte(random.IntN(max + 1))}) }
	}
	l := ledger{max: max, held: map[context.Context]int{}}
	clients := make([]*framework.Client, workers)
	var wg sync.WaitGroup
	for id := range workers {
		clients[id] = newClient(t, s, framework.WithSessionTimeout(4*time.Second))
		w := worker{t: t, l: &l, r: rand.New(rand.NewPCG(seed, uint64(id)+1)), most: max}
		w.sem = semaphore.New(clients[id], path, max, opts...)
		if id < 2 && !shared {
			w.java = &peer{clients[id], max}
			if id == 1 { // two clients that acquire several, one by one, may wait for each other for ever
				w.most = 1
			}
		}
		wg.Go(func() {
			for done := 0; done < rounds; {
				if w.turn() {
					done++
				} else {
					time.Sleep(recipetest.Below(w.r, time.Second))
				}
			}
		})
	}
	stop := injectFaults(t, s, rand.New(rand.NewPCG(seed, 0)), clients, setCount)
	wg.Wait()
	stop()
	time.Sleep(20 * time.Second) // for sessions that are not closed, and clean-ups
	clean(t, s)
	recipetest.Tidy(t, clients...)
	require.Equal(t, workers*rounds, l.grants)
}

// injectFaults injects faults for the clients, and calls further now and then, until stop is called. Stop waits for the end and
// removes the faults. No fault expires a session: the promise does not cover that, and the test could not distinguish such a loss
// from a bug.
func injectFaults(
	t *testing.T, s *zktest.Server, r *rand.Rand, clients []*framework.Client, further func(),
) (stop func()) {
	ctx, cancel := context.WithCancel(background)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-time.After(recipetest.Below(r, 2*time.Second)):
			case <-ctx.Done():
				return
			}
			session, err := clients[r.IntN(len(clients))].Session(ctx)
			if err != nil {
				return
			}
			if further != nil && r.IntN(9) == 0 {
				further()
			} else {
				injectFault(t, s, r, session.ID())
			}
		}
	}()
	return func() {
		cancel()
		<-done
		s.Heal()
	}
}

func injectFault(t *testing.T, s *zktest.Server, r *rand.Rand, session int64) {
	switch r.IntN(8) {
	case 0:
		s.Cut(session)
	case 1:
		directions := []zktest.Direction{zktest.Both, zktest.FromClient, zktest.ToClient}
		s.BlackHole(session, directions[r.IntN(3)])
	case 2, 3:
		s.Pause()
		time.Sleep(recipetest.Below(r, 6*time.Second))
		s.Resume()
	case 4:
		s.Heal()
	case 5:
		s.Stop()
		time.Sleep(recipetest.Below(r, 6*time.Second))
		if err := s.Start(); err != nil {
			t.Error(err)
		}
	default:
		ops := []string{
			"create2", "getChildren2", "getData", "delete", "exists", "ping", "connect", "multi", "sync", "setWatches",
		}
		actions := []zktest.Action{
			zktest.DropRequest, zktest.CutBefore, zktest.LoseReply, zktest.HoldReply, zktest.DelayReply,
		}
		fault := s.Inject(zktest.Fault{
			Op: ops[r.IntN(len(ops))], After: r.IntN(3), Action: actions[r.IntN(len(actions))],
			Delay: recipetest.Below(r, 3*time.Second),
		})
		time.Sleep(recipetest.Below(r, 2*time.Second))
		fault.Remove()
		fault.Release()
	}
}

// Without faults, all at one instant: the scheduler decides the interleavings.
func TestSimulationOfHaste(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		const workers, rounds, max = 12, 30, 3
		l := ledger{max: max, held: map[context.Context]int{}}
		var wg sync.WaitGroup
		for id := range workers {
			c := newClient(t, s)
			w := worker{t: t, l: &l, r: rand.New(rand.NewPCG(1, uint64(id))), most: max, patient: true}
			w.sem = semaphore.New(c, path, max)
			if id < 3 {
				w.java = &peer{c, max}
			}
			if id == 1 || id == 2 {
				w.most = 1
			}
			wg.Go(func() {
				for range rounds {
					n := 1 + w.r.IntN(w.most)
					held, release, _, err := w.take(background, n)
					if assert.NoError(t, err) {
						l.granted(t, held, n)
						assert.NoError(t, release(background))
					}
				}
			})
		}
		wg.Wait()
		require.Equal(t, workers*rounds, l.grants)
		time.Sleep(time.Second)
		clean(t, s)
	})
}

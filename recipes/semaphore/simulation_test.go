package semaphore_test

import (
	"context"
	"errors"
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

// ledger watches over all leases of a simulation: never more than max live ones.
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
		if ctx.Err() == nil { // it may be lost again already
			live += n
		} else {
			delete(l.held, ctx)
		}
	}
	assert.LessOrEqual(t, live, l.max, "leases held at a time")
}

// Many clients, some of them in Curator's way, a count that changes, and a network and a server that
// misbehave at random. Whatever happens: never more holders than leases, everybody gets a turn in the end,
// and nothing is left. A failing seed fails again.
func TestSimulation(t *testing.T) { recipetest.Seeds(t, 40, simulate) }

func simulate(t *testing.T, seed uint64) {
	const workers, rounds, max = 6, 8, 4
	s := zktest.RunT(t)
	var opts []semaphore.Option
	var further []func()
	shared := seed%2 == 1 // and then nobody in Curator's way, who does not look at the count here
	if shared {
		opts = append(opts, semaphore.WithSharedCount(countPath))
		random := rand.New(rand.NewPCG(seed, workers+1))
		further = append(further, func() { _ = s.Set(countPath, []byte{0, 0, 0, byte(random.IntN(max + 1))}) })
	}
	l := ledger{max: max, held: map[context.Context]int{}}
	recipetest.Simulate(t, s, seed, workers, rounds, []string{locks, leases}, func(w int, c *framework.Client, r *rand.Rand) func() bool {
		sem, theirs := semaphore.New(c, path, max, opts...), peer{c, max}
		return func() bool {
			var hold context.Context
			var release func(context.Context) error
			var err error
			fragile := w < 2 && !shared // may fail with its session
			if fragile {
				n := 1
				if w == 0 { // one of them takes several, one by one: two of those may wait for each other for ever
					n += r.IntN(max)
				}
				var parts []*peerLease
				parts, err = recipetest.Limited(background, r, func(ctx context.Context) ([]*peerLease, error) { return theirs.several(ctx, n) })
				if err == nil {
					hold, release = parts[0].hold.Context(), func(context.Context) error { returned(parts); return nil }
					l.granted(t, hold, n)
				}
			} else {
				acquire, n := sem.Acquire, 1+r.IntN(max)
				if r.IntN(4) == 0 {
					acquire, fragile = sem.TryAcquire, true
				}
				var lease *semaphore.Lease
				lease, err = recipetest.Limited(background, r, func(ctx context.Context) (*semaphore.Lease, error) { return acquire(ctx, n) })
				if err == nil {
					hold, release = lease.Context(), lease.Release
					l.granted(t, hold, n)
				}
			}
			if err != nil {
				known := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, semaphore.ErrNotAcquired) || framework.Retryable(err) ||
					fragile && isOneOf(err, framework.ErrSessionLost, framework.ErrNodeDeleted)
				assert.True(t, known, "%v", err)
				return false
			}
			recipetest.Work(hold, r, time.Second)
			recipetest.Release(r, release)
			return true
		}
	}, further...)
	require.Equal(t, workers*rounds, l.grants)
}

// Without faults and with all of it at one instant: the interleavings are those of the scheduler.
func TestSimulationOfHaste(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		const workers, rounds, max = 12, 30, 3
		l := ledger{max: max, held: map[context.Context]int{}}
		var wg sync.WaitGroup
		for w := range workers {
			c := newClient(t, s)
			r := rand.New(rand.NewPCG(1, uint64(w)))
			wg.Go(func() {
				for range rounds {
					if w < 3 {
						n := 1
						if w == 0 {
							n += r.IntN(max)
						}
						parts, err := peer{c, max}.several(background, n)
						if assert.NoError(t, err) {
							l.granted(t, parts[0].hold.Context(), n)
							returned(parts)
						}
						continue
					}
					lease, err := semaphore.New(c, path, max).Acquire(background, 1+r.IntN(max))
					if assert.NoError(t, err) {
						l.granted(t, lease.Context(), lease.Count())
						assert.NoError(t, lease.Release(background))
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

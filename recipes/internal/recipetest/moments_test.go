package recipetest_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/recipes/semaphore"
	"github.com/go-curator/curator/zktest"
)

// take acquires a hold.
type take func(ctx context.Context, random *rand.Rand) (mutex.Held, error)

// acquires returns a take that chooses one of several ways, at random.
func acquires[H mutex.Held](ways ...func(context.Context) (H, error)) take {
	return func(ctx context.Context, random *rand.Rand) (mutex.Held, error) {
		return of(ways[random.IntN(len(ways))])(ctx)
	}
}

// Each worker acquires 50 times, with a random limit, so that some contexts end during a hand-over. No call outlives its context,
// nothing is left, and no caller is stuck.
func TestCancelAtRandomMoments(t *testing.T) {
	for name, c := range map[string]struct {
		workers int
		most    time.Duration // of an acquire
		dirs    []string
		tries   bool // tries are among the acquires
		taker   func(c *framework.Client) take
	}{
		"mutex": {20, 40 * time.Millisecond, own, false, func(c *framework.Client) take {
			m := mutex.New(c, lockPath)
			return acquires(m.Acquire)
		}},
		"cohort": {20, 25 * time.Millisecond, own, true, func(c *framework.Client) take {
			m := mutex.NewCohort(c, lockPath, mutex.WithTurns(3, 10*time.Millisecond))
			return acquires(m.Acquire, m.Acquire, m.Acquire, m.TryAcquire)
		}},
		"cohort that keeps": {20, 25 * time.Millisecond, own, true, func(c *framework.Client) take {
			m := mutex.NewCohort(c, lockPath, mutex.WithTurns(3, 10*time.Millisecond), mutex.WithKept(100*time.Millisecond))
			return acquires(m.Acquire, m.Acquire, m.Acquire, m.TryAcquire)
		}},
		"readers and writers": {16, 40 * time.Millisecond, own, false, func(c *framework.Client) take {
			rw := rwlock.New(c, lockPath)
			return acquires(rw.ReadLock().Acquire, rw.WriteLock().Acquire)
		}},
		"readers of one node, and writers": {20, 16 * time.Millisecond, own, true, func(c *framework.Client) take {
			r := rwlock.NewReaders(c, lockPath, rwlock.WithJoins(3, 10*time.Millisecond))
			reads := acquires(r.Acquire, r.Acquire, r.Acquire, r.TryAcquire)
			writes := acquires(rwlock.New(c, lockPath).WriteLock().Acquire)
			return func(ctx context.Context, random *rand.Rand) (mutex.Held, error) {
				if random.IntN(3) == 0 {
					return writes(ctx, random)
				}
				return reads(ctx, random)
			}
		}},
		"semaphore": {20, 80 * time.Millisecond, leases, true, func(c *framework.Client) take {
			s := semaphore.New(c, lockPath, 3)
			return func(ctx context.Context, random *rand.Rand) (mutex.Held, error) {
				acquire := s.Acquire
				if random.IntN(5) == 0 {
					acquire = s.TryAcquire
				}
				return of(func(ctx context.Context) (*semaphore.Lease, error) { return acquire(ctx, 1+random.IntN(3)) })(ctx)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cancelAtRandomMoments(t, zktest.RunT(t), c.workers, c.most, c.dirs, c.tries, c.taker)
			})
		})
	}
}

// cancelAtRandomMoments runs workers of four clients; each uses its client's take.
func cancelAtRandomMoments(
	t *testing.T, s *zktest.Server, workers int, most time.Duration, dirs []string, tries bool,
	taker func(*framework.Client) take,
) {
	t.Helper()
	const times = 50
	clients := []*framework.Client{
		recipetest.Client(t, s), recipetest.Client(t, s), recipetest.Client(t, s), recipetest.Client(t, s),
	}
	var takes []take
	for _, c := range clients {
		takes = append(takes, taker(c))
	}
	s.Delay(0, 3*time.Millisecond) // replies take time, so that each moment of an acquire can be hit
	acquired := 0
	var mu sync.Mutex
	var wg sync.WaitGroup
	for worker := range workers {
		random := rand.New(rand.NewPCG(1, uint64(worker)))
		take := takes[worker%len(takes)]
		turn := func() bool {
			limit := recipetest.Below(random, most)
			ctx, cancel := context.WithTimeout(background, limit)
			defer cancel()
			began := time.Now()
			held, err := take(ctx, random)
			if err != nil {
				if took := time.Since(began); took > limit {
					t.Errorf("a call with %v took %v", limit, took)
				}
				if !errors.Is(err, context.DeadlineExceeded) && !(tries && errors.Is(err, mutex.ErrNotAcquired)) {
					t.Error(err)
				}
				return false
			}
			time.Sleep(recipetest.Below(random, 4*time.Millisecond))
			if err := held.Release(background); err != nil {
				t.Error(err)
			}
			return true
		}
		wg.Go(func() {
			for range times {
				if turn() {
					mu.Lock()
					acquired++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if all := workers * times; acquired <= 20 || acquired >= all*5/8 {
		t.Fatalf("%d of %d were acquired: that is not what this is about", acquired, all)
	}
	s.Heal()
	time.Sleep(time.Second)
	recipetest.Clean(t, s, dirs...)
	recipetest.Tidy(t, clients...)
}

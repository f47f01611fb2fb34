package recipetest

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// Seeds runs a simulation for each of n seeds, in a bubble of its own. A failing seed fails again.
func Seeds(t *testing.T, n uint64, simulate func(t *testing.T, seed uint64)) {
	for seed := range n {
		synctest.Test(t, func(t *testing.T) {
			simulate(t, seed)
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		})
	}
}

// Worker is what somebody does again and again. A turn that came to nothing is false.
type Worker func(id int, c *framework.Client, r *rand.Rand) (turn func() bool)

// Simulate has workers, each with a client of its own, take turns while there is [Trouble], until each has
// had rounds of them. In the end nothing is left in the directories.
func Simulate(t *testing.T, s *zktest.Server, seed uint64, workers, rounds int, dirs []string, worker Worker, further ...func()) {
	t.Helper()
	clients := make([]*framework.Client, workers)
	var wg sync.WaitGroup
	for id := range workers {
		clients[id] = Client(t, s, framework.WithSessionTimeout(4*time.Second))
		r := rand.New(rand.NewPCG(seed, uint64(id)+1))
		turn := worker(id, clients[id], r)
		wg.Go(func() {
			for done := 0; done < rounds; {
				if turn() {
					done++
				} else {
					time.Sleep(Below(r, time.Second))
				}
			}
		})
	}
	calm := Trouble(t, s, rand.New(rand.NewPCG(seed, 0)), clients, further...)
	wg.Wait()
	calm()
	time.Sleep(20 * time.Second) // sessions of the dead end, and clean-ups
	Clean(t, s, dirs...)
	Tidy(t, clients...)
}

// Limited acquires with a limit that is long enough for most, or, now and then, short.
func Limited[T any](ctx context.Context, r *rand.Rand, acquire func(context.Context) (T, error)) (T, error) {
	limit := time.Minute
	if r.IntN(4) == 0 {
		limit = Below(r, 2*time.Second)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return acquire(ctx)
}

// Work takes a while below most, or until hold ends.
func Work(hold context.Context, r *rand.Rand, most time.Duration) {
	timer := time.NewTimer(Below(r, most))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-hold.Done():
	}
}

// Release releases, however that ends.
func Release(r *rand.Rand, release func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), Below(r, 10*time.Second))
	defer cancel()
	_ = release(ctx)
}

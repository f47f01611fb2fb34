package mutex_test

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
	"github.com/go-curator/curator/internal/recipetest"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// history watches over all locks of a simulation: never two live ones, and tokens that grow.
type history struct {
	mu      sync.Mutex
	current *mutex.Lock
	token   int64
	grants  int
}

func (h *history) granted(t *testing.T, lock *mutex.Lock) {
	h.mu.Lock()
	defer h.mu.Unlock()
	live := lock.Context().Err() == nil // it may be lost again already
	if h.current != nil && live {
		assert.Error(t, h.current.Context().Err(), "%s is granted the lock while %s holds it", lock.Node(), h.current.Node())
	}
	assert.Greater(t, lock.FencingToken(), h.token)
	h.current, h.token = lock, lock.FencingToken()
	h.grants++
}

// Many clients, and a network and a server that misbehave at random. Whatever happens: one holder at a time, tokens grow, everybody gets
// a turn in the end, and nothing is left. A failing seed fails again.
func TestSimulation(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			simulate(t, seed)
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		})
	}
}

func simulate(t *testing.T, seed uint64) {
	const workers, rounds = 5, 8
	s := zktest.RunT(t)
	random := rand.New(rand.NewPCG(seed, 0))
	var h history
	var wg sync.WaitGroup
	clients := make([]*framework.Client, workers)
	for w := range workers {
		clients[w] = newClient(t, s, framework.WithSessionTimeout(4*time.Second))
		m := mutex.New(clients[w], path)
		r := rand.New(rand.NewPCG(seed, uint64(w)+1))
		wg.Go(func() {
			for done := 0; done < rounds; {
				ctx, cancel := context.WithTimeout(background, time.Minute)
				if r.IntN(4) == 0 {
					cancel()
					ctx, cancel = context.WithTimeout(background, recipetest.Below(r, 2*time.Second))
				}
				lock, err := m.Acquire(ctx)
				cancel()
				if err != nil {
					known := errors.Is(err, context.DeadlineExceeded) || framework.Retryable(err)
					assert.True(t, known, "%v", err)
					time.Sleep(recipetest.Below(r, time.Second))
					continue
				}
				h.granted(t, lock)
				done++
				timer := time.NewTimer(recipetest.Below(r, time.Second))
				select {
				case <-timer.C:
				case <-lock.Context().Done():
				}
				timer.Stop()
				ctx, cancel = context.WithTimeout(background, recipetest.Below(r, 10*time.Second))
				_ = lock.Release(ctx) // however it ends
				cancel()
			}
		})
	}
	calm := recipetest.Trouble(t, s, random, clients)
	wg.Wait()
	calm()
	require.Equal(t, workers*rounds, h.grants)
	time.Sleep(20 * time.Second) // sessions of the dead end, and clean-ups
	clean(t, s, path)
	recipetest.Tidy(t, clients...)
}

package mutex_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
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
func TestSimulation(t *testing.T) { recipetest.Seeds(t, 40, simulate) }

func simulate(t *testing.T, seed uint64) {
	const workers, rounds = 5, 8
	var h history
	recipetest.Simulate(t, zktest.RunT(t), seed, workers, rounds, []string{path}, func(_ int, c *framework.Client, r *rand.Rand) func() bool {
		m := mutex.New(c, path)
		return func() bool {
			lock, err := recipetest.Limited(background, r, m.Acquire)
			if err != nil {
				assert.True(t, errors.Is(err, context.DeadlineExceeded) || framework.Retryable(err), "%v", err)
				return false
			}
			h.granted(t, lock)
			recipetest.Work(lock.Context(), r, time.Second)
			recipetest.Release(r, lock.Release)
			return true
		}
	})
	require.Equal(t, workers*rounds, h.grants)
}

package rwlock_test

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
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/zktest"
)

// history watches over all locks of a simulation: a live writer is alone, but for its own read lock; and
// stores that go by the documented rule for tokens never refuse who has just been granted a lock.
type history struct {
	mu      sync.Mutex
	live    map[*rwlock.Lock]int // and whose it is
	written int64                // largest token of a writer
	seen    int64                // largest token
	beside  int                  // grants beside another lock
}

func (h *history) granted(t *testing.T, lock *rwlock.Lock, owner int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for other, whose := range h.live {
		switch {
		case other.Context().Err() != nil:
			delete(h.live, other)
		case lock.Context().Err() != nil: // it may be lost again already
		case whose != owner:
			h.beside++
			assert.True(t, lock.Kind() == rwlock.Read && other.Kind() == rwlock.Read, "%s is granted the lock while %s holds it", lock.Node(), other.Node())
		}
	}
	h.live[lock] = owner
	token := lock.FencingToken()
	assert.GreaterOrEqual(t, token, h.written, lock.Node())
	if lock.Kind() == rwlock.Write {
		assert.Greater(t, token, h.seen, lock.Node())
		h.written = token
	}
	h.seen = max(h.seen, token)
}

// Many clients, and a network and a server that misbehave at random. Whatever happens: readers and writers
// exclude each other, no writer gets between a write lock and its downgrade, everybody gets a turn in the
// end, and nothing is left. A failing seed fails again.
func TestSimulation(t *testing.T) {
	beside := 0
	recipetest.Seeds(t, 25, func(t *testing.T, seed uint64) { beside += simulate(t, seed) })
	require.Greater(t, beside, 100, "readers did share")
}

// worker takes turns at the lock.
type worker struct {
	t  *testing.T
	h  *history
	rw *rwlock.RWLock
	r  *rand.Rand
	id int // of the present turn; nobody else has it
}

// turn returns false when it did not come to a lock.
func (w *worker) turn() bool {
	w.id += 1000
	side := w.rw.ReadLock()
	if w.r.IntN(2) == 0 {
		side = w.rw.WriteLock()
	}
	lock, ok := w.acquire(background, side)
	if !ok {
		return false
	}
	recipetest.Work(lock.Context(), w.r, time.Second)
	if lock.Kind() == rwlock.Write && w.r.IntN(2) == 0 {
		if reader, ok := w.acquire(lock.Context(), w.rw.ReadLock()); ok {
			recipetest.Release(w.r, lock.Release)
			recipetest.Work(reader.Context(), w.r, time.Second)
			lock = reader
		}
	}
	recipetest.Release(w.r, lock.Release)
	return true
}

func (w *worker) acquire(ctx context.Context, side *rwlock.Side) (*rwlock.Lock, bool) {
	lock, err := recipetest.Limited(ctx, w.r, side.Acquire)
	if err == nil {
		w.h.granted(w.t, lock, w.id)
		return lock, true
	}
	known := errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil && errors.Is(err, ctx.Err()) || framework.Retryable(err) || errors.Is(err, rwlock.ErrSessionLost)
	assert.True(w.t, known, "%v", err)
	return nil, false
}

func simulate(t *testing.T, seed uint64) (beside int) {
	h := &history{live: map[*rwlock.Lock]int{}}
	recipetest.Simulate(t, zktest.RunT(t), seed, 5, 8, []string{path}, func(id int, c *framework.Client, r *rand.Rand) func() bool {
		return (&worker{t, h, rwlock.New(c, path), r, id}).turn
	})
	return h.beside
}

package rwlock_test

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
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/zktest"
)

// history watches over all locks of a simulation: a live writer is alone, but for its own read lock; and stores that go by the documented
// rule for tokens never refuse who has just been granted a lock.
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

// Many clients, and a network and a server that misbehave at random. Whatever happens: readers and writers exclude each other, no writer gets
// between a write lock and its downgrade, everybody gets a turn in the end, and nothing is left. A failing seed fails again.
func TestSimulation(t *testing.T) {
	beside := 0
	for seed := range uint64(25) {
		synctest.Test(t, func(t *testing.T) {
			beside += simulate(t, seed)
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		})
	}
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
	w.work(lock)
	if lock.Kind() == rwlock.Write && w.r.IntN(2) == 0 {
		if reader, ok := w.acquire(lock.Context(), w.rw.ReadLock()); ok {
			w.release(lock)
			w.work(reader)
			lock = reader
		}
	}
	w.release(lock)
	return true
}

func (w *worker) acquire(ctx context.Context, side *rwlock.Side) (*rwlock.Lock, bool) {
	limit := time.Minute
	if w.r.IntN(4) == 0 {
		limit = recipetest.Below(w.r, 2*time.Second)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	lock, err := side.Acquire(ctx)
	if err == nil {
		w.h.granted(w.t, lock, w.id)
		return lock, true
	}
	known := ctx.Err() != nil && errors.Is(err, ctx.Err()) || framework.Retryable(err) || errors.Is(err, rwlock.ErrSessionLost)
	assert.True(w.t, known, "%v", err)
	time.Sleep(recipetest.Below(w.r, time.Second))
	return nil, false
}

func (w *worker) work(lock *rwlock.Lock) {
	timer := time.NewTimer(recipetest.Below(w.r, time.Second))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-lock.Context().Done():
	}
}

func (w *worker) release(lock *rwlock.Lock) {
	ctx, cancel := context.WithTimeout(background, recipetest.Below(w.r, 10*time.Second))
	defer cancel()
	_ = lock.Release(ctx) // however it ends
}

func simulate(t *testing.T, seed uint64) (beside int) {
	const workers, rounds = 5, 8
	s := zktest.RunT(t)
	random := rand.New(rand.NewPCG(seed, 0))
	h := &history{live: map[*rwlock.Lock]int{}}
	var wg sync.WaitGroup
	clients := make([]*framework.Client, workers)
	for i := range workers {
		clients[i] = newClient(t, s, framework.WithSessionTimeout(4*time.Second))
		w := &worker{t, h, rwlock.New(clients[i], path), rand.New(rand.NewPCG(seed, uint64(i)+1)), i}
		wg.Go(func() {
			for done := 0; done < rounds; {
				if w.turn() {
					done++
				}
			}
		})
	}
	calm := recipetest.Trouble(t, s, random, clients)
	wg.Wait()
	calm()
	time.Sleep(20 * time.Second) // sessions of the dead end, and clean-ups
	clean(t, s)
	recipetest.Tidy(t, clients...)
	return h.beside
}

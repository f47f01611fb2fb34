package rwlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/internal/recipetest"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What the tests of all recipes share.
var (
	newClient = recipetest.Client
	session   = recipetest.Session
	counts    = recipetest.Counts
	pending   = recipetest.Pending[outcome]
)

const path = "/locks/stock"

var background = context.Background()

func acquire(t *testing.T, ctx context.Context, side *rwlock.Side) *rwlock.Lock {
	t.Helper()
	lock, err := side.Acquire(ctx)
	require.NoError(t, err)
	return lock
}

func release(t *testing.T, lock *rwlock.Lock) {
	t.Helper()
	require.NoError(t, lock.Release(background))
}

// outcome is what an Acquire on another goroutine comes to.
type outcome struct {
	lock *rwlock.Lock
	err  error
	at   time.Time
}

// begin begins to acquire on another goroutine.
func begin(ctx context.Context, side *rwlock.Side) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		lock, err := side.Acquire(ctx)
		done <- outcome{lock, err, time.Now()}
	}()
	return done
}

// waiting begins to acquire on another goroutine and returns when it stands in line.
func waiting(t *testing.T, ctx context.Context, side *rwlock.Side) <-chan outcome {
	t.Helper()
	done := begin(ctx, side)
	require.True(t, pending(done), "did not wait")
	return done
}

// got receives the lock of an Acquire that waited. It must be there without waiting for time to pass.
func got(t *testing.T, done <-chan outcome) *rwlock.Lock {
	t.Helper()
	require.False(t, pending(done), "still waits")
	o := <-done
	require.NoError(t, o.err)
	return o.lock
}

// key is the type of the keys that tests put into contexts.
type key string

// clean asserts that nothing is left on the server: no contender, no watch.
func clean(t *testing.T, s *zktest.Server) {
	t.Helper()
	recipetest.Clean(t, s, path)
}

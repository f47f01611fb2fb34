package mutex_test

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/internal/recipetest"
	"github.com/go-curator/curator/recipes/mutex"
)

func TestMain(m *testing.M) {
	if os.Getenv(serveOnly) != "" {
		serve()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// What the tests of all recipes share.
var (
	newClient = recipetest.Client
	session   = recipetest.Session
	sum       = recipetest.Sum
	requests  = recipetest.Requests
	clean     = recipetest.Clean
	pending   = recipetest.Pending[outcome]
)

const path = "/locks/orders"

var background = context.Background()

func acquire(t *testing.T, m *mutex.Mutex) *mutex.Lock {
	t.Helper()
	lock, err := m.Acquire(background)
	require.NoError(t, err)
	return lock
}

func release(t *testing.T, lock *mutex.Lock) {
	t.Helper()
	require.NoError(t, lock.Release(background))
}

// outcome is what an Acquire on another goroutine comes to.
type outcome struct {
	lock *mutex.Lock
	err  error
	at   time.Time
}

// waiting begins to acquire on another goroutine and returns when it stands in line.
func waiting(t *testing.T, ctx context.Context, m *mutex.Mutex) <-chan outcome {
	t.Helper()
	done := make(chan outcome, 1)
	go func() {
		lock, err := m.Acquire(ctx)
		done <- outcome{lock, err, time.Now()}
	}()
	synctest.Wait()
	select {
	case o := <-done:
		require.Fail(t, "did not wait", "%v", o.err)
	default:
	}
	return done
}

// key is the type of the keys that tests put into contexts.
type key string

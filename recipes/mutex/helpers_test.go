package mutex_test

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/mutex"
)

func TestMain(m *testing.M) {
	if os.Getenv(serveOnly) != "" {
		serve()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// Shared by the tests of all recipes.
var (
	newClient = recipetest.Client
	session   = recipetest.Session
	counts    = recipetest.Counts
	sum       = recipetest.Sum
	requests  = recipetest.Requests
	clean     = recipetest.Clean
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

// call is an Acquire on another goroutine.
type call = recipetest.Call[*mutex.Lock]

func begin(t *testing.T, ctx context.Context, m *mutex.Mutex) *call {
	return recipetest.Begin(t, func() (*mutex.Lock, error) { return m.Acquire(ctx) })
}

// waiting starts an Acquire on another goroutine and returns when its node is in the line.
func waiting(t *testing.T, ctx context.Context, m *mutex.Mutex) *call {
	t.Helper()
	return begin(t, ctx, m).Waits()
}

// revoked reports whether the client knows, without time passing, of a request to release the lock.
func revoked(lock *mutex.Lock) bool { return recipetest.Closed(lock.Revoked()) }

// key is the type of the keys that tests put into contexts.
type key string

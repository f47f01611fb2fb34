package rwlock_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Shared by the tests of all recipes.
var (
	newClient = recipetest.Client
	session   = recipetest.Session
	counts    = recipetest.Counts
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

// call is an Acquire on another goroutine.
type call = recipetest.Call[*rwlock.Lock]

func begin(t *testing.T, ctx context.Context, side *rwlock.Side) *call {
	return recipetest.Begin(t, func() (*rwlock.Lock, error) { return side.Acquire(ctx) })
}

// waiting starts an Acquire on another goroutine and returns when its node is in the line.
func waiting(t *testing.T, ctx context.Context, side *rwlock.Side) *call {
	t.Helper()
	return begin(t, ctx, side).Waits()
}

// revoked reports whether the client knows, without time passing, of a request to release the lock.
func revoked(lock *rwlock.Lock) bool { return recipetest.Closed(lock.Revoked()) }

// key is the type of the keys that tests put into contexts.
type key string

// clean asserts that no contender and no watch is left on the server.
func clean(t *testing.T, s *zktest.Server) {
	t.Helper()
	recipetest.Clean(t, s, path)
}

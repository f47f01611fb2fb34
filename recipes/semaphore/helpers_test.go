package semaphore_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/semaphore"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Shared by the tests of all recipes.
var (
	newClient = recipetest.Client
	session   = recipetest.Session
	sum       = recipetest.Sum
)

const (
	path   = "/limits/exports"
	locks  = path + "/locks"
	leases = path + "/leases"
)

var background = context.Background()

func acquire(t *testing.T, s *semaphore.Semaphore, n int) *semaphore.Lease {
	t.Helper()
	lease, err := s.Acquire(background, n)
	require.NoError(t, err)
	require.True(t, lease.Valid())
	require.Equal(t, n, lease.Count())
	return lease
}

func release(t *testing.T, lease *semaphore.Lease) {
	t.Helper()
	require.NoError(t, lease.Release(background))
}

// call is an Acquire on another goroutine.
type call = recipetest.Call[*semaphore.Lease]

func begin(t *testing.T, ctx context.Context, s *semaphore.Semaphore, n int) *call {
	return recipetest.Begin(t, func() (*semaphore.Lease, error) { return s.Acquire(ctx, n) })
}

// waiting starts an Acquire on another goroutine and returns when its node is in the line.
func waiting(t *testing.T, ctx context.Context, s *semaphore.Semaphore, n int) *call {
	t.Helper()
	return begin(t, ctx, s, n).Waits()
}

// got returns the valid lease of an Acquire that takes time.
func got(t *testing.T, c *call) *semaphore.Lease {
	t.Helper()
	lease := c.End().OK()
	require.True(t, lease.Valid())
	return lease
}

// inOrder returns the two calls in the order of their returns.
func inOrder(one, other *call) (first, second *call) {
	select {
	case <-one.Done:
		return one, other
	case <-other.Done:
		return other, one
	}
}

// taken returns the number of lease nodes.
func taken(t *testing.T, s *zktest.Server) int {
	t.Helper()
	synctest.Wait()
	children, err := s.Children(leases)
	require.NoError(t, err)
	return len(children)
}

// clean asserts that no lease, no waiter and no watch is left on the server.
func clean(t *testing.T, s *zktest.Server) {
	t.Helper()
	recipetest.Clean(t, s, locks, leases)
}

func pending[T any](done <-chan T) bool { return recipetest.Pending(done) }

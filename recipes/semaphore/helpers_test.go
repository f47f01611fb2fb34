package semaphore_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/internal/recipetest"
	"github.com/go-curator/curator/recipes/semaphore"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What the tests of all recipes share.
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

// outcome is what an Acquire on another goroutine comes to.
type outcome struct {
	lease *semaphore.Lease
	err   error
	at    time.Time
}

func acquiring(ctx context.Context, s *semaphore.Semaphore, n int) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		lease, err := s.Acquire(ctx, n)
		done <- outcome{lease, err, time.Now()}
	}()
	return done
}

// waiting begins to acquire on another goroutine and returns when it stands in line.
func waiting(t *testing.T, ctx context.Context, s *semaphore.Semaphore, n int) <-chan outcome {
	t.Helper()
	done := acquiring(ctx, s, n)
	if !pending(done) {
		require.Fail(t, "did not wait", "%v", (<-done).err)
	}
	return done
}

func got(t *testing.T, done <-chan outcome) *semaphore.Lease {
	t.Helper()
	o := <-done
	require.NoError(t, o.err)
	require.True(t, o.lease.Valid())
	return o.lease
}

// taken is how many lease nodes there are.
func taken(t *testing.T, s *zktest.Server) int {
	t.Helper()
	synctest.Wait()
	children, err := s.Children(leases)
	require.NoError(t, err)
	return len(children)
}

// clean asserts that nothing is left on the server: no lease, nobody in line, no watch.
func clean(t *testing.T, s *zktest.Server) {
	t.Helper()
	recipetest.Clean(t, s, locks, leases)
}

func pending[T any](done <-chan T) bool { return recipetest.Pending(done) }

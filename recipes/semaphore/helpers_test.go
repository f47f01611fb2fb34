package semaphore_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/semaphore"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	path   = "/limits/exports"
	locks  = path + "/locks"
	leases = path + "/leases"
)

var background = context.Background()

// newClient connects a client with a session of its own to the server in the bubble.
func newClient(t *testing.T, s *zktest.Server, opts ...framework.Option) *framework.Client {
	t.Helper()
	opts = append([]framework.Option{framework.WithDialer(s.Dial), framework.WithSessionTimeout(10 * time.Second)}, opts...)
	c, err := framework.New(s.Addr(), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.WaitConnected(background))
	return c
}

func session(t *testing.T, c *framework.Client) int64 {
	t.Helper()
	s, err := c.Session(background)
	require.NoError(t, err)
	return s.ID()
}

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

func pending[T any](done <-chan T) bool {
	synctest.Wait()
	return len(done) == 0
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
	synctest.Wait()
	for _, dir := range []string{locks, leases} {
		if !s.Exists(dir) {
			continue
		}
		children, err := s.Children(dir)
		require.NoError(t, err)
		require.Empty(t, children, dir)
	}
	require.Empty(t, s.Watches())
}

// sum is the number of requests, pings left out.
func sum(counts map[string]int) (n int) {
	for op, k := range counts {
		if op != "ping" {
			n += k
		}
	}
	return n
}

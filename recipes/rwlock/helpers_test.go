package rwlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const path = "/locks/stock"

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

func pending(done <-chan outcome) bool {
	synctest.Wait()
	return len(done) == 0
}

// got receives the lock of an Acquire that waited. It must be there without waiting for time to pass.
func got(t *testing.T, done <-chan outcome) *rwlock.Lock {
	t.Helper()
	require.False(t, pending(done), "still waits")
	o := <-done
	require.NoError(t, o.err)
	return o.lock
}

// clean asserts that nothing is left on the server: no contender, no watch.
func clean(t *testing.T, s *zktest.Server) {
	t.Helper()
	synctest.Wait()
	children, err := s.Children(path)
	require.NoError(t, err)
	require.Empty(t, children)
	require.Empty(t, s.Watches())
}

// counts asserts the requests since the last call, pings left out.
func counts(t *testing.T, s *zktest.Server, what string, want map[string]int) {
	t.Helper()
	synctest.Wait()
	got := s.Counts()
	delete(got, "ping")
	require.Equal(t, want, got, what)
	s.ResetCounts()
}

// key is the type of the keys that tests put into contexts.
type key string

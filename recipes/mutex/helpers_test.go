package mutex_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) {
	if os.Getenv(serveOnly) != "" {
		serve()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

const path = "/locks/orders"

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

func pending(done <-chan outcome) bool {
	synctest.Wait()
	return len(done) == 0
}

// clean asserts that nothing is left on the server: no contender, no watch.
func clean(t *testing.T, s *zktest.Server, dir string) {
	t.Helper()
	synctest.Wait()
	children, err := s.Children(dir)
	require.NoError(t, err)
	require.Empty(t, children)
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

func requests(s *zktest.Server) string {
	synctest.Wait()
	counts := s.Counts()
	delete(counts, "ping")
	return fmt.Sprint(counts)
}

// key is the type of the keys that tests put into contexts.
type key string

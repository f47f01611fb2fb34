package recipetest

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// Client returns a new client of a server in the bubble, connected, with a session timeout of 10 s. It is closed when
// the test ends.
func Client(t *testing.T, s *zktest.Server, opts ...framework.Option) *framework.Client {
	t.Helper()
	opts = append([]framework.Option{framework.WithDialer(s.Dial),
		framework.WithSessionTimeout(10 * time.Second)}, opts...)
	c, err := framework.New(s.Addr(), opts...)
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	must(t, c.WaitConnected(context.Background()))
	return c
}

// Session returns the id of the client's session.
func Session(t *testing.T, c *framework.Client) int64 {
	t.Helper()
	s, err := c.Session(context.Background())
	must(t, err)
	return s.ID()
}

// Cut ends a client's connection. The next handshake takes a millisecond, so that all effects of the loss come before
// the next connection. Otherwise both would come at one virtual instant, in any order.
func Cut(t *testing.T, s *zktest.Server, c *framework.Client) {
	t.Helper()
	id := Session(t, c)
	s.Inject(zktest.Fault{Session: id, Op: "connect", Action: zktest.DelayReply, Delay: time.Millisecond})
	s.Cut(id)
}

// Clean asserts that the server has no watches, and no nodes in any of the directories, which need not exist.
func Clean(t *testing.T, s *zktest.Server, dirs ...string) {
	t.Helper()
	synctest.Wait()
	for _, dir := range dirs {
		if !s.Exists(dir) {
			continue
		}
		if left, err := s.Children(dir); err != nil || len(left) > 0 {
			t.Fatalf("left in %s: %v (%v)", dir, left, err)
		}
	}
	if left := s.Watches(); len(left) > 0 {
		t.Fatalf("watches left: %v", left)
	}
}

// Tidy asserts that the clients have no clean-ups pending.
func Tidy(t *testing.T, clients ...*framework.Client) {
	t.Helper()
	for i, c := range clients {
		if n := c.PendingCleanups(); n != 0 {
			t.Fatalf("client %d has %d clean-ups pending", i, n)
		}
	}
}

// Counts asserts how many requests of each operation the server has received since the last call, without pings.
func Counts(t *testing.T, s *zktest.Server, what string, want map[string]int) {
	t.Helper()
	if got := requests(s); !maps.Equal(want, got) {
		t.Fatalf("%s: %v instead of %v", what, got, want)
	}
	s.ResetCounts()
}

// Requests returns the numbers of requests since the last ResetCounts, by operation and without pings, as a text.
func Requests(s *zktest.Server) string { return fmt.Sprint(requests(s)) }

// Sum returns the number of all requests in counts, without pings.
func Sum(counts map[string]int) (n int) {
	for op, k := range counts {
		if op != "ping" {
			n += k
		}
	}
	return n
}

func requests(s *zktest.Server) map[string]int {
	synctest.Wait()
	counts := s.Counts()
	delete(counts, "ping")
	return counts
}

// Pending reports whether the channel is still empty when every goroutine in the bubble waits.
func Pending[T any](from <-chan T) bool {
	synctest.Wait()
	return len(from) == 0
}

// Closed reports whether the channel is closed when every goroutine in the bubble waits.
func Closed(c <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Call is a blocking call on a separate goroutine.
type Call[T any] struct {
	t *testing.T

	// Done is closed when the call has returned. Then Value and Err are its results, and At is the time of its return.
	Done  chan struct{}
	Value T
	Err   error
	At    time.Time
}

// Begin calls f on a new goroutine.
func Begin[T any](t *testing.T, f func() (T, error)) *Call[T] {
	c := &Call[T]{t: t, Done: make(chan struct{})}
	go func() {
		defer close(c.Done)
		c.Value, c.Err = f()
		c.At = time.Now()
	}()
	return c
}

// Pending reports whether the call has not returned when every goroutine in the bubble waits.
func (c *Call[T]) Pending() bool { return !Closed(c.Done) }

// Waits asserts that the call is Pending.
func (c *Call[T]) Waits() *Call[T] {
	c.t.Helper()
	if !c.Pending() {
		c.t.Fatalf("did not wait: %v", c.Err)
	}
	return c
}

// Returned asserts that the call returns before virtual time passes.
func (c *Call[T]) Returned() (T, error) {
	c.t.Helper()
	if c.Pending() {
		c.t.Fatal("still waits")
	}
	return c.Value, c.Err
}

// OK asserts that the call has Returned without an error.
func (c *Call[T]) OK() T {
	c.t.Helper()
	v, err := c.Returned()
	must(c.t, err)
	return v
}

// End waits until the call has returned, however long that takes.
func (c *Call[T]) End() *Call[T] {
	<-c.Done
	return c
}

// Log collects log lines, also from the garbage collector's goroutine. The zero value is ready.
type Log struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

// Write implements [io.Writer].
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns all lines so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Logger returns a logger that writes to l.
func (l *Log) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

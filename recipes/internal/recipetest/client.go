package recipetest

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// Client connects a client with a session of its own to the server in the bubble. It is closed with the test.
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

// Cut ends a client's connection. The next one takes a millisecond, so all effects of the loss come before
// it. At one virtual instant it would be open whether a watch is given up before or after it was registered
// again.
func Cut(t *testing.T, s *zktest.Server, c *framework.Client) {
	t.Helper()
	id := Session(t, c)
	s.Inject(zktest.Fault{Session: id, Op: "connect", Action: zktest.DelayReply, Delay: time.Millisecond})
	s.Cut(id)
}

// Clean asserts that nothing is left on the server: no contender in any of the directories, which need not
// exist, and no watch.
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

// Tidy asserts that the clients have nothing to clean up any more.
func Tidy(t *testing.T, clients ...*framework.Client) {
	t.Helper()
	for i, c := range clients {
		if n := c.PendingCleanups(); n != 0 {
			t.Fatalf("client %d has %d clean-ups pending", i, n)
		}
	}
}

// Counts asserts the requests since the last call, without pings.
func Counts(t *testing.T, s *zktest.Server, what string, want map[string]int) {
	t.Helper()
	if got := requests(s); !maps.Equal(want, got) {
		t.Fatalf("%s: %v instead of %v", what, got, want)
	}
	s.ResetCounts()
}

// Requests describes the requests since the last ResetCounts, without pings.
func Requests(s *zktest.Server) string { return fmt.Sprint(requests(s)) }

// Sum is their number.
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

// Pending says whether from is still empty when everything in the bubble waits.
func Pending[T any](from <-chan T) bool {
	synctest.Wait()
	return len(from) == 0
}

// Closed says whether the channel is closed when nothing in the bubble moves any more.
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

package leader_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const path = "/leaders/billing"

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

// join makes a latch, which is closed with the test, and waits until it leads or stands in line.
func join(t *testing.T, c *framework.Client, opts ...leader.Option) *leader.Latch {
	t.Helper()
	l, err := leader.NewLatch(c, path, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	synctest.Wait()
	return l
}

// await returns the term of a latch that leads by now.
func await(t *testing.T, l *leader.Latch) *leader.Term {
	t.Helper()
	ctx, cancel := context.WithTimeout(background, time.Hour)
	defer cancel()
	term, err := l.Await(ctx)
	require.NoError(t, err)
	require.True(t, term.Valid())
	return term
}

// follows asserts that a latch stands in line and does not lead.
func follows(t *testing.T, l *leader.Latch) {
	t.Helper()
	synctest.Wait()
	require.False(t, l.HasLeadership())
	require.Equal(t, leader.Following, l.Health().Role)
}

func left(t *testing.T, l *leader.Latch) {
	t.Helper()
	require.NoError(t, l.Leave(background, leader.Silent))
}

// ended asserts that a term has ended, and why.
func ended(t *testing.T, term *leader.Term, cause error) {
	t.Helper()
	synctest.Wait()
	require.Error(t, term.Context().Err())
	require.ErrorIs(t, context.Cause(term.Context()), cause)
	require.False(t, term.Valid())
	require.Zero(t, term.Remaining())
}

// cut ends a client's connection. The next one takes a millisecond, so all that the loss itself brings about is over by then: within one virtual
// instant nobody says whether a watch is given up before or after it was registered again.
func cut(t *testing.T, s *zktest.Server, c *framework.Client) {
	t.Helper()
	id := session(t, c)
	s.Inject(zktest.Fault{Session: id, Op: "connect", Action: zktest.DelayReply, Delay: time.Millisecond})
	s.Cut(id)
}

func ids(t *testing.T, list []leader.Participant, err error) (ids []string) {
	t.Helper()
	require.NoError(t, err)
	for i, p := range list {
		require.Equal(t, i == 0, p.Leader)
		ids = append(ids, p.ID)
	}
	return ids
}

// clean asserts that nothing is left on the server: no participant, no watch.
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

// calls collects what a listener is told.
func calls(name string, into chan<- string) leader.Option {
	return leader.WithListener(leader.Listener{
		OnLeader:    func(*leader.Term) { into <- name + " leads" },
		OnNotLeader: func(_ *leader.Term, cause error) { into <- fmt.Sprintf("%s leads no more: %v", name, cause) },
	})
}

func told(from chan string) (all []string) {
	synctest.Wait()
	for len(from) > 0 {
		all = append(all, <-from)
	}
	return all
}

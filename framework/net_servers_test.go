package framework

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// members starts an ensemble, and a client of the members in connect's result, in a bubble.
func members(t *testing.T, connect func(e *zktest.Ensemble) string,
	f func(t *testing.T, e *zktest.Ensemble, c *Client), opts ...Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := zktest.RunEnsembleT(t, 3)
		require.NoError(t, e.AwaitSettled(t.Context()))
		opts = append([]Option{WithDialer(e.Dial), WithSessionTimeout(10 * time.Second)}, opts...)
		c, err := New(connect(e), opts...)
		require.NoError(t, err)
		t.Cleanup(func() {
			_ = c.Close()
			time.Sleep(2 * time.Second)
		})
		connected(t, c)
		f(t, e, c)
	})
}

// where returns the member that the client's session is connected to, -1 if none.
func where(e *zktest.Ensemble, c *Client) int {
	synctest.Wait() // the member that the session has left has noticed that
	for i, m := range e.Members() {
		for _, s := range m.Sessions() {
			if s.Connected && s.ID == c.viewEpoch().wire.ID() {
				return i
			}
		}
	}
	return -1
}

func TestSetServers(t *testing.T) {
	first := func(e *zktest.Ensemble) string { return e.Member(0).Addr() + "/app" }
	members(t, first, func(t *testing.T, e *zktest.Ensemble, c *Client) {
		next := changesOf(t, c)
		next(StateChange{Connected, 1})
		s := connected(t, c)
		require.NoError(t, e.Member(e.Leader()).Create("/app", nil))

		// A second server in the list changes nothing.
		require.NoError(t, c.SetServers(e.Member(1).Addr()+","+e.Member(0).Addr()))
		assert.Equal(t, []string{e.Member(1).Addr(), e.Member(0).Addr()}, c.Servers())
		time.Sleep(time.Second)
		assert.Equal(t, 0, where(e, c))

		// The list loses the server that the client is connected to: the session continues at another one.
		require.NoError(t, c.SetServers(e.Member(1).Addr()+"/app"))
		next(StateChange{Suspended, 1}, StateChange{Reconnected, 1})
		assert.Equal(t, 1, where(e, c))
		assert.Equal(t, s.ID(), connected(t, c).ID())

		// The next session has the list, too.
		e.Expire(s.ID())
		next(StateChange{Suspended, 1}, StateChange{Lost, 1}, StateChange{Reconnected, 2})
		assert.Equal(t, 1, where(e, c))

		assert.ErrorIs(t, c.SetServers(e.Member(1).Addr()+"/other"), ErrInvalidConnectString)
		assert.ErrorIs(t, c.SetServers(""), ErrInvalidConnectString)
		assert.Equal(t, []string{e.Member(1).Addr()}, c.Servers())
		require.NoError(t, c.Close())
		assert.ErrorIs(t, c.SetServers("zk1"), ErrClosed)
	})
}

// The client uses a new list immediately if no server can be reached.
func TestSetServersWhileDisconnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c := dial(t, srv, WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr != "right:2181" {
				return nil, fmt.Errorf("no %s", addr)
			}
			return srv.Dial(ctx, network, addr)
		}))
		time.Sleep(time.Minute)
		assert.Equal(t, NeverConnected, c.State().State)
		require.NoError(t, c.SetServers("right"))
		began := time.Now()
		connected(t, c)
		assert.Less(t, time.Since(began), 8*time.Second, "the longest pause there is")
	})
}

func TestEnsembleTracking(t *testing.T) {
	first := func(e *zktest.Ensemble) string { return e.Member(0).Addr() }
	members(t, first, func(t *testing.T, e *zktest.Ensemble, c *Client) {
		time.Sleep(time.Second)
		assert.ElementsMatch(t, strings.Split(e.ConnectString(), ","), c.Servers(), "the ensemble's own list")
		assert.Equal(t, 0, where(e, c), "no reason to move")

		// Member 0 leaves the configuration.
		leader := e.Member(e.Leader())
		list := fmt.Sprintf("server.2=%s:participant;%s\nserver.3=%s:observer;%s\nversion=200000001",
			"m2:2888:3888", e.Member(1).Addr(), "m3:2888:3888", e.Member(2).Addr())
		require.NoError(t, leader.Set("/zookeeper/config", []byte(list)))
		time.Sleep(time.Second)
		assert.ElementsMatch(t, []string{e.Member(1).Addr(), e.Member(2).Addr()}, c.Servers(), "observers, too")
		assert.Contains(t, []int{1, 2}, where(e, c))
		assert.Equal(t, int64(1), connected(t, c).Epoch())

		// A configuration without addresses changes nothing; the next one does, in the next session, too.
		require.NoError(t, leader.Set("/zookeeper/config", []byte("server.1=m1:2888:3888\nversion=200000002")))
		time.Sleep(time.Second)
		assert.Len(t, c.Servers(), 2)
		e.Expire(connected(t, c).ID())
		time.Sleep(time.Second)
		require.NoError(t, leader.Set("/zookeeper/config",
			[]byte(fmt.Sprintf("server.1=m1:1:1;%s\nversion=200000003", e.Member(0).Addr()))))
		time.Sleep(time.Second)
		assert.Equal(t, []string{e.Member(0).Addr()}, c.Servers())
		assert.Equal(t, 0, where(e, c))
	}, WithEnsembleTracking(), WithEnsembleHosts(func(host string) bool {
		return strings.HasPrefix(host, "192.0.2.")
	}))
}

// The configuration cannot be read: the list stays, and the client does not read again and again.
func TestEnsembleTrackingInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t, zktest.Config{EnsembleConfig: ensemble})
		require.NoError(t, srv.SetACL("/zookeeper/config", zktest.ACL{Perms: 31, Scheme: "digest", ID: "nobody:x"}))
		c := dial(t, srv, WithEnsembleTracking())
		connected(t, c)
		time.Sleep(time.Minute)
		assert.Equal(t, []string{srv.Addr()}, c.Servers())
		assert.LessOrEqual(t, srv.Counts()["getData"], 10)
	})
}

// No reconnect waits longer than the jitter, and the waits differ.
func TestReconnectJitter(t *testing.T) {
	const longest = 800 * time.Millisecond
	seen := map[time.Duration]bool{}
	all := func(e *zktest.Ensemble) string { return e.ConnectString() }
	members(t, all, func(t *testing.T, e *zktest.Ensemble, c *Client) {
		next := changesOf(t, c)
		next(StateChange{Connected, 1})
		for range 30 {
			time.Sleep(2 * time.Second)
			began := time.Now()
			e.Cut(connected(t, c).ID())
			next(StateChange{Suspended, 1}, StateChange{Reconnected, 1})
			took := time.Since(began)
			assert.LessOrEqual(t, took, longest)
			seen[took] = true
		}
	}, func(o *options) error { o.spread = longest; return nil })
	assert.Greater(t, len(seen), 20)

	// With one server, too: all its clients come back at the same time.
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		next := changesOf(t, c)
		next(StateChange{Connected, 1})
		time.Sleep(2 * time.Second)
		began := time.Now()
		srv.Cut(0)
		next(StateChange{Suspended, 1}, StateChange{Reconnected, 1})
		assert.NotZero(t, time.Since(began))
		assert.LessOrEqual(t, time.Since(began), longest)
	}, func(o *options) error { o.spread = longest; return nil })
}

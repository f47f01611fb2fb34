package inspect_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/inspect"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

func findings(t *testing.T, c *framework.Client) (all []inspect.Finding) {
	t.Helper()
	connected, err := inspect.Connections(background, c)
	require.NoError(t, err)
	assert.Empty(t, connected.Missing)
	return why(t, c).Findings(connected)
}

func troubles(all []inspect.Finding) string {
	var s []string
	for _, f := range all {
		s = append(s, string(f.Trouble)+" "+f.Path)
	}
	return strings.Join(s, ", ")
}

func TestFindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b, looking := newClient(t, s), newClient(t, s), newClient(t, s)
		lock, err := mutex.New(a, "/locks/a").Acquire(background)
		require.NoError(t, err)
		_, err = mutex.New(b, "/locks/b").Acquire(background)
		require.NoError(t, err)
		wait(t, func(ctx context.Context) { _, _ = mutex.New(b, "/locks/a").Acquire(ctx) })
		assert.Empty(t, findings(t, looking), "nothing is wrong: somebody waits")

		wait(t, func(ctx context.Context) { _, _ = mutex.New(a, "/locks/b").Acquire(ctx) })
		found := findings(t, looking)
		require.Len(t, found, 1)
		assert.Equal(t, inspect.Deadlock, found[0].Trouble)
		assert.Contains(t, found[0].Text, fmt.Sprintf("2 sessions wait for each other: session %#x waits at /locks/", min(session(t, a), session(t, b))))

		require.NoError(t, mutex.Revoke(background, looking, lock.Path()))
		require.NoError(t, s.Create("/locks/a/\u202estranger", nil))
		found = findings(t, looking)
		assert.Equal(t, "possible deadlock /locks/b, revoking /locks/a, foreign children /locks/a", troubles(found))
		assert.NotContains(t, fmt.Sprint(found), "\u202e")
	})
}

// A holder whose process is silent, or has no connection, is named: all others wait for its session.
func TestFindingsOfSilentHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		looking := newClient(t, s)
		f := &freezer{server: s}
		holder := newClient(t, s, framework.WithSessionTimeout(30*time.Second), framework.WithDialer(f.dial))
		stand(t, holder, "/locks/a", numbered("lock-", 0))
		stand(t, looking, "/locks/a", numbered("lock-", 1))
		assert.Empty(t, findings(t, looking))

		f.frozen.Store(true)
		time.Sleep(19 * time.Second)
		found := findings(t, looking)
		require.Len(t, found, 1)
		assert.Equal(t, inspect.Silent, found[0].Trouble)
		assert.Contains(t, found[0].Text, "holds, and its process at ")
		assert.Contains(t, found[0].Text, "and expires after 30s")
		f.frozen.Store(false)
		for _, c := range f.conns {
			c.Conn.Close()
		}
		require.NoError(t, holder.WaitConnected(background))

		away := &freezer{server: s}
		gone := newClient(t, s, framework.WithSessionTimeout(40*time.Second), framework.WithDialer(away.dial))
		stand(t, gone, "/locks/b", numbered("lock-", 0))
		stand(t, looking, "/locks/b", numbered("lock-", 1))
		away.frozen.Store(true)
		s.Cut(session(t, gone))
		time.Sleep(time.Second)
		text := fmt.Sprint(findings(t, looking))
		assert.Contains(t, text, "/locks/b: "+numbered("lock-", 0)+" holds, and its session")
		assert.Contains(t, text, "has no connection")
		away.frozen.Store(false)
		require.NoError(t, gone.WaitConnected(background))
	})
}

// freezer simulates the network of a stopped process: its connections stay, and carry nothing.
type freezer struct {
	server *zktest.Server
	frozen atomic.Bool
	mu     sync.Mutex
	conns  []*frozenConn // guarded by mu
}

type frozenConn struct {
	net.Conn
	f *freezer
}

func (f *freezer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if f.frozen.Load() {
		return nil, context.DeadlineExceeded
	}
	conn, err := f.server.Dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns = append(f.conns, &frozenConn{conn, f})
	return f.conns[len(f.conns)-1], nil
}

func (c *frozenConn) Write(b []byte) (int, error) {
	if c.f.frozen.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *frozenConn) Close() error {
	if c.f.frozen.Load() {
		return c.Conn.SetDeadline(time.Now())
	}
	return c.Conn.Close()
}

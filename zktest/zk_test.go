package zktest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// connect returns a go-zookeeper client on the in-memory network, with its session established.
func connect(t *testing.T, s *Server, timeout time.Duration) *zk.Conn {
	t.Helper()
	c, events, err := zk.Connect([]string{s.Addr()}, timeout,
		zk.WithDialer(s.Dialer()), zk.WithLogger(quiet{}))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	for e := range events {
		if e.State == zk.StateHasSession {
			return c
		}
	}
	t.Fatal("no session")
	return nil
}

var open = zk.WorldACL(zk.PermAll)

func TestClientCRUD(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, RunT(t), 10*time.Second)
		path, err := c.Create("/a", []byte("x"), 0, open)
		require.NoError(t, err)
		assert.Equal(t, "/a", path)
		_, err = c.Create("/a", nil, 0, open)
		require.ErrorIs(t, err, zk.ErrNodeExists)
		data, stat, watch, err := c.GetW("/a")
		require.NoError(t, err)
		assert.Equal(t, "x", string(data))
		assert.Equal(t, int32(0), stat.Version)
		stat, err = c.Set("/a", []byte("yy"), 0)
		require.NoError(t, err)
		assert.Equal(t, int32(1), stat.Version)
		assert.Equal(t, int32(2), stat.DataLength)
		assert.Equal(t, zk.EventNodeDataChanged, (<-watch).Type)
		_, err = c.Set("/a", nil, 0)
		require.ErrorIs(t, err, zk.ErrBadVersion)
		for i := range 3 {
			path, err = c.Create("/a/s-", nil, zk.FlagEphemeralSequential, open)
			require.NoError(t, err)
			assert.Equal(t, "/a/s-000000000"+string(rune('0'+i)), path)
		}
		kids, stat, err := c.Children("/a")
		require.NoError(t, err)
		assert.Len(t, kids, 3)
		assert.Equal(t, int32(3), stat.Cversion)
		require.ErrorIs(t, c.Delete("/a", -1), zk.ErrNotEmpty)
		for _, kid := range kids {
			require.NoError(t, c.Delete("/a/"+kid, -1))
		}
		require.NoError(t, c.Delete("/a", 1))
		there, _, err := c.Exists("/a")
		require.NoError(t, err)
		assert.False(t, there)
	})
}

func TestClientSessionOutlivesConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t)
		c := connect(t, s, 10*time.Second)
		_, err := c.Create("/e", nil, zk.FlagEphemeral, open)
		require.NoError(t, err)
		_, _, gone, err := c.ExistsW("/e")
		require.NoError(t, err)
		id := c.SessionID()
		s.Cut(0)
		time.Sleep(3 * time.Second)
		assert.Equal(t, id, c.SessionID())
		require.NoError(t, s.Delete("/e"))
		assert.Equal(t, zk.EventNodeDeleted, (<-gone).Type)
		s.Stop()
		time.Sleep(time.Minute)
		require.NoError(t, s.Start())
		time.Sleep(2 * time.Second)
		assert.Equal(t, id, c.SessionID(), "a restarted server knows its sessions")
		s.Expire(id)
		time.Sleep(3 * time.Second)
		assert.NotEqual(t, id, c.SessionID())
	})
}

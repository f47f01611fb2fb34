package framework

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ensemble is the content of /zookeeper/config on a member.
const ensemble = "server.1=a:2888:3888:participant;0.0.0.0:2181\n" +
	"server.2=b:2888:3888:participant;0.0.0.0:2181\nversion=100000000"

// dial makes a client of the server, in a bubble, closed with the test.
func dial(t *testing.T, srv *zktest.Server, opts ...Option) *Client {
	t.Helper()
	opts = append([]Option{WithDialer(srv.Dial), WithSessionTimeout(10 * time.Second),
		WithLogger(slog.New(slog.NewTextHandler(t.Output(), nil)))}, opts...)
	c, err := New(srv.Addr(), opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = c.Close()
		time.Sleep(2 * time.Second) // if Close was cut short, the rest ends in this time
	})
	return c
}

func connected(t *testing.T, c *Client) *Session {
	t.Helper()
	require.NoError(t, c.WaitConnected(t.Context()))
	s, err := c.Session(t.Context())
	require.NoError(t, err)
	return s
}

// changesOf subscribes, and returns a function that waits for the next changes and compares them.
func changesOf(t *testing.T, c *Client) (next func(...StateChange)) {
	t.Helper()
	ch := c.StateChanges(t.Context())
	return func(want ...StateChange) {
		t.Helper()
		for _, w := range want {
			select {
			case got, ok := <-ch:
				require.True(t, ok, "closed instead of %v", w)
				require.Equal(t, w, got)
			case <-time.After(10 * time.Minute): // of virtual time
				require.FailNow(t, "no change", "instead of %v", w)
			}
		}
	}
}

// plant makes nodes whose data are their paths.
func plant(t *testing.T, srv *zktest.Server, paths ...string) {
	t.Helper()
	for _, path := range paths {
		require.NoError(t, srv.Create(path, []byte(path)))
	}
}

package tree

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// below makes a client of the server with a chroot, "" for none, in a bubble, closed with the test.
func below(t *testing.T, srv *zktest.Server, chroot string, opts ...framework.Option) *framework.Client {
	t.Helper()
	opts = append([]framework.Option{framework.WithDialer(srv.Dial), framework.WithSessionTimeout(10 * time.Second),
		framework.WithLogger(slog.New(slog.NewTextHandler(t.Output(), nil)))}, opts...)
	c, err := framework.New(srv.Addr()+chroot, opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = c.Close()
		time.Sleep(2 * time.Second) // if it was cut short, the rest winds down
	})
	connected(t, c)
	return c
}

func connected(t *testing.T, c *framework.Client) *framework.Session {
	t.Helper()
	require.NoError(t, c.WaitConnected(t.Context()))
	s, err := c.Session(t.Context())
	require.NoError(t, err)
	return s
}

func bubble(t *testing.T, f func(t *testing.T, srv *zktest.Server, c *framework.Client), opts ...framework.Option) {
	t.Helper()
	bubbleOf(t, zktest.Config{}, f, opts...)
}

func bubbleOf(t *testing.T, cfg zktest.Config, f func(t *testing.T, srv *zktest.Server, c *framework.Client),
	opts ...framework.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t, cfg)
		f(t, srv, below(t, srv, "", opts...))
	})
}

// plant makes nodes whose data are their paths.
func plant(t *testing.T, srv *zktest.Server, paths ...string) {
	t.Helper()
	for _, path := range paths {
		require.NoError(t, srv.Create(path, []byte(path)))
	}
}

// counts returns the server's requests without pings.
func counts(srv *zktest.Server) map[string]int {
	counts := srv.Counts()
	delete(counts, "ping")
	return counts
}

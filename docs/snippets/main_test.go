package snippets

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a server on the loopback, so that the snippets need no dialer, and a client of it. This is real
// time: the session survives a machine that is busy for half a minute.
func serve(t *testing.T) (context.Context, *zktest.Server, *framework.Client) {
	server := zktest.RunT(t, zktest.Config{Listen: "127.0.0.1:0"})
	client, err := framework.New(server.Addr(), framework.WithSessionTimeout(30*time.Second))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx, server, client
}

// theirs is a plain go-zookeeper connection to the same server.
func theirs(t *testing.T, server *zktest.Server) *zk.Conn {
	conn, events, err := zk.Connect([]string{server.Addr()}, 30*time.Second, zk.WithLogInfo(false))
	require.NoError(t, err)
	t.Cleanup(func() {
		conn.Close()
		for range events { // until the library's goroutines have ended
		}
	})
	return conn
}

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

// serve starts a server on the loopback, so that the snippets need no dialer, and a client of it.
func serve(t *testing.T) (context.Context, *zktest.Server, *framework.Client) {
	server := zktest.RunT(t, zktest.Config{Listen: "127.0.0.1:0"})
	client, err := framework.New(server.Addr(), framework.WithSessionTimeout(10*time.Second))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx, server, client
}

// theirs is a plain go-zookeeper connection to the same server.
func theirs(t *testing.T, server *zktest.Server) *zk.Conn {
	conn, events, err := zk.Connect([]string{server.Addr()}, 10*time.Second, zk.WithLogInfo(false))
	require.NoError(t, err)
	t.Cleanup(func() {
		conn.Close()
		for range events { // until the library's goroutines have ended
		}
	})
	return conn
}

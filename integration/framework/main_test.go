package framework

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/zkserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// calm is a session timeout that a busy machine does not reach.
const calm = 15 * time.Second

// serve starts a server and a client.
func serve(
	t *testing.T, options zkserver.Options, opts ...framework.Option,
) (*zkserver.Node, *framework.Client) {
	t.Helper()
	options.MaxSessionTimeout = calm
	node := zkserver.Start(t, options)
	client, _ := kit.Connected(t, node.ConnectString(),
		append([]framework.Option{framework.WithSessionTimeout(calm)}, opts...)...)
	return node, client
}

func create(t *testing.T, c *framework.Client, path, data string) {
	t.Helper()
	_, err := c.Create().CreatingParentsIfNeeded().ForPath(kit.Context(t), path, []byte(data))
	require.NoError(t, err)
}

package curatorsuite

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/proxy"
	"github.com/go-curator/curator/integration/zkserver"
	"github.com/go-curator/curator/retry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const timeout = 4 * time.Second

// world is a server, and a client without network faults.
type world struct {
	*zkserver.Node
	client *framework.Client // with a direct connection
}

func start(t *testing.T) *world {
	t.Helper()
	w := &world{Node: zkserver.Start(t, zkserver.Options{TickTime: 200 * time.Millisecond,
		ContainerCheckInterval: 500 * time.Millisecond, ExtendedTypes: true})}
	w.client, _ = w.connect(t)
	return w
}

// connect returns one more client, with its own network.
func (w *world) connect(t *testing.T, opts ...framework.Option) (*framework.Client, *proxy.Proxy) {
	t.Helper()
	way := proxy.New(t, w.ConnectString())
	client, _ := kit.Connected(t, way.Addr(), append([]framework.Option{framework.WithSessionTimeout(timeout),
		framework.WithRetry(retry.ExponentialBackoff{Base: 5 * time.Millisecond, Retries: 100})}, opts...)...)
	t.Cleanup(way.Heal)
	return client, way
}

// expire ends a client's session, as the server's own expiry does, and waits for the next.
func (w *world) expire(t *testing.T, c *framework.Client) {
	t.Helper()
	session, err := c.Session(kit.Context(t))
	require.NoError(t, err)
	kit.EndSession(t, w.Addr(), session.ID())
	kit.Soon(t, "the next session", func() bool {
		next, err := c.Session(kit.Context(t))
		return err == nil && next.ID() != session.ID()
	})
}

// stat returns the Stat of a node, nil if there is none.
func (w *world) stat(t *testing.T, path string) *framework.Stat {
	t.Helper()
	stat, err := w.client.CheckExists().ForPath(kit.Context(t), path)
	require.NoError(t, err)
	return stat
}

// data waits until a node has certain data.
func (w *world) data(t *testing.T, path, want string) {
	t.Helper()
	kit.Soon(t, path+" has "+want, func() bool {
		data, err := w.client.GetData().ForPath(kit.Context(t), path)
		return err == nil && string(data) == want
	})
}

func (w *world) gone(t *testing.T, path string) {
	t.Helper()
	kit.Soon(t, path+" is gone", func() bool { return w.stat(t, path) == nil })
}

// behave runs the tests of a family, one after the other on one server.
func behave(t *testing.T, tests map[string]func(t *testing.T, w *world)) {
	t.Parallel()
	w := start(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(t, w) })
	}
}

// heard returns a channel with the values that follow reports, in order.
func heard[T any](t *testing.T, follow func(ctx context.Context, hear func(T))) <-chan T {
	t.Helper()
	said := make(chan T, 1000)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		follow(ctx, func(v T) { said <- v })
	}()
	t.Cleanup(func() { cancel(); <-done })
	return said
}

// silent checks that no further value is reported for a while.
func silent[T any](t *testing.T, said <-chan T) {
	t.Helper()
	select {
	case v := <-said:
		assert.Fail(t, "it was said", "%v", v)
	case <-time.After(200 * time.Millisecond):
	}
}

package security

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/proxy"
	"github.com/go-curator/curator/integration/zkserver"
	"github.com/go-curator/curator/recipes/mutex"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, options zkserver.Options) *zkserver.Node {
	t.Helper()
	options.TickTime, options.MaxSessionTimeout = 200*time.Millisecond, calm
	return zkserver.Start(t, options)
}

// calm is a session timeout that is long enough for a busy machine.
const calm = 15 * time.Second

// survives takes a client with these options through a cut of its connection to addr. Its watches on a node that only
// it may touch report the changes during the cut, its lock is held throughout, and it opens exactly one new connection.
// inside and insider are the address and options of another client with the same rights.
func survives(
	t *testing.T, addr, inside string, insider []framework.Option, opts ...framework.Option,
) *framework.Client {
	t.Helper()
	link := proxy.New(t, addr)
	opts = append(opts, framework.WithSessionTimeout(calm), framework.WithDefaultACL(framework.CreatorACL()...))
	c := kit.Dial(t, link.Addr(), opts...)
	states := kit.Watch(t, c)
	states.Next(framework.Connected, 1)
	other, _ := kit.Connected(t, inside, append(insider, framework.WithSessionTimeout(calm))...)
	ctx := kit.Context(t)

	_, err := c.Create().CreatingParentsIfNeeded().ForPath(ctx, "/mine/data", []byte("before"))
	require.NoError(t, err)
	_, data, err := c.GetData().WithWatch().ForPath(ctx, "/mine/data")
	require.NoError(t, err)
	all, err := c.Watches().Add().ForPath(ctx, "/mine")
	require.NoError(t, err)
	lock, err := mutex.New(c, "/locks/survivor").Acquire(ctx)
	require.NoError(t, err)

	before := link.Stats()
	link.Cut()
	states.Next(framework.Suspended, 1)
	_, err = other.SetData().ForPath(ctx, "/mine/data", []byte("meanwhile"))
	require.NoError(t, err)
	link.Heal()
	states.Next(framework.Reconnected, 1)
	assert.Equal(t, framework.EventNodeDataChanged, kit.Receive(t, "the missed change", data.C).Type)
	for kit.Receive(t, "the gap", all.C).Type != framework.EventReset {
	}
	_, err = other.Create().ForPath(ctx, "/mine/new", nil)
	require.NoError(t, err)
	assert.Equal(t, framework.Event{Type: framework.EventNodeCreated, Path: "/mine/new"},
		kit.Receive(t, "a new event", all.C))
	assert.True(t, lock.Valid())
	require.NoError(t, lock.Release(ctx))
	time.Sleep(1500 * time.Millisecond) // time for a loop to show itself
	assert.False(t, states.Heard())
	stats := link.Stats()
	assert.EqualValues(t, 1, stats.Accepted-stats.Refused-(before.Accepted-before.Refused), "one new connection")
	kit.Figure(t, "1 new connection after a cut, %d refused while it was cut", stats.Refused-before.Refused)
	return c
}

// refused connects a client that the server never accepts: the client reports the reason, and does not reconnect too
// often. On a busy machine the first attempts may time out.
func refused(t *testing.T, addr string, reason func(error) bool, opts ...framework.Option) error {
	t.Helper()
	link := proxy.New(t, addr)
	c := kit.Dial(t, link.Addr(), append(opts, framework.WithSessionTimeout(calm))...)
	states := kit.Watch(t, c)
	var last error
	kit.Soon(t, "the reason is told", func() bool {
		ctx, cancel := contextOf(t, 200*time.Millisecond)
		defer cancel()
		last = c.WaitConnected(ctx)
		require.ErrorIs(t, last, framework.ErrNotConnected)
		return reason(last)
	})
	began := link.Stats().Accepted
	time.Sleep(2 * time.Second)
	assert.LessOrEqual(t, link.Stats().Accepted-began, int64(10))
	assert.False(t, states.Heard(), "it is never announced as connected")
	t.Logf("%d connections; the error: %v", link.Stats().Accepted, last)
	return last
}

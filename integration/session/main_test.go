package session

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/zkserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tick is the servers' unit of time here: they expire sessions with this precision.
const tick = 200 * time.Millisecond

// Session timeouts: brief where a test waits for the end of a session, calm where a busy machine must not cause a
// suspension.
const (
	brief = 4 * time.Second
	calm  = 30 * time.Second
)

func server(t *testing.T, options zkserver.Options) *zkserver.Node {
	t.Helper()
	options.TickTime, options.MaxSessionTimeout = tick, calm
	return zkserver.Start(t, options)
}

// actor is one of the two clients of a test.
type actor struct {
	*framework.Client
	first  *framework.Session
	states *kit.States
	name   string // of its own directory
}

// two returns two clients of the same server.
func two(t *testing.T, connect string, timeout time.Duration, opts ...framework.Option) []*actor {
	t.Helper()
	opts = append(opts, framework.WithSessionTimeout(timeout))
	actors := make([]*actor, 2)
	for i := range actors {
		a := &actor{Client: kit.Dial(t, connect, opts...), name: fmt.Sprintf("/client-%d", i)}
		a.states = kit.Watch(t, a.Client)
		a.states.Next(framework.Connected, 1)
		var err error
		a.first, err = a.Session(kit.Context(t))
		require.NoError(t, err)
		actors[i] = a
	}
	require.NotEqual(t, actors[0].first.ID(), actors[1].first.ID())
	return actors
}

// ephemeral creates an ephemeral node of the actor's session.
func (a *actor) ephemeral(t *testing.T, name string) string {
	t.Helper()
	path, err := a.Create().WithMode(framework.Ephemeral).CreatingParentsIfNeeded().
		ForPath(kit.Context(t), a.name+"/"+name, nil)
	require.NoError(t, err)
	return path
}

func (a *actor) hold(t *testing.T, path string, loss framework.LossPolicy) *framework.Hold {
	t.Helper()
	h, err := a.first.Hold(kit.Context(t), framework.HoldOptions{Path: path, Loss: loss})
	require.NoError(t, err)
	return h
}

// there reports whether a node exists, as any client sees it after all earlier commits.
func there(t *testing.T, c *framework.Client, path string) bool {
	t.Helper()
	ctx := kit.Context(t)
	require.NoError(t, c.Sync().ForPath(ctx, path))
	stat, err := c.CheckExists().ForPath(ctx, path)
	require.NoError(t, err)
	return stat != nil
}

package session

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/proxy"
	"github.com/go-curator/curator/integration/zkserver"
)

// Credentials are sent on every connection before anything else, so that watches on protected nodes are armed again
// with their rights.
func TestCredentialsThroughReconnect(t *testing.T) {
	kit.Needs(t, kit.PersistentWatches)
	t.Parallel()
	node := server(t, zkserver.Options{})
	link := proxy.New(t, node.Addr())
	auth := framework.WithAuth("digest", []byte("user:secret"))
	actors := two(t, link.Addr(), calm, auth, framework.WithDefaultACL(framework.CreatorACL()...))
	// One client is never cut off and makes the changes in between; a client without credentials must not get access.
	insider, _ := kit.Connected(t, node.Addr(), auth)
	outsider, _ := kit.Connected(t, node.Addr())

	watches := map[*actor][3]*framework.Watch{}
	for _, a := range actors {
		ctx := kit.Context(t)
		_, err := a.Create().CreatingParentsIfNeeded().ForPath(ctx, a.name+"/data", []byte("before"))
		require.NoError(t, err)
		_, err = outsider.GetData().ForPath(ctx, a.name+"/data")
		require.ErrorIs(t, err, framework.ErrNoAuth)
		_, data, err := a.GetData().WithWatch().ForPath(ctx, a.name+"/data")
		require.NoError(t, err)
		_, children, err := a.GetChildren().WithWatch().ForPath(ctx, a.name)
		require.NoError(t, err)
		all, err := a.Watches().Add().ForPath(ctx, a.name)
		require.NoError(t, err)
		watches[a] = [3]*framework.Watch{data, children, all}
	}
	before := link.Stats().Accepted
	require.EqualValues(t, 2, before)
	link.Cut()
	for _, a := range actors {
		a.states.Next(framework.Suspended, 1)
		ctx := kit.Context(t)
		_, err := insider.SetData().ForPath(ctx, a.name+"/data", []byte("meanwhile"))
		require.NoError(t, err)
		_, err = insider.Create().ForPath(ctx, a.name+"/new", nil)
		require.NoError(t, err)
	}
	link.Heal()
	for _, a := range actors {
		a.states.Next(framework.Reconnected, 1)
		assert.Equal(t, framework.EventNodeDataChanged, kit.Receive(t, "the missed change", watches[a][0].C).Type)
		assert.Equal(t, framework.EventNodeChildrenChanged,
			kit.Receive(t, "the missed child", watches[a][1].C).Type)
		// This watch also gets the events of the one-shot watches below it.
		for kit.Receive(t, "the gap", watches[a][2].C).Type != framework.EventReset {
		}
		data, err := a.GetData().ForPath(kit.Context(t), a.name+"/data")
		require.NoError(t, err)
		assert.Equal(t, "meanwhile", string(data))
		// The persistent watch is armed again, with its rights.
		require.NoError(t, insider.Delete().ForPath(kit.Context(t), a.name+"/new"))
		assert.Equal(t, framework.Event{Type: framework.EventNodeDeleted, Path: a.name + "/new"},
			kit.Receive(t, "a new event", watches[a][2].C))
		assert.False(t, a.states.Heard())
	}
	stats := link.Stats()
	assert.EqualValues(t, before+2, stats.Accepted-stats.Refused, "one new connection each")
}

// A credential that the server refuses closes the connection each time. The client reports that, and does not reconnect
// too often.
func TestRefusedCredential(t *testing.T) {
	t.Parallel()
	node := server(t, zkserver.Options{})
	link := proxy.New(t, node.Addr())
	c := kit.Dial(t, link.Addr(), framework.WithAuth("nosuchscheme", []byte("x")))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err := c.GetData().ForPath(ctx, "/")
	require.Error(t, err)
	t.Logf("the error: %v", err)
	<-ctx.Done()
	stats := link.Stats()
	t.Logf("%d connections in 3 s", stats.Accepted)
	assert.LessOrEqual(t, stats.Accepted, int64(12))
	// Each time there is a connection in between: the server replies to the handshake before it refuses.
	kit.Soon(t, "the reason is told",
		func() bool { return errors.Is(c.WaitConnected(ctx), framework.ErrAuthFailed) })
}

// A request of exactly the server's limit is executed; a request of one byte more is refused before it is sent, and the
// connection stays.
func TestPacketLimit(t *testing.T) {
	t.Parallel()
	node := server(t, zkserver.Options{})
	const limit = 0xfffff // jute.maxbuffer, unless configured
	for _, a := range two(t, node.ConnectString(), calm) {
		ctx := kit.Context(t)
		path := a.ephemeral(t, "e")
		// Header, path, length of the data, version.
		room := limit - (8 + 4 + len(path) + 4 + 4)
		_, err := a.SetData().ForPath(ctx, path, make([]byte, room))
		require.NoError(t, err)
		data, err := a.GetData().ForPath(ctx, path)
		require.NoError(t, err)
		assert.Len(t, data, room)
		_, err = a.SetData().ForPath(ctx, path, make([]byte, room+1))
		assert.ErrorIs(t, err, framework.ErrTooLarge)
		assert.NotErrorIs(t, err, framework.ErrOutcomeUnknown)
		assert.False(t, a.states.Heard(), "the connection lives")

		_, err = a.Transaction(ctx, a.TransactionOp().SetData().ForPath(path, make([]byte, limit/2)),
			a.TransactionOp().SetData().ForPath(path, make([]byte, limit/2)))
		assert.ErrorIs(t, err, framework.ErrTooLarge)
	}
	// It is the server's limit: a client with a larger one loses its connection.
	reckless, _ := kit.Connected(t, node.ConnectString(), framework.WithMaxFrame(2*limit))
	states := kit.Watch(t, reckless)
	states.Next(framework.Connected, 1)
	_, err := reckless.SetData().InBackground().ForPath(kit.Context(t), "/zookeeper", make([]byte, limit)).
		Wait(kit.Context(t))
	assert.ErrorIs(t, err, framework.ErrConnectionLoss)
	assert.ErrorIs(t, err, framework.ErrTooLarge)
	states.Next(framework.Suspended, 1)
	states.Next(framework.Reconnected, 1)
	// In the foreground, too, the request is not retried.
	_, err = reckless.SetData().ForPath(kit.Context(t), "/zookeeper", make([]byte, limit))
	assert.ErrorIs(t, err, framework.ErrTooLarge)
	assert.ErrorIs(t, err, framework.ErrOutcomeUnknown)
	t.Logf("the error: %v", err)
	states.Next(framework.Suspended, 1)
	states.Next(framework.Reconnected, 1)
}

// A list of children may be larger than the limit for requests.
func TestLargeReply(t *testing.T) {
	t.Parallel()
	node := server(t, zkserver.Options{})
	c, _ := kit.Connected(t, node.ConnectString())
	ctx := kit.Context(t)
	_, err := c.Create().ForPath(ctx, "/many", nil)
	require.NoError(t, err)
	const children = 6000
	name := strings.Repeat("n", 180)
	var last *framework.Pending[framework.CreateResult]
	for range children {
		last = c.Create().WithMode(framework.EphemeralSequential).InBackground().ForPath(ctx, "/many/"+name, nil)
	}
	_, err = last.Wait(ctx)
	require.NoError(t, err)
	names, err := c.GetChildren().ForPath(ctx, "/many")
	require.NoError(t, err)
	assert.Len(t, names, children)
	require.NoError(t, c.Delete().DeletingChildrenIfNeeded().ForPath(ctx, "/many"))
}

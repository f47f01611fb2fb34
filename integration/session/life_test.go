package session

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/proxy"
	"github.com/go-curator/curator/integration/zkserver"
)

// A close that returns nil was acknowledged: the ephemeral nodes are gone by then, and watches on them have fired.
func TestCloseIsAcknowledged(t *testing.T) {
	t.Parallel()
	node := server(t, zkserver.Options{})
	observer, _ := kit.Connected(t, node.ConnectString())
	for _, a := range two(t, node.ConnectString(), calm) {
		path := a.ephemeral(t, "e")
		h := a.hold(t, path, framework.SessionOnly)
		stat, gone, err := observer.CheckExists().WithWatch().ForPath(kit.Context(t), path)
		require.NoError(t, err)
		assert.Equal(t, a.first.ID(), stat.EphemeralOwner)

		began := time.Now()
		require.NoError(t, a.Close())
		t.Logf("closed in %v", time.Since(began))
		assert.Less(t, time.Since(began), kit.Slack())
		assert.ErrorIs(t, context.Cause(h.Context()), framework.ErrClosed)
		assert.False(t, there(t, observer, path))
		assert.Equal(t, framework.EventNodeDeleted, kit.Receive(t, "the event of the deletion", gone.C).Type)
		assert.NoError(t, a.Close())
		_, err = a.GetData().ForPath(kit.Context(t), "/")
		assert.ErrorIs(t, err, framework.ErrClosed)
	}
}

// A server is paused for longer than the session timeout: the client is suspended within the silence that the rule
// allows, the session is lost at the time that the rule sets, and the client reconnects with the next session.
func TestServerHangs(t *testing.T) {
	t.Parallel()
	node := server(t, zkserver.Options{})
	actors := two(t, node.ConnectString(), brief)
	holds := map[*actor][2]*framework.Hold{}
	for _, a := range actors {
		holds[a] = [2]*framework.Hold{a.hold(t, a.ephemeral(t, "a"), framework.SuspendedIsLoss),
			a.hold(t, a.ephemeral(t, "b"), framework.SessionOnly)}
	}
	node.Pause()
	paused := time.Now()
	time.Sleep(20 * time.Millisecond) // earlier replies are read by then
	promised := map[*actor]time.Time{}
	for _, a := range actors {
		promised[a] = time.Now().Add(a.Safety().Remaining)
		assert.True(t, a.Safety().Standalone)
	}
	for _, a := range actors {
		suspended := a.states.Next(framework.Suspended, 1)
		// A connection is closed after a silence of a third of the timeout, checked every twelfth.
		timeout := a.first.Timeout()
		t.Logf("suspended %v after the pause, timeout %v", suspended.Sub(paused), timeout)
		assert.LessOrEqual(t, suspended.Sub(paused), timeout/3+timeout/12+kit.Slack(), "at the latest")
		assert.GreaterOrEqual(t, suspended.Sub(paused), timeout/12)
		kit.Closed(t, "the hold that a suspension ends", holds[a][0].Context().Done())
		assert.ErrorIs(t, context.Cause(holds[a][0].Context()), framework.ErrSuspended)
		assert.True(t, holds[a][1].Valid())
	}
	for _, a := range actors {
		lost := a.states.Next(framework.Lost, 1)
		t.Logf("lost %v after the promised instant", lost.Sub(promised[a]))
		assert.WithinDuration(t, promised[a], lost, kit.Slack())
		assert.ErrorIs(t, context.Cause(holds[a][1].Context()), framework.ErrSessionLost)
		assert.ErrorIs(t, context.Cause(a.first.Context()), framework.ErrSessionLost)
	}
	node.Resume()
	for _, a := range actors {
		a.states.Next(framework.Reconnected, 2)
		second, err := a.Session(kit.Context(t))
		require.NoError(t, err)
		assert.NotEqual(t, a.first.ID(), second.ID())
		// The new session came after the end of the old one.
		assert.False(t, there(t, a.Client, a.name+"/a"))
		assert.False(t, there(t, a.Client, a.name+"/b"))
		assert.False(t, a.states.Heard())
	}
}

// A server that is paused for less than the session timeout costs only the connection.
func TestServerHangsBriefly(t *testing.T) {
	t.Parallel()
	node := server(t, zkserver.Options{})
	actors := two(t, node.ConnectString(), brief)
	var holds []*framework.Hold
	for _, a := range actors {
		holds = append(holds, a.hold(t, a.ephemeral(t, "e"), framework.SessionOnly))
	}
	node.Pause()
	for _, a := range actors {
		a.states.Next(framework.Suspended, 1)
	}
	node.Resume()
	for i, a := range actors {
		a.states.Next(framework.Reconnected, 1)
		assert.True(t, holds[i].Valid())
		assert.True(t, there(t, a.Client, a.name+"/e"))
		assert.NoError(t, a.first.Context().Err())
		assert.False(t, a.states.Heard())
	}
}

// A server that stops and starts again with its data keeps the session.
func TestServerRestarts(t *testing.T) {
	t.Parallel()
	node := server(t, zkserver.Options{})
	actors := two(t, node.ConnectString(), calm)
	for _, a := range actors {
		a.ephemeral(t, "e")
	}
	node.Restart()
	for _, a := range actors {
		a.states.Next(framework.Suspended, 1)
		a.states.Next(framework.Reconnected, 1)
		assert.True(t, there(t, a.Client, a.name+"/e"))
	}
}

// A server that takes the connect request and never replies is given up in time for another server.
func TestHalfHandshake(t *testing.T) {
	t.Parallel()
	node := server(t, zkserver.Options{})
	link := proxy.New(t, node.Addr())
	link.Hang(proxy.ToClient)
	const timeout = brief
	var clients []*framework.Client
	for range 2 {
		clients = append(clients, kit.Dial(t, link.Addr(), framework.WithSessionTimeout(timeout)))
	}
	began := time.Now()
	kit.Soon(t, "every client has given up one connection", func() bool { return link.Stats().Accepted >= 4 })
	assert.Less(t, time.Since(began), 2*timeout/3+kit.Slack(), "a third of the timeout each")
	link.Heal()
	for _, c := range clients {
		require.NoError(t, c.WaitConnected(kit.Context(t)))
		assert.Equal(t, framework.StateChange{State: framework.Connected, Epoch: 1}, c.State())
	}

	// With a server in the list that replies, the silent one costs only its share of the time.
	link.Hang(proxy.ToClient)
	for range 4 { // the order is random
		began := time.Now()
		c, _ := kit.Connected(t, link.Addr()+","+node.Addr(), framework.WithSessionTimeout(timeout))
		assert.Less(t, time.Since(began), 2*timeout/3+kit.Slack())
		require.NoError(t, c.Close())
	}
	link.Heal()
}

// The same with a session that exists: the server attaches it and the client gets no reply.
func TestHalfReattach(t *testing.T) {
	t.Parallel()
	node := server(t, zkserver.Options{})
	link := proxy.New(t, node.Addr())
	actors := two(t, link.Addr(), brief)
	for _, a := range actors {
		a.ephemeral(t, "e")
	}
	accepted := link.Stats().Accepted
	link.Hang(proxy.ToClient)
	link.Cut()
	link.Heal()
	link.Hang(proxy.ToClient)
	for _, a := range actors {
		a.states.Next(framework.Suspended, 1)
	}
	kit.Soon(t, "every client has tried once more", func() bool { return link.Stats().Accepted >= accepted+2 })
	link.Heal()
	for _, a := range actors {
		a.states.Next(framework.Reconnected, 1)
		assert.True(t, there(t, a.Client, a.name+"/e"))
		assert.False(t, a.states.Heard())
	}
}

// Another client ends the session with its id and password. The connection breaks, and the next reply reports the
// expiry: the client does not wait for the timeout.
func TestSessionIsEndedBySomebodyElse(t *testing.T) {
	t.Parallel()
	node := server(t, zkserver.Options{})
	actors := two(t, node.ConnectString(), brief)
	for _, a := range actors {
		h := a.hold(t, a.ephemeral(t, "e"), framework.SessionOnly)
		kit.EndSession(t, node.Addr(), a.first.ID())
		ended := time.Now()
		at := kit.Closed(t, "the hold", h.Context().Done())
		t.Logf("known %v after the end", at.Sub(ended))
		assert.Less(t, at.Sub(ended), kit.Slack())
		cause := context.Cause(h.Context())
		assert.True(t, assert.ObjectsAreEqual(framework.ErrNodeDeleted, cause) ||
			assert.ErrorIs(t, cause, framework.ErrSessionLost), "%v", cause)
		a.states.Next(framework.Suspended, 1)
		a.states.Next(framework.Lost, 1)
		a.states.Next(framework.Reconnected, 2)
		assert.False(t, there(t, a.Client, a.name+"/e"))
	}
	for _, a := range actors {
		assert.False(t, a.states.Heard())
	}
}

// A server whose data was wiped knows neither the session nor the zxids that the client has seen: the client cannot
// connect. The session is lost on time, and after a while the client accepts the server's state.
func TestDataIsWiped(t *testing.T) {
	t.Parallel()
	node := server(t, zkserver.Options{})
	const timeout = 2 * time.Second
	actors := two(t, node.ConnectString(), timeout)
	for _, a := range actors {
		a.ephemeral(t, "e")
		for range 20 { // writes with zxids that the new server does not have
			_, err := a.SetData().ForPath(kit.Context(t), a.name, []byte("x"))
			require.NoError(t, err)
		}
	}
	node.Kill()
	node.Wipe()
	node.Start()
	began := time.Now()
	for _, a := range actors {
		a.states.Until(framework.Lost, 1)
		a.states.Next(framework.Reconnected, 2)
		t.Logf("back %v after the new server was there", time.Since(began))
		assert.Less(t, time.Since(began), 10*timeout)
		assert.False(t, there(t, a.Client, a.name))
		a.ephemeral(t, "e")
	}
}

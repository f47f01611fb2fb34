package stories

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/integration/cluster"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/proxy"
)

// fault is a fault that is made and undone.
type fault struct {
	name string
	// few means that it is also made in containers, where everything takes longer.
	few bool
	// three means that a single server cannot have it.
	three bool
	make  func(t *testing.T, g *group)
	// java means that it strikes the Java process.
	java bool
}

var faults = []fault{
	{name: "leader killed", few: true, make: func(t *testing.T, g *group) {
		leading, _ := g.roles(t)
		require.NoError(t, g.servers.Kill(leading))
		if g.servers.Size() > 1 {
			_, err := g.servers.Leader(kit.Context(t))
			require.NoError(t, err)
			g.goOn(t) // two are enough
		}
		require.NoError(t, g.servers.Start(leading))
	}},
	{name: "member hangs", few: true, three: true, make: func(t *testing.T, g *group) {
		_, follower := g.roles(t)
		require.NoError(t, g.servers.Pause(follower))
		g.goOn(t)
		require.NoError(t, g.servers.Resume(follower))
	}},
	{name: "leader hangs", make: func(t *testing.T, g *group) {
		leading, _ := g.roles(t)
		require.NoError(t, g.servers.Pause(leading))
		g.holdOn(stale + tick)
		require.NoError(t, g.servers.Resume(leading))
	}},
	{name: "follower partitioned", few: true, three: true, make: func(t *testing.T, g *group) {
		_, follower := g.roles(t)
		require.NoError(t, g.servers.Partition(follower))
		g.holdOn(stale)
		g.goOn(t)
		require.NoError(t, g.servers.HealPeers())
	}},
	{name: "leader partitioned", three: true, make: func(t *testing.T, g *group) {
		leading, _ := g.roles(t)
		require.NoError(t, g.servers.Partition(leading))
		g.holdOn(stale)
		_, err := g.servers.Leader(kit.Context(t))
		require.NoError(t, err)
		g.goOn(t)
		require.NoError(t, g.servers.HealPeers())
	}},
	// All clients of a member lose their connections. With a single server these are all clients.
	{name: "clients cut", make: func(t *testing.T, g *group) {
		leading, _ := g.roles(t)
		g.servers.CutClients(leading)
		if g.servers.Size() > 1 {
			g.goOn(t)
		} else {
			time.Sleep(time.Second)
		}
		g.servers.HealClients(leading)
	}},
	{name: "clients hang", few: true, make: func(t *testing.T, g *group) {
		_, follower := g.roles(t)
		g.servers.HangClients(follower, proxy.Both)
		g.holdOn(stale)
		g.servers.HealClients(follower)
	}},
	{name: "rolling restart", make: func(t *testing.T, g *group) {
		require.NoError(t, cluster.RollingRestart(kit.Context(t), g.servers, true))
	}},
	// The network of one client hangs until its session has ended. The client releases none of its holds, and others
	// are granted them all.
	{name: "session expires", make: func(t *testing.T, g *group) {
		epoch := g.clients[0].State().Epoch
		letGo := g.grabs(t, 0)
		g.cables[0].Hang()
		g.servedBut(t, 0)
		letGo()
		g.cables[0].Heal()
		kit.Soon(t, "the next session", func() bool { return g.clients[0].State().Epoch > epoch })
	}},
	// It has no connection, and its holds are lost already: with a connection its holds would overlap with the next
	// until it gets the event.
	{name: "session ended by another", make: func(t *testing.T, g *group) {
		epoch := g.clients[1].State().Epoch
		session := sessionOf(t, g.clients[1])
		g.cables[1].Hang()
		time.Sleep(timeout - stale + tick)
		kit.EndSession(t, g.servers.Addr(0), session)
		g.cables[1].Heal()
		kit.Soon(t, "the next session", func() bool { return g.clients[1].State().Epoch > epoch })
	}},
	{name: "Java's session expires", java: true, make: func(t *testing.T, g *group) {
		letGo := g.grabs(t, java)
		g.wire.Hang()
		g.servedBut(t, java)
		letGo()
		g.wire.Heal()
	}},
	{name: "Java killed", java: true, make: func(t *testing.T, g *group) {
		letGo := g.grabs(t, java)
		g.killGuest()
		letGo()
		g.servedBut(t, java)
		g.invite(t)
	}},
	{name: "data wiped", few: true, three: true, make: func(t *testing.T, g *group) {
		_, follower := g.roles(t)
		require.NoError(t, g.servers.Kill(follower))
		require.NoError(t, g.servers.Wipe(follower))
		require.NoError(t, g.servers.Start(follower))
	}},
	// As with a slow disk: see the package's documentation.
	{name: "stutters", make: func(t *testing.T, g *group) {
		for end, i := time.Now().Add(3*time.Second), 0; time.Now().Before(end); i = (i + 1) % g.servers.Size() {
			err := g.servers.Pause(i)
			time.Sleep(120 * time.Millisecond)
			require.NoError(t, errors.Join(err, g.servers.Resume(i)))
			time.Sleep(60 * time.Millisecond)
		}
	}},
}

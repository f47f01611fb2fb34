package framework

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/framework/admin"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/zkserver"
)

// A standalone server has no members and cannot get any.
func TestConfigOfAStandaloneServer(t *testing.T) {
	t.Parallel()
	node, c := serve(t, zkserver.Options{Config: []string{"reconfigEnabled=true"},
		JVMFlags: []string{"-Dzookeeper.skipACL=yes"}}, framework.WithEnsembleTracking())
	ctx := kit.Context(t)
	config, err := c.GetConfig(ctx)
	require.NoError(t, err)
	assert.Empty(t, config.Members)
	assert.Equal(t, []string{node.Addr()}, c.Servers())
	_, err = admin.Reconfig(c).Leaving("1").ForEnsemble(ctx)
	assert.ErrorIs(t, err, framework.ErrUnimplemented)

	_, refusing := serve(t, zkserver.Options{})
	_, err = admin.Reconfig(refusing).Leaving("1").ForEnsemble(ctx)
	assert.ErrorIs(t, err, framework.ErrReconfigDisabled)
}

// A member leaves and joins again, as an observer and as a participant, with all forms of the request; the client
// follows.
func TestReconfigOfAnEnsemble(t *testing.T) {
	e := zkserver.StartEnsemble(t, 3, zkserver.Options{MaxSessionTimeout: calm,
		Config:   []string{"reconfigEnabled=true"},
		JVMFlags: []string{"-Dzookeeper.skipACL=yes"}})
	ctx := kit.Context(t)
	leader, err := e.Leader(ctx)
	require.NoError(t, err)
	leaver := (leader + 1) % 3
	c, s := kit.Connected(t, e.Addr(leaver), framework.WithSessionTimeout(calm),
		framework.WithEnsembleTracking(),
		framework.WithEnsembleHosts(func(host string) bool {
			return host == "localhost" || strings.HasPrefix(host, "127.")
		}))

	config, err := c.GetConfig(ctx)
	require.NoError(t, err)
	require.Len(t, config.Members, 3)
	for i, m := range config.Members {
		assert.EqualValues(t, i+1, m.ID)
		assert.False(t, m.Observer)
		assert.NotEmpty(t, m.ClientAddress)
	}
	servers := func(want framework.EnsembleConfig) {
		t.Helper()
		kit.Soon(t, "the client follows", func() bool {
			now, health := c.Servers(), c.Health()
			slices.Sort(now)
			// A client closes its connection to a server that is not in the list any more, and requests in flight on it
			// fail.
			return slices.Equal(now, want.ClientAddresses()) && health.Err() == nil &&
				slices.Contains(now, health.Server)
		})
	}
	servers(config)
	line := func(i int, role string) string {
		m := config.Members[i]
		return fmt.Sprintf("server.%d=%s", m.ID, role) + m.Spec
	}
	spec := make([]string, 3)
	for i := range spec {
		spec[i] = line(i, "")
	}

	_, err = admin.Reconfig(c).Leaving(fmt.Sprint(leaver + 1)).FromConfig(config.Version + 1000).ForEnsemble(ctx)
	assert.ErrorIs(t, err, framework.ErrBadVersion)
	_, err = admin.Reconfig(c).Joining("server.9=nonsense").ForEnsemble(ctx)
	assert.ErrorIs(t, err, framework.ErrBadArguments)

	// The member leaves: the session continues at another.
	less, err := admin.Reconfig(c).Leaving(fmt.Sprint(leaver + 1)).FromConfig(config.Version).ForEnsemble(ctx)
	require.NoError(t, err)
	require.Len(t, less.Members, 2)
	assert.Greater(t, less.Version, config.Version)
	servers(less)
	_, err = s.Client().Create().WithMode(framework.Ephemeral).ForPath(ctx, "/still-the-same-session", nil)
	require.NoError(t, err)
	seen, err := c.GetConfig(ctx)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, seen.Version, config.Version)

	// The member joins again, and then all three are named.
	back, err := admin.Reconfig(c).Joining(spec[leaver]).ForEnsemble(ctx)
	require.NoError(t, err)
	assert.Len(t, back.Members, 3)
	servers(back)
	all, err := admin.Reconfig(c).WithNewMembers(spec...).FromConfig(back.Version).ForEnsemble(ctx)
	if assert.NoError(t, err) {
		assert.Len(t, all.Members, 3)
	}
	assert.True(t, c.State().State.IsConnected())
}

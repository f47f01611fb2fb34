package framework

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// reconfigurable starts an ensemble that can be reconfigured, and a client of the super user that knows only one of
// its members, and follows. Member 2 leads.
func reconfigurable(t *testing.T, profile zktest.Profile, member int,
	f func(t *testing.T, e *zktest.Ensemble, c *Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := zktest.RunEnsembleT(t, 3, zktest.Config{Reconfig: true, Profile: profile,
			SuperDigest: DigestACL(PermAll, "super", "secret").ID})
		require.NoError(t, e.AwaitSettled(t.Context()))
		require.Equal(t, 2, e.Leader())
		c := dial(t, e.Member(member), WithDialer(e.Dial), WithAuth("digest", []byte("super:secret")),
			WithEnsembleTracking(), WithEnsembleHosts(func(host string) bool { return strings.HasPrefix(host, "192.0.2.") }))
		connected(t, c)
		f(t, e, c)
	})
}

// follows waits until the client has the servers of a configuration, and is connected to one of them.
func follows(t *testing.T, c *Client, config EnsembleConfig) {
	t.Helper()
	require.Eventually(t, func() bool {
		now, health := c.Servers(), c.Health()
		slices.Sort(now)
		return slices.Equal(now, config.ClientAddresses()) && health.Err() == nil && slices.Contains(now, health.Server)
	}, time.Minute, time.Millisecond)
}

// A member leaves and comes back, in all forms that there are; the client follows. It is what
// integration/framework does to real servers.
func TestReconfigOfAnEnsemble(t *testing.T) {
	for _, profile := range zktest.Profiles() {
		reconfigurable(t, profile, 0, func(t *testing.T, e *zktest.Ensemble, c *Client) {
			ctx, s := t.Context(), connected(t, c)
			config, err := c.GetConfig().ForEnsemble(ctx)
			require.NoError(t, err)
			require.Len(t, config.Members, 3)
			var spec []string
			for i, m := range config.Members {
				assert.EqualValues(t, i+1, m.ID)
				assert.False(t, m.Observer)
				assert.Equal(t, e.Member(i).Addr(), m.ClientAddress)
				spec = append(spec, fmt.Sprintf("server.%d=%s", m.ID, m.Spec))
			}
			follows(t, c, config)

			_, err = c.Reconfig().Leaving("1").FromConfig(config.Version + 1000).ForEnsemble(ctx)
			assert.ErrorIs(t, err, ErrBadVersion)
			_, err = c.Reconfig().Joining("server.9=nonsense").ForEnsemble(ctx)
			assert.ErrorIs(t, err, ErrBadArguments)
			_, err = c.Reconfig().Leaving("1", "2").ForEnsemble(ctx)
			assert.ErrorIs(t, err, ErrBadArguments, "one is no ensemble")
			_, err = c.Reconfig().Joining("server.6=h:1:2;3", "server.7=h:1:2;3", "server.8=h:1:2;3",
				"server.9=h:1:2;3").ForEnsemble(ctx)
			assert.ErrorIs(t, err, ErrNewConfigNoQuorum, "three of seven")

			// It leaves: the session goes on elsewhere.
			var stat Stat
			less, err := c.Reconfig().Leaving("1").FromConfig(config.Version).StoringStatIn(&stat).ForEnsemble(ctx)
			require.NoError(t, err)
			require.Len(t, less.Members, 2)
			assert.Greater(t, less.Version, config.Version)
			assert.Equal(t, less.Version, stat.Mzxid)
			follows(t, c, less)
			assert.NotEqual(t, 0, where(e, c))
			_, err = s.Client().Create().WithMode(Ephemeral).ForPath(ctx, "/still-the-same-session", nil)
			require.NoError(t, err)
			seen, watch, err := c.GetConfig().WithWatch().ForEnsemble(ctx)
			require.NoError(t, err)
			defer watch.Stop()
			assert.Equal(t, less.Version, seen.Version)

			// Back, in the background, and all three named.
			r, err := c.Reconfig().Joining(spec[0]).InBackground().ForEnsemble(ctx).Wait(ctx)
			require.NoError(t, err)
			assert.Len(t, r.Config.Members, 3)
			assert.Equal(t, EventNodeDataChanged, (<-watch.C).Type)
			follows(t, c, r.Config)
			all, err := c.Reconfig().WithNewMembers(spec...).FromConfig(r.Config.Version).ForEnsemble(ctx)
			require.NoError(t, err)
			assert.Len(t, all.Members, 3)
			assert.True(t, c.State().State.IsConnected())
			assert.Equal(t, s.ID(), connected(t, c).ID())
		})
	}
}

// The leader leaves: everybody is disconnected, and sessions go on with another leader, as the client that asked
// learns, too.
func TestReconfigThatRemovesTheLeader(t *testing.T) {
	for member := range 3 {
		reconfigurable(t, zktest.V37, member, func(t *testing.T, e *zktest.Ensemble, c *Client) {
			s := connected(t, c)
			less, err := c.Reconfig().Leaving("3").ForEnsemble(t.Context())
			require.NoError(t, err)
			_, err = s.Client().Create().WithMode(Ephemeral).ForPath(t.Context(), "/goes-on", nil)
			require.NoError(t, err)
			follows(t, c, less)
			require.NoError(t, e.AwaitSettled(t.Context()))
			assert.NotEqual(t, 2, e.Leader())
			assert.Equal(t, s.ID(), connected(t, c).ID())
		})
	}
}

// Only who may write the configuration changes it.
func TestReconfigWithoutTheRight(t *testing.T) {
	reconfigurable(t, zktest.V37, 0, func(t *testing.T, e *zktest.Ensemble, super *Client) {
		c := dial(t, e.Member(0), WithDialer(e.Dial), WithAuth("digest", []byte("user:secret")))
		_, err := c.Reconfig().Leaving("1").ForEnsemble(t.Context())
		assert.ErrorIs(t, err, ErrNoAuth)
		acl := []ACL{DigestACL(PermAll, "user", "secret"), {Perms: PermRead, Scheme: "world", ID: "anyone"}}
		_, err = super.SetACL().WithACL(acl...).ForPath(t.Context(), "/zookeeper/config")
		require.NoError(t, err)
		config, err := c.Reconfig().Leaving("1").ForEnsemble(t.Context())
		require.NoError(t, err)
		assert.Len(t, config.Members, 2)
	})
}

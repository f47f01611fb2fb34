package admin

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/retry"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dial makes a client of the server, in a bubble, closed with the test.
func dial(t *testing.T, srv *zktest.Server, opts ...framework.Option) *framework.Client {
	t.Helper()
	opts = append([]framework.Option{framework.WithSessionTimeout(10 * time.Second),
		framework.WithLogger(slog.New(slog.NewTextHandler(t.Output(), nil)))}, opts...)
	c, err := framework.New(srv.Addr(), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func connected(t *testing.T, c *framework.Client) *framework.Session {
	t.Helper()
	require.NoError(t, c.WaitConnected(t.Context()))
	s, err := c.Session(t.Context())
	require.NoError(t, err)
	return s
}

// reconfigurable starts an ensemble that can be reconfigured, and a client of the super user that knows only one of
// its members, and follows. Member 2 leads.
func reconfigurable(t *testing.T, profile zktest.Profile, member int,
	f func(t *testing.T, e *zktest.Ensemble, c *framework.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := zktest.RunEnsembleT(t, 3, zktest.Config{Reconfig: true, Profile: profile,
			SuperDigest: framework.DigestACL(framework.PermAll, "super", "secret").ID})
		require.NoError(t, e.AwaitSettled(t.Context()))
		require.Equal(t, 2, e.Leader())
		c := dial(t, e.Member(member), framework.WithDialer(e.Dial), framework.WithAuth("digest", []byte("super:secret")),
			framework.WithEnsembleTracking(), framework.WithEnsembleHosts(func(host string) bool { return strings.HasPrefix(host, "192.0.2.") }))
		connected(t, c)
		f(t, e, c)
	})
}

// follows waits until the client has the servers of a configuration, and is connected to one of them.
func follows(t *testing.T, c *framework.Client, config framework.EnsembleConfig) {
	t.Helper()
	require.Eventually(t, func() bool {
		now, health := c.Servers(), c.Health()
		slices.Sort(now)
		return slices.Equal(now, config.ClientAddresses()) && health.Err() == nil && slices.Contains(now, health.Server)
	}, time.Minute, time.Millisecond)
}

// A member leaves and comes back, in all forms of a reconfig; the client follows. integration/framework does the same with
// real servers.
func TestReconfigOfAnEnsemble(t *testing.T) {
	for _, profile := range zktest.Profiles() {
		reconfigurable(t, profile, 0, func(t *testing.T, e *zktest.Ensemble, c *framework.Client) {
			ctx, s := t.Context(), connected(t, c)
			config, err := c.GetConfig(ctx)
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

			_, err = Reconfig(c).Leaving("1").FromConfig(config.Version + 1000).ForEnsemble(ctx)
			assert.ErrorIs(t, err, framework.ErrBadVersion)
			_, err = Reconfig(c).Joining("server.9=nonsense").ForEnsemble(ctx)
			assert.ErrorIs(t, err, framework.ErrBadArguments)
			_, err = Reconfig(c).Leaving("1", "2").ForEnsemble(ctx)
			assert.ErrorIs(t, err, framework.ErrBadArguments, "one is no ensemble")
			_, err = Reconfig(c).Joining("server.6=h:1:2;3", "server.7=h:1:2;3", "server.8=h:1:2;3",
				"server.9=h:1:2;3").ForEnsemble(ctx)
			assert.ErrorIs(t, err, framework.ErrNewConfigNoQuorum, "three of seven")

			// It leaves: the session continues at another member.
			less, err := Reconfig(c).Leaving("1").FromConfig(config.Version).ForEnsemble(ctx)
			require.NoError(t, err)
			require.Len(t, less.Members, 2)
			assert.Greater(t, less.Version, config.Version)
			follows(t, c, less)
			assert.NotEqual(t, e.Member(0).Addr(), c.Health().Server)
			_, err = s.Client().Create().WithMode(framework.Ephemeral).ForPath(ctx, "/still-the-same-session", nil)
			require.NoError(t, err)
			seen, watch, err := c.WatchConfig(ctx)
			require.NoError(t, err)
			defer watch.Stop()
			assert.Equal(t, less.Version, seen.Version)

			// It comes back, and then all three are named.
			back, err := Reconfig(c).Joining(spec[0]).ForEnsemble(ctx)
			require.NoError(t, err)
			assert.Len(t, back.Members, 3)
			assert.Equal(t, framework.EventNodeDataChanged, (<-watch.C).Type)
			follows(t, c, back)
			all, err := Reconfig(c).WithNewMembers(spec...).FromConfig(back.Version).ForEnsemble(ctx)
			require.NoError(t, err)
			assert.Len(t, all.Members, 3)
			assert.True(t, c.State().State.IsConnected())
			assert.Equal(t, s.ID(), connected(t, c).ID())
		})
	}
}

// The leader leaves: all clients are disconnected, and sessions continue with another leader, also that of the client that
// made the request.
func TestReconfigThatRemovesTheLeader(t *testing.T) {
	for member := range 3 {
		reconfigurable(t, zktest.V37, member, func(t *testing.T, e *zktest.Ensemble, c *framework.Client) {
			s := connected(t, c)
			less, err := Reconfig(c).Leaving("3").ForEnsemble(t.Context())
			require.NoError(t, err)
			_, err = s.Client().Create().WithMode(framework.Ephemeral).ForPath(t.Context(), "/goes-on", nil)
			require.NoError(t, err)
			follows(t, c, less)
			require.NoError(t, e.AwaitSettled(t.Context()))
			assert.NotEqual(t, 2, e.Leader())
			assert.Equal(t, s.ID(), connected(t, c).ID())
		})
	}
}

// Only a client that may write the configuration can change it.
func TestReconfigWithoutTheRight(t *testing.T) {
	reconfigurable(t, zktest.V37, 0, func(t *testing.T, e *zktest.Ensemble, super *framework.Client) {
		c := dial(t, e.Member(0), framework.WithDialer(e.Dial), framework.WithAuth("digest", []byte("user:secret")))
		_, err := Reconfig(c).Leaving("1").ForEnsemble(t.Context())
		assert.ErrorIs(t, err, framework.ErrNoAuth)
		acl := []framework.ACL{framework.DigestACL(framework.PermAll, "user", "secret"), {Perms: framework.PermRead, Scheme: "world", ID: "anyone"}}
		_, err = super.SetACL().WithACL(acl...).ForPath(t.Context(), "/zookeeper/config")
		require.NoError(t, err)
		config, err := Reconfig(c).Leaving("1").ForEnsemble(t.Context())
		require.NoError(t, err)
		assert.Len(t, config.Members, 2)
	})
}

// Requests that the servers refuse, and requests that are not even sent.
func TestReconfigIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c, ctx := dial(t, srv, framework.WithDialer(srv.Dial), framework.WithRetry(retry.RetryNTimes{Retries: 2})), t.Context()
		connected(t, c)
		member := "server.4=h:2888:3888:participant;2181"
		_, err := Reconfig(c).Joining(member).ForEnsemble(ctx)
		assert.ErrorIs(t, err, framework.ErrReconfigDisabled)
		assert.EqualError(t, err, "reconfig: reconfiguration is disabled")
		_, err = Reconfig(c).Leaving("4").ForEnsemble(ctx)
		assert.ErrorIs(t, err, framework.ErrReconfigDisabled)

		for _, bad := range []ReconfigBuilder{
			Reconfig(c), Reconfig(c).FromConfig(3), Reconfig(c).Joining("h:2888:3888"),
			Reconfig(c).WithNewMembers("server.1="),
			Reconfig(c).Leaving("server.4"), Reconfig(c).Leaving(""),
			Reconfig(c).WithNewMembers(member).Joining(member),
			Reconfig(c).WithNewMembers(member).Leaving("1"), Reconfig(c).Joining(member + "," + member),
			Reconfig(c).WithNewMembers(member + "\n" + member),
		} {
			_, err := bad.ForEnsemble(ctx)
			assert.ErrorIs(t, err, framework.ErrBadArguments)
		}
		for code, want := range map[zktest.Error]error{
			zktest.Error(jute.CodeReconfigInProgress): framework.ErrReconfigInProgress,
			zktest.Error(jute.CodeNewConfigNoQuorum):  framework.ErrNewConfigNoQuorum, zktest.ErrBadVersion: framework.ErrBadVersion} {
			srv.Inject(zktest.Fault{Op: "reconfig", Action: zktest.ReplyError, Err: code})
			_, err := Reconfig(c).Joining(member).FromConfig(7).ForEnsemble(ctx)
			assert.ErrorIs(t, err, want)
		}
		srv.ResetCounts()
		srv.Inject(zktest.Fault{Op: "reconfig", Action: zktest.LoseReply})
		_, err = Reconfig(c).Joining(member).ForEnsemble(ctx)
		assert.ErrorIs(t, err, framework.ErrConnectionLoss)
		assert.Equal(t, 1, srv.Counts()["reconfig"], "not repeated: it could undo what others have done since")
		srv.Inject(zktest.Fault{Op: "reconfig", Action: zktest.ReplyError, Err: zktest.ErrUnimplemented})
		_, err = Reconfig(c).Joining(member).ForEnsemble(ctx)
		assert.ErrorIs(t, err, framework.ErrUnimplemented, "as a standalone server that allows it says")
	})
}

// Without a client, or without a context, the error is that one, whatever else is wrong.
func TestReconfigWithoutAClient(t *testing.T) {
	_, err := Reconfig(nil).ForEnsemble(t.Context())
	require.ErrorIs(t, err, framework.ErrNoClient)
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c, err := framework.New(srv.Addr(), framework.WithDialer(srv.Dial))
		require.NoError(t, err)
		defer c.Close()
		//lint:ignore SA1012 that is what is tested
		_, err = Reconfig(c).ForEnsemble(nil)
		require.ErrorIs(t, err, framework.ErrNilContext)
		_, err = Reconfig(c).ForEnsemble(t.Context())
		require.ErrorIs(t, err, framework.ErrBadArguments)
	})
}

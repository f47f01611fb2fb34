package node_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/node"
	"github.com/go-curator/curator/zktest"
)

// At a member without a quorum, which the client accepts, nothing can be written. Deletes are executed when there is a quorum
// again (found by the simulation: a claim's node stayed).
func TestAtAReadOnlyMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := zktest.RunEnsembleT(t, 3, zktest.Config{ReadOnlyMode: true, LocalSessions: true})
		member := (e.Leader() + 1) % 3
		c, err := framework.New(e.Member(member).Addr(), framework.WithDialer(e.Dial),
			framework.WithSessionTimeout(40*time.Second), framework.WithReadOnly())
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.WaitConnected(background))
		held, err := node.TryClaim(background, c, "/claim", nil)
		require.NoError(t, err)
		k := keep(t, c, "a")
		e.Partition(member, e.Leader(), (e.Leader()+2)%3)
		soon(t, "it is read-only", func() bool { return c.State().State == framework.ReadOnly })
		assert.Equal(t, node.Unknown, state(k))
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		require.ErrorIs(t, held.Release(ctx), context.DeadlineExceeded)
		ctx, cancel = context.WithTimeout(background, time.Second)
		defer cancel()
		require.ErrorIs(t, k.SetData(ctx, []byte("b")), context.DeadlineExceeded)
		require.NoError(t, e.Heal())
		soon(t, "the claim is gone", func() bool { return !e.Member(member).Exists("/claim") })
		require.NoError(t, k.WaitCreated(background))
		soon(t, "the data are there", func() bool {
			data, _, err := e.Member(member).Get(path)
			return err == nil && string(data) == "b"
		})
		require.NoError(t, k.Close(background))
		assert.False(t, e.Member(member).Exists(path))
	})
}

// The reply to a create is lost, and the next member that the client connects to lags: it does not have the node yet. Neither a
// closed keeper nor a claim whose context has ended concludes that there is no node (found by the simulation).
func TestAtAMemberThatLags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := zktest.RunEnsembleT(t, 3, zktest.Config{})
		leader := e.Leader()
		late := (leader + 1) % 3
		var at atomic.Int64
		at.Store(int64(leader))
		c := through(t, e, &at)
		require.NoError(t, e.Member(leader).Create("/services", nil))
		time.Sleep(time.Second)
		e.SetLag(late, 2*time.Second)
		lose := func() *zktest.Injection {
			at.Store(int64(late))
			return e.Member(leader).Inject(zktest.Fault{Op: "create2", PathPrefix: path, Action: zktest.LoseReply})
		}
		lost := lose()
		k, err := node.NewKeeper(c, path, nil)
		require.NoError(t, err)
		<-lost.Struck()
		require.NoError(t, k.Close(background))
		assert.False(t, e.Member(leader).Exists(path), "closed")

		at.Store(int64(leader))
		e.Cut(0)
		time.Sleep(5 * time.Second)
		lost = lose()
		ctx, cancel := context.WithCancel(background)
		claim := recipetest.Begin(t, func() (*node.Claim, error) { return node.TryClaim(ctx, c, path, nil) })
		<-lost.Struck()
		cancel()
		claim.End()
		require.ErrorIs(t, claim.Err, context.Canceled)
		time.Sleep(10 * time.Second)
		assert.False(t, e.Member(leader).Exists(path), "given up")
	})
}

// The reply to a create is lost, and the next member that the client connects to lags. The keeper reads after a write, so it
// finds its node, and neither creates nor writes it again.
func TestCreatedOnceAtAMemberThatLags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := zktest.RunEnsembleT(t, 3, zktest.Config{})
		leader := e.Leader()
		late := (leader + 1) % 3
		var at atomic.Int64
		at.Store(int64(leader))
		c := through(t, e, &at)
		require.NoError(t, e.Member(leader).Create("/services", nil))
		time.Sleep(time.Second)
		e.SetLag(late, 2*time.Second)
		at.Store(int64(late))
		lost := e.Member(leader).Inject(zktest.Fault{Op: "create2", PathPrefix: path, Action: zktest.LoseReply})
		k, err := node.NewKeeper(c, path, []byte("mine"))
		require.NoError(t, err)
		<-lost.Struck()
		require.NoError(t, k.WaitCreated(background))
		time.Sleep(10 * time.Second)
		_, stat, err := e.Member(leader).Get(path)
		require.NoError(t, err)
		assert.Zero(t, stat.Version, "written again")
		assert.Zero(t, e.Member(late).Counts()["create2"], "created again")
		require.NoError(t, k.Close(background))
	})
}

// The reply to a claim's delete is lost, and the next member that the client connects to lags: it still has the node, while
// another client holds the name. Its node is not taken for the claim's (found by the simulation).
func TestReleaseAtAMemberThatLags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := zktest.RunEnsembleT(t, 3, zktest.Config{})
		leader := e.Leader()
		late := (leader + 1) % 3
		var at atomic.Int64
		at.Store(int64(leader))
		c := through(t, e, &at)
		var there atomic.Int64
		there.Store(int64(leader))
		other := through(t, e, &there)
		held, err := node.TryClaim(background, c, "/claim", nil)
		require.NoError(t, err)
		time.Sleep(time.Second)
		e.SetLag(late, 2*time.Second)
		at.Store(int64(late))
		lost := e.Member(leader).Inject(zktest.Fault{Op: "delete", PathPrefix: "/claim", Action: zktest.LoseReply})
		release := recipetest.Begin(t, func() (any, error) { return nil, held.Release(background) })
		<-lost.Struck()
		next, err := node.TryClaim(background, other, "/claim", nil)
		require.NoError(t, err)
		release.End()
		require.NoError(t, release.Err)
		time.Sleep(10 * time.Second)
		assert.True(t, next.Valid())
		assert.True(t, e.Member(leader).Exists("/claim"))
		require.NoError(t, next.Release(background))
	})
}

// through returns a client that connects only to one member, which may change.
func through(t *testing.T, e *zktest.Ensemble, member *atomic.Int64) *framework.Client {
	t.Helper()
	c, err := framework.New(e.ConnectString(), framework.WithSessionTimeout(40*time.Second),
		framework.WithDialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
			return e.Dial(ctx, network, e.Member(int(member.Load())).Addr())
		}))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.WaitConnected(background))
	return c
}

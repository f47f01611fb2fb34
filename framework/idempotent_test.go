package framework

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// bothWays runs an operation in the foreground and in the background.
func bothWays(t *testing.T, f func(t *testing.T, background bool)) {
	t.Run("foreground", func(t *testing.T) { f(t, false) })
	t.Run("background", func(t *testing.T) { f(t, true) })
}

func createThe(ctx context.Context, b CreateBuilder, background bool, path, data string) (string, error) {
	if background {
		r, err := b.InBackground().ForPath(ctx, path, []byte(data)).Wait(ctx)
		return r.Path, err
	}
	return b.ForPath(ctx, path, []byte(data))
}

func setThe(ctx context.Context, b SetDataBuilder, background bool, path, data string) (Stat, error) {
	if background {
		return b.InBackground().ForPath(ctx, path, []byte(data)).Wait(ctx)
	}
	return b.ForPath(ctx, path, []byte(data))
}

func TestIdempotentCreate(t *testing.T) {
	bothWays(t, func(t *testing.T, background bool) {
		bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
			ctx, b := t.Context(), c.Create().Idempotent()
			for range 2 {
				var stat Stat
				path, err := createThe(ctx, b.StoringStatIn(&stat), background, "/a", "x")
				require.NoError(t, err)
				assert.Equal(t, "/a", path)
				assert.Equal(t, Stat(srv.Tree()["/a"].Stat), stat)
			}
			_, err := createThe(ctx, b, background, "/a", "y")
			assert.ErrorIs(t, err, ErrNodeExists, "other data")
			_, err = createThe(ctx, b.WithMode(Ephemeral), background, "/a", "x")
			assert.ErrorIs(t, err, ErrNodeExists, "not of this session")
			require.NoError(t, srv.Set("/a", []byte("x")))
			_, err = createThe(ctx, b, background, "/a", "x")
			assert.ErrorIs(t, err, ErrNodeExists, "it was set since")

			_, err = createThe(ctx, b.WithMode(Ephemeral), background, "/e", "x")
			require.NoError(t, err)
			_, err = createThe(ctx, b.WithMode(Ephemeral), background, "/e", "x")
			require.NoError(t, err)
			_, err = createThe(ctx, b, background, "/e", "x")
			assert.ErrorIs(t, err, ErrNodeExists, "it goes with the session")

			// Parents as ever, and compression: what is compared is what is stored.
			for range 2 {
				_, err = createThe(ctx, b.CreatingParentsIfNeeded().Compressed(), background, "/p/q/r", "x")
				require.NoError(t, err)
			}

			_, err = createThe(ctx, b.WithMode(PersistentSequential), background, "/s-", "x")
			assert.ErrorIs(t, err, ErrBadArguments)
			_, err = createThe(ctx, b.WithMode(PersistentSequential).WithProtection(), background, "/s-", "x")
			assert.NoError(t, err)
		})
	})
}

func TestIdempotentCreateAfterALostReply(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx, b := t.Context(), c.Create().Idempotent()
		lost := srv.Inject(zktest.Fault{Op: "create2", Action: zktest.LoseReply})
		path, err := b.ForPath(ctx, "/a", []byte("x"))
		require.NoError(t, err)
		assert.Equal(t, "/a", path)
		assert.Equal(t, 1, lost.Hits())
		assert.Equal(t, 2, srv.Counts()["create2"])

		// The reply of the look is lost as well.
		srv.Inject(zktest.Fault{Op: "create2", Action: zktest.LoseReply})
		looked := srv.Inject(zktest.Fault{Op: "getData", PathPrefix: "/b", Action: zktest.LoseReply})
		_, err = b.ForPath(ctx, "/b", []byte("x"))
		require.NoError(t, err)
		assert.Equal(t, 1, looked.Hits())

		// Executed, and changed by somebody before the repeat: nobody can tell.
		srv.Inject(zktest.Fault{Op: "create2", Action: zktest.LoseReply})
		hold := srv.Inject(zktest.Fault{Op: "create2", Action: zktest.Hold})
		got := make(chan error)
		go func() { _, err := b.ForPath(ctx, "/c", []byte("x")); got <- err }()
		<-hold.Struck()
		require.NoError(t, srv.Set("/c", []byte("y")))
		hold.Release()
		err = <-got
		assert.ErrorIs(t, err, ErrConnectionLoss)
		assert.NotErrorIs(t, err, ErrNodeExists)

		// Somebody else's, and gone before it can be looked at.
		plant(t, srv, "/f")
		hold = srv.Inject(zktest.Fault{Op: "getData", PathPrefix: "/f", Action: zktest.Hold})
		go func() { _, err := b.ForPath(ctx, "/f", []byte("x")); got <- err }()
		<-hold.Struck()
		require.NoError(t, srv.Delete("/f"))
		hold.Release()
		require.NoError(t, <-got)
		assert.Equal(t, "x", string(srv.Tree()["/f"].Data))

		// The session of the first try is over, and its node with it.
		id := connected(t, c).ID()
		srv.Inject(zktest.Fault{Op: "create2", Action: zktest.LoseReply})
		hold = srv.Inject(zktest.Fault{Op: "create2", Action: zktest.Hold})
		go func() { _, err := b.WithMode(Ephemeral).ForPath(ctx, "/d", []byte("x")); got <- err }()
		<-hold.Struck()
		srv.Expire(id)
		hold.Release()
		require.NoError(t, <-got)
		assert.Equal(t, connected(t, c).ID(), srv.Tree()["/d"].Stat.EphemeralOwner)
		assert.NotEqual(t, id, connected(t, c).ID())
	})
}

func TestIdempotentSetData(t *testing.T) {
	bothWays(t, func(t *testing.T, background bool) {
		bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
			ctx, b := t.Context(), c.SetData().Idempotent()
			make1(t, c, "/a", "zero")
			for range 2 {
				var stored Stat
				stat, err := setThe(ctx, b.WithVersion(0).StoringStatIn(&stored), background, "/a", "one")
				require.NoError(t, err)
				assert.Equal(t, int32(1), stat.Version)
				assert.Equal(t, stat, stored)
			}
			_, err := setThe(ctx, b.WithVersion(0), background, "/a", "other")
			assert.ErrorIs(t, err, ErrBadVersion)
			_, err = setThe(ctx, b.WithVersion(7), background, "/a", "one")
			assert.ErrorIs(t, err, ErrBadVersion, "not the version after")
			_, err = setThe(ctx, b.WithVersion(1).Compressed(), background, "/a", "two")
			require.NoError(t, err)
			_, err = setThe(ctx, b.WithVersion(1).Compressed(), background, "/a", "two")
			require.NoError(t, err)
			_, err = setThe(ctx, b, background, "/none", "x")
			assert.ErrorIs(t, err, ErrNoNode)

			// Create or set, with a version: the setting is what is idempotent.
			or := c.Create().OrSetDataVersion(2).Idempotent()
			for range 2 {
				_, err = createThe(ctx, or, background, "/a", "three")
				require.NoError(t, err)
			}
			assert.Equal(t, int32(3), srv.Tree()["/a"].Stat.Version)
			_, err = createThe(ctx, or, background, "/a", "other")
			assert.ErrorIs(t, err, ErrBadVersion)
		})
	})
}

func TestIdempotentSetDataAfterALostReply(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx, b := t.Context(), c.SetData().Idempotent()
		make1(t, c, "/a", "zero")
		srv.Inject(zktest.Fault{Op: "setData", Action: zktest.LoseReply})
		stat, err := b.WithVersion(0).ForPath(ctx, "/a", []byte("one"))
		require.NoError(t, err)
		assert.Equal(t, int32(1), stat.Version)

		srv.Inject(zktest.Fault{Op: "setData", Action: zktest.LoseReply})
		hold := srv.Inject(zktest.Fault{Op: "setData", Action: zktest.Hold})
		got := make(chan error)
		go func() { _, err := b.WithVersion(1).ForPath(ctx, "/a", []byte("two")); got <- err }()
		<-hold.Struck()
		require.NoError(t, srv.Set("/a", []byte("three")))
		hold.Release()
		err = <-got
		assert.ErrorIs(t, err, ErrConnectionLoss, "it was done, or not")
		assert.NotErrorIs(t, err, ErrBadVersion)
	})
	// The root of a namespace is made, and looked at, as any node.
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx, b := t.Context(), c.UsingNamespace("team").SetData().Idempotent().WithVersion(0)
		for range 2 {
			_, err := b.ForPath(ctx, "/", []byte("one"))
			require.NoError(t, err)
		}
		_, err := b.ForPath(ctx, "/", []byte("two"))
		assert.ErrorIs(t, err, ErrBadVersion)
	})
}

func TestIdempotentDelete(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		make1(t, c, "/a", "")
		lost := srv.Inject(zktest.Fault{Op: "delete", Action: zktest.LoseReply})
		require.NoError(t, c.Delete().Idempotent().WithVersion(0).ForPath(ctx, "/a"))
		assert.Equal(t, 1, lost.Hits())
		require.NoError(t, c.Delete().Idempotent().ForPath(ctx, "/a"))
		_, err := c.Delete().Idempotent().InBackground().ForPath(ctx, "/a").Wait(ctx)
		require.NoError(t, err)
		make1(t, c, "/a", "")
		assert.ErrorIs(t, c.Delete().Idempotent().WithVersion(3).ForPath(ctx, "/a"), ErrBadVersion)
		time.Sleep(time.Second)
		assert.Contains(t, srv.Tree(), "/a")
	})
}

package framework

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/zktest"
)

func TestCreateModes(t *testing.T) {
	bubbleOf(t, zktest.Config{ExtendedTypes: true}, func(t *testing.T, srv *zktest.Server, c *Client) {
		for _, tc := range []struct {
			mode CreateMode
			path string
			want zktest.Mode
			op   string
		}{
			{Persistent, "/persistent", zktest.Persistent, "create2"},
			{Ephemeral, "/ephemeral", zktest.Ephemeral, "create2"},
			{PersistentSequential, "/ps-", zktest.Persistent, "create2"},
			{EphemeralSequential, "/es-", zktest.Ephemeral, "create2"},
			{EphemeralSequential, "/", zktest.Ephemeral, "create2"},
			{Container, "/container", zktest.Container, "createContainer"},
			{PersistentTTL, "/ttl", zktest.TTL, "createTTL"},
			{PersistentSequentialTTL, "/ttl-", zktest.TTL, "createTTL"},
		} {
			srv.ResetCounts()
			b := c.Create().WithMode(tc.mode)
			if tc.want == zktest.TTL {
				b = b.WithTTL(time.Hour)
			}
			var stat Stat
			path, err := b.StoringStatIn(&stat).ForPath(t.Context(), tc.path, []byte("x"))
			require.NoError(t, err, "%v", tc.mode)
			if tc.mode.isSequential() {
				n, ok := zkpath.Sequence(path)
				assert.True(t, ok, path)
				assert.True(
					t, strings.HasPrefix(path, tc.path) && len(path) == len(tc.path)+10, "%s for %s", path, tc.path,
				)
				assert.GreaterOrEqual(t, n, int64(0))
			} else {
				assert.Equal(t, tc.path, path)
			}
			node, there := srv.Tree()[path]
			require.True(t, there, "%s", path)
			assert.Equal(t, tc.want, node.Mode, "%v", tc.mode)
			assert.Equal(t, Stat(node.Stat), stat, "%v", tc.mode)
			assert.Equal(t, 1, srv.Counts()[tc.op], "%v is one request", tc.mode)
		}
		for path, ttl := range map[string]time.Duration{"/shortest": time.Millisecond, "/longest": maxTTL} {
			_, err := c.Create().WithMode(PersistentTTL).WithTTL(ttl).ForPath(t.Context(), path, nil)
			assert.NoError(t, err)
		}
	})
}

func TestCreateParents(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		_, err := c.Create().CreatingParentsIfNeeded().ForPath(ctx, "/a/b/c/d", nil)
		require.NoError(t, err)
		_, err = c.Create().CreatingParentContainersIfNeeded().ForPath(ctx, "/a/b/x/y/z", nil)
		require.NoError(t, err)
		tree := srv.Tree()
		for path, mode := range map[string]zktest.Mode{
			"/a": zktest.Persistent, "/a/b": zktest.Persistent, "/a/b/c": zktest.Persistent,
			"/a/b/x": zktest.Container, "/a/b/x/y": zktest.Container, "/a/b/x/y/z": zktest.Persistent} {
			assert.Equal(t, mode, tree[path].Mode, path)
			assert.Empty(t, tree[path].Data, path)
		}

		// There already: nothing but the create. One missing: two requests more.
		srv.ResetCounts()
		_, err = c.Create().CreatingParentsIfNeeded().ForPath(ctx, "/a/b/c/e", nil)
		require.NoError(t, err)
		assert.Equal(t, map[string]int{"create2": 1}, writes(srv))
		srv.ResetCounts()
		_, err = c.Create().CreatingParentContainersIfNeeded().ForPath(ctx, "/a/b/q/e", nil)
		require.NoError(t, err)
		assert.Equal(t, map[string]int{"create2": 2, "createContainer": 1}, writes(srv))

		require.NoError(t, c.CreateContainers(ctx, "/k/l/m"))
		require.NoError(t, c.CreateContainers(ctx, "/k/l/m"))
		require.NoError(t, c.CreateContainers(ctx, "/"))
		tree = srv.Tree()
		for _, path := range []string{"/k", "/k/l", "/k/l/m"} {
			assert.Equal(t, zktest.Container, tree[path].Mode, path)
		}

		// In the background, too.
		r, err := c.Create().CreatingParentsIfNeeded().InBackground().ForPath(ctx, "/bg/x/y", []byte("z")).Wait(ctx)
		require.NoError(t, err)
		assert.Equal(t, "/bg/x/y", r.Path)
		assert.NotZero(t, r.Stat.Czxid)
	})
}

// Only the parent of the first missing node must allow CREATE, not the nodes above it.
func TestCreateParentsNeedsNoRightsAbove(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		_, err := c.Create().ForPath(ctx, "/mine", nil)
		require.NoError(t, err)
		_, err = c.SetACL().WithACL(ACL{PermRead | PermAdmin, "world", "anyone"}).ForPath(ctx, "/")
		require.NoError(t, err)
		_, err = c.Create().CreatingParentsIfNeeded().ForPath(ctx, "/mine/x/y", nil)
		require.NoError(t, err)
		_, err = c.Create().CreatingParentsIfNeeded().ForPath(ctx, "/other/x", nil)
		assert.ErrorIs(t, err, ErrNoAuth)
	})
}

func writes(srv *zktest.Server) map[string]int {
	counts := srv.Counts()
	delete(counts, "ping")
	return counts
}

// A container is reaped between its create and the create of the node below.
func TestCreateParentsReapedInBetween(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		other := dial(t, srv)
		connected(t, other)
		hold := srv.Inject(
			zktest.Fault{Op: "create2", PathPrefix: "/locks/x/node", After: 1, Times: 3, Action: zktest.Hold},
		)
		done := c.Create().CreatingParentContainersIfNeeded().InBackground().ForPath(
			t.Context(), "/locks/x/node", nil,
		)
		<-hold.Struck() // parents made, the second try waits
		require.NoError(t, other.Delete().DeletingChildrenIfNeeded().ForPath(t.Context(), "/locks"))
		hold.Release()
		_, err := done.Wait(t.Context())
		require.NoError(t, err)
		assert.Contains(t, srv.Tree(), "/locks/x/node")

		// Also if the parent is missing each time the create ends, with that error.
		srv.Inject(
			zktest.Fault{
				Op: "create2", PathPrefix: "/no", Times: -1, Action: zktest.ReplyError, Err: zktest.ErrNoNode,
			},
		)
		_, err = c.Create().CreatingParentsIfNeeded().ForPath(t.Context(), "/no/x", nil)
		assert.ErrorIs(t, err, ErrNoNode)
	})
}

func TestOrSetData(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		var stat Stat
		for i, data := range []string{"one", "two", "three"} {
			path, err := c.Create().OrSetData().StoringStatIn(&stat).ForPath(ctx, "/a", []byte(data))
			require.NoError(t, err)
			assert.Equal(t, "/a", path)
			assert.Equal(t, int32(i), stat.Version)
			assert.Equal(t, data, string(srv.Tree()["/a"].Data))
		}
		_, err := c.Create().OrSetDataVersion(1).ForPath(ctx, "/a", nil)
		assert.ErrorIs(t, err, ErrBadVersion)
		_, err = c.Create().OrSetDataVersion(2).ForPath(ctx, "/a", nil)
		assert.NoError(t, err)

		// Deleted between the create and the set: created after all.
		srv.Inject(zktest.Fault{Op: "setData", PathPrefix: "/b", Action: zktest.ReplyError, Err: zktest.ErrNoNode})
		srv.Inject(
			zktest.Fault{Op: "create2", PathPrefix: "/b", Action: zktest.ReplyError, Err: zktest.ErrNodeExists},
		)
		_, err = c.Create().OrSetData().ForPath(ctx, "/b", []byte("b"))
		require.NoError(t, err)
		assert.Equal(t, "b", string(srv.Tree()["/b"].Data))

		// A lost reply does not matter.
		srv.Inject(zktest.Fault{Op: "create2", PathPrefix: "/c", Action: zktest.LoseReply})
		_, err = c.Create().OrSetData().ForPath(ctx, "/c", []byte("c"))
		require.NoError(t, err)
		srv.Inject(zktest.Fault{Op: "setData", PathPrefix: "/c", Action: zktest.LoseReply})
		_, err = c.Create().OrSetDataVersion(1).ForPath(ctx, "/c", []byte("d"))
		assert.ErrorIs(t, err, ErrConnectionLoss, "the repeat's version conflict comes from its own success")
		assert.NotErrorIs(t, err, ErrBadVersion)
	})
}

func TestUnprotectedCreateAfterALostReply(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		for _, mode := range []CreateMode{PersistentSequential, EphemeralSequential} {
			srv.ResetCounts()
			srv.Inject(zktest.Fault{Op: "create2", PathPrefix: "/seq", Action: zktest.LoseReply})
			_, err := c.Create().WithMode(mode).ForPath(ctx, "/seq-", nil)
			assert.ErrorIs(t, err, ErrConnectionLoss, "%v", mode)
			assert.ErrorIs(t, err, ErrOutcomeUnknown)
			assert.Equal(t, 1, srv.Counts()["create2"], "%v is not made twice", mode)
		}
		for _, mode := range []CreateMode{Persistent, Ephemeral} {
			path := "/named" + mode.String()
			srv.Inject(zktest.Fault{Op: "create2", PathPrefix: path, Action: zktest.LoseReply})
			_, err := c.Create().WithMode(mode).ForPath(ctx, path, nil)
			assert.ErrorIs(t, err, ErrConnectionLoss, "%v", mode)
			assert.NotErrorIs(t, err, ErrNodeExists, "it may be our own")
			assert.Contains(t, srv.Tree(), path)

			path += "2"
			srv.Inject(zktest.Fault{Op: "create2", PathPrefix: path, Action: zktest.CutBefore})
			_, err = c.Create().WithMode(mode).ForPath(ctx, path, nil)
			assert.NoError(t, err, "%v: repeated", mode)
		}
	})
}

// The reply to the setData of an existing node is lost, and no later try is executed: the outcome is unknown all the same
// (found by the simulation).
func TestCreateOrSetDataIsUnsure(t *testing.T) {
	for _, background := range []bool{false, true} {
		bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
			make1(t, c, "/a", "")
			lost := srv.Inject(zktest.Fault{Op: "setData", Action: zktest.LoseReply})
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			go func() {
				<-lost.Struck()
				srv.Stop()
			}()
			var err error
			if b := c.Create().OrSetData(); background {
				_, err = b.InBackground().ForPath(ctx, "/a", []byte("x")).Wait(t.Context())
			} else {
				_, err = b.ForPath(ctx, "/a", []byte("x"))
			}
			assert.ErrorIs(t, err, ErrOutcomeUnknown)
			data, _, err := srv.Get("/a")
			require.NoError(t, err)
			assert.Equal(t, "x", string(data))
			require.NoError(t, srv.Start())
		})
	}
}

// After a setData that was certainly refused the node is not read.
func TestCreateOrSetDataIsSure(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		make1(t, c, "/a", "")
		before := srv.Counts()["getData"]
		_, err := c.Create().OrSetDataVersion(3).Idempotent().ForPath(t.Context(), "/a", []byte("x"))
		assert.ErrorIs(t, err, ErrBadVersion)
		assert.NotErrorIs(t, err, ErrOutcomeUnknown)
		assert.Equal(t, before, srv.Counts()["getData"])
	})
}

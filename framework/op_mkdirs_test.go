package framework

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

func TestParentLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		ctx := t.Context()
		require.NoError(t, srv.Create("/prod/shop", nil))
		paths := func() []string { return slices.Sorted(maps.Keys(srv.Tree())) }
		before := paths()
		none := dial(t, srv, WithParentLevels(0))
		two := dial(t, srv, WithParentLevels(2))
		for _, create := range []func() error{
			func() error {
				_, err := none.Create().CreatingParentsIfNeeded().ForPath(ctx, "/prod/shpo/x", nil)
				return err
			},
			func() error {
				_, err := two.Create().CreatingParentContainersIfNeeded().ForPath(ctx, "/prod/a/b/c/x", nil)
				return err
			},
			func() error { return none.Ensure(ctx, "/prod/a/b") },
			func() error { return two.CreateContainers(ctx, "/prod/a/b/c/d") },
			func() error {
				_, err := none.UsingNamespace("team").Create().ForPath(ctx, "/x", nil)
				return err
			},
		} {
			err := create()
			assert.ErrorIs(t, err, ErrNoNode)
			assert.ErrorContains(t, err, "WithParentLevels")
			assert.Equal(t, before, paths())
		}

		// Up to the limit missing parents are created as ever. If none is missing the limit does not matter.
		_, err := none.Create().CreatingParentsIfNeeded().ForPath(ctx, "/prod/shop/x", nil)
		require.NoError(t, err)
		require.NoError(t, none.Ensure(ctx, "/prod/shop/y"))
		require.NoError(t, none.Ensure(ctx, "/prod/shop/y"))
		_, err = two.Create().CreatingParentContainersIfNeeded().ForPath(ctx, "/prod/shop/a/b/x", nil)
		require.NoError(t, err)
		require.NoError(t, two.CreateContainers(ctx, "/prod/shop/c/d/e"))
		assert.Equal(t, zktest.Container, srv.Tree()["/prod/shop/c/d/e"].Mode)
		_, err = two.UsingNamespace("team").Create().ForPath(ctx, "/x", nil)
		require.NoError(t, err)

		_, err = New(srv.Addr(), WithParentLevels(-1))
		assert.ErrorIs(t, err, ErrInvalidOption)
	})
}

// The parent appears while the client looks for it: the create continues.
func TestParentLevelsAndOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c := dial(t, srv, WithParentLevels(0))
		held := srv.Inject(zktest.Fault{Op: "exists", Action: zktest.Hold})
		done := c.Create().CreatingParentsIfNeeded().InBackground().ForPath(t.Context(), "/a/b", nil)
		synctest.Wait()
		require.NoError(t, srv.Create("/a", nil))
		held.Release()
		_, err := done.Wait(t.Context())
		require.NoError(t, err)
		assert.True(t, srv.Exists("/a/b"))
	})
}

func TestPersistentParents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c := dial(t, srv, WithPersistentParents(), WithNamespace("team"))
		_, err := c.Create().CreatingParentContainersIfNeeded().ForPath(t.Context(), "/a/b", nil)
		require.NoError(t, err)
		require.NoError(t, c.CreateContainers(t.Context(), "/c"))
		_, err = c.Create().WithMode(Container).ForPath(t.Context(), "/asked", nil)
		require.NoError(t, err)
		for path, mode := range map[string]zktest.Mode{
			"/team": zktest.Persistent, "/team/a": zktest.Persistent, "/team/c": zktest.Persistent,
			"/team/asked": zktest.Container,
		} {
			assert.Equal(t, mode, srv.Tree()[path].Mode, path)
		}
	})
}

func TestEnsure(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		require.NoError(t, c.Ensure(ctx, "/a/b/c"))
		assert.Equal(t, zktest.Persistent, srv.Tree()["/a/b/c"].Mode)
		assert.Empty(t, srv.Tree()["/a/b/c"].Data, "not even the default data")
		require.NoError(t, srv.Set("/a/b/c", []byte("x")))
		srv.ResetCounts()
		require.NoError(t, c.Ensure(ctx, "/a/b/c"))
		assert.Equal(t, map[string]int{"create": 1}, writes(srv))
		assert.Equal(t, "x", string(srv.Tree()["/a/b/c"].Data))
		require.NoError(t, c.Ensure(ctx, "/"))
		require.NoError(t, c.UsingNamespace("team").Ensure(ctx, "/d"))
		assert.Contains(t, srv.Tree(), "/team/d")
		srv.Inject(zktest.Fault{Op: "create", Action: zktest.LoseReply})
		require.NoError(t, c.Ensure(ctx, "/e/f"))
		assert.ErrorIs(t, c.Ensure(ctx, "e"), ErrInvalidPath)
		// Its parent is created; its own create is the fifth request below /g.
		srv.Inject(zktest.Fault{Op: "create", PathPrefix: "/g/h", After: 4, Action: zktest.ReplyError, Err: zktest.ErrNoAuth})
		assert.ErrorIs(t, c.Ensure(ctx, "/g/h/i"), ErrNoAuth)
		assert.Contains(t, srv.Tree(), "/g/h")
	}, WithDefaultData([]byte("default")))
}

// Another client creates the root of the namespace at the same moment: the create continues. A missing parent is an
// error, with the root as without.
func TestTheRootOfANamespaceAppears(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		held := srv.Inject(zktest.Fault{Op: "createContainer", Action: zktest.Hold})
		team := c.UsingNamespace("team")
		done := team.Create().InBackground().ForPath(t.Context(), "/a", nil)
		<-held.Struck()
		require.NoError(t, srv.Create("/team", nil))
		held.Release()
		_, err := done.Wait(t.Context())
		require.NoError(t, err)

		for namespace, op := range map[string]func(TransactionOps) TransactionOp{
			"below": func(op TransactionOps) TransactionOp { return op.Create().ForPath("/a", nil) },
			"root":  func(op TransactionOps) TransactionOp { return op.SetData().ForPath("/", nil) },
		} {
			held := srv.Inject(zktest.Fault{Op: "createContainer", Action: zktest.Hold})
			client, done := c.UsingNamespace(namespace), make(chan error)
			go func() { done <- second(client.Transaction(t.Context(), op(client.TransactionOp()))) }()
			<-held.Struck()
			require.NoError(t, srv.Create("/"+namespace, nil))
			held.Release()
			require.NoError(t, <-done, namespace)
		}

		srv.ResetCounts()
		_, err = team.Create().ForPath(t.Context(), "/b/c", nil)
		require.ErrorIs(t, err, ErrNoNode)
		assert.Equal(t, map[string]int{"create2": 1, "createContainer": 1}, writes(srv))
	})
}

// The root of a namespace is a container, whatever mode the parents below it have.
func TestTheRootOfANamespaceIsAContainer(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		_, err := c.UsingNamespace("team").Create().CreatingParentsIfNeeded().ForPath(t.Context(), "/a/b", nil)
		require.NoError(t, err)
		assert.Equal(t, zktest.Container, srv.Tree()["/team"].Mode)
		assert.Equal(t, zktest.Persistent, srv.Tree()["/team/a"].Mode)
	})
}

package framework

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// below makes a client of the server with a chroot.
func below(t *testing.T, srv *zktest.Server, chroot string, opts ...Option) *Client {
	t.Helper()
	c, err := New(srv.Addr()+chroot, append([]Option{WithDialer(srv.Dial)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	connected(t, c)
	return c
}

// No operation that creates parents creates a chroot with a typing error, and every error names the problem.
func TestAMissingChrootIsNeverMade(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, root *Client) {
		plant(t, srv, "/prod", "/prod/shop", "/prod/shop/a", "/prod/shop/a/b")
		good := below(t, srv, "/prod/shop")
		paths := func() []string { return slices.Sorted(maps.Keys(srv.Tree())) }
		before := paths()
		for _, chroot := range []string{"/prod/shpo", "/neither/of/them"} {
			for _, ns := range []string{"", "team/app"} {
				c := below(t, srv, chroot, WithNamespace(ns))
				op := c.TransactionOp()
				for name, do := range map[string]func(ctx context.Context) error{
					"create": func(ctx context.Context) error {
						_, err := c.Create().ForPath(ctx, "/x", nil)
						return err
					},
					"create deep": func(ctx context.Context) error {
						_, err := c.Create().ForPath(ctx, "/x/y", nil)
						return err
					},
					"create root": func(ctx context.Context) error {
						_, err := c.Create().ForPath(ctx, "/", nil)
						return err
					},
					"root or set": func(ctx context.Context) error {
						_, err := c.Create().OrSetData().ForPath(ctx, "/", nil)
						return err
					},
					"root and all": func(ctx context.Context) error {
						_, err := c.Create().CreatingParentsIfNeeded().ForPath(ctx, "/", nil)
						return err
					},
					"sequential": func(ctx context.Context) error {
						_, err := c.Create().WithMode(EphemeralSequential).CreatingParentsIfNeeded().ForPath(ctx, "/", nil)
						return err
					},
					"parents": func(ctx context.Context) error {
						_, err := c.Create().CreatingParentsIfNeeded().ForPath(ctx, "/x", nil)
						return err
					},
					"deep parents": func(ctx context.Context) error {
						_, err := c.Create().CreatingParentsIfNeeded().ForPath(ctx, "/x/y/z", nil)
						return err
					},
					"containers": func(ctx context.Context) error {
						_, err := c.Create().WithMode(EphemeralSequential).WithProtection().CreatingParentContainersIfNeeded().
							InBackground().ForPath(ctx, "/x/y/z", nil).Wait(ctx)
						return err
					},
					"ensure":           func(ctx context.Context) error { return c.Ensure(ctx, "/x/y") },
					"ensure root":      func(ctx context.Context) error { return c.Ensure(ctx, "/") },
					"createContainers": func(ctx context.Context) error { return c.CreateContainers(ctx, "/x") },
					"transaction": func(ctx context.Context) error {
						_, err := c.Transaction(ctx, op.Create().ForPath("/x", nil))
						return err
					},
					"in background": func(ctx context.Context) error {
						_, err := c.TransactionInBackground(ctx, op.Check().ForPath("/x/y")).Wait(ctx)
						return err
					},
					"data":     func(ctx context.Context) error { _, err := c.GetData().ForPath(ctx, "/x"); return err },
					"root":     func(ctx context.Context) error { _, err := c.GetData().ForPath(ctx, "/"); return err },
					"children": func(ctx context.Context) error { _, err := c.GetChildren().ForPath(ctx, "/"); return err },
					"acl":      func(ctx context.Context) error { _, err := c.GetACL().ForPath(ctx, "/x"); return err },
					"set": func(ctx context.Context) error {
						_, err := c.SetData().InBackground().ForPath(ctx, "/x", nil).Wait(ctx)
						return err
					},
					"delete": func(ctx context.Context) error { return c.Delete().ForPath(ctx, "/x") },
					"many": func(ctx context.Context) error {
						res, err := c.MultiRead().ForReads(ctx, ReadData("/x"))
						require.NoError(t, err)
						return res[0].Err
					},
				} {
					err := do(t.Context())
					assert.ErrorIs(t, err, ErrNoNode, name)
					assert.ErrorIs(t, err, zk.ErrNoNode, name)
					assert.ErrorContains(t, err, chroot, name)
					if strings.Contains("create parents deep parents containers ensure restore restore below root "+
						"children dump transaction", name) && ns == "" {
						assert.ErrorIs(t, err, ErrNoChroot, name)
					}
					require.Equal(t, before, paths(), "%s made something", name)
				}
				stat, err := c.CheckExists().ForPath(t.Context(), "/x")
				require.NoError(t, err)
				assert.Nil(t, stat)
			}
		}
		_, err := below(t, srv, "/prod/shpo").Create().CreatingParentsIfNeeded().ForPath(t.Context(), "/locks/x",
			nil)
		assert.EqualError(t, err, "create /locks/x: the chroot of the connect string does not exist: create "+
			"/prod/shpo, or correct the connect string")
		_, err = good.GetData().ForPath(t.Context(), "/none")
		assert.EqualError(t, err, "getData /none: node does not exist (in the chroot /prod/shop)")
		assert.NotErrorIs(t, err, ErrNoChroot)
		_, err = good.Transaction(t.Context(), good.TransactionOp().Check().ForPath("/none"))
		assert.EqualError(t, err, "transaction /none: operation 0 (check): node does not exist (in the chroot "+
			"/prod/shop)")
	})
}

// If the chroot exists everything is as with the whole tree: its root is there, and stays.
func TestTheRootOfAChroot(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, root *Client) {
		plant(t, srv, "/prod", "/prod/shop")
		c, ctx := below(t, srv, "/prod/shop"), t.Context()
		_, err := c.Create().ForPath(ctx, "/", nil)
		assert.ErrorIs(t, err, ErrNodeExists)
		_, err = c.Create().OrSetData().CreatingParentsIfNeeded().ForPath(ctx, "/", []byte("set"))
		require.NoError(t, err)
		assert.Equal(t, "set", string(srv.Tree()["/prod/shop"].Data))
		require.NoError(t, c.Ensure(ctx, "/"))
		require.NoError(t, c.CreateContainers(ctx, "/"))
		make1(t, c, "/a/b", "")

		paths := func() []string { return slices.Sorted(maps.Keys(srv.Tree())) }
		before := paths()
		op := c.TransactionOp()
		for name, err := range map[string]error{
			"delete":      c.Delete().ForPath(ctx, "/"),
			"children":    c.Delete().DeletingChildrenIfNeeded().Quietly().ForPath(ctx, "/"),
			"guaranteed":  c.Delete().Guaranteed().ForPath(ctx, "/"),
			"transaction": second(c.Transaction(ctx, op.Delete().ForPath("/"))),
			"create":      second(c.Transaction(ctx, op.Create().ForPath("/", nil))),
			"background":  second(c.Delete().InBackground().ForPath(ctx, "/").Wait(ctx)),
		} {
			assert.ErrorIs(t, err, ErrBadArguments, name)
		}
		assert.Equal(t, before, paths())

		// The root of a namespace is a node as any other.
		view := c.UsingNamespace("team")
		make1(t, view, "/x", "")
		require.NoError(t, view.Delete().DeletingChildrenIfNeeded().ForPath(ctx, "/"))
		assert.Equal(t, before, paths())
	})
}

// When the chroot is created later the client below it works without being replaced; and a create costs the same as without
// a chroot.
func TestAChrootThatComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c := below(t, srv, "/prod")
		require.ErrorIs(t, c.Ensure(t.Context(), "/a/b"), ErrNoChroot)
		plant(t, srv, "/prod")
		require.NoError(t, c.Ensure(t.Context(), "/a/b"))
		before := srv.Counts()["exists"]
		_, err := c.GetData().ForPath(t.Context(), "/none")
		require.ErrorIs(t, err, ErrNoNode)
		assert.Equal(t, before, srv.Counts()["exists"], "nobody is asked about the chroot")
		require.NoError(t, srv.Delete("/prod/a/b"))
		require.NoError(t, srv.Delete("/prod/a"))
		require.NoError(t, srv.Delete("/prod"))
		assert.ErrorIs(t, c.Ensure(t.Context(), "/a/b"), ErrNoChroot)
	})
}

func second[T any](_ T, err error) error { return err }

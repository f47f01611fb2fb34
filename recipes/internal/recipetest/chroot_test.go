package recipetest_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/barrier"
	"github.com/go-curator/curator/recipes/group"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/node"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/recipes/semaphore"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// One program has a typing error in its connect string. It must not work in a separate tree: no call creates the wrong chroot,
// and every recipe reports the error.
func TestNoRecipeMakesTheChroot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		require.NoError(t, srv.Create("/prod/shop", nil))
		right, err := framework.New(srv.Addr()+"/prod/shop", framework.WithDialer(srv.Dial))
		require.NoError(t, err)
		defer right.Close()
		held, err := mutex.New(right, "/locks/x").Acquire(t.Context())
		require.NoError(t, err)
		defer func() { _ = held.Release(context.Background()) }()

		wrong, err := framework.New(srv.Addr()+"/prod/shpo", framework.WithDialer(srv.Dial))
		require.NoError(t, err)
		defer wrong.Close()
		require.NoError(t, wrong.WaitConnected(t.Context()))
		careful, err := framework.New(srv.Addr()+"/prod/shop", framework.WithDialer(srv.Dial),
			framework.WithParentLevels(0))
		require.NoError(t, err)
		defer careful.Close()
		lead := func(ctx context.Context) error { return nil }
		paths := func() []string { return slices.Sorted(maps.Keys(srv.Tree())) }
		before := paths()
		for name, do := range map[string]func(ctx context.Context, c *framework.Client) error{
			"mutex": func(ctx context.Context, c *framework.Client) error {
				return second(mutex.New(c, "/locks/x").Acquire(ctx))
			},
			"mutex try": func(ctx context.Context, c *framework.Client) error {
				return second(mutex.New(c, "/locks/x").TryAcquire(ctx))
			},
			"read": func(ctx context.Context, c *framework.Client) error {
				return second(rwlock.New(c, "/rw").ReadLock().Acquire(ctx))
			},
			"write": func(ctx context.Context, c *framework.Client) error {
				return second(rwlock.New(c, "/rw").WriteLock().TryAcquire(ctx))
			},
			"semaphore": func(ctx context.Context, c *framework.Client) error {
				return second(semaphore.New(c, "/s", 2).Acquire(ctx, 1))
			},
			"semaphore mutex": func(ctx context.Context, c *framework.Client) error {
				return second(semaphore.NewMutex(c, "/s/m").Acquire(ctx))
			},
			"count": func(ctx context.Context, c *framework.Client) error {
				return semaphore.NewCount(c, "/count").Set(ctx, 1)
			},
			"get count": func(ctx context.Context, c *framework.Client) error {
				return second(semaphore.NewCount(c, "/count").Get(ctx))
			},
			"barrier": func(ctx context.Context, c *framework.Client) error { return barrier.New(c, "/b/c").Set(ctx) },
			"double": func(ctx context.Context, c *framework.Client) error {
				return second(barrier.NewDouble(c, "/d/e", 1).Enter(ctx))
			},
			"latch": func(ctx context.Context, c *framework.Client) error {
				latch, err := leader.NewLatch(c, "/leader/x")
				require.NoError(t, err)
				defer latch.Close()
				return second(latch.Await(ctx))
			},
			"keeper": func(ctx context.Context, c *framework.Client) error {
				keeper, err := node.NewKeeper(c, "/services/x", nil)
				require.NoError(t, err)
				defer keeper.Close(context.Background())
				return keeper.WaitCreated(ctx)
			},
			"claim": func(ctx context.Context, c *framework.Client) error {
				return second(node.TryClaim(ctx, c, "/services/x", nil))
			},
			"await claim": func(ctx context.Context, c *framework.Client) error {
				return second(node.AwaitClaim(ctx, c, "/services/x", nil))
			},
			"campaign": func(ctx context.Context, c *framework.Client) error {
				return second(leader.Campaign(ctx, c, "/leaders/x"))
			},
			"member": func(ctx context.Context, c *framework.Client) error {
				member, err := group.Join(c, "/members", "x", nil)
				require.NoError(t, err)
				defer member.Leave(context.Background())
				return member.Joined(ctx)
			},
			"selector": func(ctx context.Context, c *framework.Client) error {
				return leader.NewSelector(c, "/leader/x", lead).RunOnce(ctx)
			},
		} {
			for _, ns := range []string{"", "team"} {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				err := do(ctx, wrong.UsingNamespace(ns))
				assert.NoError(t, ctx.Err(), "%s: at once", name)
				assert.ErrorIs(t, err, framework.ErrNoNode, name)
				assert.ErrorContains(t, err, "/prod/shpo", name)
				cancel()
			}
			if name == "get count" { // it creates nothing
				continue
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			err := do(ctx, careful.UsingNamespace("elsewhere"))
			assert.NoError(t, ctx.Err(), "%s: at once", name)
			assert.ErrorIs(t, err, framework.ErrNoNode, name)
			assert.ErrorContains(t, err, "WithParentLevels", name)
			cancel()
		}
		for _, opts := range [][]cache.Option{nil, {cache.WithRootCreated()}} {
			for _, root := range []string{"/", "/config", "/config/deep"} {
				c, err := cache.New(wrong, root, opts...)
				require.NoError(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				err = c.WaitSynced(ctx)
				t.Log(root, err)
				cancel()
				require.NoError(t, c.Close())
			}
		}
		assert.Equal(t, before, paths(), "nothing was made")
	})
}

func second[T any](_ T, err error) error { return err }

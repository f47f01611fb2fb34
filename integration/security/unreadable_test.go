package security

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/framework/tree"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/proxy"
	"github.com/go-curator/curator/integration/zkserver"
	"github.com/go-curator/curator/recipes/barrier"
	"github.com/go-curator/curator/recipes/node"
)

// Recipes work with their own nodes that they may not READ: since 3.8.4 and 3.9.2 exists is refused, too.
func TestNodesThatMayNotBeRead(t *testing.T) {
	t.Parallel()
	server := start(t, zkserver.Options{})
	link := proxy.New(t, server.Addr())
	unreadable := framework.ACL{Perms: framework.PermAll &^ framework.PermRead, Scheme: "world", ID: "anyone"}
	c, _ := kit.Connected(t, link.Addr(), framework.WithSessionTimeout(calm), framework.WithDefaultACL(unreadable))
	open, _ := kit.Connected(t, server.Addr(), framework.WithSessionTimeout(calm))
	ctx := kit.Context(t)
	for _, dir := range []string{"/claims", "/kept", "/locks", "/double"} {
		require.NoError(t, open.Ensure(ctx, dir))
	}
	none := func(dir string) {
		names, err := open.GetChildren().ForPath(ctx, dir)
		require.NoError(t, err)
		assert.Empty(t, names, dir)
	}

	for range 2 {
		claim, err := node.TryClaim(ctx, c, "/claims/a", nil)
		require.NoError(t, err)
		require.NoError(t, claim.Release(ctx))
		none("/claims")
	}

	k, err := node.NewKeeper(c, "/kept/a", []byte("1"))
	require.NoError(t, err)
	require.NoError(t, k.WaitCreated(ctx))
	require.NoError(t, k.SetData(ctx, []byte("2")))
	require.NoError(t, k.Close(ctx))
	none("/kept")

	// The reply to a protected create is lost.
	link.Hang(proxy.ToClient)
	created := c.Create().WithMode(framework.EphemeralSequential).WithProtection().InBackground().
		ForPath(ctx, "/locks/lock-", nil)
	kit.Soon(t, "the node", func() bool {
		names, err := open.GetChildren().ForPath(ctx, "/locks")
		return err == nil && len(names) == 1
	})
	link.Cut()
	link.Heal()
	made, err := created.Wait(ctx)
	require.NoError(t, err)
	require.NoError(t, c.Delete().ForPath(ctx, made.Path))
	none("/locks")

	// Members that may not read each other's nodes.
	enter := func(credentials string) <-chan *barrier.Member {
		member, _ := kit.Connected(t, server.Addr(), framework.WithSessionTimeout(calm),
			framework.WithAuth("digest", []byte(credentials)), framework.WithDefaultACL(framework.CreatorACL()...))
		return kit.Call(t, ctx, barrier.NewDouble(member, "/double", 2).Enter)
	}
	one, two := enter("a:a"), enter("b:b")
	var left []<-chan struct{}
	for _, m := range []*barrier.Member{kit.Receive(t, "one", one), kit.Receive(t, "two", two)} {
		left = append(left, kit.Call(t, ctx, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, m.Leave(ctx)
		}))
	}
	for _, l := range left {
		kit.Receive(t, "the end", l)
	}
	none("/double")

	// A chroot that may not be read exists, and a namespace's root that is missing stays so.
	require.NoError(t, open.Ensure(ctx, "/app"))
	_, err = open.SetACL().WithACL(unreadable).ForPath(ctx, "/app")
	require.NoError(t, err)
	below, _ := kit.Connected(t, server.Addr()+"/app", framework.WithSessionTimeout(calm))
	assert.NoError(t, below.Ensure(ctx, "/"))
	_, err = below.Create().ForPath(ctx, "/", nil)
	assert.ErrorIs(t, err, framework.ErrNodeExists)
	var dump bytes.Buffer
	_, err = tree.Dump(open).ForPath(ctx, "/claims", &dump)
	require.NoError(t, err)
	_, err = tree.Restore(below).ForPath(ctx, "/claims", &dump)
	assert.NoError(t, err)
	local, err := cache.NewTree(open.UsingNamespace("nowhere"), "/", cache.WithOneShotWatches())
	require.NoError(t, err)
	require.NoError(t, local.WaitSynced(ctx))
	require.NoError(t, local.Close())
	there, err := open.CheckExists().ForPath(ctx, "/nowhere")
	require.NoError(t, err)
	assert.Nil(t, there)
}

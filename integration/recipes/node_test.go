package recipes

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/recipes/node"
)

// keep keeps a node and waits until it is there.
func keep(t *testing.T, c *framework.Client, path, data string, opts ...node.Option) *node.Keeper {
	t.Helper()
	k, err := node.NewKeeper(c, path, []byte(data), opts...)
	require.NoError(t, err)
	require.NoError(t, k.WaitCreated(kit.Context(t)))
	return k
}

// Either language creates the same nodes, of all kinds, and creates them again under the same name.
func TestNodesOfKeepers(t *testing.T) {
	t.Parallel()
	kit.Interop(t, "persistent node", kit.GoToJava, kit.JavaToGo)
	w := newWorld(t)
	ctx := kit.Context(t)
	for _, c := range []struct {
		mode      string
		protected bool
		opts      []node.Option
	}{
		{"EPHEMERAL", false, nil},
		{"EPHEMERAL", true, []node.Option{node.WithProtection()}},
		{"EPHEMERAL_SEQUENTIAL", true, []node.Option{node.WithMode(framework.EphemeralSequential)}},
		{"PERSISTENT", false, []node.Option{node.WithMode(framework.Persistent)}},
		{"PERSISTENT_SEQUENTIAL", true, []node.Option{node.WithMode(framework.PersistentSequential)}},
	} {
		name := fmt.Sprint(c.mode, c.protected)
		dirs := []string{"/java/" + name, "/golang/" + name}
		theirs, err := w.peer.Node(ctx, name, dirs[0]+"/n", c.mode, c.protected, "data")
		require.NoError(t, err)
		ours := keep(t, w.client, dirs[1]+"/n", "data", c.opts...)
		require.Equal(t, w.nodes(t, dirs[0])[1:], w.nodes(t, dirs[1])[1:], name)
		require.NoError(t, theirs.Set(ctx, "other"))
		require.NoError(t, ours.SetData(ctx, []byte("other")))
		same := func(what string) {
			t.Helper()
			kit.Soon(t, what, func() bool {
				for _, path := range []string{theirs.Path, ours.Path()} {
					data, err := w.client.GetData().ForPath(ctx, path)
					if err != nil || string(data) != "other" {
						return false
					}
				}
				return true
			})
		}
		same("other data")
		for _, path := range []string{theirs.Path, ours.Path()} {
			require.NoError(t, w.client.Delete().ForPath(ctx, path))
		}
		same("made anew, under the same name")
		require.Equal(t, w.nodes(t, dirs[0])[1:], w.nodes(t, dirs[1])[1:], name)
		require.NoError(t, theirs.Close(ctx))
		require.NoError(t, ours.Close(ctx))
		w.gone(t, dirs[0])
		w.gone(t, dirs[1])
	}

	const ttl = 3 * time.Second
	theirs, err := w.peer.TTLNode(ctx, "ttl", "/ttl/java/n", ttl, "data")
	require.NoError(t, err)
	ours := keep(t, w.client, "/ttl/golang/n", "data", node.WithTTL(ttl))
	kit.Soon(t, "the same nodes", func() bool {
		a, b := w.nodes(t, "/ttl/java"), w.nodes(t, "/ttl/golang")
		return len(a) == 3 && slices.Equal(a, b)
	})
	require.NoError(t, theirs.Close(ctx))
	require.NoError(t, ours.Close(ctx))
	w.gone(t, "/ttl")
}

// Go waits until Java's node is gone, and Java creates its node when Go's is gone.
func TestKeepersOfOnePath(t *testing.T) {
	t.Parallel()
	kit.Interop(t, "persistent node", kit.Mixed)
	const path = "/registrations/one"
	w := newWorld(t)
	ctx := kit.Context(t)
	first, err := w.peer.Node(ctx, "first", path, "EPHEMERAL", false, "first")
	require.NoError(t, err)
	ours, err := node.NewKeeper(w.client, path, []byte("ours"))
	require.NoError(t, err)
	kit.Soon(t, "another's node is seen", func() bool { return ours.Status().Other })
	require.NoError(t, first.Close(ctx))
	require.NoError(t, ours.WaitCreated(ctx))
	session, err := w.client.Session(ctx)
	require.NoError(t, err)
	owner := func() int64 {
		stat, err := w.client.CheckExists().ForPath(ctx, path)
		require.NoError(t, err)
		if stat == nil {
			return 0
		}
		return stat.EphemeralOwner
	}
	require.Equal(t, session.ID(), owner())

	// Java takes the node for its own and writes into it; Go does not overwrite that.
	theirs, err := w.peer.Node(ctx, "n", path, "EPHEMERAL", false, "theirs")
	require.NoError(t, err)
	kit.Soon(t, "Java's data", func() bool {
		data, err := w.client.GetData().ForPath(ctx, path)
		return assert.NoError(t, err) && string(data) == "theirs"
	})
	require.Equal(t, node.There, ours.Status().State)
	require.Equal(t, session.ID(), owner())
	require.NoError(t, ours.Close(ctx))
	kit.Soon(t, "Java's own node", func() bool { o := owner(); return o != 0 && o != session.ID() })

	// Go takes the node over from Java, once: Java waits until Go's is gone.
	over := keep(t, w.client, path, "ours", node.WithTakeover(node.AtStart))
	require.Equal(t, session.ID(), owner())
	require.NoError(t, theirs.Close(ctx))
	kit.Soon(t, "whoever was closed, it is there", func() bool { return owner() == session.ID() })
	require.NoError(t, over.Close(ctx))
	w.gone(t, path)
}

// A claim waits for Java's node at its path.
func TestAClaimWaitsForJavasNode(t *testing.T) {
	t.Parallel()
	kit.Interop(t, "persistent node", kit.Mixed)
	const path = "/names/one"
	w := newWorld(t)
	ctx := kit.Context(t)
	theirs, err := w.peer.Node(ctx, "theirs", path, "EPHEMERAL", false, "theirs")
	require.NoError(t, err)
	_, err = node.TryClaim(ctx, w.client, path, nil)
	require.ErrorIs(t, err, node.ErrNotAcquired)
	type result struct {
		claim *node.Claim
		err   error
	}
	awaited := make(chan result, 1)
	go func() {
		claim, err := node.AwaitClaim(ctx, w.client, path, []byte("ours"))
		awaited <- result{claim, err}
	}()
	require.NoError(t, theirs.Close(ctx))
	got := kit.Receive(t, "the claim", awaited)
	require.NoError(t, got.err)
	require.True(t, got.claim.Valid())
	data, err := w.client.GetData().ForPath(ctx, path)
	require.NoError(t, err)
	require.Equal(t, "ours", string(data))
	require.NoError(t, got.claim.Release(ctx))
	w.gone(t, path)
}

package curatorsuite

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/proxy"
	"github.com/go-curator/curator/integration/zkserver"
	"github.com/go-curator/curator/recipes/group"
	"github.com/go-curator/curator/recipes/node"
)

// keep keeps a node, waits until it is there, and closes it with the test.
func keep(t *testing.T, c *framework.Client, path, data string, opts ...node.Option) *node.Keeper {
	t.Helper()
	k, err := node.NewKeeper(c, path, []byte(data), opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), kit.Patience)
		defer cancel()
		_ = k.Close(ctx)
	})
	require.NoError(t, k.WaitCreated(kit.Context(t)))
	return k
}

func TestPersistentNode(t *testing.T) {
	behave(t, map[string]func(t *testing.T, w *world){
		"data set at once": func(t *testing.T, w *world) {
			k, err := node.NewKeeper(w.client, "/node/quick", []byte("a"))
			require.NoError(t, err)
			require.NoError(t, k.SetData(kit.Context(t), []byte("b"))) // Java refuses it before the node is there
			w.data(t, "/node/quick", "b")
			require.NoError(t, k.Close(kit.Context(t)))
		},
		"closed at once": func(t *testing.T, w *world) {
			k, err := node.NewKeeper(w.client, "/node/closed", nil)
			require.NoError(t, err)
			require.NoError(t, k.Close(kit.Context(t)))
			w.gone(t, "/node/closed")
		},
		"closed at once, with a foreign node at the path": func(t *testing.T, w *world) {
			ctx := kit.Context(t)
			_, err := w.client.Create().CreatingParentsIfNeeded().ForPath(ctx, "/node/other", []byte("other"))
			require.NoError(t, err)
			k, err := node.NewKeeper(w.client, "/node/other", nil)
			require.NoError(t, err)
			require.NoError(t, k.Close(ctx))
			w.data(t, "/node/other", "other") // Java deletes it
		},
		"closed several times": func(t *testing.T, w *world) {
			k := keep(t, w.client, "/node/twice", "a")
			require.NoError(t, k.Close(kit.Context(t)))
			require.NoError(t, k.Close(kit.Context(t)))
			require.Nil(t, w.stat(t, "/node/twice"))
		},
		"deleted with each session, created again in the next": func(t *testing.T, w *world) {
			client, _ := w.connect(t)
			k := keep(t, client, "/node/session", "a")
			for range 3 {
				before := w.stat(t, "/node/session")
				w.expire(t, client)
				kit.Soon(t, "another node", func() bool {
					now := w.stat(t, "/node/session")
					return now != nil && now.Czxid != before.Czxid
				})
				require.NoError(t, k.WaitCreated(kit.Context(t)))
			}
		},
		"deleted when the client is cut off": func(t *testing.T, w *world) {
			client, way := w.connect(t)
			k := keep(t, client, "/node/cut", "a")
			way.Hang(proxy.Both)
			w.gone(t, "/node/cut")
			way.Heal()
			require.NoError(t, k.WaitCreated(kit.Context(t)))
			w.data(t, "/node/cut", "a")
		},
		"created when another session, with a node at the path, has ended": func(t *testing.T, w *world) {
			other, _ := w.connect(t)
			_, err := other.Create().CreatingParentsIfNeeded().WithMode(framework.Ephemeral).
				ForPath(kit.Context(t), "/node/owned", []byte("other"))
			require.NoError(t, err)
			k, err := node.NewKeeper(w.client, "/node/owned", []byte("own"))
			require.NoError(t, err)
			kit.Soon(t, "another's node is seen", func() bool { return k.Status().Other })
			w.data(t, "/node/owned", "other") // Java writes its own data into it
			require.NoError(t, other.Close())
			require.NoError(t, k.WaitCreated(kit.Context(t)))
			w.data(t, "/node/owned", "own")
			require.NoError(t, k.Close(kit.Context(t)))
		},
		"created again after a delete, with a report": func(t *testing.T, w *world) {
			k := keep(t, w.client, "/node/deleted", "a")
			said := heard(t, func(ctx context.Context, hear func(int64)) {
				for s, err := range k.Follow(ctx) {
					if err == nil && s.State == node.There {
						hear(s.Czxid)
					}
				}
			})
			first := kit.Receive(t, "that it is there", said)
			require.NoError(t, w.client.Delete().ForPath(kit.Context(t), "/node/deleted"))
			require.Greater(t, kit.Receive(t, "that it is there again", said), first)
		},
		"protected nodes have paths of their own": func(t *testing.T, w *world) {
			one := keep(t, w.client, "/node/own/n", "a", node.WithProtection())
			other := keep(t, w.client, "/node/own/n", "a", node.WithProtection())
			require.NotEqual(t, one.Path(), other.Path())
			path := one.Path()
			require.NoError(t, w.client.Delete().ForPath(kit.Context(t), path))
			w.data(t, path, "a") // it is created again at the same path
		},
		"a sequential node keeps its number": func(t *testing.T, w *world) {
			client, _ := w.connect(t)
			for _, mode := range []framework.CreateMode{framework.EphemeralSequential, framework.PersistentSequential} {
				k := keep(t, client, "/node/number/n", "a", node.WithMode(mode))
				path := k.Path()
				require.NoError(t, w.client.Delete().ForPath(kit.Context(t), path))
				w.data(t, path, "a")
			}
		},
		"data, also data set without a connection": func(t *testing.T, w *world) {
			client, way := w.connect(t)
			k := keep(t, client, "/node/data", "a")
			w.data(t, "/node/data", "a")
			require.NoError(t, k.SetData(kit.Context(t), []byte("b")))
			w.data(t, "/node/data", "b")
			way.Cut()
			set := kit.Call(t, kit.Context(t), func(ctx context.Context) (bool, error) {
				return true, k.SetData(ctx, []byte("c"))
			})
			way.Heal()
			kit.Receive(t, "the end of SetData", set)
			w.data(t, "/node/data", "c")
			w.expire(t, client)
			w.data(t, "/node/data", "c")
		},
		"an existing persistent node is used, with new data": func(t *testing.T, w *world) {
			_, err := w.client.Create().CreatingParentsIfNeeded().ForPath(kit.Context(t), "/node/there", []byte("old"))
			require.NoError(t, err)
			keep(t, w.client, "/node/there", "new", node.WithMode(framework.Persistent))
			w.data(t, "/node/there", "new")
		},
		"without permission to create there is an error": func(t *testing.T, w *world) {
			ctx := kit.Context(t)
			_, err := w.client.Create().WithACL(framework.ReadACL()...).ForPath(ctx, "/barred", nil)
			require.NoError(t, err)
			k, err := node.NewKeeper(w.client, "/barred/n", nil)
			require.NoError(t, err)
			require.ErrorIs(t, k.WaitCreated(ctx), framework.ErrNoAuth)
			require.NoError(t, k.Close(ctx))
		},
		"a TTL node stays while its keeper touches it": func(t *testing.T, w *world) {
			const ttl = time.Second
			k := keep(t, w.client, "/ttl/n", "a", node.WithTTL(ttl))
			first := w.stat(t, "/ttl/n")
			time.Sleep(3 * ttl)
			require.Equal(t, first.Czxid, w.stat(t, "/ttl/n").Czxid)
			kit.Soon(t, "the touched child", func() bool { return w.stat(t, "/ttl/n/touch") != nil })
			require.NoError(t, w.client.Delete().ForPath(kit.Context(t), "/ttl/n/touch"))
			kit.Soon(t, "it is made again", func() bool { return w.stat(t, "/ttl/n/touch") != nil })
			require.NoError(t, k.Close(kit.Context(t)))
			w.gone(t, "/ttl/n")
		},
	})
}

// A keeper that starts without a server creates its node when there is one.
func TestPersistentNodeWithoutAServer(t *testing.T) {
	t.Parallel()
	server := zkserver.Start(t, zkserver.Options{TickTime: 200 * time.Millisecond})
	server.Kill()
	client := kit.Dial(t, server.ConnectString())
	k, err := node.NewKeeper(client, "/late", []byte("a"))
	require.NoError(t, err)
	server.Start()
	require.NoError(t, k.WaitCreated(kit.Context(t)))
	require.NoError(t, k.Close(kit.Context(t)))
}

func TestGroupMember(t *testing.T) {
	names := func(g *group.Group) (ids []string) {
		members, current := g.Members()
		if !current {
			return nil
		}
		for _, m := range members {
			ids = append(ids, m.ID+"="+string(m.Data))
		}
		return ids
	}
	behave(t, map[string]func(t *testing.T, w *world){
		"members join, change and leave": func(t *testing.T, w *world) {
			ctx := kit.Context(t)
			one, err := group.Join(w.client, "/group/basic", "1", []byte("a"))
			require.NoError(t, err)
			_, err = one.WaitFor(ctx, 1)
			require.NoError(t, err)
			other, err := group.Join(w.client, "/group/basic", "2", []byte("b"))
			require.NoError(t, err)
			for _, m := range []*group.Member{one, other} {
				kit.Soon(t, "both", func() bool { return len(names(m.Group)) == 2 })
				require.ElementsMatch(t, []string{"1=a", "2=b"}, names(m.Group))
			}
			require.NoError(t, other.SetData(ctx, []byte("c")))
			kit.Soon(t, "other data", func() bool { return len(names(one.Group)) == 2 && names(one.Group)[1] == "2=c" })
			require.NoError(t, other.Leave(ctx))
			kit.Soon(t, "one is left", func() bool { return len(names(one.Group)) == 1 })
			require.NoError(t, one.Leave(ctx))
			w.gone(t, "/group/basic")
		},
		"a member joins again after its session has ended": func(t *testing.T, w *world) {
			ctx := kit.Context(t)
			client, _ := w.connect(t)
			m, err := group.Join(client, "/group/session", "1", nil)
			require.NoError(t, err)
			g, err := group.Watch(w.client, "/group/session")
			require.NoError(t, err)
			defer g.Close()
			said := heard(t, func(ctx context.Context, hear func(string)) {
				for e, err := range g.Follow(ctx) {
					if err == nil {
						hear(e.String())
					}
				}
			})
			until := func(want string) {
				for kit.Receive(t, want, said) != want {
				}
			}
			until("1 joined")
			w.expire(t, client)
			until("1 left")
			until("1 joined")
			require.NoError(t, m.Leave(ctx))
		},
	})
}

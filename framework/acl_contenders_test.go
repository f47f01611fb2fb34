package framework_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/barrier"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/recipes/semaphore"
	"github.com/go-curator/curator/retry"
	"github.com/go-curator/curator/zktest"
)

func ExampleWithSASLDigest() {
	server, err := zktest.NewServer(zktest.Config{SASLUsers: map[string]string{"orders": "long and secret"},
		RequireSASL: true})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx := context.Background()
	client, err := framework.New(server.Addr(), framework.WithDialer(server.Dial),
		framework.WithSASLDigest("orders", "long and secret"),
		framework.WithDefaultACL(framework.ContenderACL(framework.SASLIdentity("billing"))...))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Create().ForPath(ctx, "/mine", nil); err != nil {
		log.Fatal(err)
	}
	acl, err := client.GetACL().ForPath(ctx, "/mine")
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range acl {
		fmt.Println(a.Scheme, a.ID, a.Perms == framework.PermAll)
	}
	// Output:
	// sasl orders true
	// sasl billing false
}

// Two identities share a lock. The test shows which rights the preset grants, and which it does not.
func TestContenderACL(t *testing.T) {
	users := map[string]string{"alice": "a", "bob": "b"}
	for name, identities := range map[string][]framework.Identity{
		"sasl":   {framework.SASLIdentity("alice"), framework.SASLIdentity("bob")},
		"digest": {framework.DigestIdentity("alice", "a"), framework.DigestIdentity("bob", "b")},
		"anyone": {framework.Identity{"world", "anyone"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.RunT(t, zktest.Config{SASLUsers: users, Profile: zktest.V38})
				client := func(user string) *framework.Client {
					opts := []framework.Option{framework.WithDialer(srv.Dial), framework.WithRetry(retry.RetryNTimes{})}
					preset := framework.WithDefaultACL(framework.ContenderACL(identities...)...)
					switch {
					case user == "":
					case name == "sasl":
						opts = append(opts, preset, framework.WithSASLDigest(user, users[user]))
					default:
						opts = append(opts, preset, framework.WithAuth("digest", []byte(user+":"+users[user])))
					}
					c, err := framework.New(srv.Addr(), opts...)
					require.NoError(t, err)
					t.Cleanup(func() { _ = c.Close() })
					return c
				}
				a, b, stranger := client("alice"), client("bob"), client("")
				ctx := t.Context()
				held, err := mutex.New(a, "/locks/m").Acquire(ctx)
				require.NoError(t, err)
				granted := make(chan *mutex.Lock)
				go func() {
					l, err := mutex.New(b, "/locks/m").Acquire(ctx)
					assert.NoError(t, err)
					granted <- l
				}()
				synctest.Wait()
				assert.Empty(t, granted)
				node := "/locks/m/" + held.Node()
				_, err = b.GetData().ForPath(ctx, node)
				require.NoError(t, err)
				_, err = b.SetData().ForPath(ctx, node, []byte("__REVOKE__"))
				assert.ErrorIs(t, err, framework.ErrNoAuth)
				_, err = b.SetACL().WithACL(framework.OpenACL()...).ForPath(ctx, node)
				assert.ErrorIs(t, err, framework.ErrNoAuth)
				if name != "anyone" {
					_, err = mutex.New(stranger, "/locks/m").Acquire(ctx)
					assert.ErrorIs(t, err, framework.ErrNoAuth)
					assert.ErrorIs(t, stranger.Delete().ForPath(ctx, node), framework.ErrNoAuth)
				}
				require.NoError(t, held.Release(ctx))
				second := <-granted
				// The parent's ACL lets contenders delete their own nodes, and so other contenders' nodes, too. The hold
				// notices that.
				require.NoError(t, a.Delete().ForPath(ctx, "/locks/m/"+second.Node()))
				<-second.Context().Done()
				assert.ErrorIs(t, context.Cause(second.Context()), framework.ErrNodeDeleted)
			})
		})
	}
}

// Clients that have one identity in common contend, and none of them can take over the shared nodes.
func TestWithContenders(t *testing.T) {
	users := map[string]string{"alice": "a", "bob": "b"}
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t, zktest.Config{SASLUsers: users, Profile: zktest.V38})
		alice, bob, java := framework.SASLIdentity("alice"), framework.SASLIdentity("bob"),
			framework.SASLIdentity("java")
		client := func(opts ...framework.Option) *framework.Client {
			opts = append(opts, framework.WithDialer(srv.Dial), framework.WithRetry(retry.RetryNTimes{}),
				framework.WithAuth("digest", []byte("team:shared")))
			c, err := framework.New(srv.Addr(), opts...)
			require.NoError(t, err)
			t.Cleanup(func() { _ = c.Close() })
			return c
		}
		a := client(framework.WithContenders(alice, bob, java), framework.WithSASLDigest("alice", "a"))
		b := client(framework.WithContenders(bob, alice, java), framework.WithSASLDigest("bob", "b"))
		ctx := t.Context()

		held, err := mutex.New(a, "/shop/locks/m").Acquire(ctx)
		require.NoError(t, err)
		acl := func(path string) (out []string) {
			for _, a := range srv.Tree()[path].ACL {
				out = append(out, fmt.Sprintf("%s:%s:%d", a.Scheme, a.ID, a.Perms))
			}
			return out
		}
		const rc, rcd = int32(framework.PermRead | framework.PermCreate),
			int32(framework.PermRead | framework.PermCreate | framework.PermDelete)
		all := func(perms int32) []string {
			return []string{fmt.Sprint("sasl:alice:", perms), fmt.Sprint("sasl:bob:", perms),
				fmt.Sprint("sasl:java:", perms)}
		}
		assert.Equal(t, all(rc), acl("/shop"))
		assert.Equal(t, all(rc), acl("/shop/locks"))
		assert.Equal(t, all(rcd), acl("/shop/locks/m"))
		assert.Equal(t, []string{"sasl:alice:31", "sasl:bob:1", "sasl:java:1"}, acl(held.Path()))

		for name, c := range map[string]*framework.Client{"alice": a, "bob": b, "team": client()} {
			for _, path := range []string{"/shop", "/shop/locks", "/shop/locks/m", held.Path()} {
				if name == "alice" && path == held.Path() {
					continue // alice's own node
				}
				_, err := c.SetACL().WithACL(framework.OpenACL()...).ForPath(ctx, path)
				assert.ErrorIs(t, err, framework.ErrNoAuth, "%s: %s", name, path)
				_, err = c.SetData().ForPath(ctx, path, nil)
				assert.ErrorIs(t, err, framework.ErrNoAuth, "%s: %s", name, path)
			}
			assert.ErrorIs(t, c.Delete().ForPath(ctx, "/shop/locks/m"), framework.ErrNoAuth, name)
		}
		require.NoError(t, held.Release(ctx))

		// A barrier's node is a child of the namespace's root, as a mutex's nodes are children of the mutex's directory:
		// the root needs the same ACL.
		team := a.UsingNamespace("team")
		require.NoError(t, mutex.New(team, "/orders").Do(ctx, func(context.Context) error { return nil }))
		assert.Equal(t, all(rcd), acl("/team"))
		gate := barrier.New(team, "/gate")
		require.NoError(t, gate.Set(ctx))
		require.NoError(t, gate.Remove(ctx))

		// One option or the other, the last one counts.
		_, err = client(framework.WithContenders(alice),
			framework.WithDefaultACL(framework.OpenACL()...)).Create().CreatingParentsIfNeeded().ForPath(ctx,
			"/open/x", nil)
		require.NoError(t, err)
		assert.Equal(t, []string{"world:anyone:31"}, acl("/open"))
		// An operation's own ACL comes first.
		_, err = a.Create().WithACL(framework.OpenACL()...).ApplyToParents().CreatingParentsIfNeeded().ForPath(ctx,
			"/own/x", nil)
		require.NoError(t, err)
		assert.Equal(t, []string{"world:anyone:31"}, acl("/own"))
	})
}

// All recipes work with the ACLs of WithContenders, at any depth and in a namespace.
func TestRecipesBetweenContenders(t *testing.T) {
	alice, bob := framework.DigestIdentity("alice", "a"), framework.DigestIdentity("bob", "b")
	for name, do := range map[string]func(ctx context.Context, c *framework.Client, path string) error{
		"mutex": func(ctx context.Context, c *framework.Client, path string) error {
			return mutex.New(c, path).Do(ctx, func(context.Context) error { return nil })
		},
		"rwlock": func(ctx context.Context, c *framework.Client, path string) error {
			l, err := rwlock.New(c, path).ReadLock().Acquire(ctx)
			if err != nil {
				return err
			}
			return l.Release(ctx)
		},
		"semaphore": func(ctx context.Context, c *framework.Client, path string) error {
			l, err := semaphore.New(c, path, 1).Acquire(ctx, 1)
			if err != nil {
				return err
			}
			return l.Release(ctx)
		},
		"leader": func(ctx context.Context, c *framework.Client, path string) error {
			l, err := leader.NewLatch(c, path)
			if err != nil {
				return err
			}
			_, err = l.Await(ctx)
			return errors.Join(err, l.Close())
		},
		"double": func(ctx context.Context, c *framework.Client, path string) error {
			m, err := barrier.NewDouble(c, path, 2).Enter(ctx)
			if err != nil {
				return err
			}
			return m.Leave(ctx)
		},
		"barrier": func(ctx context.Context, c *framework.Client, path string) error {
			b := barrier.New(c, path)
			if err := b.Set(ctx); err != nil {
				return err
			}
			return b.Remove(ctx)
		},
	} {
		for _, ns := range []string{"", "shop", "shop/eu"} {
			t.Run(name+" in "+ns, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := zktest.RunT(t)
					client := func(user string, self, other framework.Identity) *framework.Client {
						c, err := framework.New(srv.Addr(), framework.WithDialer(srv.Dial), framework.WithNamespace(ns),
							framework.WithAuth("digest", []byte(user)), framework.WithContenders(self, other))
						require.NoError(t, err)
						t.Cleanup(func() { _ = c.Close() })
						return c
					}
					a, b := client("alice:a", alice, bob), client("bob:b", bob, alice)
					for _, path := range []string{"/it", "/deep/down/it"} {
						var both sync.WaitGroup
						for _, c := range []*framework.Client{a, b} {
							both.Go(func() { assert.NoError(t, do(t.Context(), c, path), path) })
						}
						both.Wait()
					}
				})
			})
		}
	}
}

func TestWithContendersRefuses(t *testing.T) {
	me := framework.SASLIdentity("me")
	for _, opt := range []framework.Option{
		framework.WithContenders(framework.Identity{"world", "anyone"}, me),
		framework.WithContenders(framework.Identity{}),
		framework.WithContenders(framework.Identity{Scheme: "auth", ID: "x"}, me),
		framework.WithContenders(me, framework.Identity{Scheme: "sasl"}),
	} {
		_, err := framework.New("localhost", opt)
		assert.ErrorContains(t, err, "WithContenders")
		assert.ErrorIs(t, err, framework.ErrInvalidOption)
	}
}

// The ID of a digest identity is a hash only: here the output of Java's generateDigest for "super:test".
func TestDigestIdentityIsAHash(t *testing.T) {
	assert.Equal(t, framework.Identity{Scheme: "digest", ID: "super:D/InIHSb7yEEbrWz8b9l71RjZJU="},
		framework.DigestIdentity("super", "test"))
}

package framework_test

import (
	"context"
	"fmt"
	"log"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/retry"
	"github.com/go-curator/curator/zktest"
)

func ExampleWithSASLDigest() {
	server, err := zktest.NewServer(zktest.Config{SASLUsers: map[string]string{"orders": "long and secret"}, RequireSASL: true})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx := context.Background()
	client, err := framework.New(server.Addr(), framework.WithDialer(server.Dial), framework.WithSASLDigest("orders", "long and secret"),
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

// Two identities share a lock; what the preset grants, and what it does not.
func TestContenderACL(t *testing.T) {
	users := map[string]string{"alice": "a", "bob": "b"}
	for name, identities := range map[string][]framework.Identity{
		"sasl":   {framework.SASLIdentity("alice"), framework.SASLIdentity("bob")},
		"digest": {framework.DigestIdentity("alice", "a"), framework.DigestIdentity("bob", "b")},
		"anyone": {framework.Anyone()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.RunT(t, zktest.Config{SASLUsers: users, Profile: zktest.V384})
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
				// That the parent's ACL lets them leave the queue lets them throw out others. The hold notices.
				require.NoError(t, a.Delete().ForPath(ctx, "/locks/m/"+second.Node()))
				<-second.Context().Done()
				assert.ErrorIs(t, context.Cause(second.Context()), framework.ErrNodeDeleted)
			})
		})
	}
}

package tree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/retry"
	"github.com/go-curator/curator/zktest"
)

// calls calls each function of the package, on /a, which has a child.
var calls = []struct {
	name, op string
	do       func(ctx context.Context, c *framework.Client) error
}{
	{"walk", "multiRead", func(ctx context.Context, c *framework.Client) error {
		return first(Walk(c).MaxDepth(0).ForPath(ctx, "/a"))
	}},
	{"walk without data", "exists", func(ctx context.Context, c *framework.Client) error {
		return first(Walk(c).WithoutData().MaxDepth(0).ForPath(ctx, "/a"))
	}},
	{"delete", "delete", func(ctx context.Context, c *framework.Client) error { return Delete(ctx, c, "/a/g") }},
	{"delete children", "getChildren2", func(ctx context.Context, c *framework.Client) error {
		return DeleteChildren(ctx, c, "/a/leaf")
	}},
	{"prune", "delete", func(ctx context.Context, c *framework.Client) error { return Prune(ctx, c, "/a/g/h", "/a/g") }},
	{"dump", "getACL", func(ctx context.Context, c *framework.Client) error {
		_, err := Dump(c).ForPath(ctx, "/a/leaf", io.Discard)
		return err
	}},
	{"dry restore", "getData", func(ctx context.Context, c *framework.Client) error {
		_, err := Restore(c).DryRun(nil).ForPath(ctx, "/a/leaf", strings.NewReader(
			`{"header":{"version":1,"root":"/r","acl":false}}`+"\n"+`{"node":{"path":"/"}}`+"\n"+`{"end":{"nodes":1}}`))
		return err
	}},
}

func first(nodes func(func(Node, error) bool)) (err error) {
	nodes(func(_ Node, e error) bool { err = e; return false })
	return err
}

// Each batch of requests is repeated as the retry policy says, whether it was executed or not; the policy is not asked
// about a refusal. Without a connection each try takes the connection timeout. No read has an unknown outcome.
func TestCallsThroughFaults(t *testing.T) {
	for _, tc := range calls {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
				ctx := t.Context()
				plant(t, srv, "/a/leaf")
				for _, action := range []zktest.Action{zktest.CutBefore, zktest.LoseReply} {
					fault := srv.Inject(zktest.Fault{Op: tc.op, PathPrefix: "/a", Action: action})
					assert.NoError(t, tc.do(ctx, c))
					assert.Equal(t, 1, fault.Hits())
					connected(t, c)
				}
				srv.Inject(zktest.Fault{Op: tc.op, PathPrefix: "/a", Action: zktest.ReplyError, Err: zktest.ErrNoAuth})
				began := time.Now()
				assert.ErrorIs(t, tc.do(ctx, c), framework.ErrNoAuth)
				assert.Zero(t, time.Since(began))

				hang := srv.Inject(zktest.Fault{Op: tc.op, PathPrefix: "/a", Action: zktest.HoldReply})
				leaving, cancel := context.WithCancel(ctx)
				got := make(chan error, 1)
				go func() { got <- tc.do(leaving, c) }()
				<-hang.Struck()
				cancel()
				err := <-got
				hang.Release()
				assert.ErrorIs(t, err, context.Canceled)
				assert.Equal(t, tc.op == "delete", errors.Is(err, framework.ErrOutcomeUnknown))

				// The client closes during the pause.
				srv.Stop()
				synctest.Wait()
				began = time.Now()
				err = tc.do(ctx, c)
				assert.ErrorIs(t, err, framework.ErrNotConnected)
				assert.NotErrorIs(t, err, framework.ErrOutcomeUnknown)
				assert.Equal(t, 4*2*time.Second+3*time.Second, time.Since(began))
				go func() { got <- tc.do(ctx, c) }()
				time.Sleep(2500 * time.Millisecond)
				began = time.Now()
				_ = c.Close()
				assert.ErrorIs(t, <-got, framework.ErrClosed)
				assert.LessOrEqual(t, time.Since(began), 5*time.Second)
			}, framework.WithRetry(retry.RetryNTimes{Retries: 3, Sleep: time.Second}), framework.WithConnectionTimeout(2*time.Second),
				framework.WithSessionTimeout(40*time.Second))
		})
	}
}

// Nothing is read or written without a client.
func TestWithoutAClient(t *testing.T) {
	for _, c := range []*framework.Client{nil, {}} {
		for _, tc := range calls {
			assert.ErrorIs(t, tc.do(t.Context(), c), framework.ErrNoClient, tc.name)
		}
	}
}

// A walk reads the nodes one by one if their data are too large together.
func TestWalkOfLargeNodes(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		plant(t, srv, "/tree")
		for i := range 3 {
			require.NoError(t, srv.Create(fmt.Sprintf("/tree/%d", i), make([]byte, 900<<10)))
		}
		before := srv.Counts()["createSession"]
		assert.Equal(t, []string{"/tree", "/tree/0", "/tree/1", "/tree/2"}, walkOf(t, c, Walk(c), "/tree"))
		assert.Equal(t, 3, srv.Counts()["getData"]-1, "one was the client's own")
		assert.Equal(t, before, srv.Counts()["createSession"], "one connection for all of it")
	}, framework.WithMaxReply(1024))
}

// A walk keeps no decompressed data: the limit applies to each node alone.
func TestDecompressedOnAWalk(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		for i, size := range []int{900, 900, 1001, 900} {
			packed, err := framework.Gzip{}.Compress("/", make([]byte, size))
			require.NoError(t, err)
			require.NoError(t, srv.Create(fmt.Sprintf("/r%d", i), packed))
		}
		got := map[string]int{}
		for n, err := range Walk(c).ForPath(t.Context(), "/") {
			if n.Path == "/r2" {
				assert.ErrorIs(t, err, framework.ErrDecompressedTooLarge)
			} else {
				require.NoError(t, err)
			}
			got[n.Path] = len(n.Data)
		}
		assert.Equal(t, []int{900, 900, 0, 900}, []int{got["/r0"], got["/r1"], got["/r2"], got["/r3"]})
	}, framework.WithCompression(), framework.WithDecompressedLimit(1000))
}

// Nodes that are too large together for one transaction are created one by one.
func TestRestoreOfMoreThanARequest(t *testing.T) {
	bubbleOf(t, zktest.Config{MaxFrame: 4096}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		plant(t, srv, "/r")
		for i := range 20 {
			require.NoError(t, srv.Create(fmt.Sprintf("/r/%02d", i), nil))
		}
		text, _ := dumped(t, c, "/r")
		p, err := Restore(c).ForPath(t.Context(), "/s", strings.NewReader(strings.ReplaceAll(text, `"acl":true`, `"acl":false`)))
		require.NoError(t, err)
		assert.EqualValues(t, 21, p.Nodes)
		assert.Zero(t, p.Existing)
	}, framework.WithMaxFrame(4096), framework.WithACLProvider(func(string) []framework.ACL {
		return []framework.ACL{{Perms: framework.PermAll, Scheme: "world", ID: "anyone"},
			{Perms: framework.PermRead, Scheme: "digest", ID: "u:" + strings.Repeat("x", 1000)}}
	}))
}

// A chroot with a typing error is not made, and neither is the root of a namespace by a read.
func TestMissingRoots(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, root *framework.Client) {
		plant(t, srv, "/prod", "/prod/shop", "/prod/shop/a", "/prod/shop/a/b")
		dump, _ := dumped(t, below(t, srv, "/prod/shop"), "/")
		paths := func() []string { return slices.Sorted(maps.Keys(srv.Tree())) }
		before := paths()
		for _, chroot := range []string{"/prod/shpo", "/neither/of/them", ""} {
			for _, ns := range []string{"", "team/app"} {
				c := below(t, srv, chroot, framework.WithNamespace(ns))
				for name, do := range map[string]func(ctx context.Context) error{
					"restore": func(ctx context.Context) error { return restored(ctx, c, "/", dump) },
					"below":   func(ctx context.Context) error { return restored(ctx, c, "/x", dump) },
					"deep":    func(ctx context.Context) error { return restored(ctx, c, "/x/y/z", dump) },
					"walk":    func(ctx context.Context) error { return first(Walk(c).ForPath(ctx, "/x")) },
					"root":    func(ctx context.Context) error { return first(Walk(c).ForPath(ctx, "/")) },
					"bare root": func(ctx context.Context) error {
						return first(Walk(c).WithoutData().ForPath(ctx, "/"))
					},
					"dump": func(ctx context.Context) error { _, err := Dump(c).ForPath(ctx, "/", io.Discard); return err },
				} {
					writes := strings.Contains("restore below deep", name)
					if chroot == "" && (ns == "" || writes) {
						continue // there is nothing missing
					}
					err := do(t.Context())
					assert.ErrorIs(t, err, framework.ErrNoNode, name)
					assert.ErrorIs(t, err, zk.ErrNoNode, name)
					assert.Equal(t, chroot != "" && (writes || ns == "" && name != "walk"),
						errors.Is(err, framework.ErrNoChroot), "%s of %q %q: %v", name, chroot, ns, err)
					require.Equal(t, before, paths(), "%s made something", name)
				}
			}
		}
	})
}

func restored(ctx context.Context, c *framework.Client, path, dump string) error {
	_, err := Restore(c).ForPath(ctx, path, strings.NewReader(dump))
	return err
}

// If the chroot exists everything is as with the whole tree: its root is there, and stays.
func TestTheRootOfAChroot(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, root *framework.Client) {
		plant(t, srv, "/prod", "/prod/shop", "/prod/shop/a", "/prod/shop/a/b", "/other")
		c, ctx := below(t, srv, "/prod/shop"), t.Context()
		var out bytes.Buffer
		_, err := Dump(c).ForPath(ctx, "/", &out)
		require.NoError(t, err)
		require.NoError(t, restored(ctx, c, "/", out.String()))
		require.NoError(t, restored(ctx, c, "/copy", out.String()))
		assert.True(t, srv.Exists("/prod/shop/copy/a/b"))
		assert.ErrorIs(t, Delete(ctx, c, "/"), framework.ErrBadArguments)

		view := c.UsingNamespace("team") // whose root is a node as any other
		require.NoError(t, restored(ctx, view, "/x", out.String()))
		assert.Equal(t, []string{"/", "/x", "/x/a", "/x/a/b"}, walkOf(t, view, Walk(view), "/"))
		require.NoError(t, Delete(ctx, view, "/"))
		require.NoError(t, DeleteChildren(ctx, c, "/"))
		assert.Equal(t, []string{"/"}, walkOf(t, c, Walk(c), "/"))
		assert.Empty(t, srv.Diff(map[string]string{"/prod": "/prod", "/prod/shop": "/prod/shop", "/other": "/other"}))
	})
}

// Since ZooKeeper 3.8.4 and 3.9.2 exists needs READ. A chroot that may not be read is there all the same.
func TestRestoreBelowAChrootThatMayNotBeRead(t *testing.T) {
	for _, profile := range zktest.Profiles() {
		t.Run(profile.String(), func(t *testing.T) {
			bubbleOf(t, zktest.Config{Profile: profile}, func(t *testing.T, srv *zktest.Server, root *framework.Client) {
				plant(t, srv, "/app", "/other", "/other/a")
				dump, _ := dumped(t, root, "/other")
				require.NoError(t, srv.SetACL("/app", zktest.ACL{Perms: 31 &^ 1, Scheme: "world", ID: "anyone"}))
				assert.NoError(t, restored(t.Context(), below(t, srv, "/app"), "/restored", dump))
				assert.True(t, srv.Exists("/app/restored/a"))
			})
		})
	}
}

// A restore creates no more missing parents than the client allows.
func TestRestoreCreatesFewParents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		plant(t, srv, "/a", "/a/b")
		c := below(t, srv, "", framework.WithParentLevels(0))
		var dump bytes.Buffer
		_, err := Dump(c).ForPath(t.Context(), "/a", &dump)
		require.NoError(t, err)
		_, err = Restore(c).ForPath(t.Context(), "/typo/app", bytes.NewReader(dump.Bytes()))
		require.ErrorIs(t, err, framework.ErrNoNode)
		require.False(t, srv.Exists("/typo"))
		_, err = Restore(c).ForPath(t.Context(), "/app", &dump)
		require.NoError(t, err)
	})
}

// A call whose context has ended reads nothing.
func TestRestoreWithAnEndedContext(t *testing.T) {
	bubble(t, func(t *testing.T, _ *zktest.Server, c *framework.Client) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		in, _ := io.Pipe() // a read of it blocks for ever
		_, err := Restore(c).ForPath(ctx, "/a", in)
		require.ErrorIs(t, err, context.Canceled)
	})
}

// After Close the outcome of a delete in flight is unknown, and the error reports that.
func TestDeleteOfAClosedClient(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		plant(t, srv, "/a")
		srv.Inject(zktest.Fault{Op: "delete", Action: zktest.HoldReply})
		done := make(chan error, 1)
		go func() { done <- Delete(t.Context(), c, "/a") }()
		synctest.Wait()
		_ = c.Close()
		err := <-done
		require.ErrorIs(t, err, framework.ErrClosed)
		require.ErrorIs(t, err, framework.ErrOutcomeUnknown)
	})
}

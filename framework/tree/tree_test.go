package tree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/zktest"
)

func walkOf(t *testing.T, c *framework.Client, b WalkBuilder, path string) (paths []string) {
	t.Helper()
	for n, err := range b.ForPath(t.Context(), path) {
		require.NoError(t, err)
		paths = append(paths, n.Path)
	}
	return paths
}

func TestWalk(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		ctx := t.Context()
		plant(t, srv, "/r", "/r/b", "/r/a", "/r/a/y", "/r/a/x", "/r/b/z", "/r/a/x/deep", "/s")
		all := []string{"/r", "/r/a", "/r/b", "/r/a/x", "/r/a/y", "/r/b/z", "/r/a/x/deep"}
		require.NoError(t, c.Sync().ForPath(ctx, "/"))
		srv.ResetCounts()
		for n, err := range Walk(c).ForPath(ctx, "/r") {
			require.NoError(t, err)
			assert.Equal(t, all[0], n.Path)
			assert.Equal(t, n.Path, string(n.Data))
			assert.Equal(t, framework.Stat(srv.Tree()[n.Path].Stat), n.Stat)
			all = all[1:]
		}
		assert.Empty(t, all)
		assert.Equal(t, map[string]int{"checkWatches": 1, "multiRead": 4, "getChildren2": 4}, counts(srv), "leaves are not listed")
		for n, err := range Walk(c).WithoutData().ForPath(ctx, "/r") {
			require.NoError(t, err)
			assert.Nil(t, n.Data)
			assert.NotZero(t, n.Stat.Czxid)
		}
		assert.Equal(t, 7, srv.Counts()["exists"])
		assert.Equal(t, []string{"/r"}, walkOf(t, c, Walk(c).MaxDepth(0), "/r"))
		assert.Equal(t, []string{"/r", "/r/a", "/r/b"}, walkOf(t, c, Walk(c).MaxDepth(1), "/r"))
		assert.Equal(t, []string{"/", "/a", "/b"}, walkOf(t, c.UsingNamespace("r"),
			Walk(c.UsingNamespace("r")).MaxDepth(1), "/"))
		assert.Contains(t, walkOf(t, c, Walk(c), "/"), "/zookeeper/quota")

		for n, err := range Walk(c).ForPath(ctx, "/none") {
			assert.Equal(t, "/none", n.Path)
			assert.ErrorIs(t, err, framework.ErrNoNode)
			assert.EqualError(t, err, "walk /none: node does not exist")
		}
		for _, err := range Walk(c).ForPath(ctx, "none") {
			assert.ErrorIs(t, err, framework.ErrInvalidPath)
		}
		var none context.Context
		for _, err := range Walk(c).ForPath(none, "/r") {
			assert.ErrorIs(t, err, framework.ErrNilContext)
		}
		for range Walk(c).ForPath(ctx, "/r") {
			break // and nothing is left behind: goleak
		}
		gone, cancel := context.WithCancel(ctx)
		defer cancel()
		var last error
		for _, err := range Walk(c).ForPath(gone, "/r") {
			cancel()
			last = err
		}
		assert.ErrorIs(t, last, context.Canceled)
	})
}

// A server before 3.6 would close the connection on a multiRead.
func TestWalkOfAnOldServer(t *testing.T) {
	bubbleOf(t, zktest.Config{Profile: zktest.V35}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		plant(t, srv, "/r/a/x", "/r/b")
		connects := srv.Counts()["connect"]
		for range 3 {
			assert.Equal(t, []string{"/r", "/r/a", "/r/b", "/r/a/x"}, walkOf(t, c, Walk(c), "/r"))
		}
		assert.Equal(t, connects, srv.Counts()["connect"])
		text, _ := dumped(t, c, "/r")
		_, err := Restore(c).ForPath(t.Context(), "/s", strings.NewReader(text))
		require.NoError(t, err)
	})
}

func TestWalkMeetsClosedDoors(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		plant(t, srv, "/r", "/r/a", "/r/a/x", "/r/b")
		require.NoError(t, srv.SetACL("/r/a", zktest.ACL{Perms: 31, Scheme: "digest", ID: "nobody:x"}))
		var seen []string
		for n, err := range Walk(c).ForPath(t.Context(), "/r") {
			if n.Path == "/r/a" {
				assert.ErrorIs(t, err, framework.ErrNoAuth)
			} else {
				assert.NoError(t, err)
			}
			seen = append(seen, n.Path)
		}
		assert.Equal(t, []string{"/r", "/r/a", "/r/b"}, seen, "what is below a closed door is not seen")
		_, err := Dump(c).ForPath(t.Context(), "/r", io.Discard)
		assert.ErrorIs(t, err, framework.ErrNoAuth)
		assert.ErrorContains(t, err, "/r/a")
	})
}

func TestWalkThroughATornConnection(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		plant(t, srv, "/r")
		for i := range 1500 {
			plant(t, srv, fmt.Sprintf("/r/n%04d", i))
		}
		torn := srv.Inject(zktest.Fault{Op: "multiRead", After: 10, Times: 2, Action: zktest.CutBefore})
		paths := walkOf(t, c, Walk(c), "/r")
		assert.Equal(t, 2, torn.Hits())
		assert.Len(t, paths, 1501)
		assert.True(t, slices.IsSorted(paths), "each once, in order")
		// A session that ends in the middle does not matter, except to its own view.
		s := connected(t, c)
		n := 0
		for _, err := range Walk(c).ForPath(t.Context(), "/r") {
			require.NoError(t, err)
			if n++; n == 1 {
				srv.Expire(s.ID())
			}
		}
		assert.Equal(t, 1501, n)
		for _, err := range Walk(s.Client()).ForPath(t.Context(), "/r") {
			assert.ErrorIs(t, err, framework.ErrSessionLost)
		}
	})
}

// A node that is deleted after it was read has no children to walk.
func TestWalkMeetsADeletedParent(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		plant(t, srv, "/r", "/r/a", "/r/a/x", "/r/b", "/r/b/y")
		held := srv.Inject(zktest.Fault{Op: "getChildren2", PathPrefix: "/r/a", Action: zktest.Hold})
		var paths []string
		done := make(chan error, 1)
		go func() {
			var last error
			for n, err := range Walk(c).ForPath(t.Context(), "/r") {
				paths, last = append(paths, n.Path), err
			}
			done <- last
		}()
		<-held.Struck()
		require.NoError(t, srv.Delete("/r/a/x"))
		require.NoError(t, srv.Delete("/r/a"))
		held.Release()
		require.NoError(t, <-done)
		assert.Equal(t, []string{"/r", "/r/a", "/r/b", "/r/b/y"}, paths)
	})
}

func TestDeleteRecursively(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		ctx := t.Context()
		require.NoError(t, Delete(ctx, c, "/none"))
		plant(t, srv, "/leaf", "/keep")
		srv.ResetCounts()
		require.NoError(t, Delete(ctx, c, "/leaf"))
		assert.Equal(t, map[string]int{"delete": 1}, counts(srv))
		plant(t, srv, "/r")
		for i := range 20 {
			for j := range 60 {
				plant(t, srv, fmt.Sprintf("/r/d%d/n%d", i, j))
			}
		}
		srv.ResetCounts()
		torn := srv.Inject(zktest.Fault{Op: "delete", After: 500, Action: zktest.LoseReply})
		require.NoError(t, Delete(ctx, c, "/r"))
		assert.Equal(t, 1, torn.Hits())
		assert.Empty(t, srv.Diff(map[string]string{"/keep": "/keep"}))
		assert.Equal(t, 21, srv.Counts()["getChildren2"], "leaves are not listed")

		assert.ErrorIs(t, Delete(ctx, c, "/"), framework.ErrBadArguments)
		assert.ErrorIs(t, Delete(ctx, c, "r"), framework.ErrInvalidPath)
		plant(t, srv, "/team/a/b")
		require.NoError(t, Delete(ctx, c.UsingNamespace("team"), "/"))
		assert.NotContains(t, srv.Tree(), "/team")

		plant(t, srv, "/r/a/closed/b", "/r/z")
		require.NoError(t, srv.SetACL("/r/a/closed",
			zktest.ACL{Perms: int32(framework.PermRead), Scheme: "world", ID: "anyone"}))
		err := Delete(ctx, c, "/r")
		assert.ErrorIs(t, err, framework.ErrNoAuth)
		assert.EqualError(t, err, "delete /r/a/closed/b: no permission")
	})
}

func TestDeleteOnlyTheChildren(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		ctx := t.Context()
		require.NoError(t, DeleteChildren(ctx, c, "/none"))
		plant(t, srv, "/keep", "/r/a/b/c", "/r/d")
		require.NoError(t, DeleteChildren(ctx, c, "/r"))
		require.NoError(t, DeleteChildren(ctx, c, "/r"))
		assert.Empty(t, srv.Diff(map[string]string{"/keep": "/keep", "/r": ""}))
		assert.ErrorIs(t, DeleteChildren(ctx, c, "/"), framework.ErrBadArguments)
		assert.ErrorIs(t, DeleteChildren(ctx, c, "r"), framework.ErrInvalidPath)
		plant(t, srv, "/team/a/b")
		require.NoError(t, DeleteChildren(ctx, c.UsingNamespace("team"), "/"))
		names, err := srv.Children("/team")
		require.NoError(t, err)
		assert.Empty(t, names)
	})
}

func TestPrune(t *testing.T) {
	for name, tc := range map[string]struct {
		path, upTo string
		want       error
		deletes    int
		left       []string
	}{
		"empty parents":           {"/a/b/c/d", "/", nil, 4, []string{"/x", "/x/1", "/x/2"}},
		"up to an ancestor":       {"/a/b/c/d", "/a/b", nil, 2, []string{"/a", "/a/b", "/x", "/x/1", "/x/2"}},
		"a sibling":               {"/x/1", "/", nil, 2, []string{"/a", "/a/b", "/a/b/c", "/a/b/c/d", "/x", "/x/2"}},
		"missing nodes":           {"/a/b/c/e/f", "/", nil, 3, []string{"/a", "/a/b", "/a/b/c", "/a/b/c/d", "/x", "/x/1", "/x/2"}},
		"the node has children":   {"/x", "/", framework.ErrNotEmpty, 1, nil},
		"upTo is the node":        {"/x", "/x", framework.ErrBadArguments, 0, nil},
		"upTo is no ancestor":     {"/x/1", "/a", framework.ErrBadArguments, 0, nil},
		"the beginning of a name": {"/x/1", "/x/", framework.ErrInvalidPath, 0, nil},
		"the root":                {"/", "/", framework.ErrBadArguments, 0, nil},
		"no path":                 {"x", "/", framework.ErrInvalidPath, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, namespace := range []string{"", "team/one"} {
				bubble(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
					ctx, c := t.Context(), c.UsingNamespace(namespace)
					for _, path := range []string{"/a/b/c/d", "/x/1", "/x/2"} {
						_, err := c.Create().CreatingParentsIfNeeded().ForPath(ctx, path, nil)
						require.NoError(t, err)
					}
					before := srv.Tree()
					srv.ResetCounts()
					require.ErrorIs(t, Prune(ctx, c, tc.path, tc.upTo), tc.want)
					assert.Equal(t, tc.deletes, srv.Counts()["delete"])
					if tc.want != nil {
						assert.Equal(t, before, srv.Tree())
						return
					}
					var left []string
					for node, err := range Walk(c).ForPath(ctx, "/") {
						require.NoError(t, err)
						if node.Path != "/" && !strings.HasPrefix(node.Path, "/zookeeper") {
							left = append(left, node.Path)
						}
					}
					slices.Sort(left)
					assert.Equal(t, tc.left, left)
				})
			}
		})
	}
}

// Clients register below a directory and prune it at the same time: each registration stays until its own client
// deletes it.
func TestPruneAmongCreates(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		srv.Delay(0, 3*time.Millisecond)
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				path := fmt.Sprintf("/services/web/%d", i)
				for range 30 {
					_, err := c.Create().CreatingParentsIfNeeded().ForPath(t.Context(), path, nil)
					assert.NoError(t, err)
					assert.True(t, srv.Exists(path))
					assert.NoError(t, Prune(t.Context(), c, path, "/"))
				}
			})
		}
		wg.Wait()
		assert.False(t, srv.Exists("/services"))
	})
}

// Other clients create and delete nodes during the delete.
func TestDeleteRecursivelyAmongOthers(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		plant(t, srv, "/r/a/x", "/r/b")
		hold := srv.Inject(zktest.Fault{Op: "getChildren2", PathPrefix: "/r/a", Action: zktest.HoldReply})
		got := make(chan error)
		go func() { got <- Delete(t.Context(), c, "/r") }()
		<-hold.Struck()
		plant(t, srv, "/r/a/y/new", "/r/c")
		require.NoError(t, srv.Delete("/r/a/x"))
		hold.Release()
		require.NoError(t, <-got)
		assert.NotContains(t, srv.Tree(), "/r")

		// Against a client that never stops creating nodes the delete gives up in the end.
		plant(t, srv, "/r/x")
		stop, stopped := context.WithCancel(t.Context())
		busy := srv.Inject(zktest.Fault{Op: "getChildren2", Times: -1, Action: zktest.DelayReply,
			Delay: time.Millisecond})
		go func() {
			for i := 0; stop.Err() == nil; i++ {
				select {
				case <-busy.Struck():
					_ = srv.Create(fmt.Sprintf("/r/n%d", i), nil)
				case <-stop.Done():
				}
			}
		}()
		go func() { got <- Delete(t.Context(), c, "/r") }()
		assert.ErrorIs(t, <-got, framework.ErrNotEmpty)
		stopped()
	})
}

// roundTrip dumps a subtree.
func dumped(t *testing.T, c *framework.Client, path string) (string, Progress) {
	t.Helper()
	var out bytes.Buffer
	p, err := Dump(c).ForPath(t.Context(), path, &out)
	require.NoError(t, err)
	return out.String(), p
}

func TestDumpAndRestore(t *testing.T) {
	bubbleOf(t, zktest.Config{ExtendedTypes: true}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		ctx := t.Context()
		plant(t, srv, "/r", "/r/a", "/r/a/x")
		require.NoError(t, srv.Set("/r/a", []byte{0, 0xff, '<'}))
		acl := framework.DigestACL(framework.PermRead|framework.PermAdmin, "ops", "secret")
		_, err := c.Create().WithACL(acl, framework.ACL{Perms: framework.PermAll, Scheme: "world", ID: "anyone"}).ForPath(ctx, "/r/a/acl", []byte{})
		require.NoError(t, err)
		_, err = c.Create().WithMode(framework.Ephemeral).ForPath(ctx, "/r/a/here", nil)
		require.NoError(t, err)
		_, err = c.Create().WithMode(framework.Container).ForPath(ctx, "/r/container", nil)
		require.NoError(t, err)
		_, err = c.Create().WithMode(framework.PersistentTTL).WithTTL(time.Hour).ForPath(ctx, "/r/ttl", []byte("t"))
		require.NoError(t, err)

		text, p := dumped(t, c, "/r")
		assert.Equal(t, Progress{Nodes: 6, Bytes: 12, Ephemerals: 1}, p)
		lines := strings.Split(text, "\n")
		assert.Equal(t, `{"header":{"version":1,"root":"/r","acl":true}}`, lines[0])
		assert.Equal(t, `{"node":{"path":"/","data":"L3I=","acl":[{"perms":31,"scheme":"world","id":"anyone"}],`+
			`"version":0,"cversion":3,"ctime":946684800000,"mtime":946684800000}}`, lines[1])
		assert.Equal(t, `{"node":{"path":"/a","data":"AP88","acl":[{"perms":31,"scheme":"world","id":"anyone"}],`+
			`"version":1,"cversion":3,"ctime":946684800000,"mtime":946684800000}}`, lines[2])
		assert.Contains(t, text, `{"skipped":{"path":"/a/here","why":"ephemeral"}}`)
		assert.Contains(t, text, `"acl":[{"perms":17,"scheme":"digest","id":"`+acl.ID+
			`"},{"perms":31,"scheme":"world","id":"anyone"}]`)
		assert.Equal(t, `{"end":{"nodes":6,"skipped":1}}`, lines[8])

		var heard []Progress
		p, err = Restore(c).WithProgress(func(p Progress) {
			heard = append(heard, p)
		}).ForPath(ctx, "/copy/of/r", strings.NewReader(text))
		require.NoError(t, err)
		assert.Equal(t, Progress{Nodes: 6, Bytes: 12, Ephemerals: 1}, p)
		assert.Equal(t, p, heard[len(heard)-1])
		tree := srv.Tree()
		for path, node := range tree {
			rest, ok := strings.CutPrefix(path, "/copy/of/r")
			if ok {
				assert.Equal(t, tree["/r"+rest].Data, node.Data, path)
				assert.Equal(t, tree["/r"+rest].ACL, node.ACL, path)
				assert.Equal(t, zktest.Persistent, node.Mode, path)
			}
		}
		assert.Len(t, walkOf(t, c, Walk(c), "/copy/of/r"), 6)

		// Again: it is there already. Changed: refused, or overwritten.
		p, err = Restore(c).ForPath(ctx, "/copy/of/r", strings.NewReader(text))
		require.NoError(t, err)
		assert.Equal(t, int64(6), p.Existing)
		require.NoError(t, srv.Set("/copy/of/r/a", []byte("changed")))
		require.NoError(t, srv.SetACL("/copy/of/r/a", zktest.ACL{Perms: 31, Scheme: "world", ID: "anyone"},
			zktest.ACL{Perms: 1, Scheme: "ip", ID: "10.0.0.1"}))
		plant(t, srv, "/copy/of/r/more")
		_, err = Restore(c).ForPath(ctx, "/copy/of/r", strings.NewReader(text))
		assert.ErrorIs(t, err, framework.ErrNodeExists)
		assert.ErrorContains(t, err, "/copy/of/r/a:")
		_, err = Restore(c).Overwriting().ForPath(ctx, "/copy/of/r", strings.NewReader(text))
		require.NoError(t, err)
		assert.Equal(t, []byte{0, 0xff, '<'}, srv.Tree()["/copy/of/r/a"].Data)
		assert.Len(t, srv.Tree()["/copy/of/r/a"].ACL, 1)
		assert.Contains(t, srv.Tree(), "/copy/of/r/more", "not the dump's business")

		// The client may set the data, but not the ACL.
		require.NoError(t, srv.SetACL("/copy/of/r/a", zktest.ACL{Perms: 15, Scheme: "world", ID: "anyone"}))
		_, err = Restore(c).Overwriting().ForPath(ctx, "/copy/of/r", strings.NewReader(text))
		assert.ErrorIs(t, err, framework.ErrNoAuth)
		require.NoError(t, srv.SetACL("/copy/of/r/a", zktest.ACL{Perms: 31, Scheme: "world", ID: "anyone"}))

		// The root of everything, and of a namespace.
		text, _ = dumped(t, c, "/")
		assert.NotContains(t, text, "zookeeper")
		_, err = Restore(c.UsingNamespace("team")).ForPath(ctx, "/", strings.NewReader(text))
		require.NoError(t, err)
		assert.Equal(t, "/r/a/x", string(srv.Tree()["/team/r/a/x"].Data))
		_, err = Restore(c).ForPath(ctx, "/", strings.NewReader(text))
		require.NoError(t, err)
	})
}

// A dump has the data as they are stored.
func TestDumpOfCompressedData(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		ctx := t.Context()
		_, err := c.Create().ForPath(ctx, "/r", []byte("text"))
		require.NoError(t, err)
		plant(t, srv, "/r/plain")
		text, _ := dumped(t, c, "/r")
		_, err = Restore(c).ForPath(ctx, "/s", strings.NewReader(text))
		require.NoError(t, err)
		data, err := c.GetData().ForPath(ctx, "/s")
		require.NoError(t, err)
		assert.Equal(t, "text", string(data))
		assert.Equal(t, "/r/plain", string(srv.Tree()["/s/plain"].Data))

		// A walk decompresses the data, and reports where it cannot.
		for n, err := range Walk(c).ForPath(ctx, "/r") {
			if n.Path == "/r/plain" {
				assert.ErrorIs(t, err, framework.ErrDecompress)
			} else {
				assert.Equal(t, "text", string(n.Data))
			}
		}
	}, framework.WithCompression())
}

func TestRestoreWithoutACL(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		ctx := t.Context()
		plant(t, srv, "/r/a")
		require.NoError(t, c.Sync().ForPath(ctx, "/"))
		var out bytes.Buffer
		srv.ResetCounts()
		_, err := Dump(c).WithoutACL().ForPath(ctx, "/r", &out)
		require.NoError(t, err)
		assert.Equal(t, map[string]int{"checkWatches": 1, "multiRead": 2, "getChildren2": 1}, counts(srv))
		_, err = Restore(c).ForPath(ctx, "/s", &out)
		require.NoError(t, err)
		assert.Equal(t, int32(framework.PermRead), srv.Tree()["/s/a"].ACL[0].Perms, "what the provider says")
	}, framework.WithACLProvider(func(path string) []framework.ACL {
		if path == "/s/a" {
			return framework.ReadACL()
		}
		return nil
	}))
}

// The server shows digests only to clients with ADMIN.
func TestDumpOfHiddenACLs(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		ctx := t.Context()
		plant(t, srv, "/r")
		d := framework.DigestACL(framework.PermAll, "ops", "secret")
		require.NoError(t, srv.SetACL("/r", zktest.ACL{Perms: 31, Scheme: d.Scheme, ID: d.ID},
			zktest.ACL{Perms: 1, Scheme: "world", ID: "anyone"}))
		_, err := Dump(c).ForPath(ctx, "/r", io.Discard)
		assert.ErrorIs(t, err, framework.ErrNoAuth)
		assert.ErrorContains(t, err, "WithoutACL")
		_, err = Dump(c).WithoutACL().ForPath(ctx, "/r", io.Discard)
		assert.NoError(t, err)
		ops := below(t, srv, "", framework.WithAuth("digest", []byte("ops:secret")))
		text, _ := dumped(t, ops, "/r")
		assert.Contains(t, text, d.ID)
	})
}

func TestRestoreRefuses(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		ctx := t.Context()
		plant(t, srv, "/r", "/r/a", "/r/b")
		text, _ := dumped(t, c, "/r")
		lines := strings.SplitAfter(text, "\n")
		for name, bad := range map[string]string{
			"nothing":    "",
			"no header":  strings.Join(lines[1:], ""),
			"no end":     strings.Join(lines[:4], ""),
			"half":       text[:len(text)*2/3],
			"one less":   lines[0] + lines[1] + lines[2] + lines[4],
			"skipped":    strings.Replace(text, `"skipped":0`, `"skipped":1`, 1),
			"no root":    lines[0] + lines[2] + lines[3] + lines[4],
			"version":    strings.Replace(text, `"version":1`, `"version":2`, 1),
			"text":       "hello\n",
			"path":       strings.Replace(text, `"/a"`, `"/a/../b"`, 1),
			"other line": lines[0] + `{"what":1}` + "\n",
			"two": lines[0] +
				`{"node":{"path":"/","acl":[{"perms":31,"scheme":"world","id":"anyone"}]},"skipped":{"path":"/x"}}` +
				"\n" +
				`{"end":{"nodes":0,"skipped":1}}` + "\n",
			"versions":  strings.Replace(text, `"version":0`, `"version":99999999999`, 1),
			"utf-8":     strings.Replace(text, `"/a"`, "\"/a\xff\"", 1),
			"no acl":    strings.Replace(text, `"acl":[{"perms":31,"scheme":"world","id":"anyone"}],`, "", 1),
			"empty acl": strings.Replace(text, `[{"perms":31,"scheme":"world","id":"anyone"}]`, "[]", 1),
			"long":      lines[0] + `{"node":{"path":"/","data":"` + strings.Repeat("A", 4<<20) + `"}}` + "\n",
		} {
			_, err := Restore(c).ForPath(ctx, "/"+strings.ReplaceAll(name, " ", "-"), strings.NewReader(bad))
			assert.ErrorIs(t, err, ErrInvalidDump, name)
			assert.ErrorContains(t, err, "line ", name)
		}
		_, err := Restore(c).ForPath(ctx, "s", strings.NewReader(text))
		assert.ErrorIs(t, err, framework.ErrInvalidPath)
		_, err = Restore(c).ForPath(ctx, "/s", nil)
		assert.ErrorIs(t, err, framework.ErrBadArguments)
		_, err = Dump(c).ForPath(ctx, "/r", nil)
		assert.ErrorIs(t, err, framework.ErrBadArguments)
		_, err = Dump(c).ForPath(ctx, "/none", io.Discard)
		assert.ErrorIs(t, err, framework.ErrNoNode)

		mine := errors.New("mine")
		_, err = Dump(c).ForPath(ctx, "/r", failing{mine})
		assert.ErrorIs(t, err, mine)
		_, err = Restore(c).ForPath(ctx, "/s", failing{mine})
		assert.ErrorIs(t, err, mine)

		// The error names the node that cannot be created.
		bad := strings.Replace(text, `"scheme":"world","id":"anyone"}],"version":0,"cversion":0`,
			`"scheme":"nonsense","id":"x"}],"version":0,"cversion":0`, 1)
		_, err = Restore(c).ForPath(ctx, "/t", strings.NewReader(bad))
		assert.ErrorIs(t, err, framework.ErrInvalidACL)
		assert.ErrorContains(t, err, "/t/a")
	})
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
func (f failing) Read([]byte) (int, error)  { return 0, f.err }

// Many nodes, large and small, through lost replies; each is there once, whole.
func TestRestoreThroughLostReplies(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		ctx := t.Context()
		plant(t, srv, "/r")
		for i := range 1300 {
			require.NoError(t, srv.Create(fmt.Sprintf("/r/n%04d", i), bytes.Repeat([]byte("x"), i)))
		}
		require.NoError(t, srv.Create("/r/big", make([]byte, 1_000_000)))
		text, p := dumped(t, c, "/r")
		assert.Equal(t, int64(1302), p.Nodes)
		srv.ResetCounts()
		got, err := Restore(c).ForPath(ctx, "/clean", strings.NewReader(text))
		require.NoError(t, err)
		assert.Equal(t, p, got)
		assert.Less(t, srv.Counts()["multi"], 12)
		assert.LessOrEqual(t, srv.Counts()["create2"], 2)

		lost := srv.Inject(zktest.Fault{Op: "multi", After: 1, Action: zktest.LoseReply})
		cut := srv.Inject(zktest.Fault{Op: "create2", After: 100, Action: zktest.LoseReply})
		got, err = Restore(c).ForPath(ctx, "/torn", strings.NewReader(text))
		require.NoError(t, err)
		assert.Equal(t, 1, lost.Hits())
		assert.Equal(t, 1, cut.Hits())
		assert.Equal(t, p.Nodes, got.Nodes)
		tree := srv.Tree()
		for path, node := range tree {
			if rest, ok := strings.CutPrefix(path, "/r/"); ok {
				assert.Equal(t, node.Data, tree["/torn/"+rest].Data, path)
				assert.Equal(t, node.Data, tree["/clean/"+rest].Data, path)
			}
		}

		late, cancel := context.WithCancel(ctx)
		cancel()
		_, err = Restore(c).ForPath(late, "/late", strings.NewReader(text))
		assert.ErrorIs(t, err, context.Canceled)
		assert.NotContains(t, srv.Tree(), "/late")
	})
}

// A node without an ACL in the dump is refused if the dump has ACLs, and otherwise gets the client's default ACL: never the
// open one by mistake.
func TestRestoreOpensNothing(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		const lines = `{"header":{"version":1,"root":"/r","acl":true}}` + "\n" +
			`{"node":{"path":"/","data":"L3I="}}` + "\n" + `{"end":{"nodes":1,"skipped":0}}`
		_, err := Restore(c).ForPath(t.Context(), "/s", strings.NewReader(lines))
		assert.ErrorIs(t, err, ErrInvalidDump)
		assert.ErrorContains(t, err, "line 2")
		assert.NotContains(t, srv.Tree(), "/s")
		_, err = Restore(c).ForPath(t.Context(), "/s",
			strings.NewReader(strings.Replace(lines, `"acl":true`, `"acl":false`, 1)))
		require.NoError(t, err)
		assert.Equal(t, int32(framework.PermRead), srv.Tree()["/s"].ACL[0].Perms, "what the provider says")
	}, framework.WithDefaultACL(framework.ReadACL()...))
}

// The servers' own nodes are not restored, whatever path leads to them.
func TestRestoreLeavesTheServersAlone(t *testing.T) {
	const header, root = `{"header":{"version":1,"root":"/r","acl":false}}` + "\n", `{"node":{"path":"/"}}` +
		"\n"
	node := func(path string) string { return `{"node":{"path":"` + path + `","data":"eA=="}}` + "\n" }
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		plant(t, srv, "/prod")
		top := below(t, srv, "")
		refused := func(c *framework.Client, path, text string) error {
			t.Helper()
			srv.ResetCounts()
			_, err := Restore(c).Overwriting().ForPath(t.Context(), path, strings.NewReader(text))
			assert.ErrorIs(t, err, ErrSystemPath)
			assert.Zero(t, srv.Counts()["multi"]+srv.Counts()["create2"]+srv.Counts()["create"]+srv.Counts()["setData"]+
				srv.Counts()["createContainer"], "nothing is written")
			return err
		}
		for _, path := range []string{"/zookeeper", "/zookeeper/quota", "/zookeeper/quota/app/zookeeper_limits",
			"/zookeeper/config"} {
			err := refused(top, "/", header+root+node("/app")+node(path))
			assert.ErrorIs(t, err, ErrInvalidDump)
			assert.ErrorContains(t, err, "line 4: "+path)
			assert.NotErrorIs(t, refused(top, path, header+root), ErrInvalidDump)
		}
		refused(below(t, srv, "/zookeeper"), "/", header+root)
		refused(below(t, srv, "/zookeeper/quota"), "/app", header+root)
		refused(top.UsingNamespace("zookeeper"), "/x", header+root)
		refused(top.UsingNamespace("zookeeper/quota"), "/", header+root)

		// A node of that name elsewhere, or with a longer name, is an ordinary node.
		for _, c := range []*framework.Client{below(t, srv, "/prod"), top.UsingNamespace("team")} {
			_, err := Restore(c).Overwriting().ForPath(t.Context(), "/",
				strings.NewReader(header+root+node("/zookeeper")+node("/zookeeper/quota")+`{"end":{"nodes":3}}`))
			require.NoError(t, err)
		}
		_, err := Restore(top).Overwriting().ForPath(t.Context(), "/",
			strings.NewReader(header+root+node("/zookeepers")+`{"end":{"nodes":2}}`))
		require.NoError(t, err)
		for _, path := range []string{"/prod/zookeeper/quota", "/team/zookeeper/quota", "/zookeepers"} {
			assert.Contains(t, srv.Tree(), path)
		}
	})
}

// However long the ACLs are, no transaction is larger than the limit.
func TestRestoreOfLongACLs(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		var text strings.Builder
		fmt.Fprintln(&text, `{"header":{"version":1,"root":"/r","acl":true}}`)
		const nodes = 41
		for i := range nodes {
			path := "/"
			if i > 0 {
				path = fmt.Sprintf("/n%d", i)
			}
			fmt.Fprintf(&text, `{"node":{"path":%q,"acl":[{"perms":31,"scheme":"world","id":"anyone"},`+
				`{"perms":1,"scheme":"digest","id":"u:%s"}]}}`+"\n", path, strings.Repeat("x", 100_000))
		}
		fmt.Fprintf(&text, `{"end":{"nodes":%d}}`, nodes)
		p, err := Restore(c).ForPath(t.Context(), "/s", strings.NewReader(text.String()))
		require.NoError(t, err)
		assert.Equal(t, int64(nodes), p.Nodes)
	})
}

// For any stream: the nodes sent lie below the target, are not the servers' own, have an ACL, and are in transactions that
// are not too large.
func FuzzRestore(f *testing.F) {
	const header = `{"header":{"version":1,"root":"/r","acl":true}}` + "\n"
	f.Add(header + `{"node":{"path":"/","data":"L3I=","acl":[{"perms":31,"scheme":"world","id":"anyone"}]}}` +
		"\n" + `{"end":{"nodes":1,"skipped":0}}`)
	f.Add(`{"header":{"version":1}}` + "\n" + `{"skipped":{}}`)
	f.Add(`{"header":{"version":1}}` + "\n" + `{"node":{"path":"/"}}` + "\n" +
		`{"node":{"path":"/zookeeper/quota"}}` + "\n" + `{"node":{"path":"/a/../b"}}`)
	f.Add(header + `{"node":{"path":"/","acl":[]}}`)
	f.Add(header + `{"node":{"path":"/","acl":[{}]},"end":{"nodes":1}}`)
	f.Add(header + "{\"node\":{\"path\":\"/\",\"version\":99999999999}}\n" + "{\"node\":{\"path\":\"/\xff\"}}")
	f.Fuzz(func(t *testing.T, text string) {
		for _, root := range []string{"/", "/copy/of"} {
			in := newDumpLineReader(strings.NewReader(text), 1024)
			r := restoreRun{v: unscopedClient{chroot: "/", namespace: "/"}, root: root, in: in}
			err := in.readHeader()
			for err == nil {
				var node *dumpNode
				if node, err = in.next(); node == nil {
					break
				}
				var n plannedCreate
				if n, err = r.nodeToCreate(node); err != nil {
					break
				}
				req := &jute.CreateRequest{Path: n.at, Data: n.data}
				for _, a := range n.acl {
					req.ACL = append(req.ACL, jute.ACL{Perms: int32(a.Perms), Scheme: a.Scheme, ID: a.ID})
				}
				require.NoError(t, zkpath.Validate(req.Path, false))
				require.Equal(t, in.withACLs, len(req.ACL) > 0)
				require.True(t, root == "/" || req.Path == root || strings.HasPrefix(req.Path, root+"/"), req.Path)
				require.False(t, req.Path == "/zookeeper" || strings.HasPrefix(req.Path, "/zookeeper/"), req.Path)
				require.GreaterOrEqual(t, n.sizeBound(), len(jute.Marshal(req))+9, "with its header")
			}
			if err != nil {
				require.ErrorIs(t, err, ErrInvalidDump)
			}
		}
	})
}

// A dry run reports what the restore would do, and does nothing.
func TestRestoreDryRun(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		ctx := t.Context()
		plant(t, srv, "/r", "/r/a", "/r/b", "/r/c")
		for i := range 600 { // more than one transaction
			plant(t, srv, fmt.Sprintf("/r/c/%03d", i))
		}
		text, _ := dumped(t, c, "/r")
		plan := func(b RestoreBuilder, path string) map[string]RestoreStep {
			before, steps := srv.Tree(), map[string]RestoreStep{}
			p, err := b.DryRun(func(path string, step RestoreStep) { steps[path] = step }).
				ForPath(ctx, path, strings.NewReader(text))
			require.NoError(t, err)
			assert.EqualValues(t, 604, p.Nodes)
			assert.Len(t, steps, 604)
			assert.Equal(t, before, srv.Tree())
			return steps
		}
		for path, step := range plan(Restore(c), "/deep/copy") {
			assert.Equal(t, RestoreCreate, step, path)
		}
		for path, step := range plan(Restore(c), "/r") {
			assert.Equal(t, RestoreSame, step, path)
		}
		require.NoError(t, srv.Set("/r/a", []byte("changed")))
		require.NoError(t, srv.Delete("/r/c/599"))
		steps := plan(Restore(c), "/r")
		assert.Equal(t, RestoreConflict, steps["/r/a"])
		assert.Equal(t, RestoreSame, steps["/r/b"])
		assert.Equal(t, RestoreCreate, steps["/r/c/599"])
		steps = plan(Restore(c).Overwriting(), "/r")
		assert.Equal(t, RestoreOverwrite, steps["/r/a"])
		assert.Equal(t, RestoreCreate, steps["/r/c/599"])
		assert.Equal(t, "conflict", RestoreConflict.String())

		none := Restore(c).DryRun(nil)
		_, err := none.ForPath(ctx, "/dry", strings.NewReader(text))
		require.NoError(t, err)
		assert.False(t, srv.Exists("/dry"), "also without a function")
		_, err = none.ForPath(ctx, "/x", strings.NewReader(text[:len(text)/2]))
		assert.ErrorIs(t, err, ErrInvalidDump)
		_, err = none.ForPath(ctx, "/zookeeper", strings.NewReader(text))
		assert.ErrorIs(t, err, ErrSystemPath)
		require.NoError(t, srv.SetACL("/r/a", zktest.ACL{Perms: 2, Scheme: "world", ID: "anyone"}))
		_, err = none.ForPath(ctx, "/r", strings.NewReader(text))
		assert.ErrorIs(t, err, framework.ErrNoAuth)
		assert.False(t, srv.Exists("/x"))
	})
}

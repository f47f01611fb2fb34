package framework

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

func TestNamespace(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, root *Client) {
		ctx := t.Context()
		for _, ns := range []string{"team", "team/app", "a/b/c"} {
			c := root.UsingNamespace(ns)
			full := "/" + c.Namespace()

			// Reads make no more of a missing root than there is to see, and the root of a namespace is always there.
			stat, err := c.CheckExists().ForPath(ctx, "/x")
			require.NoError(t, err)
			assert.Nil(t, stat)
			names, err := c.GetChildren().ForPath(ctx, "/")
			require.NoError(t, err)
			assert.NotContains(t, names, "x")
			assert.Equal(t, zktest.Container, srv.Tree()[full].Mode)
			stat, err = c.CheckExists().ForPath(ctx, "/")
			require.NoError(t, err)
			assert.NotNil(t, stat)

			path, err := c.Create().WithMode(PersistentSequential).ForPath(ctx, "/x-", nil)
			require.NoError(t, err)
			assert.Contains(t, srv.Tree(), full+path)
			path, err = c.Create().WithMode(PersistentSequential).ForPath(ctx, "/", nil)
			require.NoError(t, err)
			assert.Contains(t, srv.Tree(), full+path)
			create := c.Create().WithProtection().WithMode(EphemeralSequential).CreatingParentsIfNeeded()
			path, err = create.ForPath(ctx, "/locks/lock-", nil)
			require.NoError(t, err)
			assert.Regexp(t, `^/locks/_c_[-0-9a-f]{36}-lock-\d{10}$`, path)
			assert.Contains(t, srv.Tree(), full+path)
			_, err = c.GetData().ForPath(ctx, path)
			require.NoError(t, err)

			op := c.TransactionOp().Create().WithMode(PersistentSequential)
			results, err := root.Transaction(ctx, op.ForPath("/t-", nil))
			require.NoError(t, err, "an operation keeps its view")
			assert.Regexp(t, `^/t-\d{10}$`, results[0].Path)
			assert.Contains(t, srv.Tree(), full+results[0].Path)

			w, err := c.Watches().Add().ForPath(ctx, "/")
			require.NoError(t, err)
			make1(t, root, full+"/made", "")
			assert.Equal(t, Event{Type: EventNodeCreated, Path: "/made"}, next(t, w))
			w.Stop()
			_, one, err := c.GetChildren().WithWatch().ForPath(ctx, "/")
			require.NoError(t, err)
			require.NoError(t, c.Delete().ForPath(ctx, "/made"))
			assert.Equal(t, Event{Type: EventNodeChildrenChanged, Path: "/"}, next(t, one))

			_, err = c.GetData().ForPath(ctx, "/none")
			assert.EqualError(t, err, "getData /none: node does not exist")
			require.NoError(t, root.Delete().DeletingChildrenIfNeeded().ForPath(ctx, full))
		}
	})
}

func TestNamespaceRootIsReaped(t *testing.T) {
	bubbleOf(t, zktest.Config{ReapInterval: time.Minute}, func(t *testing.T, srv *zktest.Server, root *Client) {
		c := root.UsingNamespace("app")
		for range 3 {
			_, err := c.Create().WithMode(Ephemeral).ForPath(t.Context(), "/x", nil)
			require.NoError(t, err)
			require.NoError(t, c.Delete().ForPath(t.Context(), "/x"))
			time.Sleep(3 * time.Minute)
			require.NotContains(t, srv.Tree(), "/app")
		}
		_, err := c.Create().ForPath(t.Context(), "/deep/x", nil)
		assert.ErrorIs(t, err, ErrNoNode, "only the root is made")
		assert.Contains(t, srv.Tree(), "/app")
	})
}

func TestNamespaceViews(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, root *Client) {
		assert.Empty(t, root.Namespace())
		a := root.UsingNamespace("a")
		b := a.UsingNamespace("b")
		assert.Equal(t, "b", b.Namespace(), "it replaces, it does not nest")
		assert.Empty(t, b.UsingNamespace("").Namespace())
		for _, ns := range []string{"/", "a//b", "..", "a/", "\x00"} {
			if ns == "/" {
				assert.Empty(t, root.UsingNamespace(ns).Namespace())
				continue
			}
			bad := root.UsingNamespace(ns)
			_, err := bad.GetData().ForPath(t.Context(), "/x")
			assert.ErrorIs(t, err, ErrInvalidPath, "%q", ns)
			_, err = bad.Create().WithProtection().InBackground().ForPath(t.Context(), "/x", nil).Wait(t.Context())
			assert.ErrorIs(t, err, ErrInvalidPath, "%q", ns)
			assert.ErrorContains(t, err, "namespace")
			_, err = bad.UsingNamespace("good").CheckExists().ForPath(t.Context(), "/x")
			assert.NoError(t, err)
		}
		s, err := a.Session(t.Context())
		require.NoError(t, err)
		make1(t, s.Client(), "/x", "")
		assert.Contains(t, srv.Tree(), "/a/x", "a session's view keeps the namespace")
	})
}

func TestPaths(t *testing.T) {
	for _, tc := range []struct{ chroot, ns, path, full string }{
		{"", "", "/a", "/a"},
		{"", "", "/", "/"},
		{"/root", "", "/", "/root"},
		{"/root", "", "/a", "/root/a"},
		{"/root", "ns", "/", "/root/ns"},
		{"/root", "ns", "/a/b", "/root/ns/a/b"},
		{"", "ns/deep", "/a", "/ns/deep/a"},
	} {
		v, err := newClientView(tc.chroot, tc.ns)
		require.NoError(t, err)
		full, err := (&Client{core: &clientCore{}, view: v}).fullPath(tc.path)
		require.NoError(t, err)
		assert.Equal(t, tc.full, full)
		assert.Equal(t, tc.path, (&Client{core: &clientCore{}, view: v}).userPath(full))
	}
	v, err := newClientView("/root", "ns")
	require.NoError(t, err)
	assert.Equal(t, "/root/nsx/a", (&Client{core: &clientCore{}, view: v}).userPath("/root/nsx/a"), "not below the root")
	full, err := (&Client{core: &clientCore{}, view: v}).fullPathOf("/", true)
	require.NoError(t, err)
	assert.Equal(t, "/root/ns/", full, "a sequential node without a name of its own")
	_, err = newClientView("root", "")
	assert.ErrorIs(t, err, ErrInvalidPath)
	_, err = newClientView("", "a//b")
	assert.ErrorIs(t, err, ErrInvalidPath)
}

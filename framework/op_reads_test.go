package framework

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// bubble runs a test in virtual time, with a server and a connected client.
func bubble(t *testing.T, f func(t *testing.T, srv *zktest.Server, c *Client), opts ...Option) {
	t.Helper()
	bubbleOf(t, zktest.Config{}, f, opts...)
}

func bubbleOf(
	t *testing.T, cfg zktest.Config, f func(t *testing.T, srv *zktest.Server, c *Client), opts ...Option,
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t, cfg)
		c := dial(t, srv, opts...)
		connected(t, c)
		f(t, srv, c)
	})
}

// make1 creates a node with data.
func make1(t *testing.T, c *Client, path, data string) {
	t.Helper()
	_, err := c.Create().CreatingParentsIfNeeded().ForPath(t.Context(), path, []byte(data))
	require.NoError(t, err)
}

func TestReadAndWrite(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		stat, err := c.CheckExists().ForPath(ctx, "/a")
		require.NoError(t, err)
		assert.Nil(t, stat, "absent")

		var created, read, listed Stat
		path, err := c.Create().StoringStatIn(&created).ForPath(ctx, "/a", []byte("one"))
		require.NoError(t, err)
		assert.Equal(t, "/a", path)
		assert.NotZero(t, created.Czxid)

		data, err := c.GetData().StoringStatIn(&read).ForPath(ctx, "/a")
		require.NoError(t, err)
		assert.Equal(t, "one", string(data))
		assert.Equal(t, created, read)
		assert.WithinDuration(t, time.Now(), read.Created(), time.Minute)

		s, err := c.SetData().WithVersion(0).ForPath(ctx, "/a", []byte("two"))
		require.NoError(t, err)
		assert.Equal(t, int32(1), s.Version)
		_, err = c.SetData().WithVersion(0).ForPath(ctx, "/a", []byte("three"))
		assert.ErrorIs(t, err, ErrBadVersion)

		make1(t, c, "/a/x", "")
		make1(t, c, "/a/y", "")
		names, err := c.GetChildren().StoringStatIn(&listed).ForPath(ctx, "/a")
		require.NoError(t, err)
		assert.ElementsMatch(t, []string{"x", "y"}, names)
		assert.Equal(t, int32(2), listed.NumChildren)

		names, err = c.GetChildren().ForPath(ctx, "/a/x")
		require.NoError(t, err)
		assert.Empty(t, names)

		stat, err = c.CheckExists().ForPath(ctx, "/a")
		require.NoError(t, err)
		assert.Equal(t, int32(1), stat.Version)
		require.NoError(t, c.Sync().ForPath(ctx, "/a"))

		assert.Equal(t, "two", string(srv.Tree()["/a"].Data))
	})
}

func TestErrorsOfTheServerHaveNames(t *testing.T) {
	bubbleOf(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		make1(t, c, "/full/child", "")
		_, err := c.Create().WithMode(Ephemeral).ForPath(ctx, "/ephemeral", nil)
		require.NoError(t, err)
		_, err = c.Create().WithACL(ACL{PermAdmin, "world", "anyone"}).ForPath(ctx, "/secret", nil)
		require.NoError(t, err)

		for _, tc := range []struct {
			name string
			do   func() error
			want error
			also error
			op   string
			path string
		}{
			{
				"no node", func() error { _, err := c.GetData().ForPath(ctx, "/none"); return err }, ErrNoNode,
				zk.ErrNoNode, "getData", "/none",
			},
			{
				"no node to list", func() error { _, err := c.GetChildren().ForPath(ctx, "/none"); return err },
				ErrNoNode, zk.ErrNoNode, "getChildren", "/none",
			},
			{
				"no node to set", func() error { _, err := c.SetData().ForPath(ctx, "/none", nil); return err },
				ErrNoNode, zk.ErrNoNode, "setData", "/none",
			},
			{
				"no node to delete", func() error { return c.Delete().ForPath(ctx, "/none") }, ErrNoNode, zk.ErrNoNode,
				"delete", "/none",
			},
			{
				"no ACL", func() error { _, err := c.GetACL().ForPath(ctx, "/none"); return err }, ErrNoNode,
				zk.ErrNoNode, "getACL", "/none",
			},
			{
				"no parent", func() error { _, err := c.Create().ForPath(ctx, "/none/x", nil); return err }, ErrNoNode,
				zk.ErrNoNode, "create", "/none/x",
			},
			{
				"exists", func() error { _, err := c.Create().ForPath(ctx, "/full", nil); return err }, ErrNodeExists,
				zk.ErrNodeExists, "create", "/full",
			},
			{
				"version", func() error { return c.Delete().WithVersion(7).ForPath(ctx, "/full/child") }, ErrBadVersion,
				zk.ErrBadVersion, "delete", "/full/child",
			},
			{
				"not empty", func() error { return c.Delete().ForPath(ctx, "/full") }, ErrNotEmpty, zk.ErrNotEmpty,
				"delete", "/full",
			},
			{
				"ephemeral parent", func() error { _, err := c.Create().ForPath(ctx, "/ephemeral/x", nil); return err },
				ErrNoChildrenForEphemerals, zk.ErrNoChildrenForEphemerals, "create", "/ephemeral/x",
			},
			{
				"no permission", func() error { _, err := c.GetData().ForPath(ctx, "/secret"); return err }, ErrNoAuth,
				zk.ErrNoAuth, "getData", "/secret",
			},
			{"bad ACL", func() error {
				_, err := c.Create().WithACL(ACL{PermAll, "nonsense", "x"}).ForPath(ctx, "/y", nil)
				return err
			}, ErrInvalidACL, zk.ErrInvalidACL, "create", "/y"},
			{"TTL not enabled", func() error {
				_, err := c.Create().WithMode(PersistentTTL).WithTTL(time.Second).ForPath(ctx, "/y", nil)
				return err
			}, ErrUnimplemented, nil, "create", "/y"},
		} {
			err := tc.do()
			assert.ErrorIs(t, err, tc.want, tc.name)
			if tc.also != nil {
				assert.ErrorIs(t, err, tc.also, tc.name)
			}
			assert.NotErrorIs(t, err, ErrOutcomeUnknown, tc.name)
			var op *OpError
			require.ErrorAs(t, err, &op, tc.name)
			assert.Equal(t, tc.op, op.Op, tc.name)
			assert.Equal(t, tc.path, op.Path, tc.name)
		}
		_, err = c.Create().ForPath(ctx, "/none/x", nil)
		assert.EqualError(t, err, "create /none/x: the parent /none: node does not exist")
	})
}

func TestBadInputIsNotSent(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		make1(t, c, "/a", "")
		srv.ResetCounts()
		for _, path := range []string{"", "a", "/a/", "//", "/a//b", "/a/./b", "/a/..", "/a\x00", "/\uf8ff"} {
			_, err := c.GetData().ForPath(ctx, path)
			assert.ErrorIs(t, err, ErrInvalidPath, "%q", path)
			_, err = c.Create().ForPath(ctx, path, nil)
			assert.ErrorIs(t, err, ErrInvalidPath, "%q", path)
			assert.ErrorIs(t, c.Delete().ForPath(ctx, path), ErrInvalidPath, "%q", path)
			_, err = c.Transaction(ctx, c.TransactionOp().Check().ForPath(path))
			assert.ErrorIs(t, err, ErrInvalidPath, "%q", path)
			_, err = c.GetChildren().InBackground().ForPath(ctx, path).Wait(ctx)
			assert.ErrorIs(t, err, ErrInvalidPath, "%q", path)
			_, err = c.Watches().Add().ForPath(ctx, path)
			assert.ErrorIs(t, err, ErrInvalidPath, "%q", path)
		}
		big := make([]byte, 1<<20)
		for name, err := range map[string]error{
			"mode":           errOf(c.Create().WithMode(99).ForPath(ctx, "/x", nil)),
			"TTL missing":    errOf(c.Create().WithMode(PersistentTTL).ForPath(ctx, "/x", nil)),
			"TTL unwanted":   errOf(c.Create().WithTTL(time.Second).ForPath(ctx, "/x", nil)),
			"empty ACL":      errOf(c.Create().WithACL().ForPath(ctx, "/x", nil)),
			"parents ACL":    errOf(c.Create().ApplyToParents().ForPath(ctx, "/x", nil)),
			"nothing to set": errOf(c.SetACL().ForPath(ctx, "/x")),
			"no name": errOf(
				c.Create().WithMode(EphemeralSequential).WithProtection().ForPath(ctx, "/a/", nil),
			),
			"watch mode":  errOf(c.Watches().Add().WithMode(9).ForPath(ctx, "/a")),
			"empty multi": errOf(c.Transaction(ctx)),
			"foreign op":  errOf(c.Transaction(ctx, TransactionOp{})),
		} {
			assert.ErrorIs(t, err, ErrBadArguments, name)
		}
		assert.ErrorIs(t, errOf(c.Create().ForPath(ctx, "/x", big)), ErrTooLarge)
		assert.ErrorIs(t, errOf(c.SetData().ForPath(ctx, "/a", big)), ErrTooLarge)
		assert.ErrorIs(
			t,
			errOf(
				c.Transaction(
					ctx, c.TransactionOp().SetData().ForPath("/a", big[:1<<19]),
					c.TransactionOp().SetData().ForPath("/a", big[:1<<19]),
				),
			),
			ErrTooLarge,
		)
		assert.ErrorIs(t, errOf(c.SetData().InBackground().ForPath(ctx, "/a", big).Wait(ctx)), ErrTooLarge)

		var none context.Context
		assert.ErrorIs(t, errOf(c.GetData().ForPath(none, "/a")), ErrNilContext)
		assert.ErrorIs(t, errOf(c.GetData().InBackground().ForPath(none, "/a").Wait(ctx)), ErrNilContext)
		assert.ErrorIs(t, errOf(c.GetData().InBackground().ForPath(ctx, "/a").Wait(none)), ErrNilContext)
		why := errors.New("enough")
		done, cancel := context.WithCancelCause(ctx)
		cancel(why)
		for _, err := range []error{
			errOf(c.GetData().ForPath(done, "/a")),
			errOf(c.GetData().InBackground().ForPath(done, "/a").Wait(ctx)),
			errOf(c.Transaction(done, c.TransactionOp().Check().ForPath("/a"))),
		} {
			assert.ErrorIs(t, err, context.Canceled)
			assert.ErrorIs(t, err, why)
			assert.NotErrorIs(t, err, ErrOutcomeUnknown)
			assert.ErrorContains(t, err, "not executed")
		}
		synctest.Wait()
		counts := srv.Counts()
		delete(counts, "ping")
		assert.Equal(t, map[string]int{"getData": 1}, counts, "but for the read whose result nobody waited for")
	})
}

func errOf(results ...any) error {
	err, _ := results[len(results)-1].(error)
	return err
}

func TestBuildersAreValues(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		base := c.Create()
		ephemeral := base.WithMode(Ephemeral)
		_ = base.WithMode(Container).WithACL(ReadACL()...).WithProtection()
		p1, err := base.ForPath(t.Context(), "/p", nil)
		require.NoError(t, err)
		_, err = ephemeral.ForPath(t.Context(), "/e", nil)
		require.NoError(t, err)
		assert.Equal(t, "/p", p1)
		tree := srv.Tree()
		assert.Equal(t, zktest.Persistent, tree["/p"].Mode)
		assert.Equal(t, zktest.Ephemeral, tree["/e"].Mode)
	})
}

func TestDefaultData(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		for path, data := range map[string][]byte{"/default": nil, "/empty": {}, "/deep/own": []byte("own")} {
			_, err := c.Create().CreatingParentsIfNeeded().ForPath(t.Context(), path, data)
			require.NoError(t, err)
		}
		tree := srv.Tree()
		assert.Equal(t, "usual", string(tree["/default"].Data))
		assert.Empty(t, tree["/empty"].Data)
		assert.Equal(t, "own", string(tree["/deep/own"].Data))
		assert.Empty(t, tree["/deep"].Data, "parents are empty, as Curator's")
		_, err := c.SetData().ForPath(t.Context(), "/empty", nil)
		require.NoError(t, err)
		assert.Equal(t, "usual", string(srv.Tree()["/empty"].Data))
	}, WithDefaultData([]byte("usual")))
}

func TestACL(t *testing.T) {
	provider := func(path string) []ACL {
		if strings.HasPrefix(path, "/closed") {
			return CreatorACL()
		}
		return nil
	}
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		me := DigestACL(PermAll, "me", "secret")
		make1(t, c, "/closed/a", "")
		make1(t, c, "/open/a", "")
		var stat Stat
		acl, err := c.GetACL().StoringStatIn(&stat).ForPath(ctx, "/closed/a")
		require.NoError(t, err)
		assert.Equal(t, []ACL{me}, acl)
		assert.Zero(t, stat.Aversion)
		acl, err = c.GetACL().ForPath(ctx, "/open/a")
		require.NoError(t, err)
		assert.Equal(t, OpenACL(), acl)

		stranger := dial(t, srv)
		_, err = stranger.GetData().ForPath(ctx, "/closed/a")
		assert.ErrorIs(t, err, ErrNoAuth)
		set, err := c.SetACL().WithVersion(0).WithACL(me, ReadACL()[0]).ForPath(ctx, "/closed/a")
		require.NoError(t, err)
		assert.Equal(t, int32(1), set.Aversion)
		_, err = stranger.GetData().ForPath(ctx, "/closed/a")
		assert.NoError(t, err)
		_, err = c.SetACL().WithVersion(0).WithACL(me).ForPath(ctx, "/closed/a")
		assert.ErrorIs(t, err, ErrBadVersion)
		r, err := c.GetACL().InBackground().ForPath(ctx, "/closed/a").Wait(ctx)
		require.NoError(t, err)
		assert.Len(t, r.ACL, 2)
		s, err := c.SetACL().WithACL(me).InBackground().ForPath(ctx, "/closed/a").Wait(ctx)
		require.NoError(t, err)
		assert.Equal(t, int32(2), s.Aversion)

		_, err = c.Create().CreatingParentsIfNeeded().WithACL(me).ForPath(ctx, "/p1/x", nil)
		require.NoError(t, err)
		_, err = c.Create().CreatingParentsIfNeeded().WithACL(me).ApplyToParents().ForPath(ctx, "/p2/x", nil)
		require.NoError(t, err)
		tree := srv.Tree()
		assert.Equal(t, "world", tree["/p1"].ACL[0].Scheme)
		assert.Equal(t, "digest", tree["/p2"].ACL[0].Scheme)
	}, WithAuth("digest", []byte("me:secret")), WithACLProvider(provider))
}

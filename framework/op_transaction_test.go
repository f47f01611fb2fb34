package framework

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

func TestTransaction(t *testing.T) {
	bubbleOf(t, zktest.Config{ExtendedTypes: true}, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		make1(t, c, "/old", "")
		make1(t, c, "/set", "")
		op := c.TransactionOp()
		results, err := c.Transaction(ctx,
			op.Check().ForPath("/old"),
			op.Create().ForPath("/a", []byte("a")),
			op.Create().WithMode(EphemeralSequential).WithACL(ReadACL()...).ForPath("/a-", nil),
			op.Create().WithMode(Container).ForPath("/c", nil),
			op.Create().WithMode(PersistentTTL).WithTTL(time.Hour).ForPath("/t", nil),
			op.SetData().WithVersion(0).ForPath("/set", []byte("set")),
			op.SetData().WithVersion(1).ForPath("/set", []byte("again")),
			op.Check().WithVersion(2).ForPath("/set"),
			op.Delete().WithVersion(0).ForPath("/old"),
		)
		require.NoError(t, err)
		require.Len(t, results, 9)
		for i, want := range []struct{ op, path string }{
			{"check", "/old"}, {"create", "/a"}, {"create", results[2].Path}, {"create", "/c"},
			{"create", "/t"}, {"setData", "/set"}, {"setData", "/set"}, {"check", "/set"}, {"delete", "/old"}} {
			assert.Equal(t, want.op, results[i].Op)
			assert.Equal(t, want.path, results[i].Path)
			assert.NoError(t, results[i].Err)
		}
		assert.Regexp(t, `^/a-\d{10}$`, results[2].Path)
		assert.Equal(t, int32(1), results[5].Stat.Version)
		assert.Equal(t, int32(2), results[6].Stat.Version)
		tree := srv.Tree()
		assert.Equal(t, "a", string(tree["/a"].Data))
		assert.Equal(t, zktest.Ephemeral, tree[results[2].Path].Mode)
		assert.Equal(t, int32(PermRead), tree[results[2].Path].ACL[0].Perms)
		assert.Equal(t, zktest.Container, tree["/c"].Mode)
		assert.Equal(t, zktest.TTL, tree["/t"].Mode)
		assert.Equal(t, "again", string(tree["/set"].Data))
		assert.NotContains(t, tree, "/old")
		assert.Equal(t, tree["/a"].Stat.Czxid, tree["/c"].Stat.Czxid, "one transaction")
	})
}

// The transaction is sent a second time only if a node is missing, or appears or disappears in between.
func TestTransactionCreatesOrSetsData(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx, op := t.Context(), c.TransactionOp()
		put := func(want int, ops ...TransactionOp) []TransactionResult {
			t.Helper()
			srv.ResetCounts()
			given := slices.Clone(ops)
			results, err := c.Transaction(ctx, ops...)
			require.NoError(t, err)
			assert.Equal(t, want, srv.Counts()["multi"])
			assert.Equal(t, given, ops, "the caller's operations")
			return results
		}
		put1 := op.Create().WithMode(Ephemeral).OrSetData().ForPath("/a", []byte("1"))
		results := put(2, put1)
		assert.Equal(t, "create", results[0].Op)
		owner := srv.Tree()["/a"].Stat.EphemeralOwner
		assert.NotZero(t, owner)
		results = put(1, op.Create().OrSetData().ForPath("/a", []byte("2")), op.Check().WithVersion(1).ForPath("/a"))
		assert.Equal(t, "setData", results[0].Op)
		assert.Equal(t, int32(1), results[0].Stat.Version)
		assert.Equal(t, owner, srv.Tree()["/a"].Stat.EphemeralOwner)
		assert.Equal(t, "2", string(srv.Tree()["/a"].Data))
		var many []TransactionOp
		for i := range 40 {
			if i%2 == 0 {
				make1(t, c, fmt.Sprint("/b", i), "")
			}
			many = append(many, op.Create().OrSetData().ForPath(fmt.Sprint("/b", i), []byte("many")))
		}
		for i, r := range put(2, many...) {
			assert.Equal(t, []string{"setData", "create"}[i%2], r.Op)
		}
		put(2, op.Create().ForPath("/b", nil), op.Create().OrSetData().ForPath("/c", nil),
			op.Create().OrSetData().ForPath("/b", nil), op.Create().OrSetData().ForPath("/a", []byte("3")))
		put(2, op.Delete().ForPath("/a"), put1)
		assert.Equal(t, "1", string(srv.Tree()["/a"].Data))

		// The node is deleted before the first try, and created before the second.
		held := srv.Inject(zktest.Fault{Op: "multi", Action: zktest.Hold, After: 1})
		require.NoError(t, srv.Delete("/b"))
		pending := c.TransactionInBackground(ctx, op.Create().OrSetData().ForPath("/b", []byte("x")))
		<-held.Struck()
		require.NoError(t, srv.Create("/b", []byte("another's")))
		held.Release()
		results, err := pending.Wait(ctx)
		require.NoError(t, err)
		assert.Equal(t, "setData", results[0].Op)
		assert.Equal(t, "x", string(srv.Tree()["/b"].Data))

		for name, refused := range map[string]struct {
			op   TransactionOp
			want error
		}{
			"no parent":  {op.Create().OrSetData().ForPath("/none/a", nil), ErrNoNode},
			"sequential": {op.Create().WithMode(PersistentSequential).OrSetData().ForPath("/a", nil), ErrBadArguments},
			"the mode":   {op.Create().WithMode(-1).OrSetData().ForPath("/a", nil), ErrBadArguments},
		} {
			results, err := c.Transaction(ctx, op.SetData().ForPath("/a", []byte("no")), refused.op)
			require.ErrorIs(t, err, refused.want, name)
			if refused.want == ErrNoNode {
				assert.Equal(t, "create", results[1].Op)
			}
		}
		assert.NotEqual(t, "no", string(srv.Tree()["/a"].Data))
		_, err = c.IdempotentTransaction(ctx, op.Create().OrSetData().ForPath("/a", nil), op.Create().ForPath("/d", nil))
		require.ErrorIs(t, err, ErrBadArguments)

		// In a namespace whose root is missing.
		n := c.UsingNamespace("apps")
		_, err = n.Transaction(ctx, n.TransactionOp().Create().OrSetData().ForPath("/a", []byte("n")))
		require.NoError(t, err)
		assert.Equal(t, "n", string(srv.Tree()["/apps/a"].Data))
	})
}

// A lost reply ends the transaction: a repeat could set the data again.
func TestLostReplyOfCreateOrSetData(t *testing.T) {
	for skip := range 2 {
		bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
			srv.Inject(zktest.Fault{Op: "multi", Action: zktest.LoseReply, After: skip})
			op := c.TransactionOp().Create().OrSetData().ForPath("/a", nil)
			_, err := c.Transaction(t.Context(), op)
			require.ErrorIs(t, err, ErrConnectionLoss)
			assert.Equal(t, skip == 1, srv.Exists("/a"))
		})
	}
}

func TestTransactionFails(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		make1(t, c, "/a/b", "")
		op := c.TransactionOp()
		for name, tc := range map[string]struct {
			bad  TransactionOp
			want error
			op   string
		}{
			"create": {op.Create().ForPath("/a", nil), ErrNodeExists, "create"},
			"parent": {op.Create().ForPath("/none/x", nil), ErrNoNode, "create"},
			"delete": {op.Delete().ForPath("/a"), ErrNotEmpty, "delete"},
			"set":    {op.SetData().WithVersion(3).ForPath("/a", nil), ErrBadVersion, "setData"},
			"check":  {op.Check().ForPath("/none"), ErrNoNode, "check"},
		} {
			ops := []TransactionOp{
				op.Create().ForPath("/new", nil), op.SetData().ForPath("/a", []byte("x")), tc.bad,
				op.Delete().ForPath("/a/b"),
			}
			for _, background := range []bool{false, true} {
				var results []TransactionResult
				var err error
				if background {
					results, err = c.TransactionInBackground(ctx, ops...).Wait(ctx)
				} else {
					results, err = c.Transaction(ctx, ops...)
				}
				assert.ErrorIs(t, err, tc.want, name)
				assert.NotErrorIs(t, err, ErrOutcomeUnknown, name)
				var opErr *OpError
				require.ErrorAs(t, err, &opErr, name)
				assert.Equal(t, "transaction", opErr.Op)
				assert.Equal(t, tc.bad.path, opErr.Path)
				var tx *TransactionError
				require.ErrorAs(t, err, &tx, name)
				assert.Equal(t, 2, tx.Index)
				assert.Equal(t, tc.op, tx.Op)
				require.Len(t, results, 4, name)
				assert.NoError(t, results[0].Err)
				assert.NoError(t, results[1].Err)
				assert.ErrorIs(t, results[2].Err, tc.want)
				assert.ErrorIs(t, results[3].Err, ErrNotAttempted)
			}
		}
		assert.Len(t, srv.Tree(), 3, "none of it was done")
		_, err := c.Transaction(ctx, op.Check().ForPath("/a"), op.Check().ForPath("/none"))
		assert.EqualError(t, err, "transaction /none: operation 1 (check): node does not exist")
		_, err = c.Transaction(ctx, op.Check().ForPath("/a"), op.Check().ForPath("none"))
		var tx *TransactionError
		require.ErrorAs(t, err, &tx)
		assert.Equal(t, 1, tx.Index)
		assert.ErrorIs(t, err, ErrInvalidPath)
	})
}

func TestTransactionAfterALostReply(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		op := c.TransactionOp().Create().ForPath("/a", nil)
		lost := srv.Inject(zktest.Fault{Op: "multi", Action: zktest.LoseReply})
		_, err := c.Transaction(t.Context(), op)
		assert.ErrorIs(t, err, ErrConnectionLoss)
		assert.Equal(t, 1, lost.Hits())
		assert.Equal(t, 1, srv.Counts()["multi"], "not repeated: it could meet its own success")
		assert.Contains(t, srv.Tree(), "/a")

		// Not executed for certain: repeated.
		connected(t, c)
		srv.Inject(zktest.Fault{Op: "multi", Times: 2, Action: zktest.ReplyError, Err: zktest.ErrSessionMoved})
		_, err = c.Transaction(t.Context(), c.TransactionOp().Delete().ForPath("/a"))
		assert.NoError(t, err)

		var results []TransactionResult
		srv.Inject(zktest.Fault{Op: "multi", Action: zktest.LoseReply})
		results, err = c.TransactionInBackground(t.Context(), op).Wait(t.Context())
		assert.True(t, errors.Is(err, ErrConnectionLoss))
		assert.Nil(t, results)
	})
}

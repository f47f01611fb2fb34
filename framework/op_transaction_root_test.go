package framework

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

func transact(
	ctx context.Context, c *Client, background bool, ops ...TransactionOp,
) ([]TransactionResult, error) {
	if background {
		return c.TransactionInBackground(ctx, ops...).Wait(ctx)
	}
	return c.Transaction(ctx, ops...)
}

// A transaction makes the root of a namespace as any operation does, also when the server has reaped it.
func TestTransactionMakesTheRootOfANamespace(t *testing.T) {
	bothWays(t, func(t *testing.T, background bool) {
		bubbleOf(t, zktest.Config{ExtendedTypes: true, ReapInterval: time.Minute}, func(
			t *testing.T, srv *zktest.Server, root *Client,
		) {
			ctx := t.Context()
			one, other := root.UsingNamespace("team/app"), root.UsingNamespace("other")
			op := one.TransactionOp()
			for name, ops := range map[string][]TransactionOp{
				"create":     {op.Create().ForPath("/x", nil)},
				"sequential": {op.Create().WithMode(EphemeralSequential).ForPath("/x-", nil)},
				"no name":    {op.Create().WithMode(PersistentSequential).ForPath("/", nil)},
				"container":  {op.Create().WithMode(Container).ForPath("/c", nil)},
				"ttl":        {op.Create().WithMode(PersistentTTL).WithTTL(time.Hour).ForPath("/t", nil)},
				"tree": {
					op.Create().ForPath("/a", nil), op.Create().ForPath("/a/b", nil), op.Delete().ForPath("/a/b"),
				},
				"data":      {op.SetData().ForPath("/", []byte("x"))},
				"check":     {op.Check().ForPath("/"), op.Create().ForPath("/x", nil)},
				"two roots": {op.Create().ForPath("/x", nil), other.TransactionOp().Create().ForPath("/x", nil)},
				"second":    {root.TransactionOp().Create().ForPath("/plain", nil), op.Create().ForPath("/x", nil)},
				"a root ahead": {
					root.TransactionOp().Check().ForPath("/"), other.TransactionOp().SetData().ForPath("/", nil),
				},
			} {
				results, err := transact(ctx, one, background, ops...)
				require.NoError(t, err, name)
				require.Len(t, results, len(ops), name)
				for path := range srv.Tree() {
					if path == "/team/app" || path == "/other" {
						assert.Equal(t, zktest.Container, srv.Tree()[path].Mode, name)
					}
				}
				require.NoError(t, root.Delete().DeletingChildrenIfNeeded().Quietly().ForPath(ctx, "/team"))
				require.NoError(t, root.Delete().DeletingChildrenIfNeeded().Quietly().ForPath(ctx, "/other"))
				require.NoError(t, root.Delete().DeletingChildrenIfNeeded().Quietly().ForPath(ctx, "/plain"))
			}
			for range 2 {
				_, err := transact(ctx, one, background, op.Create().ForPath("/x", nil))
				require.NoError(t, err)
				require.NoError(t, one.Delete().ForPath(ctx, "/x"))
				time.Sleep(5 * time.Minute)
				require.NotContains(t, srv.Tree(), "/team/app", "reaped")
			}
		})
	})
}

// Nodes missing below the root are not created, and the error names the operation.
func TestTransactionMakesNothingButTheRoot(t *testing.T) {
	bothWays(t, func(t *testing.T, background bool) {
		bubble(t, func(t *testing.T, srv *zktest.Server, root *Client) {
			ctx, c := t.Context(), root.UsingNamespace("app")
			op := c.TransactionOp()
			for name, bad := range map[string]TransactionOp{
				"create": op.Create().ForPath("/deep/x", nil), "data": op.SetData().ForPath("/x", nil),
				"check": op.Check().ForPath("/x"), "delete": op.Delete().ForPath("/x"), "root": op.Delete().ForPath("/"),
			} {
				results, err := transact(ctx, root, background, root.TransactionOp().Create().ForPath("/plain", nil), bad)
				assert.ErrorIs(t, err, ErrNoNode, name)
				var tx *TransactionError
				require.ErrorAs(t, err, &tx, name)
				assert.Equal(t, 1, tx.Index, name)
				require.Len(t, results, 2, name)
				assert.ErrorIs(t, results[1].Err, ErrNoNode, name)
				assert.NotContains(t, srv.Tree(), "/plain", name)
				if name != "create" { // a create also creates the missing root, as Create does
					assert.NotContains(t, srv.Tree(), "/app", name)
				}
				require.NoError(t, root.Delete().DeletingChildrenIfNeeded().Quietly().ForPath(ctx, "/app"))
			}
			before := srv.Counts()["multi"]
			_, err := transact(ctx, root, background, root.TransactionOp().Create().ForPath("/none/x", nil))
			assert.ErrorIs(t, err, ErrNoNode)
			assert.Equal(
				t, before+1, srv.Counts()["multi"], "without a namespace nothing is made, and nothing repeated",
			)
		})
	})
}

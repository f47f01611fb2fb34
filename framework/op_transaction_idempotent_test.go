package framework

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// A transaction whose reply is lost is recognized by its effects.
func TestIdempotentTransactionAfterALostReply(t *testing.T) {
	bubbleOf(t, zktest.Config{ExtendedTypes: true}, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx, op := t.Context(), c.TransactionOp()
		for name, ops := range map[string][]TransactionOp{
			"create": {op.Create().ForPath("/new", []byte("x"))},
			"ephemeral": {
				op.Create().WithMode(Ephemeral).ForPath("/new", []byte("x")),
				op.Create().WithMode(Container).ForPath("/c", nil),
			},
			"ttl": {op.Create().WithMode(PersistentTTL).WithTTL(time.Hour).ForPath("/new", nil)},
			"move": {
				op.Create().ForPath("/new", []byte("data")), op.Delete().WithVersion(0).ForPath("/old"),
				op.Check().ForPath("/set"),
			},
			"set": {
				op.SetData().WithVersion(0).ForPath("/set", []byte("x")), op.SetData().ForPath("/set", []byte("y")),
			},
			"guarded": {
				op.Check().WithVersion(0).ForPath("/set"), op.SetData().ForPath("/set", []byte("x")),
				op.SetData().ForPath("/old", []byte("x")),
			},
			"delete":    {op.Check().ForPath("/"), op.Delete().ForPath("/old")},
			"anew":      {op.Delete().WithVersion(1).ForPath("/twice"), op.Create().ForPath("/twice", []byte("z"))},
			"made, set": {op.Create().ForPath("/new", nil), op.SetData().ForPath("/new", []byte("x"))},
		} {
			for _, path := range []string{"/new", "/old", "/set", "/c", "/twice"} {
				require.NoError(t, c.Delete().Quietly().ForPath(ctx, path))
			}
			plant(t, srv, "/old", "/set", "/twice")
			require.NoError(t, srv.Set("/twice", nil))
			connected(t, c)
			lost := srv.Inject(zktest.Fault{Op: "multi", Action: zktest.LoseReply})
			results, err := c.IdempotentTransaction(ctx, ops...)
			require.NoError(t, err, name)
			assert.Equal(t, 1, lost.Hits(), name)
			require.Len(t, results, len(ops), name)
			for i, res := range results {
				assert.Equal(t, ops[i].path, res.Path)
				assert.NoError(t, res.Err)
				var stat Stat
				node := srv.Tree()[res.Path]
				if res.Op == "setData" || res.Op == "create" && (node.Mode == zktest.Container || node.Mode == zktest.TTL) {
					stat = Stat(node.Stat)
				}
				assert.Equal(t, stat, res.Stat, name)
			}
			_, err = c.IdempotentTransaction(ctx, ops...)
			assert.Error(t, err, "%s: once is enough", name)
			assert.NotErrorIs(t, err, ErrOutcomeUnknown, name)
		}
	})
}

// Another client's changes do not count as executed, however alike, and neither do changes whose origin is unknown.
func TestIdempotentTransactionForgivesNothingElse(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx, op := t.Context(), c.TransactionOp()
		try := func(change func(), ops ...TransactionOp) error {
			t.Helper()
			connected(t, c)
			require.NoError(t, c.Sync().ForPath(ctx, "/"))
			srv.Inject(zktest.Fault{Op: "multi", Action: zktest.LoseReply})
			hold := srv.Inject(zktest.Fault{Op: "multi", Action: zktest.Hold})
			defer hold.Remove()
			got := make(chan error)
			go func() { got <- second(c.IdempotentTransaction(ctx, ops...)) }()
			<-hold.Struck()
			change()
			hold.Release()
			return <-got
		}
		plant(t, srv, "/a", "/b")
		nothing := func() {}
		for name, err := range map[string]error{
			"other refusal": try(nothing, op.Check().WithVersion(7).ForPath("/a"), op.Delete().ForPath("/none")),
			"changed since": try(
				func() { require.NoError(t, srv.Set("/c", nil)) }, op.Create().ForPath("/c", []byte("x")),
			),
			"two others": try(
				func() { require.NoError(t, srv.Set("/a", []byte("x"))) },
				op.SetData().WithVersion(0).ForPath("/a", []byte("x")),
				op.SetData().WithVersion(0).ForPath("/b", []byte("x")),
			),
			"undone since": try(
				func() { require.NoError(t, srv.Delete("/d")) }, op.Delete().ForPath("/b"),
				op.Create().ForPath("/d", nil),
			),
		} {
			assert.ErrorIs(t, err, ErrConnectionLoss, name)
			assert.NotErrorIs(t, err, ErrNoNode, name)
		}

		// A refusal is the result, and names the operation, whether its reply was lost or not.
		err := try(nothing, op.Create().ForPath("/a", []byte("/a")))
		assert.EqualError(t, err, "transaction /a: operation 0 (create): node already exists")
		_, err = c.IdempotentTransaction(ctx, op.Create().ForPath("/a", []byte("/a")))
		assert.EqualError(t, err, "transaction /a: operation 0 (create): node already exists")

		for name, ops := range map[string][]TransactionOp{
			"nothing refuses": {op.SetData().ForPath("/a", nil)},
			"only a check":    {op.Check().WithVersion(3).ForPath("/a")},
			"come and go":     {op.Create().ForPath("/x", nil), op.Delete().ForPath("/x")},
			"anew":            {op.Delete().ForPath("/a"), op.Create().ForPath("/a", nil)},
			"sequential": {
				op.Create().WithMode(EphemeralSequential).ForPath("/s", nil), op.Create().ForPath("/y", nil),
			},
			"only an ephemeral node": {
				op.Create().WithMode(Ephemeral).ForPath("/e", nil), op.SetData().ForPath("/a", nil),
			},
			"empty": nil,
		} {
			_, err := c.IdempotentTransaction(ctx, ops...)
			assert.ErrorIs(t, err, ErrBadArguments, name)
		}
	})
}

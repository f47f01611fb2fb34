package framework

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/framework/tree"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/zkserver"
)

// Each kind of operation by itself and all of them together; the library underneath cannot even encode some of them.
func TestTransactionOfEveryKind(t *testing.T) {
	t.Parallel()
	_, c := serve(t, zkserver.Options{ExtendedTypes: true})
	ctx, op := kit.Context(t), c.TransactionOp()
	create(t, c, "/old", "old")
	create(t, c, "/set", "set")
	mode := func(m framework.CreateMode) framework.TransactionCreate { return op.Create().WithMode(m) }
	ops := []framework.TransactionOp{
		op.Check().WithVersion(0).ForPath("/old"),
		op.Create().ForPath("/p", []byte("data")),
		mode(framework.Ephemeral).ForPath("/p/e", nil),
		mode(framework.PersistentSequential).ForPath("/p/ps-", nil),
		mode(framework.EphemeralSequential).WithACL(framework.ReadACL()...).ForPath("/p/es-", nil),
		mode(framework.Container).ForPath("/p/c", nil),
		mode(framework.PersistentTTL).WithTTL(time.Hour).ForPath("/p/t", nil),
		mode(framework.PersistentSequentialTTL).WithTTL(time.Hour).ForPath("/p/ts-", nil),
		op.SetData().WithVersion(0).ForPath("/set", []byte("one")),
		op.SetData().Compressed().ForPath("/set", []byte("two")),
		op.Check().ForPath("/p/c"),
		op.Delete().WithVersion(0).ForPath("/old"),
	}
	for _, background := range []bool{false, true} {
		var results []framework.TransactionResult
		var err error
		if background {
			require.NoError(t, tree.Delete(ctx, c, "/p"))
			require.NoError(t, tree.Delete(ctx, c, "/set"))
			create(t, c, "/old", "old")
			create(t, c, "/set", "set")
			results, err = c.TransactionInBackground(ctx, ops...).Wait(ctx)
		} else {
			results, err = c.Transaction(ctx, ops...)
		}
		require.NoError(t, err)
		require.Len(t, results, len(ops))
		want := []string{"/old", "/p", "/p/e", "/p/ps-0000000001", "/p/es-0000000002", "/p/c", "/p/t",
			"/p/ts-0000000005", "/set", "/set", "/p/c", "/old"}
		for i, r := range results {
			assert.Equal(t, want[i], r.Path)
			assert.NoError(t, r.Err)
		}
		assert.EqualValues(t, 1, results[8].Stat.Version)
		assert.EqualValues(t, 2, results[9].Stat.Version)
		data, err := c.GetData().Decompressed().ForPath(ctx, "/set")
		require.NoError(t, err)
		assert.Equal(t, "two", string(data))
		acl, err := c.GetACL().ForPath(ctx, results[4].Path)
		require.NoError(t, err)
		assert.Equal(t, framework.ReadACL(), acl)
		s, err := c.Session(ctx)
		require.NoError(t, err)
		for i, owner := range map[int]int64{1: 0, 2: s.ID(), 3: 0, 4: s.ID(), 5: 0} {
			stat, err := c.CheckExists().ForPath(ctx, results[i].Path)
			require.NoError(t, err)
			require.NotNil(t, stat, results[i].Path)
			assert.Equal(t, owner, stat.EphemeralOwner, results[i].Path)
		}
		stat, err := c.CheckExists().ForPath(ctx, "/old")
		require.NoError(t, err)
		assert.Nil(t, stat)
	}
}

// Each possible failure of an operation fails the transaction, whose error names the operation and the reason, and
// nothing is executed.
func TestTransactionFailures(t *testing.T) {
	t.Parallel()
	_, c := serve(t, zkserver.Options{}) // without TTL nodes
	ctx, op := kit.Context(t), c.TransactionOp()
	create(t, c, "/a/b", "")
	_, err := c.Create().WithMode(framework.Ephemeral).ForPath(ctx, "/e", nil)
	require.NoError(t, err)
	_, err = c.Create().WithACL(framework.ACL{Perms: framework.PermRead, Scheme: "world", ID: "anyone"}).
		ForPath(ctx, "/closed", nil)
	require.NoError(t, err)
	_, err = c.Create().WithACL(framework.DigestACL(framework.PermAll, "somebody", "else")).
		ForPath(ctx, "/hidden", nil)
	require.NoError(t, err)
	for _, tc := range []struct {
		name string
		bad  framework.TransactionOp
		want error
	}{
		{"create: there already", op.Create().ForPath("/a", nil), framework.ErrNodeExists},
		{"create: no parent", op.Create().ForPath("/none/x", nil), framework.ErrNoNode},
		{"create: below an ephemeral", op.Create().ForPath("/e/x", nil), framework.ErrNoChildrenForEphemerals},
		{"create: not allowed", op.Create().ForPath("/closed/x", nil), framework.ErrNoAuth},
		{"create: ACL", op.Create().WithACL(framework.ACL{Perms: framework.PermAll, Scheme: "nonsense", ID: "x"}).
			ForPath("/x", nil), framework.ErrInvalidACL},
		{"ephemeral: there already", op.Create().WithMode(framework.Ephemeral).ForPath("/e", nil),
			framework.ErrNodeExists},
		{"sequential: no parent", op.Create().WithMode(framework.EphemeralSequential).ForPath("/none/x-", nil),
			framework.ErrNoNode},
		{"container: there already", op.Create().WithMode(framework.Container).ForPath("/a", nil),
			framework.ErrNodeExists},
		{"TTL: not enabled", op.Create().WithMode(framework.PersistentTTL).WithTTL(time.Hour).ForPath("/t", nil),
			framework.ErrUnimplemented},
		{"delete: not there", op.Delete().ForPath("/none"), framework.ErrNoNode},
		{"delete: children", op.Delete().ForPath("/a"), framework.ErrNotEmpty},
		{"delete: version", op.Delete().WithVersion(7).ForPath("/a/b"), framework.ErrBadVersion},
		{"delete: made in this transaction, with children", op.Delete().ForPath("/new"), framework.ErrNotEmpty},
		{"set: not there", op.SetData().ForPath("/none", nil), framework.ErrNoNode},
		{"set: version", op.SetData().WithVersion(7).ForPath("/a", nil), framework.ErrBadVersion},
		{"set: not allowed", op.SetData().ForPath("/closed", nil), framework.ErrNoAuth},
		{"check: not there", op.Check().ForPath("/none"), framework.ErrNoNode},
		{"check: version", op.Check().WithVersion(7).ForPath("/a"), framework.ErrBadVersion},
		{"check: not allowed", op.Check().ForPath("/hidden"), framework.ErrNoAuth},
	} {
		ops := []framework.TransactionOp{op.Create().ForPath("/new", nil), op.Create().ForPath("/new/below", nil),
			tc.bad, op.SetData().ForPath("/a", []byte("changed"))}
		for _, background := range []bool{false, true} {
			var results []framework.TransactionResult
			var err error
			if background {
				results, err = c.TransactionInBackground(ctx, ops...).Wait(ctx)
			} else {
				results, err = c.Transaction(ctx, ops...)
			}
			if !assert.ErrorIs(t, err, tc.want, tc.name) {
				continue
			}
			assert.NotErrorIs(t, err, framework.ErrOutcomeUnknown, tc.name)
			var refused *framework.TransactionError
			require.ErrorAs(t, err, &refused, tc.name)
			assert.Equal(t, 2, refused.Index, tc.name)
			require.Len(t, results, 4, tc.name)
			assert.NoError(t, results[0].Err, tc.name)
			assert.NoError(t, results[1].Err, tc.name)
			assert.ErrorIs(t, results[2].Err, tc.want, tc.name)
			assert.ErrorIs(t, results[3].Err, framework.ErrNotAttempted, tc.name)
		}
		stat, err := c.CheckExists().ForPath(ctx, "/new")
		require.NoError(t, err)
		assert.Nil(t, stat, "%s: nothing was done", tc.name)
	}
	stat, err := c.CheckExists().ForPath(ctx, "/a")
	require.NoError(t, err)
	assert.Zero(t, stat.Version)
}

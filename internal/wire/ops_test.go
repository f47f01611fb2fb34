package wire

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/zktest"
)

// A request of an operation that the client does not know has no limit for its reply, and its outcome cannot be judged.
func TestNothingIsSentWithoutARow(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		before := srv.Counts()
		for _, code := range []int32{999, jute.OpCheck, jute.OpDeleteContainer, jute.OpCreateSession} {
			r := c.do(code)
			require.ErrorIs(t, r.Err, ErrNoOperation)
			require.ErrorIs(t, r.Err, ErrNotSent)
		}
		assert.Equal(t, before, srv.Counts())
		assert.NoError(t, c.sync().Err, "the connection goes on")
	})
}

func TestTheTableOfOperationsAgreesWithItself(t *testing.T) {
	names := map[string]bool{}
	for code, op := range operations {
		assert.NotEmpty(t, op.name, code)
		assert.False(t, names[op.name], op.name)
		names[op.name] = true
		assert.False(t, op.commits && !op.mutates, "%s: commits nothing", op.name)
		assert.Equal(t, op.mutates && code != jute.OpReconfig, op.commits, op.name)
		assert.False(t, op.arms != 0 && op.mutates, op.name)
		assert.Contains(t, []WatchKind{0, Data, Child, Persistent}, op.arms, op.name)
	}
	assert.False(t, Mutates(999))
	assert.Empty(t, OpName(999))
}

package session

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/zkserver"
)

// A server before 3.6 would close the connection on a persistent watch, and the loss of the connection ends holds.
func TestACacheCostsNoConnection(t *testing.T) {
	t.Parallel()
	node := server(t, zkserver.Options{})
	a := two(t, node.ConnectString(), calm)[0]
	ctx := kit.Context(t)
	_, err := a.Create().CreatingParentsIfNeeded().ForPath(ctx, "/r/a", []byte("data"))
	require.NoError(t, err)
	_, err = a.Create().WithMode(framework.Ephemeral).ForPath(ctx, "/lock", nil)
	require.NoError(t, err)
	hold, err := a.first.Hold(ctx, framework.HoldOptions{Path: "/lock", Loss: framework.SuspendedIsLoss})
	require.NoError(t, err)
	for range 2 {
		c, err := cache.New(a.Client, "/r")
		require.NoError(t, err)
		require.NoError(t, c.WaitSynced(ctx))
		assert.True(t, hold.Valid())
		n, _ := c.Get("/r/a")
		assert.Equal(t, "data", string(n.Data))
		require.NoError(t, c.Close())
	}
	_, err = a.MultiRead().ForReads(ctx, framework.ReadData("/r"))
	if kit.Has(t, kit.PersistentWatches) {
		require.NoError(t, err)
	} else {
		require.ErrorIs(t, err, framework.ErrUnimplemented)
	}
	assert.NoError(t, hold.Context().Err())
	assert.False(t, a.states.Heard(), "the connection was lost")
	hold.End(nil)
}

package framework

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/zkserver"
)

func TestIdempotentOperations(t *testing.T) {
	t.Parallel()
	node, c := serve(t, zkserver.Options{ExtendedTypes: true})
	ctx := kit.Context(t)
	other, _ := kit.Connected(t, node.ConnectString(), framework.WithSessionTimeout(calm))
	for mode, path := range map[framework.CreateMode]string{framework.Persistent: "/p",
		framework.Ephemeral: "/e", framework.Container: "/c"} {
		_, err := c.Create().Idempotent().WithMode(mode).ForPath(ctx, path, []byte("x"))
		require.NoError(t, err, "%v", mode)
		for _, again := range []*framework.Client{c, other} {
			_, err = again.Create().Idempotent().WithMode(mode).ForPath(ctx, path, []byte("x"))
			assert.ErrorIs(t, err, framework.ErrNodeExists)
		}
	}
	stat, err := c.SetData().Idempotent().WithVersion(0).ForPath(ctx, "/p", []byte("y"))
	require.NoError(t, err)
	assert.EqualValues(t, 1, stat.Version)
	_, err = other.SetData().Idempotent().WithVersion(0).ForPath(ctx, "/p", []byte("y"))
	assert.ErrorIs(t, err, framework.ErrBadVersion)
	require.NoError(t, c.Delete().Idempotent().WithVersion(1).ForPath(ctx, "/p"))
	assert.ErrorIs(t, c.Delete().Idempotent().WithVersion(1).ForPath(ctx, "/p"), framework.ErrNoNode)
}

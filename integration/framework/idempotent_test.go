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
	for mode, path := range map[framework.CreateMode]string{framework.Persistent: "/p", framework.Ephemeral: "/e", framework.Container: "/c"} {
		for range 2 {
			_, err := c.Create().Idempotent().WithMode(mode).ForPath(ctx, path, []byte("x"))
			require.NoError(t, err, "%v", mode)
		}
		_, err := c.Create().Idempotent().WithMode(mode).ForPath(ctx, path, []byte("y"))
		assert.ErrorIs(t, err, framework.ErrNodeExists)
		_, err = other.Create().Idempotent().WithMode(mode).ForPath(ctx, path, []byte("x"))
		if mode == framework.Ephemeral {
			assert.ErrorIs(t, err, framework.ErrNodeExists, "somebody else's")
		} else {
			assert.NoError(t, err)
		}
	}
	for range 2 {
		stat, err := c.SetData().Idempotent().WithVersion(0).ForPath(ctx, "/p", []byte("y"))
		require.NoError(t, err)
		assert.EqualValues(t, 1, stat.Version)
	}
	_, err := other.SetData().Idempotent().WithVersion(0).ForPath(ctx, "/p", []byte("z"))
	assert.ErrorIs(t, err, framework.ErrBadVersion)
	for range 2 {
		require.NoError(t, c.Delete().Idempotent().WithVersion(1).ForPath(ctx, "/p"))
	}
}

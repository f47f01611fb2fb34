package recipes

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/javapeer"
	"github.com/go-curator/curator/recipes/mutex"
)

// This library's multi-lock and Java's InterProcessMultiLock on the same paths, in the same order.
func TestMultiLock(t *testing.T) {
	t.Parallel()
	kit.Interop(t, "multi-lock", kit.GoToJava, kit.JavaToGo)
	const first, second = "/multi/first", "/multi/second"
	w := newWorld(t)
	ctx := kit.Context(t)
	both := mutex.NewMulti(mutex.Of(mutex.New(w.client, first)), mutex.Of(mutex.New(w.client, second)))
	theirs, err := w.peer.MultiLock(ctx, "multi", first, second)
	require.NoError(t, err)
	for _, path := range []string{first, second} { // not containers, so that they keep the zxids of changes
		_, err = w.client.Create().CreatingParentContainersIfNeeded().ForPath(ctx, path, nil)
		require.NoError(t, err)
	}
	pzxid := func(path string) int64 {
		stat, err := w.client.CheckExists().ForPath(ctx, path)
		require.NoError(t, err)
		return stat.Pzxid
	}

	lock, err := both.Acquire(ctx)
	require.NoError(t, err)
	w.count(t, first, 1)
	w.count(t, second, 1)
	granted := theirs.GoAcquire(javapeer.Forever)
	w.count(t, first, 2) // it waits for the first lock and has no node at the second
	w.count(t, second, 1)
	require.NoError(t, lock.Release(ctx))
	_, err = granted(ctx)
	require.NoError(t, err)
	waiting := kit.Call(t, kit.Context(t), both.Acquire)
	w.count(t, first, 2)
	assert.Empty(t, waiting)
	require.NoError(t, theirs.Release(ctx))
	lock = kit.Receive(t, "our turn", waiting)
	// Without other contenders the last change of a directory is this client's delete.
	require.NoError(t, lock.Release(ctx))
	assert.Greater(t, pzxid(first), pzxid(second), "released in reverse order, as Java does")
	_, err = theirs.Acquire(ctx, javapeer.Forever)
	require.NoError(t, err)
	require.NoError(t, theirs.Release(ctx))
	assert.Greater(t, pzxid(first), pzxid(second), "what Java does")
	w.count(t, first, 0)
	w.count(t, second, 0)
}

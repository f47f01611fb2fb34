package recipes

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/javapeer"
	"github.com/go-curator/curator/recipes/mutex"
)

// A revocable holder in either language is notified of the other's request, and releases the lock.
func TestRevocation(t *testing.T) {
	t.Parallel()
	kit.Interop(t, "revocation", kit.GoToJava, kit.JavaToGo)
	w := newWorld(t)
	ctx := kit.Context(t)
	const path = "/revoke/lock"
	ours := mutex.New(w.client, path, mutex.WithRevocation())
	theirs, err := w.peer.Mutex(ctx, "m", path)
	require.NoError(t, err)
	require.NoError(t, theirs.MakeRevocable(ctx))

	_, err = theirs.Acquire(ctx, javapeer.Forever)
	require.NoError(t, err)
	revocable := []string{` persistent ""`, `/_c_GUID-lock-0000000000 ephemeral ""`}
	assert.Equal(t, revocable, w.nodes(t, path))
	waiting := kit.Call(t, kit.Context(t), ours.Acquire)
	w.count(t, path, 2)
	holder, found, err := ours.Holder(ctx)
	require.NoError(t, err)
	require.True(t, found)
	require.NoError(t, mutex.Revoke(ctx, w.client, holder.Path))
	require.NoError(t, theirs.AwaitRevoked(ctx))
	assert.Empty(t, waiting, "the lock stays with the holder until it is released")
	from := time.Now()
	require.NoError(t, theirs.Release(ctx))

	lock := kit.Receive(t, "our turn", waiting)
	t.Logf("granted %v after Java's release", time.Since(from))
	select {
	case <-lock.Revoked():
		require.Fail(t, "revoked before anybody has asked")
	default:
	}
	assert.Equal(t, []string{` persistent ""`, `/_c_GUID-lock-0000000001 ephemeral ""`}, w.nodes(t, path))
	granted := theirs.GoAcquire(javapeer.Forever)
	w.count(t, path, 2)
	require.NoError(t, w.peer.Revoke(ctx, lock.Path()))
	kit.Closed(t, "Revoked", lock.Revoked())
	assert.True(t, lock.Valid())
	data, err := w.peer.Get(ctx, lock.Path())
	require.NoError(t, err)
	assert.Equal(t, "__REVOKE__", string(data))
	require.NoError(t, lock.Release(ctx))
	_, err = granted(ctx)
	require.NoError(t, err)
	require.NoError(t, theirs.Release(ctx))
	w.gone(t, "/revoke")
}

package recipes

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/javapeer"
	"github.com/go-curator/curator/integration/zkserver"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/recipes/mutex"
)

// The class in docs/from-java-curator.md gives Java's holders tokens that grow together with Go's, and none when the
// node is gone.
func TestTokensOfJavaAndGo(t *testing.T) {
	t.Parallel()
	node := zkserver.Start(t, zkserver.Options{TickTime: tick})
	client, _ := kit.Connected(t, node.ConnectString())
	t.Run("mutex", func(t *testing.T) {
		kit.Interop(t, "mutex", kit.Mixed)
		ctx := kit.Context(t)
		_, java := javaLock(t, node.ConnectString(), "/fenced/lock", 10*time.Second)
		ours := mutex.New(client, "/fenced/lock")
		var tokens []int64
		for range 3 {
			_, err := java.Acquire(ctx, javapeer.Forever)
			require.NoError(t, err)
			theirs, err := java.Token(ctx)
			require.NoError(t, err)
			require.NoError(t, java.Release(ctx))

			lock, err := ours.Acquire(ctx)
			require.NoError(t, err)
			tokens = append(tokens, theirs, lock.FencingToken())
			require.NoError(t, lock.Release(ctx))
		}
		assert.True(t, slices.IsSorted(tokens), "%d", tokens)
		assert.Len(t, slices.Compact(tokens), 6)

		name, err := java.Acquire(ctx, javapeer.Forever)
		require.NoError(t, err)
		require.NoError(t, client.Delete().ForPath(ctx, "/fenced/lock/"+name))
		_, err = java.Token(ctx)
		assert.ErrorContains(t, err, "the lock is lost")
	})
	t.Run("latch", func(t *testing.T) {
		kit.Interop(t, "leader latch", kit.Mixed)
		ctx := kit.Context(t)
		peer := javapeer.Start(t)
		require.NoError(t, peer.Connect(ctx, node.ConnectString(), 10*time.Second))
		first, err := peer.Latch(ctx, "first", "/fenced/leader", "java")
		require.NoError(t, err)
		_, err = first.AwaitLeader(ctx)
		require.NoError(t, err)
		theirs, err := first.Token(ctx)
		require.NoError(t, err)
		latch, err := leader.NewLatch(client, "/fenced/leader", leader.WithID("go"))
		require.NoError(t, err)
		defer latch.Close()
		kit.Soon(t, "both are in line", func() bool {
			all, err := latch.Participants(ctx)
			return assert.NoError(t, err) && len(all) == 2
		})
		require.NoError(t, first.Close(ctx))
		term, err := latch.Await(ctx)
		require.NoError(t, err)
		assert.Greater(t, term.FencingToken(), theirs)
	})
}

package recipes

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/javapeer"
	"github.com/go-curator/curator/integration/zkserver"
	"github.com/go-curator/curator/recipes/mutex"
)

// What a Go process keeps without using it Java gets at once, and the other way round nothing changes.
// Java's acquire without a wait fails once, and is noticed.
func TestKeptWithJava(t *testing.T) {
	t.Parallel()
	kit.Interop(t, "mutex", kit.Mixed)
	const path = "/locks/kept"
	node := zkserver.Start(t, zkserver.Options{TickTime: tick})
	ctx := kit.Context(t)
	client, _ := kit.Connected(t, node.ConnectString())
	m := mutex.NewCohort(client, path, mutex.WithKept(time.Hour))
	_, java := javaLock(t, node.ConnectString(), path, 10*time.Second)
	use := func() (name string) {
		for range 100 {
			lock, err := m.Acquire(ctx)
			require.NoError(t, err)
			assert.True(t, lock.Valid())
			name = lock.Node()
			require.NoError(t, lock.Release(ctx))
		}
		return name
	}
	for range 5 {
		ours := use()
		_, there, err := m.Holder(ctx)
		require.NoError(t, err)
		require.True(t, there, "it is kept")
		began := time.Now()
		theirs, err := java.Acquire(ctx, javapeer.Forever)
		require.NoError(t, err)
		t.Logf("Java has it after %v", time.Since(began))
		assert.Greater(t, number(theirs), number(ours))
		granted := make(chan string, 1)
		go func() { granted <- use() }()
		kit.Soon(t, "both are in line", func() bool {
			line, err := java.Participants(ctx)
			return assert.NoError(t, err) && len(line) == 2
		})
		require.NoError(t, java.Release(ctx))
		assert.Greater(t, number(kit.Receive(t, "the lock", granted)), number(theirs))
	}
	// It tries until it has it: once if it is unlucky.
	kit.Soon(t, "Java gets what is kept by trying", func() bool {
		limited, cancel := context.WithTimeout(ctx, kit.Patience)
		defer cancel()
		_, err := java.Acquire(limited, time.Millisecond)
		return err == nil
	})
	require.NoError(t, java.Release(ctx))
}

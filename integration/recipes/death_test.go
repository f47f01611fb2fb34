package recipes

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/proxy"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/recipes/semaphore"
)

// Read-write locks and leases of a holder that dies go to the other language when its session has expired,
// and a holder here that is cut off knows before.
func TestHoldersDie(t *testing.T) {
	t.Parallel()
	const timeout = 2 * time.Second
	w := newWorld(t)
	ctx := kit.Context(t)

	t.Run("Java is killed", func(t *testing.T) {
		kit.Interop(t, "read-write lock", kit.JavaToGo)
		kit.Interop(t, "semaphore", kit.JavaToGo)
		dying := w.java(t, timeout)
		_, err := javaGuest(t, dying, "/dead/java-rw", "dying").acquire(ctx, rwlock.Read)
		require.NoError(t, err)
		s, err := dying.Semaphore(ctx, "dying", "/dead/java-leases", 2)
		require.NoError(t, err)
		_, err = s.Acquire(ctx, "dying", 2, kit.Patience)
		require.NoError(t, err)
		writer := kit.Call(t, kit.Context(t), rwlock.New(w.client, "/dead/java-rw").WriteLock().Acquire)
		w.count(t, "/dead/java-rw", 2)
		leases := kit.Call(t, kit.Context(t), func(ctx context.Context) (*semaphore.Lease, error) {
			return semaphore.New(w.client, "/dead/java-leases", 2).Acquire(ctx, 2)
		})
		w.count(t, "/dead/java-leases/locks", 1)
		dying.Kill()
		died := time.Now()
		lock := kit.Receive(t, "the write lock", writer)
		lease := kit.Receive(t, "the leases", leases)
		took := time.Since(died)
		assert.Greater(t, took, timeout/2)
		assert.Less(t, took, timeout+kit.Slack())
		require.NoError(t, lock.Release(ctx))
		require.NoError(t, lease.Release(ctx))
	})
	t.Run("Go is cut off", func(t *testing.T) {
		kit.Interop(t, "read-write lock", kit.GoToJava)
		kit.Interop(t, "semaphore", kit.GoToJava)
		link := proxy.New(t, w.node.Addr())
		cut, _ := kit.Connected(t, link.Addr(), framework.WithSessionTimeout(timeout))
		lock, err := rwlock.New(cut, "/dead/go-rw").WriteLock().Acquire(ctx)
		require.NoError(t, err)
		lease, err := semaphore.New(cut, "/dead/go-leases", 1).Acquire(ctx, 1)
		require.NoError(t, err)
		heir := javaGuest(t, w.peer, "/dead/go-rw", "heir")
		reader := kit.Call(t, kit.Context(t), func(ctx context.Context) (release, error) {
			return heir.acquire(ctx, rwlock.Read)
		})
		s, err := w.peer.Semaphore(ctx, "heir", "/dead/go-leases", 1)
		require.NoError(t, err)
		borrower := kit.Call(t, kit.Context(t), func(ctx context.Context) (release, error) {
			return javaBorrower(s, "heir").acquire(ctx, 1)
		})
		w.count(t, "/dead/go-rw", 2)
		w.count(t, "/dead/go-leases/leases", 2)
		link.Cut()
		// Java has the read lock or the lease at the earliest when both contexts have ended, since they end with
		// one session.
		var giveBack []release
		for range 2 {
			select {
			case r := <-reader:
				giveBack = append(giveBack, r)
			case r := <-borrower:
				giveBack = append(giveBack, r)
			case <-ctx.Done():
				require.FailNow(t, "Java waits forever")
			}
			assert.ErrorIs(t, context.Cause(lock.Context()), framework.ErrSessionLost)
			assert.ErrorIs(t, context.Cause(lease.Context()), framework.ErrSessionLost)
		}
		for _, r := range giveBack {
			require.NoError(t, r(ctx))
		}
		link.Heal()
		assert.ErrorIs(t, lock.Release(ctx), framework.ErrSessionLost)
		assert.ErrorIs(t, lease.Release(ctx), framework.ErrSessionLost)
	})
	w.gone(t, "/dead")
}

package mutex_test

import (
	"context"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// The Lock of go-zookeeper contends in the same line, here even in the same session.
func TestGoZookeepersLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s), newClient(t, s)
		ma := mutex.New(a, path)
		lock := acquire(t, ma)

		theirs := zk.NewLock(b.Conn(), path, zk.WorldACL(zk.PermAll))
		locked := make(chan error, 1)
		go func() { locked <- theirs.Lock() }()
		synctest.Wait()
		require.Empty(t, locked, "it waits for ours")
		line, err := ma.Participants(background)
		require.NoError(t, err)
		require.Len(t, line, 2)

		release(t, lock)
		require.NoError(t, <-locked)
		_, err = ma.TryAcquire(background)
		require.ErrorIs(t, err, mutex.ErrNotAcquired)
		waiter := waiting(t, background, ma)
		require.NoError(t, theirs.Unlock())
		release(t, waiter.End().OK())
	})
}

// The values given to a client may refer to a lock of it. Both are garbage collected all the same (found by the simulation).
func TestAForgottenLockIsCollected(t *testing.T) {
	s := zktest.RunT(t)
	gone := func() weak.Pointer[mutex.Lock] {
		var held *mutex.Lock
		dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
			_ = held
			return s.Dial(ctx, network, addr)
		}
		c, err := framework.New(s.Addr(), framework.WithDialer(dial))
		require.NoError(t, err)
		held = acquire(t, mutex.New(c, path))
		require.NoError(t, c.Close())
		return weak.Make(held)
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		return gone.Value() == nil
	}, 2*time.Minute, time.Millisecond)
}

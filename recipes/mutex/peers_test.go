package mutex_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync"
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

// go-zookeeper's own lock stands in the same line, here even in the same session.
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

// syncBuffer may be written to by the garbage collector's goroutine.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Not in a bubble: clean-ups run outside of it.
func TestForgottenRelease(t *testing.T) {
	s := zktest.RunT(t)
	var log syncBuffer
	c := newClient(t, s, framework.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	m := mutex.New(c, path)
	release(t, acquire(t, m))
	node := acquire(t, m).Path() // dropped
	require.Eventually(t, func() bool {
		runtime.GC()
		return bytes.Contains([]byte(log.String()), []byte(node))
	}, 10*time.Second, time.Millisecond)
	require.Equal(t, 1, bytes.Count([]byte(log.String()), []byte("without Release")), "the released one is not mentioned")
	_, err := m.TryAcquire(background)
	require.ErrorIs(t, err, mutex.ErrNotAcquired, "it is still held")
}

// Whose session is over holds nothing any more: there is nothing to warn of.
func TestForgottenReleaseAfterTheEnd(t *testing.T) {
	s := zktest.RunT(t)
	var log syncBuffer
	logger := framework.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))
	closed, lost, live := newClient(t, s, logger), newClient(t, s, logger), newClient(t, s, logger)
	acquire(t, mutex.New(closed, "/closed"))
	require.NoError(t, closed.Close())
	acquire(t, mutex.New(lost, "/lost"))
	session, err := lost.Session(t.Context())
	require.NoError(t, err)
	s.Expire(session.ID())
	<-session.Done()
	for i := range 5 {
		node := acquire(t, mutex.New(live, fmt.Sprint("/live", i))).Path() // dropped
		require.Eventually(t, func() bool {
			runtime.GC()
			return bytes.Contains([]byte(log.String()), []byte(node))
		}, 10*time.Second, time.Millisecond)
	}
	require.Equal(t, 5, bytes.Count([]byte(log.String()), []byte("without Release")), log.String())
}

// What the client was given may lead back to a lock. It is collected all the same, and the client with it (found by the simulation).
func TestAForgottenLockIsCollected(t *testing.T) {
	s := zktest.RunT(t)
	gone := func() weak.Pointer[mutex.Lock] {
		var held *mutex.Lock
		c, err := framework.New(s.Addr(), framework.WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			_ = held
			return s.Dial(ctx, network, addr)
		}))
		require.NoError(t, err)
		held = acquire(t, mutex.New(c, path))
		require.NoError(t, c.Close())
		return weak.Make(held)
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		return gone.Value() == nil
	}, 10*time.Second, time.Millisecond)
}

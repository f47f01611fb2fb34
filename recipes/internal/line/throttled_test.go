package line_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// A server that is overloaded refuses to say what a waiter has to watch. The waiter asks again, with pauses,
// and not as fast as it can (found by the simulation: it did); and goes on as usual when the server has
// recovered.
func TestWaitingAtAnOverloadedServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t, zktest.Config{Pace: time.Millisecond})
		holder, waiter := recipetest.Client(t, s), recipetest.Client(t, s)
		lock, err := mutex.New(holder, "/lock").Acquire(t.Context())
		require.NoError(t, err)
		refused := s.Inject(zktest.Fault{Op: "getData", Action: zktest.ReplyError, Err: zktest.ErrThrottledOp,
			Times: -1})
		s.ResetCounts()
		got := make(chan *mutex.Lock, 1)
		go func() {
			lock, err := mutex.New(waiter, "/lock").Acquire(context.Background())
			assert.NoError(t, err)
			got <- lock
		}()
		time.Sleep(10 * time.Second)
		lists := s.Counts()["getChildren2"]
		assert.Greater(t, lists, 10)
		assert.Less(t, lists, 100)
		refused.Remove()
		time.Sleep(2 * time.Second)
		require.NoError(t, lock.Release(t.Context()))
		require.NoError(t, (<-got).Release(t.Context()))
	})
}

// The server refuses the read that would arm the watch on the own node, and not the one of the node ahead. The
// waiter asks again: it hears at once of the deletion of its own node, and not when it looks next.
func TestOnlyTheOwnWatchIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		holder, waiter := recipetest.Client(t, s), recipetest.Client(t, s)
		m := mutex.New(holder, "/lock")
		lock, err := m.Acquire(t.Context())
		require.NoError(t, err)
		refused := s.Inject(zktest.Fault{Op: "getData", Action: zktest.ReplyError, Err: zktest.ErrThrottledOp})
		call := recipetest.Begin(t, func() (*mutex.Lock, error) {
			return mutex.New(waiter, "/lock").Acquire(context.Background())
		}).Waits()
		require.Equal(t, 1, refused.Hits())
		line, err := m.Participants(t.Context())
		require.NoError(t, err)
		require.Len(t, line, 2)
		require.NoError(t, s.Delete(line[1].Path))
		synctest.Wait()
		again, err := m.Participants(t.Context())
		require.NoError(t, err)
		require.Len(t, again, 2, "it stands in line again")
		require.NotEqual(t, line[1].Path, again[1].Path)
		require.NoError(t, lock.Release(t.Context()))
		require.NoError(t, call.End().OK().Release(t.Context()))
	})
}

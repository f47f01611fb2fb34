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

// An overloaded server refuses the read that arms a waiter's watch. The waiter retries with pauses, not as fast as it can (found
// by the simulation: it did), and continues as usual when the server has recovered.
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

// The server refuses the read that arms the watch on the own node, but not the one on the predecessor's. The waiter retries: so
// it gets the event of its own node's deletion immediately, and not only at its next read.
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

package queue_test

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

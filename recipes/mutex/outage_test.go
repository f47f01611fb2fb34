package mutex_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/retry"
	"github.com/go-curator/curator/zktest"
)

// A caller whose node cannot be created does not wait for the list of the line.

func TestGoroutinesInAnOutageGiveUpTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s, framework.WithSessionTimeout(time.Minute), framework.WithConnectionTimeout(5*time.Second),
			framework.WithRetry(retry.RetryNTimes{Retries: 1, Sleep: 100 * time.Millisecond}))
		require.NoError(t, c.WaitConnected(background))
		s.Stop()
		synctest.Wait()
		began := time.Now()
		var calls []*call
		for range 4 {
			calls = append(calls, begin(t, background, mutex.New(c, path)))
		}
		for _, one := range calls {
			_, err := one.End().Returned()
			assert.ErrorIs(t, err, framework.ErrNotConnected)
			assert.LessOrEqual(t, one.At.Sub(began), 11*time.Second, "two tries of 5 s, and the pause")
		}
	})
}

func TestARefusedCallerDoesNotWaitForAnothersHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create(path, nil))
		hung, ended := make(chan struct{}), make(chan struct{})
		c := newClient(t, s, framework.WithHooks(framework.Hooks{
			Operation: func(_ context.Context, op framework.Operation) func(framework.OperationEnd) {
				if op.Name == "getChildren" {
					<-hung
				}
				return func(framework.OperationEnd) {}
			},
		}))
		require.NoError(t, c.WaitConnected(background))
		ctx, cancel := context.WithCancel(background)
		go func() {
			defer close(ended)
			if lock, err := mutex.New(c, path).Acquire(ctx); err == nil {
				_ = lock.Release(background)
			}
		}()
		synctest.Wait()
		s.Inject(zktest.Fault{Op: "create2", Action: zktest.ReplyError, Err: zktest.ErrNoAuth})
		refused := begin(t, background, mutex.New(c, path))
		synctest.Wait()
		_, err := refused.Returned()
		assert.ErrorIs(t, err, framework.ErrNoAuth)
		cancel()
		close(hung)
		<-ended
		<-refused.Done
	})
}

func TestARequestThatIsNotSentIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		require.NoError(t, c.WaitConnected(background))
		s.Stop()
		synctest.Wait()
		began := time.Now()
		_, err := mutex.New(c, path, mutex.WithNodeData(make([]byte, 2<<20))).Acquire(background)
		assert.Error(t, err)
		assert.False(t, errors.Is(err, framework.ErrNotConnected), err)
		assert.Zero(t, time.Since(began))
	})
}

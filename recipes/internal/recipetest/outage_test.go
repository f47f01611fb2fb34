package recipetest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/barrier"
	"github.com/go-curator/curator/recipes/counter"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/node"
	"github.com/go-curator/curator/recipes/queue"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/recipes/semaphore"
	"github.com/go-curator/curator/retry"
	"github.com/go-curator/curator/zktest"
)

type call func(ctx context.Context) error

// calling adapts a call that also returns a value.
func calling[T any](f func(context.Context) (T, error)) call {
	return func(ctx context.Context) error {
		_, err := f(ctx)
		return err
	}
}

// calls are calls that fail when the retry policy ends.
var calls = map[string]struct {
	// waits: once its node exists it waits as long as the session lasts.
	waits bool
	make  func(c *framework.Client) call
}{
	"acquire":     {true, func(c *framework.Client) call { return calling(mutex.New(c, "/r").Acquire) }},
	"try":         {true, func(c *framework.Client) call { return calling(mutex.New(c, "/r").TryAcquire) }},
	"cohort try":  {true, func(c *framework.Client) call { return calling(mutex.NewCohort(c, "/r").TryAcquire) }},
	"readers try": {true, func(c *framework.Client) call { return calling(rwlock.NewReaders(c, "/r").TryAcquire) }},
	"read try":    {true, func(c *framework.Client) call { return calling(rwlock.New(c, "/r").ReadLock().TryAcquire) }},
	"write try":   {true, func(c *framework.Client) call { return calling(rwlock.New(c, "/r").WriteLock().TryAcquire) }},
	"creating try": {true, func(c *framework.Client) call {
		return calling(mutex.New(c, "/r", mutex.WithCreatingTry()).TryAcquire)
	}},
	"participants": {false, func(c *framework.Client) call { return calling(mutex.New(c, "/r").Participants) }},
	"semaphore acquire": {true, func(c *framework.Client) call {
		s := semaphore.New(c, "/r", 2, semaphore.WithSharedCount("/r/max"))
		return func(ctx context.Context) error { _, err := s.Acquire(ctx, 2); return err }
	}},
	"semaphore try": {true, func(c *framework.Client) call {
		s := semaphore.New(c, "/r", 2, semaphore.WithSharedCount("/r/max"))
		return func(ctx context.Context) error { _, err := s.TryAcquire(ctx, 2); return err }
	}},
	"usage": {false, func(c *framework.Client) call {
		s := semaphore.New(c, "/r", 2, semaphore.WithSharedCount("/r/max"))
		return func(ctx context.Context) error { _, _, err := s.Usage(ctx); return err }
	}},
	"barrier set":    {false, func(c *framework.Client) call { return barrier.New(c, "/r/b").Set }},
	"barrier remove": {false, func(c *framework.Client) call { return barrier.New(c, "/r/b").Remove }},
	"barrier wait":   {false, func(c *framework.Client) call { return barrier.New(c, "/r/b").Wait }},
	"first add": {false, func(c *framework.Client) call {
		n := counter.NewLong(c, "/r/n")
		return func(ctx context.Context) error { _, err := n.Add(ctx, 1); return err }
	}},
	"add": {false, func(c *framework.Client) call {
		n := counter.NewLong(c, "/r/n")
		_, _ = n.Add(background, 1)
		return func(ctx context.Context) error { _, err := n.Add(ctx, 1); return err }
	}},
	"set": {false, func(c *framework.Client) call {
		n := counter.NewCount(c, "/r/c")
		return func(ctx context.Context) error { return n.Set(ctx, 1) }
	}},
	"create if missing": {false, func(c *framework.Client) call {
		n := counter.NewCount(c, "/r/c")
		return func(ctx context.Context) error { _, err := n.CreateIfMissing(ctx, 1); return err }
	}},
	"compare and set": {false, func(c *framework.Client) call {
		n := counter.NewCount(c, "/r/c")
		seen, _ := n.CreateIfMissing(background, 1)
		return func(ctx context.Context) error { _, err := n.CompareAndSet(ctx, seen, 2); return err }
	}},
	"update": {false, func(c *framework.Client) call {
		n := counter.NewCount(c, "/r/c")
		_, _ = n.CreateIfMissing(background, 1)
		return func(ctx context.Context) error {
			_, err := n.Update(ctx, func(n int32) (int32, error) { return n + 1, nil })
			return err
		}
	}},
	"claim": {true, func(c *framework.Client) call {
		return func(ctx context.Context) error { _, err := node.TryClaim(ctx, c, "/r/claim", nil); return err }
	}},
	"await claim": {true, func(c *framework.Client) call {
		return func(ctx context.Context) error { _, err := node.AwaitClaim(ctx, c, "/r/claim", nil); return err }
	}},
	"campaign": {true, func(c *framework.Client) call {
		return func(ctx context.Context) error { _, err := leader.Campaign(ctx, c, "/r/election"); return err }
	}},
	"put": {false, func(c *framework.Client) call {
		return func(ctx context.Context) error { return queue.New(c, "/r/q").Put(ctx, []byte{}) }
	}},
	"poll": {false, func(c *framework.Client) call {
		_ = queue.NewSimple(c, "/r/q").Offer(background, []byte{})
		return calling(queue.NewSimple(c, "/r/q").Poll)
	}},
}

// One call has one retry budget: if the server stops, at any request of the call or long before it, the call fails about as soon
// as a read does. Operations that retry themselves must not be retried by the call, too.
func TestACallHasOneRetryBudget(t *testing.T) {
	const timeout = 40 * time.Second
	for name, what := range calls {
		t.Run(name, func(t *testing.T) {
			for after, struck := -1, true; struck; after++ { // -1: the session is lost before the call
				synctest.Test(t, func(t *testing.T) {
					s := zktest.RunT(t)
					c := recipetest.Client(t, s, framework.WithConnectionTimeout(time.Second),
						framework.WithSessionTimeout(timeout),
						framework.WithRetry(retry.RetryNTimes{Retries: 3, Sleep: time.Second}))
					require.NoError(t, s.Create("/r", nil))
					f := what.make(c)
					synctest.Wait()
					hung := s.Inject(zktest.Fault{Session: recipetest.Session(t, c), After: max(after, 0), Action: zktest.Hold})
					if after < 0 {
						s.Stop()
						time.Sleep(2 * timeout)
					}
					ended := make(chan struct{})
					go func() {
						select {
						case <-hung.Struck():
							s.Stop()
						case <-ended:
						}
					}()
					ctx, cancel := context.WithTimeout(background, time.Minute)
					defer cancel()
					began := time.Now()
					err := f(ctx)
					took := time.Since(began)
					close(ended)
					if struck = after < 0 || hung.Hits() > 0; !struck {
						return
					}
					if took > 8*time.Second && (!what.waits || took < timeout*5/6) {
						t.Errorf("stopped at request %d it took %v: %v", after, took, err)
					}
					hung.Release()
					require.NoError(t, s.Start())
				})
			}
		})
	}
}

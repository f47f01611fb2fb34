package recipetest_test

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/barrier"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/recipes/semaphore"
	"github.com/go-curator/curator/zktest"
)

func idle(context.Context) error { return nil }

// The error of a wait that reaches its deadline contains the place of the wait and the reason for the missing connection, each
// once. It does so whether there was never a connection or it was lost during the wait.
func TestARecipesDeadlineSaysWhyThereIsNoConnection(t *testing.T) {
	waits := map[string]func(ctx context.Context, c *framework.Client) error{
		"mutex": func(ctx context.Context, c *framework.Client) error {
			_, err := mutex.New(c, "/r").Acquire(ctx)
			return err
		},
		"mutex do": func(ctx context.Context, c *framework.Client) error {
			return mutex.New(c, "/r").Do(ctx, idle)
		},
		"multi": func(ctx context.Context, c *framework.Client) error {
			_, err := mutex.NewMulti(mutex.Of(mutex.New(c, "/r"))).Acquire(ctx)
			return err
		},
		"read": func(ctx context.Context, c *framework.Client) error {
			_, err := rwlock.New(c, "/r").ReadLock().Acquire(ctx)
			return err
		},
		"readers": func(ctx context.Context, c *framework.Client) error {
			_, err := rwlock.NewReaders(c, "/r").Acquire(ctx)
			return err
		},
		"write": func(ctx context.Context, c *framework.Client) error {
			_, err := rwlock.New(c, "/r").WriteLock().Acquire(ctx)
			return err
		},
		"semaphore": func(ctx context.Context, c *framework.Client) error {
			_, err := semaphore.New(c, "/r", 1).Acquire(ctx, 1)
			return err
		},
		"barrier": func(ctx context.Context, c *framework.Client) error {
			return barrier.New(c, "/r/barrier").Wait(ctx)
		},
		"double": func(ctx context.Context, c *framework.Client) error {
			_, err := barrier.NewDouble(c, "/r", 7).Enter(ctx)
			return err
		},
		"latch": func(ctx context.Context, c *framework.Client) error {
			l, err := leader.NewLatch(c, "/r")
			if err != nil {
				return err
			}
			defer l.Close()
			_, err = l.Await(ctx)
			return err
		},
		"selector": func(ctx context.Context, c *framework.Client) error {
			return leader.NewSelector(c, "/r", idle).Run(ctx)
		},
		"observe": func(ctx context.Context, c *framework.Client) (last error) {
			for _, err := range leader.Observe(ctx, c, "/r") {
				last = err
			}
			return last
		},
		"count": func(ctx context.Context, c *framework.Client) (last error) {
			for _, err := range semaphore.NewCount(c, "/r").Watch(ctx) {
				last = err
			}
			return last
		},
	}
	for what, wait := range waits {
		for when, after := range map[string]time.Duration{"never connected": -1, "disconnected before": 0,
			"disconnected meanwhile": time.Second} {
			t.Run(what+" "+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := zktest.RunT(t)
					for _, path := range []string{"/r", "/r/barrier",
						"/r/_c_b3c0dd23-0000-4000-8000-1c3d5a7b9e0f-lock-0000000000",
						"/r/_c_b3c0dd23-0000-4000-8000-1c3d5a7b9e0f-latch-0000000000",
						"/r/_c_b3c0dd23-0000-4000-8000-1c3d5a7b9e0f-__WRIT__0000000000", "/r/leases",
						"/r/leases/_c_b3c0dd23-0000-4000-8000-1c3d5a7b9e0f-lease-0000000000"} {
						require.NoError(t, srv.Create(path, []byte{0, 0, 0, 1})) // another contender is ahead
					}
					var c *framework.Client
					if after >= 0 {
						c = recipetest.Client(t, srv, framework.WithSessionTimeout(40*time.Second))
						go func() {
							time.Sleep(after)
							srv.Stop()
						}()
					} else {
						srv.Stop()
						var err error
						c, err = framework.New(srv.Addr(), framework.WithDialer(srv.Dial))
						require.NoError(t, err)
						defer c.Close()
					}
					synctest.Wait()
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					defer cancel()
					began := time.Now()
					err := wait(ctx, c)
					require.Error(t, err)
					assert.Equal(t, 10*time.Second, time.Since(began))
					require.ErrorIs(t, err, context.DeadlineExceeded)
					for _, word := range []string{"/r", srv.Addr(), "connection refused"} {
						assert.ErrorContains(t, err, word)
					}
					for _, word := range []string{"last attempt", context.DeadlineExceeded.Error()} {
						assert.Equal(t, 1, strings.Count(err.Error(), word), "%q in: %v", word, err)
					}
					assert.NotRegexp(t, regexp.MustCompile(`code -?[0-9]`), err.Error())
				})
			})
		}
	}
}

package line_test

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/recipes/semaphore"
	"github.com/go-curator/curator/zktest"
)

// Recipes continue in the next session, except with the view of one session, which has no next. The call returns that error,
// whether the session ends during its wait or before it.
func TestTheSessionOfAViewEnds(t *testing.T) {
	bg := context.Background()
	for name, call := range map[string]func(*framework.Client) error{
		"mutex":     func(c *framework.Client) error { _, err := mutex.New(c, "/held").Acquire(bg); return err },
		"read lock": func(c *framework.Client) error { return second(rwlock.New(c, "/rw").ReadLock().Acquire(bg)) },
		"semaphore": func(c *framework.Client) error {
			_, err := semaphore.New(c, "/semaphore", 1).Acquire(bg, 1)
			return err
		},
		"selector": func(c *framework.Client) error {
			return leader.NewSelector(c, "/held", func(ctx context.Context) error { <-ctx.Done(); return nil }).Run(bg)
		},
		"latch": func(c *framework.Client) error {
			l, err := leader.NewLatch(c, "/latch")
			require.NoError(t, err)
			defer l.Close()
			for err == nil {
				var term *leader.Term
				if term, err = l.Await(bg); err == nil {
					<-term.Context().Done()
				}
			}
			require.Equal(t, leader.Idle, l.Health().Role, "it does not try any more")
			return err
		},
		"observer": func(c *framework.Client) error { return last(leader.Observe(bg, c, "/held")) },
		"count":    func(c *framework.Client) error { return last(semaphore.NewCount(c, "/count").Watch(bg)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				c, other := recipetest.Client(t, s), recipetest.Client(t, s)
				lock, err := mutex.New(other, "/held").Acquire(bg)
				require.NoError(t, err)
				write, err := rwlock.New(other, "/rw").WriteLock().Acquire(bg)
				require.NoError(t, err)
				lease, err := semaphore.New(other, "/semaphore", 1).Acquire(bg, 1)
				require.NoError(t, err)

				session, err := c.Session(bg)
				require.NoError(t, err)
				done := make(chan error, 1)
				go func() { done <- call(session.Client()) }()
				require.True(t, recipetest.Pending(done))
				s.Expire(session.ID())
				began := time.Now()
				for range 2 {
					select {
					case err = <-done:
					case <-time.After(time.Hour):
						t.Fatal("not told")
					}
					require.ErrorIs(t, err, framework.ErrSessionLost)
					require.Less(t, time.Since(began), 5*time.Second)
					require.NoError(t, c.WaitConnected(bg))
					go func() { done <- call(session.Client()) }()
				}
				require.ErrorIs(t, <-done, framework.ErrSessionLost)
				require.NoError(t, lock.Release(bg))
				require.NoError(t, write.Release(bg))
				require.NoError(t, lease.Release(bg))
			})
		})
	}
}

// last returns the last error.
func last[V any](all iter.Seq2[V, error]) (last error) {
	for _, err := range all {
		last = err
	}
	return last
}

package line_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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

// A hold ends before the request to delete its node: the next contender may hold as soon as the node is deleted. The time between
// the two cannot be measured, so the test checks their order in the hooks. A hook may be called a little later than the end, if
// another goroutine has ended the hold; so the test also checks the function's context.
func TestTheHoldEndsBeforeItsNodeIsDeleted(t *testing.T) {
	holders := map[string]func(context.Context, *framework.Client, work) error{
		"selector": func(ctx context.Context, c *framework.Client, f work) error {
			s := leader.NewSelector(c, "/held", f)
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			_ = s.Run(ctx)
			return nil
		},
		"latch": func(ctx context.Context, c *framework.Client, f work) error {
			l, err := leader.NewLatch(c, "/held")
			if err != nil {
				return err
			}
			for range 2 {
				term, err := l.Await(ctx)
				if err == nil {
					err = f(term.Context())
				}
				if err == nil {
					err = term.Resign(ctx)
				}
				if err != nil {
					return err
				}
			}
			term, err := l.Await(ctx)
			if err == nil {
				err = f(term.Context())
			}
			if err != nil {
				return err
			}
			return l.Leave(ctx, leader.Silent)
		},
		"double barrier": func(ctx context.Context, c *framework.Client, f work) error {
			m, err := barrier.NewDouble(c, "/held", 1).Enter(ctx)
			if err == nil {
				err = m.Leave(ctx)
			}
			return err
		},
		"semaphore in line": func(ctx context.Context, c *framework.Client, f work) error {
			held, err := semaphore.New(c, "/held", 1).Acquire(ctx, 1)
			if err != nil {
				return err
			}
			next := make(chan error, 1)
			go func() { next <- inOneOf1(ctx, c, "/held", f) }()
			if recipetest.Pending(next) {
				err = held.Release(ctx)
			}
			if err == nil {
				err = <-next
			}
			return err
		},
		"downgrade": func(ctx context.Context, c *framework.Client, f work) error {
			return inDowngrade(ctx, c, "/held", f)
		},
	}
	for name, do := range doers {
		holders[name] = do
	}
	for name, hold := range holders {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				held := map[string]bool{}
				works := map[string]context.Context{}
				last := "" // the latest hold that has begun
				ends := 0
				deleted := func(op framework.Operation) {
					mu.Lock()
					defer mu.Unlock()
					for path := range held {
						if work := works[path]; op.Path == path && (work == nil || work.Err() == nil) {
							t.Errorf("%s of %s, which is held", op.Name, path)
						}
					}
				}
				s := zktest.RunT(t)
				c := recipetest.Client(t, s, framework.WithHooks(framework.Hooks{
					Hold: func(ctx context.Context, h framework.HoldInfo) (context.Context, func(error)) {
						mu.Lock()
						defer mu.Unlock()
						held[h.Path], last = true, h.Path
						return ctx, func(error) {
							mu.Lock()
							defer mu.Unlock()
							delete(held, h.Path)
							ends++
						}
					},
					Operation: func(_ context.Context, op framework.Operation) func(framework.OperationEnd) {
						if op.Name == "delete" || op.Name == "transaction" && name == "double barrier" {
							deleted(op)
						}
						return nil
					},
				}))
				require.NoError(t, hold(t.Context(), c,
					func(ctx context.Context) error {
						mu.Lock()
						works[last] = ctx
						mu.Unlock()
						time.Sleep(10 * time.Second)
						return nil
					}))
				require.NoError(t, c.Close())
				require.NotZero(t, ends)
				require.Empty(t, held)
			})
		})
	}
}

// A list proves nothing if the sync before it has failed: TryAcquire returns that error, and acquires nothing.
func TestTryAcquireWithoutASync(t *testing.T) {
	bg := context.Background()
	for name, try := range map[string]func(*framework.Client) error{
		"mutex": func(c *framework.Client) error { _, err := mutex.New(c, "/held").TryAcquire(bg); return err },
		"read lock": func(c *framework.Client) error {
			_, err := rwlock.New(c, "/held").ReadLock().TryAcquire(bg)
			return err
		},
		"write lock": func(c *framework.Client) error {
			_, err := rwlock.New(c, "/held").WriteLock().TryAcquire(bg)
			return err
		},
		"semaphore": func(c *framework.Client) error {
			return second(semaphore.New(c, "/held", 1).TryAcquire(bg, 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				c := recipetest.Client(t, s)
				for _, dir := range []string{"", "/held"} {
					if dir != "" {
						require.NoError(t, s.Create(dir, nil))
					}
					refused := s.Inject(zktest.Fault{Op: "sync", Action: zktest.ReplyError, Err: zktest.ErrNoAuth,
						Times: -1})
					s.ResetCounts()
					require.ErrorIs(t, try(c), framework.ErrNoAuth)
					for op := range s.Counts() {
						require.False(t, strings.HasPrefix(op, "create"), "nothing is written")
					}
					refused.Remove()
				}
				require.NoError(t, try(c))
			})
		})
	}
}

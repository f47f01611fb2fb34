package line_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/barrier"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/zktest"
)

// A user's callback that blocks delays later callbacks, but not the library's own work: caches, requests to release a lock, the
// wait at a barrier.
func TestACallbackThatWaits(t *testing.T) {
	bg := context.Background()
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c, other := recipetest.Client(t, s), recipetest.Client(t, s)
		free := make(chan struct{})
		defer close(free)
		c.GetChildren().InBackground().ForPath(bg, "/").Then(func(framework.ChildrenResult, error) { <-free })

		lock, err := mutex.New(c, "/lock", mutex.WithRevocation()).Acquire(bg)
		require.NoError(t, err)
		tree, err := cache.NewTree(c, "/config")
		require.NoError(t, err)
		defer tree.Close()
		synctest.Wait()
		require.NoError(t, tree.WaitSynced(bg))
		require.NoError(t, s.Create("/config", nil))
		require.NoError(t, mutex.Revoke(bg, other, lock.Path()))
		entering, cancel := context.WithCancel(bg)
		done := make(chan error, 1)
		go func() { _, err := barrier.NewDouble(c, "/double", 2).Enter(entering); done <- err }()
		require.True(t, recipetest.Pending(done))
		require.NoError(t, s.Create("/double/ready", nil))
		<-done // the barrier is open
		cancel()

		time.Sleep(time.Second)
		require.True(t, tree.Len() > 0, "the cache has stopped")
		select {
		case <-lock.Revoked():
		default:
			t.Fatal("the request to give up did not come")
		}
		require.NoError(t, lock.Release(bg))
	})
}

// If a latch's listener ends its goroutine, neither the term nor the latch ends: Leave deletes the node.
func TestGoexitInAListener(t *testing.T) {
	bg := context.Background()
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := recipetest.Client(t, s)
		ended := 0
		l, err := leader.NewLatch(c, "/leader", leader.WithListener(leader.Listener{
			OnLeader:    func(*leader.Term) { runtime.Goexit() },
			OnNotLeader: func(*leader.Term, error) { ended++; runtime.Goexit() },
		}))
		require.NoError(t, err)
		term, err := l.Await(bg)
		require.NoError(t, err)
		synctest.Wait()
		require.True(t, term.Valid())
		require.NoError(t, term.Resign(bg))
		again, err := l.Await(bg)
		require.NoError(t, err)
		require.NotEqual(t, term.Node(), again.Node())
		require.NoError(t, l.Leave(bg, leader.NotifyLeader))
		require.False(t, again.Valid())
		require.Equal(t, 2, ended)
		recipetest.Clean(t, s, "/leader")
	})
}

// If a hook ends the goroutine of the latch, the latch joins the line again.
func TestGoexitInAHookOfALatch(t *testing.T) {
	bg := context.Background()
	for _, where := range []string{"latch acquired", "latch Hold", "delete"} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				sab := &saboteur{where: where, how: runtime.Goexit}
				sab.calls.Store(never)
				c := recipetest.Client(t, s, sab.hooks(), framework.WithHooks(framework.Hooks{
					Operation: func(_ context.Context, op framework.Operation) func(framework.OperationEnd) {
						sab.at(op.Name)
						return nil
					},
				}))
				l, err := leader.NewLatch(c, "/leader")
				require.NoError(t, err)
				term, err := l.Await(bg)
				require.NoError(t, err)
				sab.calls.Store(0)
				done := make(chan struct{})
				go func() {
					defer close(done)
					_ = term.Resign(bg)
				}()
				time.Sleep(time.Second)
				sab.calls.Store(never)
				<-done
				next, err := l.Await(bg)
				require.NoError(t, err)
				require.NotEqual(t, term.Node(), next.Node())
				require.NoError(t, l.Leave(bg, leader.Silent))
				require.False(t, next.Valid())
				recipetest.Clean(t, s, "/leader")
				recipetest.Tidy(t, c)
			})
		})
	}
}

// Hooks are also called when a lock is released, or reads requests to release it. If such a hook does not return, and its caller
// continues, the caller holds nothing.
func TestHooksThatDoNotReturnFromARelease(t *testing.T) {
	bg := context.Background()
	for exit, how := range map[string]func(){"panic": func() { panic("hook") }, "Goexit": runtime.Goexit} {
		for where, opts := range map[string][]mutex.Option{"ended": nil, "delete": nil,
			"getData": {mutex.WithRevocation()}} {
			t.Run(exit+" "+where, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := zktest.RunT(t)
					struck := false
					at := func(here string) {
						if here == where && !struck {
							struck = true
							how()
						}
					}
					c := recipetest.Client(t, s, framework.WithHooks(framework.Hooks{
						Operation: func(_ context.Context, op framework.Operation) func(framework.OperationEnd) {
							at(op.Name)
							return nil
						},
						Hold: func(ctx context.Context, _ framework.HoldInfo) (context.Context, func(error)) {
							return ctx, func(error) { at("ended") }
						},
					}))
					done := make(chan struct{})
					go func() {
						defer close(done)
						defer func() { _ = recover() }()
						_ = mutex.New(c, "/lock", opts...).Do(bg, func(context.Context) error { return nil })
					}()
					<-done
					require.True(t, struck)
					time.Sleep(time.Second)
					recipetest.Clean(t, s, "/lock")
					recipetest.Tidy(t, c)
				})
			})
		}
	}
}

// The function of an option ends the cache's goroutine: the cache is closed, and each call returns that error.
func TestGoexitInADecoder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create("/config", []byte("a")))
		c := recipetest.Client(t, s)
		tree, err := cache.NewTree(c, "/config", cache.WithOneShotWatches(),
			cache.WithDecoder(func(string, []byte) ([]byte, error) { runtime.Goexit(); return nil, nil }))
		require.NoError(t, err)
		err = tree.WaitSynced(context.Background())
		require.ErrorIs(t, err, cache.ErrClosed)
		require.ErrorContains(t, err, "Goexit")
		for _, err := range tree.Events(context.Background()) {
			require.ErrorIs(t, err, cache.ErrClosed)
		}
		require.NoError(t, tree.Close())
		recipetest.Clean(t, s)
	})
}

// The context given to the hook of a hold carries the lock before its hold has begun. An acquire with that context waits in line
// like any other.
func TestAcquireInTheHookOfTheHold(t *testing.T) {
	bg := context.Background()
	type acquire = func(context.Context, *framework.Client, any) (any, func(context.Context) error, error)
	for name, acquire := range map[string]acquire{
		"mutex": func(ctx context.Context, c *framework.Client, m any) (any, func(context.Context) error, error) {
			if m == nil {
				m = mutex.New(c, "/lock")
			}
			lock, err := m.(*mutex.Mutex).Acquire(ctx)
			return m, lock.Release, err
		},
		"rwlock": func(ctx context.Context, c *framework.Client, rw any) (any, func(context.Context) error, error) {
			if rw == nil {
				rw = rwlock.New(c, "/lock")
			}
			lock, err := rw.(*rwlock.RWLock).WriteLock().Acquire(ctx)
			return rw, lock.Release, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				var c *framework.Client
				var recipe any
				inner, waiting := make(chan error, 1), false
				c = recipetest.Client(t, s, framework.WithHooks(framework.Hooks{
					Hold: func(ctx context.Context, _ framework.HoldInfo) (context.Context, func(error)) {
						if !waiting {
							waiting = true
							require.Nil(t, leader.TermOf(ctx))
							limited, cancel := context.WithTimeout(ctx, time.Millisecond)
							defer cancel()
							_, _, err := acquire(limited, c, recipe)
							inner <- err
						}
						return nil, nil
					},
				}))
				ended, cancel := context.WithCancel(bg)
				cancel()
				recipe, _, _ = acquire(ended, c, nil)
				_, release, err := acquire(bg, c, recipe)
				require.NoError(t, err)
				require.ErrorIs(t, <-inner, context.DeadlineExceeded)
				require.NoError(t, release(bg))
				recipetest.Clean(t, s, "/lock")
			})
		})
	}
}

package line_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/recipes/semaphore"
	"github.com/go-curator/curator/zktest"
)

// saboteur is user code that ends the goroutine that it is called on.
type saboteur struct {
	where string
	how   func()
	calls atomic.Int64 // how many more calls return
}

// at is called at each place of user code.
func (s *saboteur) at(where string) {
	if where == s.where && s.calls.Add(-1) < 0 {
		s.how()
	}
}

func (s *saboteur) hooks() framework.Option {
	return framework.WithHooks(framework.Hooks{
		Acquire: func(ctx context.Context, a framework.Acquisition) (context.Context, func(error)) {
			return ctx, func(error) { s.at(a.Recipe + " acquired") }
		},
		Queue: func(framework.Queue) { s.at("Queue") },
		Wait: func(context.Context, framework.Queue) func(error) {
			s.at("Wait")
			return func(error) { s.at("waited") }
		},
		Hold: func(ctx context.Context, h framework.HoldInfo) (context.Context, func(error)) {
			s.at(h.Recipe + " Hold")
			return ctx, nil
		},
		Operation: func(_ context.Context, op framework.Operation) func(framework.OperationEnd) {
			s.at(op.Name + " " + op.Path)
			return nil
		},
	})
}

const never = 1 << 40

// strike makes an acquire, which must not return, end at one of the calls. meanwhile is called when all goroutines are blocked.
func (s *saboteur) strike(t *testing.T, after int64, acquire, meanwhile func()) {
	t.Helper()
	s.calls.Store(after)
	returned := false
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() { _ = recover() }()
		acquire()
		returned = true
	}()
	synctest.Wait()
	meanwhile()
	<-ended
	require.False(t, returned, "not struck")
	s.calls.Store(never)
}

// nodes returns the children of the directories.
func nodes(t *testing.T, s *zktest.Server, dirs []string) (all []string) {
	t.Helper()
	synctest.Wait()
	for _, dir := range dirs {
		if s.Exists(dir) {
			children, err := s.Children(dir)
			require.NoError(t, err)
			all = append(all, children...)
		}
	}
	return all
}

// OnWait, or a hook, panics or ends the goroutine, and the caller continues, as a server's handler does: nothing of the acquire
// is left. A node that stayed would block all other contenders until the session ends.
func TestUserCodeThatDoesNotReturn(t *testing.T) {
	type release func(context.Context) error
	must := func(release release, err error) release {
		if err != nil {
			panic(fmt.Sprintf("an acquire that was to end otherwise: %v", err))
		}
		return release
	}
	bg := context.Background()
	for name, r := range map[string]struct {
		dirs    []string
		acquire func(*framework.Client, *saboteur) release
		free    []string // where to strike without other contenders,
		behind  []string // while it waits for another,
		woken   []string // and after that one's release
	}{
		"mutex": {
			[]string{"/mutex"},
			func(c *framework.Client, s *saboteur) release {
				lock, err := mutex.New(c, "/mutex", mutex.OnWait(func(mutex.Position) { s.at("OnWait") })).Acquire(bg)
				return must(lock.Release, err)
			},
			[]string{"getChildren /mutex", "Queue", "mutex Hold", "mutex acquired"}, []string{"OnWait", "Wait"},
			[]string{"waited", "mutex Hold"},
		},
		"several": {
			[]string{"/first", "/mutex"},
			func(c *framework.Client, s *saboteur) release {
				lock, err := mutex.NewMulti(mutex.Of(mutex.New(c, "/first")), mutex.Of(mutex.New(c, "/mutex"))).
					Acquire(bg)
				return must(lock.Release, err)
			},
			[]string{"getChildren /mutex"}, nil, nil,
		},
		"downgrade": {
			[]string{"/rw"},
			func(c *framework.Client, s *saboteur) release {
				rw := rwlock.New(c, "/rw")
				write, err := rw.WriteLock().Acquire(bg)
				must(nil, err)
				defer func() { _ = write.Release(bg) }()
				read, err := rw.ReadLock().Acquire(write.Context())
				return must(read.Release, err)
			},
			[]string{"read-lock Hold", "read-lock acquired"}, nil, nil,
		},
		"semaphore": {
			[]string{"/semaphore/locks", "/semaphore/leases"},
			func(c *framework.Client, s *saboteur) release {
				lease, err := semaphore.New(c, "/semaphore", 2,
					semaphore.OnWait(func(semaphore.Position) { s.at("OnWait") })).Acquire(bg, 2)
				return must(lease.Release, err)
			},
			[]string{"semaphore Hold", "getChildren /semaphore/leases", "semaphore acquired"},
			[]string{"semaphore-line Hold", "OnWait", "Wait"},
			[]string{"waited", "semaphore Hold"},
		},
		"selector": {
			[]string{"/selector"},
			func(c *framework.Client, s *saboteur) release {
				selector := leader.NewSelector(c, "/selector", func(context.Context) error { return nil })
				return must(func(context.Context) error { return nil }, selector.RunOnce(bg))
			},
			[]string{"selector Hold", "selector acquired"}, nil, nil,
		},
	} {
		for exit, how := range map[string]func(){"panic": func() { panic("user code") }, "Goexit": runtime.Goexit} {
			run := func(when, where string, after int64) {
				t.Run(fmt.Sprintf("%s/%s/%s %s after %d", name, exit, when, where, after), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s := zktest.RunT(t)
						sab := &saboteur{where: where, how: how}
						sab.calls.Store(never)
						c, other := recipetest.Client(t, s, sab.hooks()), recipetest.Client(t, s)
						require.NoError(t, r.acquire(other, sab)(bg)) // creates the directories
						free := func() {}
						if when != "free" {
							release := r.acquire(other, sab)
							held := nodes(t, s, r.dirs)
							free = func() {
								if when == "behind" {
									require.Equal(t, held, nodes(t, s, r.dirs))
								}
								require.NoError(t, release(bg))
							}
						}
						sab.strike(t, after, func() { r.acquire(c, sab) }, free)
						recipetest.Clean(t, s, r.dirs...)
						recipetest.Tidy(t, c, other)
						require.NoError(t, r.acquire(c, sab)(bg)) // the recipe is free
					})
				})
			}
			for _, where := range r.free {
				run("free", where, 0)
				if name == "semaphore" && where != "semaphore acquired" { // the second list, the second of two leases
					run("free", where, 1)
				}
			}
			for _, where := range r.behind {
				run("behind", where, 0)
			}
			for _, where := range r.woken {
				run("woken", where, 0)
			}
		}
	}
}

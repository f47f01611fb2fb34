package mutex_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/zktest"
)

// three are the paths of a multi-lock.
var three = []string{"/locks/a", "/locks/b", "/locks/c"}

// trio is a mutex at each of them; the one in the middle is the write side of a read-write lock.
type trio struct {
	a, c *mutex.Mutex
	b    *rwlock.RWLock
	all  *mutex.Multi
}

func newTrio(c *framework.Client) trio {
	x := trio{mutex.New(c, three[0]), mutex.New(c, three[2]), rwlock.New(c, three[1]), nil}
	x.all = mutex.NewMulti(mutex.Of(x.a), mutex.Of(x.b.WriteLock()), mutex.Of(x.c))
	return x
}

// contenders counts the nodes at each of the three paths.
func contenders(t *testing.T, s *zktest.Server) (n [3]int) {
	t.Helper()
	synctest.Wait()
	for i, dir := range three {
		if children, err := s.Children(dir); err == nil {
			n[i] = len(children)
		}
	}
	return n
}

func cleanThree(t *testing.T, s *zktest.Server) {
	t.Helper()
	require.Equal(t, [3]int{}, contenders(t, s))
	require.Empty(t, s.Watches())
}

func beginMulti(ctx context.Context, m *mutex.Multi) <-chan error {
	done := make(chan error, 1)
	go func() {
		lock, err := m.Acquire(ctx)
		if err == nil {
			err = lock.Release(background)
		}
		done <- err
	}()
	synctest.Wait()
	return done
}

func TestMulti(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		x, y := newTrio(newClient(t, s)), newTrio(newClient(t, s))
		ctx, cancel := context.WithTimeout(context.WithValue(background, key("k"), "v"), time.Second)
		defer cancel()
		lock, err := x.all.Acquire(ctx)
		require.NoError(t, err)
		require.Equal(t, [3]int{1, 1, 1}, contenders(t, s))
		require.True(t, lock.Valid())
		require.GreaterOrEqual(t, lock.Remaining(), 9*time.Second)
		require.Equal(t, "v", lock.Context().Value(key("k")))
		time.Sleep(time.Minute)
		require.NoError(t, lock.Context().Err(), "it does not end with the context of Acquire")
		require.Equal(t, three[0]+"/"+lock.Parts()[0].(*mutex.Lock).Node(), lock.Parts()[0].(*mutex.Lock).Path())
		require.IsType(t, &rwlock.Lock{}, lock.Parts()[1])
		require.Len(t, lock.Parts(), 3)

		_, err = y.all.TryAcquire(background)
		require.ErrorIs(t, err, mutex.ErrNotAcquired)
		require.ErrorContains(t, err, "1 of 3")

		// Each of the locks, and all of them, are entered once more with its context.
		s.ResetCounts()
		again, err := x.all.Acquire(lock.Context())
		require.NoError(t, err)
		one, err := x.a.Acquire(lock.Context())
		require.NoError(t, err)
		require.Equal(t, lock.Parts()[0].(*mutex.Lock).FencingToken(), one.FencingToken())
		release(t, one)
		require.NoError(t, again.Release(background))
		require.ErrorIs(t, context.Cause(again.Context()), mutex.ErrReleased,
			"this one is over, though the locks are held")
		require.True(t, lock.Valid())
		require.Zero(t, sum(s.Counts()))

		order := s.Inject(zktest.Fault{Op: "delete", Times: -1, Action: zktest.Hold})
		done := make(chan error, 1)
		go func() { done <- lock.Release(background) }()
		<-order.Struck()
		require.ErrorIs(t, context.Cause(lock.Context()), mutex.ErrReleased,
			"it ends before the first of them is given back")
		require.False(t, lock.Valid())
		require.Equal(t, [3]int{1, 1, 1}, contenders(t, s))
		order.Remove()
		order.Release()
		require.NoError(t, <-done)
		require.ErrorIs(t, lock.Release(background), mutex.ErrReleased)
		require.Zero(t, lock.Remaining())
		cleanThree(t, s)
	})
}

func TestMultiReleasesInReverseOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		x := newTrio(newClient(t, s))
		lock, err := x.all.Acquire(background)
		require.NoError(t, err)
		s.Delay(0, time.Second)
		done := make(chan error, 1)
		go func() { done <- lock.Release(background) }()
		require.Equal(t, [3]int{1, 1, 0}, contenders(t, s))
		time.Sleep(time.Second)
		require.Equal(t, [3]int{1, 0, 0}, contenders(t, s))
		time.Sleep(time.Second)
		cleanThree(t, s)
		require.NoError(t, <-done)
	})
}

// One deadline for all locks together: Curator applies it to each lock.
func TestMultiHasOneDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		x, y := newTrio(newClient(t, s)), newTrio(newClient(t, s))
		a, c := acquire(t, y.a), acquire(t, y.c)
		ctx, cancel := context.WithTimeout(background, 10*time.Second)
		defer cancel()
		began := time.Now()
		done := beginMulti(ctx, x.all)
		require.Equal(t, [3]int{2, 0, 1}, contenders(t, s))
		time.Sleep(6 * time.Second)
		release(t, a)
		require.Equal(t, [3]int{1, 1, 2}, contenders(t, s))
		err := <-done
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "3 of 3")
		require.Equal(t, 10*time.Second, time.Since(began))
		require.Equal(t, [3]int{0, 0, 1}, contenders(t, s), "all or nothing")

		// Cancelled, with a cause.
		mine := errors.New("mine")
		ctx, cause := context.WithCancelCause(background)
		done = beginMulti(ctx, x.all)
		cause(mine)
		err = <-done
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, mine)
		require.Equal(t, [3]int{0, 0, 1}, contenders(t, s))

		// The try of the last lock fails: the earlier ones are released.
		_, err = x.all.TryAcquire(background)
		require.ErrorIs(t, err, mutex.ErrNotAcquired)
		require.Equal(t, [3]int{0, 0, 1}, contenders(t, s))
		release(t, c)
		cleanThree(t, s)
		lock, err := x.all.TryAcquire(background)
		require.NoError(t, err)
		require.NoError(t, lock.Release(background))
		cleanThree(t, s)
	})
}

// The first failure ends the call: the later locks are not tried. Curator tries them.
func TestMultiStopsAtTheFirstFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		x := newTrio(c)
		require.NoError(t, s.Create(three[1], nil))
		require.NoError(t, s.SetACL(three[1], zktest.ACL{Perms: 1, Scheme: "world", ID: "anyone"}))
		_, err := x.all.Acquire(background)
		require.ErrorIs(t, err, framework.ErrNoAuth)
		require.ErrorContains(t, err, "2 of 3")
		require.False(t, s.Exists(three[2]))
		cleanThree(t, s)
	})
}

// An earlier lock is lost during the wait for a later one.
func TestMultiLosesALockWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		x, y := newTrio(newClient(t, s)), newTrio(newClient(t, s))
		last := acquire(t, y.c)
		for i := range 2 {
			done := beginMulti(background, x.all)
			time.Sleep(time.Second)
			children, err := s.Children(three[i])
			require.NoError(t, err)
			require.NoError(t, s.Delete(three[i]+"/"+children[0]))
			err = <-done
			require.ErrorIs(t, err, mutex.ErrNodeDeleted)
			require.NotErrorIs(t, err, context.Canceled, "nobody has cancelled anything")
			require.ErrorContains(t, err, "3 of 3")
			require.Equal(t, [3]int{0, 0, 1}, contenders(t, s))
		}
		release(t, last)
		cleanThree(t, s)
	})
}

// slowPart is a lock that is granted even if the context has ended during the call.
type slowPart struct {
	*mutex.Mutex
	meanwhile func()
}

func (p slowPart) Acquire(context.Context) (*mutex.Lock, error) {
	p.meanwhile()
	return p.Mutex.Acquire(background)
}

// An earlier lock is lost at the moment of a later lock's grant: the later lock is released.
func TestMultiGetsALockWhenAnEarlierOneIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		x := newTrio(newClient(t, s))
		all := mutex.NewMulti(mutex.Of(x.a), mutex.Of(slowPart{x.c, func() {
			time.Sleep(time.Second)
			require.NoError(t, s.DeleteAll(three[0]))
			time.Sleep(time.Second)
		}}))
		_, err := all.Acquire(background)
		require.ErrorIs(t, err, mutex.ErrNodeDeleted)
		cleanThree(t, s)
	})
}

// The context ends with the loss of any of the locks; its cause is that loss.
func TestMultiEndsWithAnyOfItsLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		clients := []*framework.Client{newClient(t, s), newClient(t, s), newClient(t, s)}
		m := mutex.NewMulti(mutex.Of(mutex.New(clients[0], three[0])), mutex.Of(mutex.New(clients[1], three[1])),
			mutex.Of(mutex.New(clients[2], three[2])))
		for i, c := range clients {
			lock, err := m.Acquire(background)
			require.NoError(t, err)
			s.Expire(session(t, c))
			<-lock.Context().Done()
			require.ErrorIs(t, context.Cause(lock.Context()), mutex.ErrSessionLost)
			require.False(t, lock.Valid())
			left := [3]int{1, 1, 1}
			left[i] = 0
			require.Equal(t, left, contenders(t, s), "the others are held until Release")
			require.ErrorIs(t, lock.Release(background), mutex.ErrSessionLost)
			cleanThree(t, s)

			// Do returns the loss even if the function ignores its context.
			mine := errors.New("mine")
			err = m.Do(background, func(ctx context.Context) error {
				s.Expire(session(t, c))
				<-ctx.Done()
				require.ErrorIs(t, context.Cause(ctx), mutex.ErrSessionLost)
				return mine
			})
			require.ErrorIs(t, err, mine)
			require.ErrorIs(t, err, mutex.ErrSessionLost)
			cleanThree(t, s)
		}
	})
}

func TestMultiDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		x := newTrio(newClient(t, s))
		mine := errors.New("mine")
		require.ErrorIs(t, x.all.Do(background, func(ctx context.Context) error {
			return x.all.Do(ctx, func(context.Context) error { return mine })
		}), mine)
		cleanThree(t, s)
		require.PanicsWithError(t, "mine", func() {
			_ = x.all.Do(background, func(context.Context) error { panic(mine) })
		})
		cleanThree(t, s)
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		require.NoError(t, x.all.Do(ctx, func(ctx context.Context) error {
			<-ctx.Done()
			require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
			return nil
		}))
		cleanThree(t, s)
	})
}

// The process stands still: Err and Valid report the loss by the clock, before any timer can fire. A multi-lock of multi-locks
// does, too.
func TestMultiLooksAtTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		x := newTrio(newClient(t, s))
		nested := mutex.NewMulti(mutex.Of(x.all), mutex.Of(mutex.New(newClient(t, s), path)))
		lock, err := nested.Acquire(background)
		require.NoError(t, err)
		s.BlackHole(0, zktest.Both)
		lasts := lock.Remaining()
		time.Sleep(lasts)
		require.False(t, lock.Valid())
		require.Error(t, lock.Context().Err())
		require.ErrorIs(t, context.Cause(lock.Context()), mutex.ErrSessionLost)
		s.Heal()
		require.ErrorIs(t, lock.Release(background), mutex.ErrSessionLost)
	})
}

func TestMultisMistakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		x := newTrio(newClient(t, s))
		var none context.Context
		for _, mistake := range []struct {
			m    *mutex.Multi
			ctx  context.Context
			says string
		}{
			{mutex.NewMulti(), background, "at least one part"},
			{mutex.NewMulti(mutex.Of(x.a), mutex.Part{}), background, "part 2 of 2"},
			{mutex.NewMulti(mutex.Of(x.a), mutex.Of(mutex.New(nil, path))), background, "framework.New"},
			{x.all, none, "nil context"},
		} {
			_, err := mistake.m.Acquire(mistake.ctx)
			require.ErrorContains(t, err, mistake.says)
			_, err = mistake.m.TryAcquire(mistake.ctx)
			require.ErrorContains(t, err, mistake.says)
			require.ErrorContains(t, mistake.m.Do(mistake.ctx, func(context.Context) error { panic("called") }),
				mistake.says)
		}
		require.ErrorContains(t, x.all.Do(background, nil), "nil")
		lock, err := x.all.Acquire(background)
		require.NoError(t, err)
		require.ErrorIs(t, lock.Release(none), framework.ErrNilContext)
		require.NoError(t, lock.Release(background))
		cleanThree(t, s)
	})
}

// Many callers need overlapping sets of locks, in one order: every caller acquires its set, and none holds a part without the
// rest.
func TestMultisContend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		s.Delay(0, time.Millisecond)
		const workers, rounds = 8, 10
		done := make(chan error, workers)
		var inside [3]int // guarded by the locks themselves: the race detector watches
		for w := range workers {
			c := newClient(t, s)
			go func() {
				for round := range rounds {
					var parts []mutex.Part
					var which []int
					for i, dir := range three {
						if i == w%3 || (w+round)%2 == 0 {
							parts = append(parts, mutex.Of(mutex.New(c, dir)))
							which = append(which, i)
						}
					}
					err := mutex.NewMulti(parts...).Do(background, func(ctx context.Context) error {
						for _, i := range which {
							if inside[i]++; inside[i] != 1 {
								return fmt.Errorf("%d in %s", inside[i], three[i])
							}
						}
						time.Sleep(10 * time.Millisecond)
						for _, i := range which {
							inside[i]--
						}
						return ctx.Err()
					})
					if err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
		}
		for range workers {
			require.NoError(t, <-done)
		}
		s.Heal()
		cleanThree(t, s)
	})
}

// The server refuses to delete the nodes of the first and the last lock. Release reports each refusal once, and the lock in the
// middle is free.
func TestMultiReportsEachRefusalOfItsRelease(t *testing.T) {
	for how, release := range map[string]func(*mutex.MultiLock) error{
		"Release": func(l *mutex.MultiLock) error { return l.Release(background) },
		"ReleaseInBackground": func(l *mutex.MultiLock) error {
			reported := make(chan error, 3)
			l.ReleaseInBackground(func(err error) { reported <- err })
			synctest.Wait()
			require.Len(t, reported, 1)
			return <-reported
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			lock, err := newTrio(newClient(t, s)).all.Acquire(background)
			require.NoError(t, err)
			refuse := func(path string, err zktest.Error) {
				s.Inject(zktest.Fault{Op: "delete", PathPrefix: path, Action: zktest.ReplyError, Err: err})
			}
			refuse(three[0], zktest.ErrNoAuth)
			refuse(three[2], zktest.ErrNotEmpty)
			err = release(lock)
			require.ErrorIs(t, err, framework.ErrNoAuth, how)
			require.ErrorIs(t, err, framework.ErrNotEmpty, how)
			require.Equal(t, [3]int{1, 0, 1}, contenders(t, s), how)
			require.ErrorIs(t, release(lock), mutex.ErrReleased, how)
		})
	}
}

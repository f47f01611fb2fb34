package line_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/recipes/semaphore"
	"github.com/go-curator/curator/zktest"
)

// within runs a function during a hold, always with new recipe values, as callers do that keep none.
type within func(ctx context.Context, c *framework.Client, path string, f work) error

var (
	inMutex within = func(ctx context.Context, c *framework.Client, path string, f work) error {
		return mutex.New(c, path).Do(ctx, f)
	}
	inOrder within = func(ctx context.Context, c *framework.Client, path string, f work) error {
		return mutex.New(c, path, mutex.WithoutReentry()).Do(ctx, f)
	}
	inRead within = func(ctx context.Context, c *framework.Client, path string, f work) error {
		return rwlock.New(c, path).ReadLock().Do(ctx, f)
	}
	inReaders within = func(ctx context.Context, c *framework.Client, path string, f work) error {
		return rwlock.NewReaders(c, path).Do(ctx, f)
	}
	inWrite within = func(ctx context.Context, c *framework.Client, path string, f work) error {
		return rwlock.New(c, path).WriteLock().Do(ctx, f)
	}
	inOneOf3 within = func(ctx context.Context, c *framework.Client, path string, f work) error {
		return semaphore.New(c, path, 3).Do(ctx, 1, f)
	}
	inTwoOf3 within = func(ctx context.Context, c *framework.Client, path string, f work) error {
		return semaphore.New(c, path, 3).Do(ctx, 2, f)
	}
	inOneOf1 within = func(ctx context.Context, c *framework.Client, path string, f work) error {
		return semaphore.NewMutex(c, path).Do(ctx, f)
	}
	inMulti within = func(ctx context.Context, c *framework.Client, path string, f work) error {
		return mutex.NewMulti(mutex.Of(mutex.New(c, path)), mutex.Of(mutex.New(c, path+"/other"))).Do(ctx, f)
	}
	inTwice within = func(ctx context.Context, c *framework.Client, path string, f work) error {
		return mutex.NewMulti(mutex.Of(semaphore.NewMutex(c, path)), mutex.Of(semaphore.NewMutex(c, path))).
			Do(ctx, f)
	}
	inTerm within = func(ctx context.Context, c *framework.Client, path string, f work) error {
		return leader.NewSelector(c, path, f).RunOnce(ctx)
	}
	inDowngrade within = func(ctx context.Context, c *framework.Client, path string, f work) error {
		write, err := rwlock.New(c, path).WriteLock().Acquire(ctx)
		if err != nil {
			return err
		}
		read, err := rwlock.New(c, path).ReadLock().Acquire(write.Context())
		if err != nil {
			return err
		}
		if err := write.Release(ctx); err != nil {
			return err
		}
		defer read.Release(ctx)
		return f(read.Context())
	}
)

// A caller acquires with the context of its own hold. It enters again, or gets more leases, or is refused immediately; it never
// waits for itself.
func TestNobodyWaitsForItself(t *testing.T) {
	nothing := func(ctx context.Context, c *framework.Client, path string, f work) error { return f(ctx) }
	for name, tc := range map[string]struct {
		outer, inner within
		refused      error // nil: it enters, or gets more leases
	}{
		"mutex":                        {inMutex, inMutex, nil},
		"mutex, the first in order":    {inOrder, inMutex, line.ErrSelfWait},
		"mutex in a multi":             {inMutex, inMulti, nil},
		"multi in a mutex":             {inMulti, inMutex, nil},
		"multi":                        {inMulti, inMulti, nil},
		"read in read":                 {inRead, inRead, nil},
		"read in write":                {inWrite, inRead, nil},
		"write in write":               {inWrite, inWrite, nil},
		"write in read":                {inRead, inWrite, rwlock.ErrUpgrade},
		"read in downgraded":           {inDowngrade, inRead, nil},
		"write in downgraded":          {inDowngrade, inWrite, rwlock.ErrUpgrade},
		"shared read in shared read":   {inReaders, inReaders, nil},
		"shared read in write":         {inWrite, inReaders, nil},
		"shared read in read":          {inRead, inReaders, rwlock.ErrSelfWait},
		"read in shared read":          {inReaders, inRead, rwlock.ErrSelfWait},
		"shared read in downgraded":    {inDowngrade, inReaders, rwlock.ErrSelfWait},
		"write in shared read":         {inReaders, inWrite, rwlock.ErrUpgrade},
		"semaphore, there are more":    {inOneOf3, inTwoOf3, nil},
		"semaphore, there are no more": {inTwoOf3, inTwoOf3, semaphore.ErrSelfWait},
		"the third lease": {inOneOf3, func(ctx context.Context, c *framework.Client, path string, f work) error {
			return inOneOf3(ctx, c, path, func(ctx context.Context) error { return inTwoOf3(ctx, c, path, f) })
		}, semaphore.ErrSelfWait},
		"semaphore mutex":                   {inOneOf1, inOneOf1, semaphore.ErrSelfWait},
		"semaphore mutex, twice in a multi": {nothing, inTwice, mutex.ErrSelfWait},
		"mutex in the term of a selector":   {inTerm, inMutex, mutex.ErrSelfWait},
		"selector in a mutex at its path":   {inMutex, inTerm, leader.ErrSelfWait},
		"selector in the term of another":   {inTerm, inTerm, leader.ErrSelfWait},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				c := recipetest.Client(t, s)
				for _, outer := range []struct { // both have the same node
					client *framework.Client
					path   string
				}{{c, "/here/m"}, {c.UsingNamespace("here"), "/m"}} {
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					began, entered := time.Now(), false
					err := tc.outer(ctx, outer.client, outer.path, func(ctx context.Context) error {
						return tc.inner(ctx, c, "/here/m", func(context.Context) error { entered = true; return nil })
					})
					require.Zero(t, time.Since(began))
					if tc.refused == nil {
						require.NoError(t, err)
					} else {
						require.ErrorIs(t, err, tc.refused)
					}
					require.Equal(t, tc.refused == nil, entered)
					cancel()
				}
			})
		})
	}
}

// Another place: another path, another namespace, another client. A holder of one waits for another only if another contender
// holds that.
func TestOtherPlacesAreNotEntered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c, other := recipetest.Client(t, s), recipetest.Client(t, s)
		lock, err := mutex.New(c, "/m").Acquire(t.Context())
		require.NoError(t, err)
		for _, m := range []*mutex.Mutex{mutex.New(c, "/n"), mutex.New(c.UsingNamespace("m"), "/m"),
			mutex.New(c, "/m/m")} {
			second, err := m.Acquire(lock.Context())
			require.NoError(t, err)
			require.NotEqual(t, lock.Node(), second.Node())
			require.NoError(t, second.Release(t.Context()))
		}
		ctx, cancel := context.WithTimeout(lock.Context(), time.Second)
		defer cancel()
		_, err = mutex.New(other, "/m").Acquire(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, line.ErrSelfWait)
		require.NoError(t, lock.Release(t.Context()))
	})
}

// With WithoutReentry a caller may wait for itself; when its context ends, the error reports that.
func TestWithoutReentryOneMayWaitForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := recipetest.Client(t, s)
		lock, err := mutex.New(c, "/m").Acquire(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(lock.Context(), time.Minute)
		defer cancel()
		_, err = mutex.New(c, "/m", mutex.WithoutReentry()).Acquire(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, mutex.ErrSelfWait)
		_, err = mutex.New(c, "/m", mutex.WithoutReentry()).TryAcquire(lock.Context())
		require.ErrorIs(t, err, mutex.ErrNotAcquired)
		require.NotErrorIs(t, err, mutex.ErrSelfWait)
		require.NoError(t, lock.Release(t.Context()))
	})
}

// The view of a lost session enters nothing, even if the context carries a hold of the next session.
func TestTheViewOfAnEndedSessionEntersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := recipetest.Client(t, s)
		session, err := c.Session(t.Context())
		require.NoError(t, err)
		s.Expire(session.ID())
		<-session.Done()
		lock, err := mutex.New(c, "/m").Acquire(t.Context())
		require.NoError(t, err)
		write, err := rwlock.New(c, "/rw").WriteLock().Acquire(t.Context())
		require.NoError(t, err)
		_, err = mutex.New(session.Client(), "/m").Acquire(lock.Context())
		require.ErrorIs(t, err, framework.ErrSessionLost)
		_, err = rwlock.New(session.Client(), "/rw").WriteLock().Acquire(write.Context())
		require.ErrorIs(t, err, framework.ErrSessionLost)
		require.NoError(t, lock.Release(t.Context()))
		require.NoError(t, write.Release(t.Context()))
	})
}

// The context given to the hook of a hold carries a hold that has not begun: there is nothing to enter, and nothing breaks.
func TestTheContextOfTheHoldHookEntersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		var c *framework.Client
		tried := 0
		try := func(ctx context.Context) {
			if lock, err := mutex.New(c, "/mutex").TryAcquire(ctx); err == nil {
				require.NoError(t, lock.Release(ctx))
			}
			if lock, err := rwlock.New(c, "/rw").WriteLock().TryAcquire(ctx); err == nil {
				require.NoError(t, lock.Release(ctx))
			}
			if lock, err := semaphore.NewMutex(c, "/semaphore").TryAcquire(ctx); err == nil {
				require.NoError(t, lock.Release(ctx))
			}
			tried++
		}
		var inHook bool
		hook := func(ctx context.Context, h framework.HoldInfo) (context.Context, func(error)) {
			if !inHook {
				inHook = true
				try(ctx)
				inHook = false
			}
			return ctx, nil
		}
		c = recipetest.Client(t, s, framework.WithHooks(framework.Hooks{Hold: hook}))
		for _, take := range []func() error{
			func() error { return inMutex(t.Context(), c, "/mutex", func(context.Context) error { return nil }) },
			func() error { return inWrite(t.Context(), c, "/rw", func(context.Context) error { return nil }) },
			func() error {
				return inOneOf1(t.Context(), c, "/semaphore", func(context.Context) error { return nil })
			},
		} {
			tried = 0
			require.NoError(t, take())
			require.Equal(t, 1, tried)
		}
	})
}

package mutex_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// Locks of several kinds, nested, some entered again: a context carries all holds acquired on the way to it, and the newest
// values.
func TestReentryOfSeveralLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		a, b := mutex.New(c, three[0]), mutex.New(c, three[1])
		both := mutex.NewMulti(mutex.Of(a), mutex.Of(b))
		limited, cancel := context.WithTimeout(context.WithValue(background, key("k"), "old"), time.Second)
		defer cancel()
		require.NoError(t, a.Do(limited, func(ctx context.Context) error {
			return b.Do(context.WithValue(ctx, key("k"), "new"), func(ctx context.Context) error {
				return a.Do(ctx, func(ctx context.Context) error { // the hold of a is older than that of b
					require.Equal(t, "new", ctx.Value(key("k")))
					return both.Do(ctx, func(ctx context.Context) error {
						require.Equal(t, "new", ctx.Value(key("k")))
						require.Equal(t, [3]int{1, 1, 0}, contenders(t, s))
						return b.Do(ctx, func(context.Context) error { return nil })
					})
				})
			})
		}))
		cleanThree(t, s)

		// A hold that has ended does not hide a live one: the hold of a carries an earlier one of b.
		earlier := acquire(t, b)
		first, err := a.Acquire(earlier.Context())
		require.NoError(t, err)
		release(t, earlier)
		second, err := b.Acquire(context.WithoutCancel(first.Context()))
		require.NoError(t, err)
		limited, cancel = context.WithTimeout(second.Context(), time.Second)
		defer cancel()
		require.NoError(t, a.Do(limited, func(ctx context.Context) error {
			return b.Do(ctx, func(context.Context) error { return nil })
		}))
		release(t, second)
		release(t, first)
		cleanThree(t, s)
	})
}

// A lost hold is not entered again, released or not, although a context still carries it.
func TestNoReentryIntoWhatIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		m := mutex.New(c, path)
		lost := acquire(t, m)
		s.Expire(session(t, c))
		<-lost.Context().Done()
		lock, err := m.Acquire(context.WithoutCancel(lost.Context()))
		require.NoError(t, err)
		require.NotEqual(t, lost.Node(), lock.Node())
		require.Greater(t, lock.FencingToken(), lost.FencingToken())
		require.ErrorIs(t, lost.Release(background), mutex.ErrSessionLost)
		require.True(t, lock.Valid())
		again, err := m.Acquire(lock.Context())
		require.NoError(t, err)
		require.Equal(t, lock.Node(), again.Node())
		release(t, again)
		release(t, lock)
		clean(t, s, path)
	})
}

// A caller that acquires again, with a context not derived from the lock's, waits for itself: the error reports that, unless the
// predecessor's node is another client's.
func TestTheErrorOfAWaitForOneself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c, other := newClient(t, s), newClient(t, s)
		lock := acquire(t, mutex.New(c, path))
		limited, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		_, err := mutex.New(c, path).Acquire(limited)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "which is of this client (to re-enter a lock, acquire with its Context), with 1 ahead")
		limited, cancel = context.WithTimeout(background, time.Second)
		defer cancel()
		_, err = mutex.New(other, path).Acquire(limited)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotContains(t, err.Error(), "of this client")
		release(t, lock)
	})
}

// A lock of the view of an earlier session enters no hold again, not even the client's hold of the next session.
func TestNoReentryThroughAViewThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		first, err := c.Session(background)
		require.NoError(t, err)
		view := first.Client()
		s.Expire(first.ID())
		<-first.Done()
		lock := acquire(t, mutex.New(c, path))
		_, err = mutex.New(view, path).Acquire(lock.Context())
		require.ErrorIs(t, err, mutex.ErrSessionLost)
		release(t, lock)
		turn, err := mutex.NewCohort(c, path).Acquire(background)
		require.NoError(t, err)
		_, err = mutex.NewCohort(view, path).Acquire(turn.Context())
		require.ErrorIs(t, err, mutex.ErrSessionLost)
		require.NoError(t, turn.Release(background))
		clean(t, s, path)
	})
}

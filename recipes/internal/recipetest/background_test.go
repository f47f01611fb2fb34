package recipetest_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// inBackground is implemented by each lock and lease.
type inBackground interface {
	ReleaseInBackground(then ...func(error))
}

// backgroundKinds are the kinds of lock, and a multi-lock.
func backgroundKinds() []kind {
	return append(slices.Clone(kinds), kind{name: "multi", dirs: own, make: func(
		c *framework.Client, loss framework.LossPolicy,
	) (_, _ acquireFunc) {
		m := mutex.NewMulti(mutex.Of(mutex.New(c, lockPath, mutex.WithLossPolicy(loss))),
			mutex.Of(mutex.New(c, lockPath, mutex.WithLossPolicy(loss))))
		return of(m.Acquire), of(m.TryAcquire)
	}})
}

func backgroundStory(t *testing.T, play func(t *testing.T, s *zktest.Server, k kind)) {
	for _, k := range backgroundKinds() {
		t.Run(k.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { play(t, zktest.RunT(t, some(t)), k) })
		})
	}
}

// The call returns immediately: the hold has ended and the delete is in flight. The caller's next acquire is sent in the same
// flight.
func TestReleaseInBackground(t *testing.T) {
	backgroundStory(t, func(t *testing.T, s *zktest.Server, k kind) {
		const trip = time.Second
		c := recipetest.Client(t, s)
		first := k.acquire(t, c)
		s.Delay(0, trip)
		began := time.Now()
		told := make(chan error, 2)
		first.(inBackground).ReleaseInBackground(func(err error) { told <- err }, nil)
		require.Zero(t, time.Since(began))
		require.False(t, first.Valid())
		require.ErrorIs(t, context.Cause(first.Context()), framework.ErrReleased)
		second := k.acquire(t, c)
		if k.name == "semaphore" || k.name == "lease" {
			require.LessOrEqual(t, time.Since(began), 3*trip)
		} else {
			require.Equal(t, trip, time.Since(began), "delete, create and list are one flight")
		}
		require.NoError(t, <-told)

		first.(inBackground).ReleaseInBackground(func(err error) { told <- err })
		require.ErrorIs(t, <-told, framework.ErrReleased)
		require.ErrorIs(t, first.Release(background), framework.ErrReleased)
		require.True(t, second.Valid())
		require.NoError(t, second.Release(background))
		second.(inBackground).ReleaseInBackground() // without a callback
		time.Sleep(time.Minute)
		require.Empty(t, told)
		k.clean(t, s)
	})
}

// No server can be reached: the caller does not wait. The client deletes the nodes after its reconnect.
func TestReleaseInBackgroundWithoutAServer(t *testing.T) {
	backgroundStory(t, func(t *testing.T, s *zktest.Server, k kind) {
		c := recipetest.Client(t, s)
		held, next := k.acquire(t, c), (*recipetest.Call[mutex.Held])(nil)
		if k.line != "" {
			next = k.rival().waiting(t, recipetest.Client(t, s))
		}
		away := unreachable(s)
		recipetest.Cut(t, s, c)
		began := time.Now()
		told := make(chan error, 1)
		held.(inBackground).ReleaseInBackground(func(err error) { told <- err })
		require.Zero(t, time.Since(began))
		synctest.Wait()
		time.Sleep(3 * time.Second) // less than the session timeout
		away.Remove()
		<-told // the outcome may be unknown
		if next != nil {
			release(t, next.End().OK())
		}
		time.Sleep(time.Minute)
		k.clean(t, s)
	})
}

// Nodes released in the background are deleted when Close returns, and the callback has been called.
func TestCloseAfterReleaseInBackground(t *testing.T) {
	backgroundStory(t, func(t *testing.T, s *zktest.Server, k kind) {
		c := recipetest.Client(t, s)
		s.Delay(0, 100*time.Millisecond)
		told := make(chan error, 1)
		k.acquire(t, c).(inBackground).ReleaseInBackground(func(err error) { told <- err })
		require.NoError(t, c.Close())
		require.Len(t, told, 1)
		k.clean(t, s)
	})
}

// Of two callers that share a hold only the last one releases it; each has its own callback.
func TestReleaseInBackgroundOfOneOfTwo(t *testing.T) {
	for _, k := range kinds {
		if k.first == 0 {
			continue // a lease has one caller
		}
		t.Run(k.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				c := recipetest.Client(t, s)
				outer := k.acquire(t, c)
				acquire, _ := k.make(c, framework.SessionOnly)
				inner, err := acquire(outer.Context())
				require.NoError(t, err)
				s.ResetCounts()
				told := make(chan error, 1)
				outer.(inBackground).ReleaseInBackground(func(err error) { told <- err })
				require.NoError(t, <-told)
				require.Zero(t, s.Counts()["delete"])
				require.True(t, inner.Valid())
				inner.(inBackground).ReleaseInBackground(func(err error) { told <- err })
				require.NoError(t, <-told)
				require.Equal(t, 1, s.Counts()["delete"])
				k.clean(t, s)
			})
		})
	}
}

// A lost hold's callback gets the loss; a refused delete without a callback is logged.
func TestReleaseInBackgroundThatFails(t *testing.T) {
	backgroundStory(t, func(t *testing.T, s *zktest.Server, k kind) {
		var log recipetest.Log
		c := recipetest.Client(t, s, framework.WithLogger(log.Logger()))
		held := k.acquire(t, c)
		s.Expire(recipetest.Session(t, c))
		<-held.Context().Done()
		told := make(chan error, 1)
		held.(inBackground).ReleaseInBackground(func(err error) { told <- err })
		require.ErrorIs(t, <-told, framework.ErrSessionLost)

		held = k.acquire(t, c)
		refused := s.Inject(zktest.Fault{Op: "delete", Action: zktest.ReplyError, Err: zktest.ErrNoAuth, Times: -1})
		held.(inBackground).ReleaseInBackground(func(err error) { told <- err })
		require.ErrorIs(t, <-told, framework.ErrNoAuth)
		require.NotContains(t, log.String(), "refuses to delete a released node")
		if k.name == "mutex" {
			require.NoError(t, s.DeleteAll(lockPath))
			k.acquire(t, c).(inBackground).ReleaseInBackground()
			synctest.Wait()
			require.Contains(t, log.String(), "refuses to delete a released node")
		}
		refused.Remove()
		require.NoError(t, c.Close())
	})
}

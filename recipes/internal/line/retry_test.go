package line_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/zktest"
)

// An acquire whose place in line is lost starts again: the first time immediately, then after pauses that grow as long as its
// attempts are short. After another failure it starts again only if it had a place before.
func TestAnAttemptFollowsALostPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		var log recipetest.Log
		c := recipetest.Client(t, s, framework.WithLogger(log.Logger()))
		rejoins := func() int { return strings.Count(log.String(), "lost the place") }
		var attempts line.Attempts
		next := func(ctx context.Context, lasted time.Duration, err error) (time.Duration, error) {
			began := time.Now()
			err = attempts.AwaitNextAttempt(ctx, c, dir, lasted, lasted > 0, err)
			return time.Since(began), err
		}
		_, err := next(t.Context(), 0, framework.ErrConnectionLoss)
		require.ErrorIs(t, err, framework.ErrConnectionLoss, "the retry policy has repeated the first attempt")
		for _, lost := range []struct {
			lasted      time.Duration
			err         error
			least, most time.Duration
		}{
			{0, framework.ErrSessionLost, 0, 0},
			{1, framework.ErrNodeDeleted, 10 * time.Millisecond, 20 * time.Millisecond},
			{10 * time.Second, framework.ErrConnectionLoss, 20 * time.Millisecond, 40 * time.Millisecond},
			{10*time.Second + 1, framework.ErrSessionLost, 0, 0},
			{1, framework.ErrSessionLost, 10 * time.Millisecond, 20 * time.Millisecond},
		} {
			pause, err := next(t.Context(), lost.lasted, lost.err)
			require.NoError(t, err)
			require.GreaterOrEqual(t, pause, lost.least)
			require.LessOrEqual(t, pause, lost.most)
			require.Equal(t, lost.lasted > 0, rejoins() > 0)
		}
		require.Equal(t, 4, rejoins())
		_, err = next(t.Context(), 1, framework.ErrNoAuth)
		require.ErrorIs(t, err, framework.ErrNoAuth)

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = next(ctx, 1, framework.ErrNodeDeleted)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, framework.ErrNodeDeleted)
		ended := fmt.Errorf("while it waited: %w", context.Canceled)
		_, err = next(ctx, 1, ended)
		require.Equal(t, ended, err)
		require.NoError(t, c.Close())
		_, err = next(t.Context(), 1, framework.ErrSessionLost)
		require.ErrorIs(t, err, framework.ErrClosed)
	})
}

// An operation is retried, with pauses, only after the failures of its scope, and until its context ends or the client closes.
func TestFailuresAfterWhichAnOperationIsRepeated(t *testing.T) {
	for _, failure := range []struct {
		err  error
		from line.RetryScope // the smallest scope that includes it
	}{
		{framework.ErrConnectionLoss, line.Outages}, {framework.ErrSessionLost, line.Outages},
		{framework.ErrNotReadOnly, line.ReadOnlyMembers}, {framework.ErrAuthFailed, line.RefusedCredentials},
		{framework.ErrNoAuth, line.RefusedCredentials + 1}, {framework.ErrClosed, line.RefusedCredentials + 1},
	} {
		for scope := line.Outages; scope <= line.RefusedCredentials; scope++ {
			synctest.Test(t, func(t *testing.T) {
				c := recipetest.Client(t, zktest.RunT(t))
				repeat := func(ctx context.Context, failures int) (calls int, took time.Duration, err error) {
					began := time.Now()
					err = line.RetryThrough(ctx, c, scope, func(context.Context) error {
						if calls++; calls <= failures {
							return failure.err
						}
						return nil
					})
					return calls, time.Since(began), err
				}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				calls, took, err := repeat(ctx, 8)
				if scope < failure.from {
					require.ErrorIs(t, err, failure.err)
					require.Equal(t, 1, calls)
					require.Zero(t, took)
					return
				}
				require.NoError(t, err)
				require.Equal(t, 9, calls)
				require.GreaterOrEqual(t, took, 1630*time.Millisecond, "half of 20, 40, 80, 160, 320, 640, 1000 and 1000 ms")
				require.LessOrEqual(t, took, 3260*time.Millisecond)
				_, _, err = repeat(ctx, 1000)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				<-ctx.Done()
				calls, _, err = repeat(ctx, 1000)
				require.ErrorIs(t, err, failure.err)
				require.Equal(t, 1, calls)
				require.NoError(t, c.Close())
				if failure.err != framework.ErrNotReadOnly { // a closed client returns ErrClosed instead
					calls, _, err = repeat(t.Context(), 1000)
					require.Error(t, err)
					require.Equal(t, 1, calls)
				}
			})
		}
	}
}

// A hold that does not wait has a session timeout for each of its nodes to begin.
func TestAHoldThatDoesNotBeginInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		session, err := recipetest.Client(t, zktest.RunT(t)).Session(t.Context())
		require.NoError(t, err)
		slow := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		began := time.Now()
		err = line.HoldWithTimeout(t.Context(), session, 2, false, slow)
		require.ErrorIs(t, err, line.ErrNotAcquired)
		require.Equal(t, 2*session.Timeout(), time.Since(began))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, wait := range []bool{false, true} {
			err = line.HoldWithTimeout(ctx, session, 2, wait, slow)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotErrorIs(t, err, line.ErrNotAcquired, "the caller has given up")
		}
		for _, result := range []error{nil, framework.ErrNoAuth} {
			require.Equal(t, result, line.HoldWithTimeout(t.Context(), session, 2, false, func(context.Context) error { return result }))
		}
		require.NoError(t, line.HoldWithTimeout(t.Context(), session, 1, false, func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		}), "it has begun at the last moment")
	})
}

// A try starts again after the loss of its place. After other failures it does not: its requests have been retried already.
func TestATryThatLosesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := recipetest.Client(t, zktest.RunT(t))
		for _, result := range []struct {
			err   error
			takes int
		}{{nil, 1}, {framework.ErrNoAuth, 1}, {framework.ErrConnectionLoss, 1}, {framework.ErrNodeDeleted, 2}, {framework.ErrSessionLost, 2}} {
			looks, takes := 0, 0
			err := line.TryInSession(t.Context(), c, func(context.Context, *framework.Session) error {
				if looks++; looks == 1 {
					return framework.ErrConnectionLoss
				}
				return nil
			}, func(context.Context, *framework.Session) error {
				if takes++; takes == 1 {
					return result.err
				}
				return nil
			})
			require.Equal(t, result.takes, takes)
			require.Equal(t, 1+takes, looks)
			if takes == 1 {
				require.ErrorIs(t, err, result.err)
			} else {
				require.NoError(t, err)
			}
		}
	})
}

func TestIntervalsOfRechecks(t *testing.T) {
	for range 100 {
		for of, around := range map[time.Duration]time.Duration{
			time.Second: time.Second, 1: 1, 0: 10 * time.Second, -time.Second: 10 * time.Second,
		} {
			require.InDelta(t, around, line.Jittered(of), float64(around)/4+1)
		}
	}
}

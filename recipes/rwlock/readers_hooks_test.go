package rwlock_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/zktest"
)

// At the moment of the grant the waiters' context ends, before or after it, or the hold is lost.
func TestReadersAtTheMomentOfTheGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		var meanwhile func(what string)
		c := newClient(t, s, framework.WithHooks(framework.Hooks{
			Hold: func(ctx context.Context, _ framework.HoldInfo) (context.Context, func(error)) {
				meanwhile("hold")
				return ctx, nil
			},
			Operation: func(_ context.Context, op framework.Operation) func(framework.OperationEnd) {
				meanwhile(op.Name)
				return nil
			},
		}))
		r := rwlock.NewReaders(
			c, path, rwlock.WithRevocation(), rwlock.WithLossPolicy(framework.SuspendedIsLoss),
		)
		for _, pause := range []time.Duration{time.Second, 0} {
			ctx, cancel := context.WithCancel(background)
			meanwhile = func(what string) {
				if what == "hold" {
					cancel()
					time.Sleep(pause)
				}
			}
			call := beginReading(t, ctx, r).End()
			if pause > 0 || call.Err != nil {
				require.ErrorIs(t, call.Err, context.Canceled)
			} else {
				done(t, call.OK())
			}
			time.Sleep(2 * time.Second)
			clean(t, s)
		}

		cut := false
		meanwhile = func(what string) {
			if what == "getData" && !cut { // the read for the revocation, after the hold has begun
				cut = true
				s.Cut(session(t, c))
				time.Sleep(time.Second)
			}
		}
		calls := []*reading{beginReading(t, background, r), beginReading(t, background, r)}
		for _, call := range calls {
			reading := call.End().OK()
			require.NoError(t, reading.Context().Err())
			require.Contains(t, reading.Node(), "0000000003", "another node")
		}
		require.True(t, cut)
		done(t, calls[0].OK(), calls[1].OK())
		clean(t, s)
	})
}

// The log reports a Reading that was dropped without a release, even if others read with the same node. Not in a bubble: the
// garbage collector's cleanups run outside of it.
func TestForgottenReading(t *testing.T) {
	s := zktest.RunT(t)
	var log recipetest.Log
	c := newClient(t, s, framework.WithLogger(log.Logger()))
	r := rwlock.NewReaders(c, path, rwlock.WithJoins(10, time.Hour))
	reading := read(t, background, r)
	require.NoError(t, read(t, background, r).Release(background))
	read(t, background, r) // dropped without a release
	require.Eventually(t, func() bool {
		runtime.GC()
		return strings.Contains(log.String(), reading.Path())
	}, 2*time.Minute, time.Millisecond)
	require.Equal(t, 1, strings.Count(log.String(), "without Release"))
	require.NoError(t, reading.Release(background))
	require.True(t, s.Exists(reading.Path()), "somebody may still work under its context")
}

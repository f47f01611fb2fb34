package rwlock_test

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/zktest"
)

// A hook that ends the goroutine it runs on costs those who wait an error, and no more.
func TestHookThatEndsWhatGetsTheNodeOfReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		var strikes atomic.Bool
		strike := func() {
			if strikes.CompareAndSwap(true, false) {
				runtime.Goexit()
			}
		}
		for where, hooks := range map[string]framework.Hooks{
			"queue": {Queue: func(framework.Queue) { strike() }},
			"hold": {Hold: func(ctx context.Context, _ framework.HoldInfo) (context.Context, func(error)) {
				strike()
				return ctx, nil
			}},
		} {
			r := rwlock.NewReaders(newClient(t, s, framework.WithHooks(hooks)), path)
			strikes.Store(true)
			_, err := r.Acquire(background)
			require.ErrorContains(t, err, "did not return", where)
			require.False(t, strikes.Load(), where)
			done(t, read(t, background, r))
			clean(t, s)
		}
		// One that is told of the end of a hold: the node goes all the same.
		r := rwlock.NewReaders(newClient(t, s, framework.WithHooks(framework.Hooks{
			Hold: func(ctx context.Context, _ framework.HoldInfo) (context.Context, func(error)) {
				return ctx, func(error) { strike() }
			},
		})), path)
		for _, last := range []func(*rwlock.Reading){
			func(reading *rwlock.Reading) { _ = reading.Release(background) },
			func(reading *rwlock.Reading) { reading.ReleaseInBackground() },
		} {
			reading := read(t, background, r)
			strikes.Store(true)
			go last(reading) // does not return
			time.Sleep(time.Second)
			clean(t, s)
		}
		// One that is told of the end of an Acquire: nobody has what was acquired.
		r = rwlock.NewReaders(newClient(t, s, framework.WithHooks(framework.Hooks{
			Queue: func(framework.Queue) {},
			Acquire: func(ctx context.Context, _ framework.Acquisition) (context.Context, func(error)) {
				return ctx, func(error) { strike() }
			},
		})), path)
		reading := read(t, background, r)
		strikes.Store(true)
		go func() { _, _ = r.Acquire(background) }()
		synctest.Wait()
		done(t, reading)
		clean(t, s)
		strikes.Store(true)
		go func() { _, _ = r.Acquire(background) }()
		time.Sleep(time.Second)
		clean(t, s)
	})
}

// What happens at the very moment of the grant: those who wait give up, before or after it, or the hold is lost.
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
			if what == "getData" && !cut { // of the revocation, after the hold has begun
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

// A Reading that is dropped is said to be, also if others read on with the same node. Not in a bubble: the
// collector's cleanups run outside of it.
func TestForgottenReading(t *testing.T) {
	s := zktest.RunT(t)
	var log recipetest.Log
	c := newClient(t, s, framework.WithLogger(log.Logger()))
	r := rwlock.NewReaders(c, path, rwlock.WithJoins(10, time.Hour))
	reading := read(t, background, r)
	require.NoError(t, read(t, background, r).Release(background))
	read(t, background, r) // dropped
	require.Eventually(t, func() bool {
		runtime.GC()
		return strings.Contains(log.String(), reading.Path())
	}, 2*time.Minute, time.Millisecond)
	require.Equal(t, 1, strings.Count(log.String(), "without Release"))
	require.NoError(t, reading.Release(background))
	require.True(t, s.Exists(reading.Path()), "somebody may still work under its context")
}

package mutex_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// The lock is lost during a turn, but the session lives, and its node stays:
//
//  1. The connection is lost, and the turn's context ends.
//  2. The client connects again, a millisecond later.
//  3. The Cohort deletes its node, and another client is granted the lock.
//
// Between 1 and 3 the turn's user has the grace to stop, unless it releases earlier.
func TestCohortLeavesTheUserOfALostTurnTimeToStop(t *testing.T) {
	const soon = 150 * time.Millisecond // a reconnect, and the requests after it
	for name, c := range map[string]struct {
		opts    []mutex.Option
		client  []framework.Option
		server  zktest.Config
		shorter time.Duration // the session timeout that the server grants after the start
		cause   error
		stops   time.Duration // when the user releases; 0: only after the other contender's grant
		idle    bool          // there is no user
		least   time.Duration
	}{
		"never released": {cause: mutex.ErrSuspended, least: time.Second},
		"never released, kept": {
			opts: []mutex.Option{mutex.WithKept(time.Minute)}, cause: mutex.ErrSuspended, least: time.Second,
		},
		"released": {cause: mutex.ErrSuspended, stops: 300 * time.Millisecond, least: 300 * time.Millisecond},
		"released, kept": {
			opts: []mutex.Option{mutex.WithKept(time.Minute)}, cause: mutex.ErrSuspended,
			stops: 300 * time.Millisecond, least: 300 * time.Millisecond,
		},
		"kept without a user": {
			opts: []mutex.Option{mutex.WithKept(time.Minute)}, cause: mutex.ErrSuspended, idle: true,
		},
		"another grace": {
			client: []framework.Option{framework.WithFenceGrace(200 * time.Millisecond)},
			cause:  mutex.ErrSuspended, least: 200 * time.Millisecond,
		},
		"nothing can be held any more": {
			opts: []mutex.Option{mutex.WithLossPolicy(framework.SessionOnly)}, server: ensemble,
			shorter: 1800 * time.Millisecond, cause: framework.ErrTimeoutTooShort, least: 180 * time.Millisecond,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t, c.server)
				a := newClient(t, s, c.client...)
				opts := append([]mutex.Option{mutex.WithLossPolicy(framework.SuspendedIsLoss)}, c.opts...)
				turn := turnOf(t, mutex.NewCohort(a, path, opts...))
				if c.idle {
					end(t, turn)
				}
				time.Sleep(time.Second)
				other := newClient(t, s)
				if c.idle { // the other contender comes while the connection is suspended
					recipetest.Cut(t, s, a)
				}
				waiter := waiting(t, background, mutex.New(other, path))
				began := time.Now()
				if !c.idle {
					if c.shorter > 0 {
						s.LimitSessions(c.shorter)
					}
					recipetest.Cut(t, s, a)
					<-turn.Context().Done()
					require.ErrorIs(t, context.Cause(turn.Context()), c.cause)
					began = time.Now()
					if c.stops > 0 {
						time.Sleep(c.stops)
						require.ErrorIs(t, turn.Release(background), c.cause)
					}
				}
				granted := waiter.End().OK()
				require.GreaterOrEqual(t, waiter.At.Sub(began), c.least)
				require.Less(t, waiter.At.Sub(began), c.least+soon)
				release(t, granted)
				if !c.idle && c.stops == 0 {
					require.ErrorIs(t, turn.Release(background), c.cause)
				}
				clean(t, s, path)
				recipetest.Tidy(t, a)
			})
		})
	}
}

// ensemble configures a server that reports being one of three members.
var ensemble = zktest.Config{
	EnsembleConfig: "server.1=a:2888:3888:participant;0.0.0.0:2181\n" +
		"server.2=b:2888:3888:participant;0.0.0.0:2181\nversion=100000000",
	TickTime: 900 * time.Millisecond,
}

// A caller that comes during the grace waits in the local line, and gets a turn with a new node. TryAcquire fails immediately,
// and Close does not wait for the grace.
func TestCohortDuringTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		m := mutex.NewCohort(c, path, mutex.WithLossPolicy(framework.SuspendedIsLoss))
		lose := func() *mutex.Turn {
			turn := turnOf(t, m)
			recipetest.Cut(t, s, c)
			<-turn.Context().Done()
			time.Sleep(10 * time.Millisecond)
			return turn
		}
		first := lose()
		next := lining(t, m)
		_, err := m.TryAcquire(background)
		require.ErrorIs(t, err, mutex.ErrNotAcquired)
		require.Equal(t, []string{first.Node()}, nodesOf(t, s))
		require.ErrorIs(t, first.Release(background), mutex.ErrSuspended)
		turn := next.End().OK()
		require.NotEqual(t, first.Node(), turn.Node())
		end(t, turn)
		clean(t, s, path)

		last := lose()
		began := time.Now()
		require.NoError(t, c.Close())
		require.Less(t, time.Since(began), 100*time.Millisecond)
		clean(t, s, path)
		require.ErrorIs(t, last.Release(background), mutex.ErrSuspended)
	})
}

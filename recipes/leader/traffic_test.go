package leader_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/zktest"
)

// The table of requests per operation.
func TestTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create(path, nil))
		ca, cb, cc := newClient(t, s), newClient(t, s), newClient(t, s)
		synctest.Wait()
		s.ResetCounts()

		a := join(t, ca)
		term := await(t, a)
		counts(t, s, "join, nobody there", map[string]int{"create2": 1, "getChildren2": 1})
		time.Sleep(time.Minute)
		counts(t, s, "the watch on the own node", map[string]int{"exists": 1})
		b := join(t, cb)
		counts(t, s, "join, somebody leads",
			map[string]int{"create2": 1, "getChildren2": 1, "getData": 1, "setWatches": 1})
		require.NoError(t, term.Resign(background))
		second := await(t, b)
		counts(t, s, "resign, hand-over to the only follower, stand in line again",
			map[string]int{"delete": 1, "create2": 1, "getChildren2": 1, "getData": 1, "setWatches": 1})

		cut(t, s, cb)
		ended(t, second, leader.ErrSuspended)
		await(t, b)
		// With each connection the client asks once whether the server stands alone: getData of /zookeeper/config.
		// And since the last word of the server before was an event, the next one has to catch up: multi.
		counts(t, s, "reconnect of the leader",
			map[string]int{"connect": 1, "multi": 1, "getData": 1, "exists": 1})
		cut(t, s, ca)
		time.Sleep(time.Second)
		counts(t, s, "reconnect of a follower", map[string]int{"connect": 1, "getData": 1, "setWatches": 1})

		left(t, b)
		await(t, a)
		// Its connection was lost since it listed, so it lists again.
		counts(t, s, "leave, hand-over to one that was reconnected", map[string]int{"multi": 1, "getChildren2": 1})
		left(t, a)
		counts(t, s, "leave", map[string]int{"multi": 1})

		c := join(t, cc, leader.WithLossPolicy(framework.SessionOnly))
		await(t, c)
		time.Sleep(time.Second)
		s.ResetCounts()
		cut(t, s, cc)
		time.Sleep(time.Second)
		require.True(t, c.HasLeadership())
		counts(t, s, "reconnect of a leader, session only",
			map[string]int{"connect": 1, "getData": 1, "setWatches": 1})
		left(t, c)

		sel := leader.NewSelector(ca, path, func(context.Context) error { return nil })
		s.ResetCounts()
		require.NoError(t, sel.RunOnce(background))
		counts(t, s, "selector, one short term", map[string]int{"create2": 1, "getChildren2": 1, "delete": 1})
		clean(t, s)
	})
}

// A clean hand-over takes three times the way to the server and back, at most: the delete, the event, and
// perhaps a list.
func TestHandOverTime(t *testing.T) {
	const trip = 10 * time.Millisecond
	for waiters, trips := range map[int]time.Duration{1: 1, 5: 1} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			latches := []*leader.Latch{}
			for range waiters + 1 {
				latches = append(latches, join(t, newClient(t, s)))
			}
			s.Delay(0, trip) // replies and events
			for i, l := range latches[:waiters] {
				term := await(t, l)
				s.ResetCounts()
				began := time.Now()
				go func() { _ = term.Resign(background) }()
				next := await(t, latches[i+1])
				took := time.Since(began)
				require.LessOrEqual(t, took, 3*trip)
				if i == 0 {
					require.Equal(t, trips*trip, took, "the first follower needs no list")
				}
				require.NotNil(t, next)
				synctest.Wait()
				require.LessOrEqual(t, s.Counts()["getChildren2"], 2, "nobody but the next one, and who resigned, lists")
				require.NoError(t, l.Close())
				time.Sleep(time.Second)
			}
		})
	}
}

// Whoever leads, followers that come, wait and go wake no observer, and an observer costs one watch.
func TestObserverTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		ca, cb, co := newClient(t, s), newClient(t, s), newClient(t, s)
		synctest.Wait()
		s.ResetCounts()
		seen := observe(t, co, path)
		seen.next(t, "nobody")
		counts(t, s, "no directory", map[string]int{"getChildren2": 1, "exists": 1})
		require.Len(t, s.Watches(), 1)
		a := join(t, ca, leader.WithID("a"))
		seen.next(t, `"a"`)
		require.NoError(t, a.Close())
		seen.next(t, "nobody")
		synctest.Wait()
		s.ResetCounts()
		of := func(what string, want map[string]int) {
			t.Helper()
			synctest.Wait()
			got := s.CountsOf(session(t, co))
			delete(got, "ping")
			require.Equal(t, want, got, what)
			s.ResetCounts()
		}
		a = join(t, ca, leader.WithID("a"))
		seen.next(t, `"a"`)
		of("somebody comes", map[string]int{"getChildren2": 1, "getData": 1})
		b := join(t, cb, leader.WithID("b"))
		for range 10 {
			require.NoError(t, join(t, cb).Close())
		}
		of("followers", map[string]int{})
		watches := 0
		for _, w := range s.Watches() {
			if w.Session == session(t, co) {
				watches++
			}
		}
		require.Equal(t, 1, watches)
		require.NoError(t, a.Close())
		seen.next(t, `"b"`)
		of("the next one leads", map[string]int{"getChildren2": 1, "getData": 1})
		cut(t, s, co)
		time.Sleep(time.Second)
		of("reconnect", map[string]int{"connect": 1, "getData": 1, "setWatches": 1})
		require.NoError(t, b.Close())
		seen.next(t, "nobody")
		of("nobody leads", map[string]int{"getChildren2": 2})
		seen.stop()
		clean(t, s)
	})
}

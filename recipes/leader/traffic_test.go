package leader_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/zktest"
)

// A hand-over after a release takes at most three round trips: the delete, the event, and in some cases a list.
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

// Followers that join, wait and leave wake no observer, whichever client leads, and an observer costs one watch.
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

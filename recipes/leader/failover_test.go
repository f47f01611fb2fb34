package leader_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/zktest"
)

// candidate joins an election and sends its terms on leads.
type candidate func(t *testing.T, c *framework.Client) (leads <-chan *leader.Term)

// candidates are the two ways to lead.
var candidates = map[string]candidate{
	"latch": func(t *testing.T, c *framework.Client) <-chan *leader.Term {
		leads := make(chan *leader.Term, 10)
		join(t, c, leader.WithListener(leader.Listener{OnLeader: func(term *leader.Term) { leads <- term }}))
		return leads
	},
	"selector": func(t *testing.T, c *framework.Client) <-chan *leader.Term {
		leads := make(chan *leader.Term, 10)
		runs(t, newSelector(t, c, func(ctx context.Context) error {
			leads <- leader.TermOf(ctx)
			<-ctx.Done()
			return nil
		}))
		return leads
	},
}

// A leader resigns: the next one leads after one round trip: the delete to the server, and the event from it.
func TestResignIsQuick(t *testing.T) {
	const trip = 10 * time.Millisecond
	for name, join := range candidates {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				var line []<-chan *leader.Term
				for range 5 {
					line = append(line, join(t, newClient(t, s)))
				}
				s.Delay(0, trip) // replies and events
				time.Sleep(time.Second)
				term := <-line[0]
				for turn := range 2 * len(line) {
					s.ResetCounts()
					began := time.Now()
					go func() { _ = term.Resign(background) }()
					term = <-line[(turn+1)%len(line)]
					require.Equal(t, trip, time.Since(began), "turn %d", turn)
					time.Sleep(time.Second)
					counts := s.Counts()
					require.Equal(t, 1, counts["delete"]+counts["multi"])
					require.Equal(t, 1, counts["getChildren2"], "of the one that has resigned")
				}
			})
		})
	}
}

// A leader dies without closing its session. The next one leads when that session has expired, and not before the term has ended:
// within the session timeout and one tick, since the server rounds expiries up to multiples of its tick. With a tick of a second
// or less that is at most the timeout plus a second.
func TestFailOverAfterAKill(t *testing.T) {
	const timeout = 4 * time.Second
	for name, join := range candidates {
		for _, tick := range []time.Duration{200 * time.Millisecond, time.Second, 2 * time.Second} {
			t.Run(fmt.Sprint(name, ", tick ", tick), func(t *testing.T) {
				longest := time.Duration(0)
				for phase := time.Duration(0); phase < 2*tick; phase += tick / 10 {
					synctest.Test(t, func(t *testing.T) {
						s := zktest.RunT(t, zktest.Config{TickTime: tick})
						dying := newClient(t, s, framework.WithSessionTimeout(timeout))
						first := join(t, dying)
						second := join(t, newClient(t, s))
						term := <-first
						time.Sleep(10*time.Second + phase)
						gone := s.Inject(zktest.Fault{Op: "connect", Times: -1, Action: zktest.CutBefore})
						died := time.Now()
						// for the server the client is dead, but the test still sees when the client notices
						s.BlackHole(session(t, dying), zktest.Both)
						endedAt := make(chan time.Time, 1)
						context.AfterFunc(term.Context(), func() { endedAt <- time.Now() })
						next := <-second
						at := time.Now()
						longest = max(longest, at.Sub(died))
						require.LessOrEqual(t, at.Sub(died), timeout+tick)
						require.True(t, (<-endedAt).Before(at))
						require.Greater(t, next.FencingToken(), term.FencingToken())
						gone.Remove()
					})
				}
				t.Logf("session timeout %v, tick %v: in office after %v at the latest", timeout, tick, longest)
			})
		}
	}
}

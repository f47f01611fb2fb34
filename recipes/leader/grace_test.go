package leader_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/zktest"
)

// From the next connection on the server grants a session timeout too short for any hold. The session lives, so the latch has to
// delete its node, and so has the client after Campaign. Or the client has lost the session by its clock, and closes it. The user
// of the term has the grace to stop before another participant leads.
func TestALostTermLeavesTheLeaderTimeToStop(t *testing.T) {
	type call = *recipetest.Call[*leader.Term]
	kinds := map[string]func(*testing.T, *framework.Client, framework.LossPolicy) (begin func() call, stop func()){
		"latch": func(t *testing.T, c *framework.Client, policy framework.LossPolicy) (func() call, func()) {
			l := join(t, c, leader.WithLossPolicy(policy))
			begin := func() call {
				return recipetest.Begin(t, func() (*leader.Term, error) { return l.Await(background) })
			}
			return begin, func() { require.NoError(t, l.Close()) }
		},
		"campaign": func(t *testing.T, c *framework.Client, policy framework.LossPolicy) (func() call, func()) {
			return func() call { return campaign(t, background, c, leader.WithLossPolicy(policy)) }, func() {}
		},
	}
	for policy, grace := range map[framework.LossPolicy]time.Duration{
		framework.SessionOnly:     180 * time.Millisecond, // a tenth of the timeout, which is the shorter one already
		framework.SuspendedIsLoss: time.Second,
	} {
		for kind, participate := range kinds {
			for _, earlier := range []bool{false, true} { // the connection was lost before
				synctest.Test(t, func(t *testing.T) {
					s := zktest.RunT(t, zktest.Config{
						EnsembleConfig: "server.1=a:2888:3888:participant;0.0.0.0:2181\n" +
							"server.2=b:2888:3888:participant;0.0.0.0:2181\nversion=100000000",
						TickTime: 900 * time.Millisecond,
					})
					c := newClient(t, s)
					begin, stop := participate(t, c, policy)
					term := begin().End().OK()
					if earlier {
						cut(t, s, c)
						time.Sleep(time.Minute)
						if !term.Valid() {
							term = begin().End().OK()
						}
					}
					beginNext, stopNext := participate(t, newClient(t, s), policy)
					next := beginNext().Waits()
					s.LimitSessions(1800 * time.Millisecond)
					cut(t, s, c)
					<-term.Context().Done()
					began := time.Now()
					follower := next.End().OK()
					what := fmt.Sprint(kind, policy, earlier, context.Cause(term.Context()))
					require.GreaterOrEqual(t, time.Since(began), grace, what)
					require.Less(t, time.Since(began), grace+50*time.Millisecond, what)

					began = time.Now()
					stop()
					require.Zero(t, time.Since(began))
					require.NoError(t, follower.Resign(background))
					stopNext()
					time.Sleep(time.Second)
					clean(t, s)
				})
			}
		}
	}
}

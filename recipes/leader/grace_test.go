package leader_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/zktest"
)

// From the next connection on the server grants a session timeout too short for any hold. The session lives, so the latch has to
// delete its node. The user of the term has the grace to stop before another participant leads.
func TestLatchLeavesTheLeaderTimeToStop(t *testing.T) {
	for policy, grace := range map[framework.LossPolicy]time.Duration{
		framework.SessionOnly:     180 * time.Millisecond, // a tenth of the timeout, which is the shorter one already
		framework.SuspendedIsLoss: time.Second,
	} {
		t.Run(policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t, zktest.Config{
					EnsembleConfig: "server.1=a:2888:3888:participant;0.0.0.0:2181\n" +
						"server.2=b:2888:3888:participant;0.0.0.0:2181\nversion=100000000",
					TickTime: 900 * time.Millisecond,
				})
				ca := newClient(t, s)
				a, b := join(t, ca, leader.WithLossPolicy(policy)), join(t, newClient(t, s))
				term := await(t, a)
				s.LimitSessions(1800 * time.Millisecond)
				cut(t, s, ca)
				<-term.Context().Done()
				began := time.Now()
				await(t, b)
				require.GreaterOrEqual(t, time.Since(began), grace)
				require.Less(t, time.Since(began), grace+50*time.Millisecond)
				left(t, b)

				began = time.Now()
				require.NoError(t, a.Close())
				require.Zero(t, time.Since(began))
				time.Sleep(time.Second)
				clean(t, s)
			})
		})
	}
}

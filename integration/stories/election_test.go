package stories

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/cluster"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/zkserver"
	"github.com/go-curator/curator/recipes/leader"
)

// election has three participants, each with its own client and cable. The first leads.
type election struct {
	latches []*leader.Latch
	cables  []kit.Cable
	clients []*framework.Client
	term    *leader.Term
}

func elect(t *testing.T, c cluster.Cluster, path string, opts ...framework.Option) *election {
	t.Helper()
	ctx := kit.Context(t)
	g := &election{}
	for i := range 3 {
		client, cable := kit.ConnectedTo(t, c, i, append(rules(), opts...)...)
		latch, err := leader.NewLatch(client, path, leader.WithID(fmt.Sprint(i)),
			leader.WithLossPolicy(framework.SessionOnly))
		require.NoError(t, err)
		t.Cleanup(func() { latch.Close() })
		g.latches, g.cables, g.clients = append(g.latches, latch), append(g.cables, cable),
			append(g.clients, client)
		if i == 0 {
			g.term, err = latch.Await(ctx)
			require.NoError(t, err)
		}
		kit.Soon(t, "the next one stands in line", func() bool {
			participants, err := latch.Participants(ctx)
			return err == nil && len(participants) == i+1
		})
	}
	return g
}

// All servers are restarted, one after the other, as for an upgrade. The leader stays, in the same term.
func TestRollingRestartChangesNoLeader(t *testing.T) {
	t.Parallel()
	servers := zkserver.StartEnsemble(t, 3, zkserver.AsUsual())
	elections := map[framework.Rule]*election{}
	for _, rule := range []framework.Rule{framework.RuleBound, framework.RuleHeartbeat} {
		elections[rule] = elect(t, servers, fmt.Sprintf("/rolling-%v", rule), framework.WithRule(rule),
			framework.WithSessionTimeout(30*time.Second), framework.WithStaleServerBound(13*time.Second),
			framework.WithServerTick(2*time.Second))
	}
	for _, orderly := range []bool{true, false} {
		t.Run(fmt.Sprintf("orderly=%t", orderly), func(t *testing.T) {
			began := time.Now()
			require.NoError(t, cluster.RollingRestart(kit.Context(t), servers, orderly))
			took := time.Since(began)
			time.Sleep(2 * time.Second) // all that a restart may break has been noticed by then, except for the session's end
			for rule, g := range elections {
				require.NoError(t, g.term.Context().Err(), "%v rule: the term has ended: %v", rule,
					context.Cause(g.term.Context()))
				require.True(t, g.term.Valid())
				assert.True(t, g.latches[0].HasLeadership())
				for _, other := range g.latches[1:] {
					assert.False(t, other.HasLeadership())
				}
				assert.EqualValues(t, 1, g.clients[0].State().Epoch, "the same session")
				assert.Equal(t, rule, g.clients[0].Safety().Rule)
				participants, err := g.latches[2].Participants(kit.Context(t))
				require.NoError(t, err)
				assert.Len(t, participants, 3)
				assert.Equal(t, g.term.FencingToken(), participants[0].Czxid)
			}
			kit.Figure(t, "rolling restart (orderly=%t) of %s in %v: the same leaders, the same terms, under both rules",
				orderly, servers.Name(), took.Round(time.Millisecond))
		})
	}
}

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

// election is one with three participants, each with a client and a cable of its own. The first leads.
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

// next waits until one of the others leads.
func (g *election) next(t *testing.T) (*leader.Term, time.Time) {
	t.Helper()
	ctx, cancel := context.WithCancel(kit.Context(t))
	defer cancel()
	type begun struct {
		term *leader.Term
		at   time.Time
	}
	found := make(chan begun, len(g.latches))
	for _, latch := range g.latches[1:] {
		go func() {
			if term, err := latch.Await(ctx); err == nil {
				found <- begun{term, time.Now()}
			}
		}()
	}
	first := kit.Receive(t, "the next term", found)
	return first.term, first.at
}

// All servers are restarted, one after the other, as for an upgrade. Nobody notices: the leader leads on, in
// the same term.
func TestRollingRestartChangesNoLeader(t *testing.T) {
	t.Parallel()
	for _, orderly := range []bool{true, false} {
		for _, rule := range []framework.Rule{framework.RuleBound, framework.RuleHeartbeat} {
			t.Run(fmt.Sprintf("orderly=%t, %v rule", orderly, rule), func(t *testing.T) {
				servers := zkserver.StartEnsemble(t, 3, zkserver.AsUsual())
				g := elect(t, servers, "/rolling", framework.WithRule(rule), framework.WithSessionTimeout(30*time.Second),
					framework.WithStaleServerBound(13*time.Second), framework.WithServerTick(2*time.Second))
				session := g.clients[0].State().Epoch
				began := time.Now()
				require.NoError(t, cluster.RollingRestart(kit.Context(t), servers, orderly))
				took := time.Since(began)
				// Whatever a restart has broken has been noticed by now, but for the session's end.
				for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
					require.NoError(t, g.term.Context().Err(), "the term has ended: %v", context.Cause(g.term.Context()))
					require.True(t, g.term.Valid())
				}
				assert.True(t, g.latches[0].HasLeadership())
				for _, other := range g.latches[1:] {
					assert.False(t, other.HasLeadership())
				}
				assert.Equal(t, session, g.clients[0].State().Epoch, "the same session")
				participants, err := g.latches[2].Participants(kit.Context(t))
				require.NoError(t, err)
				assert.Len(t, participants, 3)
				assert.Equal(t, g.term.FencingToken(), participants[0].Czxid)
				kit.Figure(t, "rolling restart (orderly=%t) of %s in %v: the same leader, the same term, under the %v "+
					"rule",
					orderly, servers.Name(), took.Round(time.Millisecond), g.clients[0].Safety().Rule)
			})
		}
	}
}

// The leader's network fails, and nobody tells it. Its term ends, another takes over, and the two terms do
// not overlap. When it is back it stands at the end of the line.
func TestLeaderCutOff(t *testing.T) {
	t.Parallel()
	for _, rule := range []framework.Rule{framework.RuleBound, framework.RuleHeartbeat} {
		t.Run(fmt.Sprintf("%v rule", rule), func(t *testing.T) {
			t.Parallel()
			servers := threeServers(t)
			g := elect(t, servers, "/cut", framework.WithRule(rule))
			over := kit.EndOf(t, g.term.Context().Done())
			cut := time.Now()
			g.cables[0].Hang()
			term, begun := g.next(t)
			at := kit.Receive(t, "the end of the first term", over)
			kit.Figure(t, "leader cut off, %v rule: its term ended %v after, the next began %v later", rule,
				at.Sub(cut).Round(time.Millisecond), begun.Sub(at).Round(time.Millisecond))
			assert.True(t, at.Before(begun), "two leaders for %v", at.Sub(begun))
			assert.False(t, g.term.Valid())
			assert.ErrorIs(t, context.Cause(g.term.Context()), framework.ErrSessionLost)
			assert.Greater(t, term.FencingToken(), g.term.FencingToken())
			assert.LessOrEqual(t, begun.Sub(cut), timeout+tick+tick/2+kit.Slack())
			g.cables[0].Heal()
			kit.Soon(t, "the former leader stands at the end of the line", func() bool {
				participants, err := g.latches[0].Participants(kit.Context(t))
				return err == nil && len(participants) == 3 && participants[2].ID == "0"
			})
			assert.NoError(t, term.Context().Err())
		})
	}
}

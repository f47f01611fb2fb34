package barrier_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/barrier"
	"github.com/go-curator/curator/zktest"
)

// A member inside loses its network without notice. By either rule its context ends before the others, which wait for its node,
// can continue.
func TestMemberIsCutOff(t *testing.T) {
	for config, rule := range map[string]framework.Rule{
		"": framework.RuleBound,
		"server.1=a:2888:3888\nserver.2=b:2888:3888\nserver.3=c:2888:3888\n": framework.RuleHeartbeat,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t, zktest.Config{EnsembleConfig: config})
			members, clients := enterAll(t, s, 3)
			time.Sleep(time.Minute)
			require.Equal(t, rule, clients[0].Safety().Rule)
			for _, m := range members {
				require.NoError(t, m.Context().Err())
			}
			blind := s.Inject(zktest.Fault{Op: "connect", Times: -1, Action: zktest.CutBefore})
			s.BlackHole(session(t, clients[0]), zktest.Both)
			ended := make(chan time.Time, 1)
			context.AfterFunc(members[0].Context(), func() { ended <- time.Now() })
			began := time.Now()
			others := []*call[struct{}]{leaving(t, background, members[1]).Waits(),
				leaving(t, background, members[2]).Waits()}
			<-others[0].Done
			<-others[1].Done
			require.LessOrEqual(t, time.Since(began), 12*time.Second, "the session timeout and a tick")
			others[0].OK()
			others[1].OK()
			require.True(t, (<-ended).Before(time.Now()))
			require.ErrorIs(t, context.Cause(members[0].Context()), barrier.ErrSessionLost)
			require.ErrorIs(t, members[0].Leave(background), barrier.ErrSessionLost)
			blind.Remove()
			s.Heal()
			time.Sleep(time.Minute)
			clean(t, s)
		})
	}
}

// A barrier at the node of a namespace.
func TestPathRoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		first := entering(t, background, barrier.NewDouble(newClient(t, s).UsingNamespace("team/app"), "/", 2)).
			Waits()
		second := entering(t, background, barrier.NewDouble(newClient(t, s).UsingNamespace("team/app"), "/", 2))
		a, b := first.OK(), second.OK()
		out := leaving(t, background, a).Waits()
		leaving(t, background, b).OK()
		out.OK()
		require.Empty(t, s.Diff(map[string]string{"/team": "", "/team/app": ""}, "/zookeeper"))
	})
}

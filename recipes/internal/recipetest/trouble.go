package recipetest

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// Trouble injects faults for the clients until the returned function is called, which waits for the end and
// heals the server. Now and then it calls one of the further functions.
//
// It does not call Expire: the promise does not cover a session that the server ends early, and the tests
// could not tell such an end from a fault.
func Trouble(t *testing.T, s *zktest.Server, random *rand.Rand, clients []*framework.Client, further ...func()) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-time.After(Below(random, 2*time.Second)):
			case <-ctx.Done():
				return
			}
			session, err := clients[random.IntN(len(clients))].Session(ctx)
			if err != nil {
				return
			}
			if n := random.IntN(8 + len(further)); n < 8 {
				strike(t, s, n, random, session.ID())
			} else {
				further[n-8]()
			}
		}
	}()
	return func() {
		cancel()
		<-done
		s.Heal()
	}
}

func strike(t *testing.T, s *zktest.Server, what int, random *rand.Rand, session int64) {
	switch what {
	case 0:
		s.Cut(session)
	case 1:
		s.BlackHole(session, []zktest.Direction{zktest.Both, zktest.FromClient, zktest.ToClient}[random.IntN(3)])
	case 2, 3:
		s.Pause()
		time.Sleep(Below(random, 6*time.Second))
		s.Resume()
	case 4:
		s.Heal()
	case 5:
		s.Stop()
		time.Sleep(Below(random, 6*time.Second))
		if err := s.Start(); err != nil {
			t.Error(err)
		}
	default:
		ops := []string{"create2", "getChildren2", "getData", "delete", "exists", "ping", "connect", "multi", "sync", "setWatches"}
		actions := []zktest.Action{zktest.DropRequest, zktest.CutBefore, zktest.LoseReply, zktest.HoldReply, zktest.DelayReply}
		fault := s.Inject(zktest.Fault{Op: ops[random.IntN(len(ops))], After: random.IntN(3), Action: actions[random.IntN(len(actions))],
			Delay: Below(random, 3*time.Second)})
		time.Sleep(Below(random, 2*time.Second))
		fault.Remove()
		fault.Release()
	}
}

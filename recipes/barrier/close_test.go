package barrier_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/barrier"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/retry"
	"github.com/go-curator/curator/zktest"
)

// nextRound lets two members enter the barrier after it was closed.
func nextRound(t *testing.T, s *zktest.Server, a, b *framework.Client) (first, second *barrier.Member) {
	t.Helper()
	require.Empty(t, children(t, s), "the last round is over")
	w := entering(t, background, barrier.NewDouble(a, path, 2)).Waits()
	second = enter(t, barrier.NewDouble(b, path, 2))
	return w.OK(), second
}

// leaveTogether asserts that the two members leave together.
func leaveTogether(t *testing.T, s *zktest.Server, a, b *barrier.Member) {
	t.Helper()
	out := leaving(t, background, a).Waits()
	leaving(t, background, b).OK()
	out.OK()
	clean(t, s)
}

// The lowest member has deleted its node and "ready", but the reply is lost; when it reconnects the next round has begun.
func TestNextRoundAndLostReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		members, clients := enterAll(t, s, 2)
		id := session(t, clients[0])
		s.Inject(zktest.Fault{Session: id, Op: "connect", Action: zktest.DelayReply, Delay: 2 * time.Second})
		lost := s.Inject(zktest.Fault{Session: id, Op: "multi", Action: zktest.LoseReply})
		first := leaving(t, background, members[0]).Waits()
		leaving(t, background, members[1]).OK()
		require.Equal(t, 1, lost.Hits())
		a, b := nextRound(t, s, clients[1], newClient(t, s))
		first.Waits()
		time.Sleep(10 * time.Second)
		first.OK()
		leaveTogether(t, s, a, b)
	})
}

// Without any fault: a member that is not the lowest gets the event of the round's end late.
func TestNextRoundAndSlowMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		members, clients := enterAll(t, s, 3)
		outs := []*call[struct{}]{leaving(t, background, members[0]).Waits(),
			leaving(t, background, members[1]).Waits()}
		s.Delay(session(t, clients[2]), time.Second)
		slow := leaving(t, background, members[2])
		time.Sleep(time.Second + time.Millisecond)
		outs[0].OK()
		outs[1].OK()
		slow.Waits()
		a, b := nextRound(t, s, clients[0], newClient(t, s))
		time.Sleep(10 * time.Second)
		slow.OK()
		leaveTogether(t, s, a, b)
	})
}

// The lowest member crashes, and two others find that they must close the barrier. The request of one is late, or is retried,
// until the next round has begun.
func TestNextRoundAndTwoWhoClose(t *testing.T) {
	for _, op := range []string{"getChildren2", "setData", "delete"} {
		for name, action := range map[string]zktest.Action{"request": zktest.Hold, "reply": zktest.LoseReply,
			"held reply": zktest.HoldReply} {
			t.Run(op+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := zktest.RunT(t)
					members, clients := enterAll(t, s, 3)
					ready := path + "/ready"
					if op == "getChildren2" {
						ready = path
					}
					id := session(t, clients[1])
					slow, fast := leaving(t, background, members[1]).Waits(), leaving(t, background, members[2]).Waits()
					s.Inject(zktest.Fault{Session: id, Op: "connect", Action: zktest.DelayReply, Delay: 2 * time.Second})
					late := s.Inject(zktest.Fault{Session: id, Op: op, PathPrefix: ready, Action: action})
					// The other member must not close the barrier earlier.
					other := s.Inject(zktest.Fault{Session: session(t, clients[2]), Op: "delete", PathPrefix: path +
						"/ready", Action: zktest.Hold})
					s.Expire(session(t, clients[0]))
					<-late.Struck()
					synctest.Wait()
					other.Release()
					fast.OK()
					slow.Waits()
					a, b := nextRound(t, s, clients[2], newClient(t, s))
					late.Release()
					time.Sleep(10 * time.Second)
					slow.OK()
					leaveTogether(t, s, a, b)
				})
			})
		}
	}
}

// Four members close the barrier, and each marks "ready" between another's mark and delete: random pauses end that.
func TestCloseByFourInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		members, clients := enterAll(t, s, 5)
		var outs []*call[struct{}]
		for _, m := range members[1:] {
			outs = append(outs, leaving(t, background, m).Waits())
		}
		// Each needs 1200 ms to list, mark and delete, and they mark 300 ms apart. The last to leave lists once less.
		s.Delay(0, 400*time.Millisecond)
		for i, delay := range []time.Duration{0, 300, 600, 1300} {
			s.Inject(zktest.Fault{Session: session(t, clients[i+1]), Op: "getChildren2", Action: zktest.DelayReply,
				Delay: delay * time.Millisecond})
		}
		s.ResetCounts()
		s.Expire(session(t, clients[0]))
		time.Sleep(time.Minute)
		for _, out := range outs {
			out.OK()
		}
		require.Greater(t, s.Counts()["setData"], 8, "two rounds are not enough")
		clean(t, s)
	})
}

// The same with two members whose contexts have ended.
func TestNextRoundAndTwoWhoGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		members, clients := enterAll(t, s, 2)
		dead, cancel := context.WithCancel(background)
		cancel()
		look := s.Inject(zktest.Fault{Session: session(t, clients[1]), Op: "getChildren2", Action: zktest.Hold})
		require.ErrorIs(t, members[1].Leave(dead), context.Canceled)
		<-look.Struck()
		late := s.Inject(zktest.Fault{Session: session(t, clients[0]), Op: "delete", PathPrefix: path + "/ready",
			Action: zktest.Hold})
		require.ErrorIs(t, members[0].Leave(dead), context.Canceled)
		<-late.Struck()
		look.Release()
		a, b := nextRound(t, s, clients[1], newClient(t, s))
		late.Release()
		synctest.Wait()
		leaveTogether(t, s, a, b)
	})
}

// A member that has to close the barrier, and finds others inside, leaves it open: the last of them closes it.
func TestCloseLeftToTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		members, clients := enterAll(t, s, 2)
		out := leaving(t, background, members[1]).Waits()
		late := enter(t, barrier.NewDouble(newClient(t, s), path, 2))
		s.Expire(session(t, clients[0]))
		out.OK()
		require.True(t, s.Exists(path+"/ready"))
		leaving(t, background, late).OK()
		clean(t, s)
	})
}

// All members give up while no server can be reached. The barrier is closed after the outage, in the same session or in a later
// one.
func TestCloseAfterOutage(t *testing.T) {
	for name, outage := range map[string]time.Duration{"short": 5 * time.Second, "long": 10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				var calls []*call[*barrier.Member]
				var clients []*framework.Client
				for range 2 {
					c := newClient(t, s, framework.WithRetry(retry.RetryNTimes{}),
						framework.WithConnectionTimeout(time.Second))
					clients = append(clients, c)
					calls = append(calls, entering(t, background, barrier.NewDouble(c, path, 2)))
				}
				members := []*barrier.Member{calls[0].OK(), calls[1].OK()}
				s.Stop()
				time.Sleep(time.Millisecond)
				for _, m := range members {
					ctx, cancel := context.WithTimeout(background, 500*time.Millisecond)
					defer cancel()
					require.ErrorIs(t, m.Leave(ctx), context.DeadlineExceeded)
				}
				d := barrier.NewDouble(clients[0], path, 2)
				for range 20 { // and more members
					ctx, cancel := context.WithTimeout(background, 10*time.Millisecond)
					_, err := d.Enter(ctx)
					cancel()
					require.Error(t, err)
				}
				time.Sleep(outage - 2*time.Second)
				require.NoError(t, s.Start())
				time.Sleep(30 * time.Second)
				clean(t, s)
				require.Zero(t, clients[0].PendingCleanups()+clients[1].PendingCleanups())
			})
		})
	}
}

// A member gives up, and the servers refuse its list: whether others are inside is unknown, so it closes the barrier itself.
func TestCloseAfterARefusedList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		m := enter(t, barrier.NewDouble(newClient(t, s), path, 1))
		refused := s.Inject(zktest.Fault{Op: "getChildren2", PathPrefix: path, Action: zktest.ReplyError, Err: zktest.ErrNoAuth})
		dead, cancel := context.WithCancel(background)
		cancel()
		require.ErrorIs(t, m.Leave(dead), context.Canceled)
		time.Sleep(time.Minute)
		require.Equal(t, 1, refused.Hits())
		clean(t, s)
	})
}

// A member gives up and finds no other inside. Then another enters, and the servers refuse the list that would show it: "ready"
// stays for the other.
func TestCloseAfterARefusedSecondList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		id := session(t, c)
		m := enter(t, barrier.NewDouble(c, path, 1))
		marking := s.Inject(zktest.Fault{Session: id, Op: zktest.OpSetData, Action: zktest.Hold})
		refused := s.Inject(zktest.Fault{
			Session: id, Op: zktest.OpGetChildren2, After: 2, Action: zktest.ReplyError, Err: zktest.ErrNoAuth,
		})
		dead, cancel := context.WithCancel(background)
		cancel()
		require.ErrorIs(t, m.Leave(dead), context.Canceled)
		<-marking.Struck()
		other := enter(t, barrier.NewDouble(newClient(t, s), path, 1))
		marking.Release()
		time.Sleep(time.Minute)
		require.Equal(t, 1, refused.Hits())
		require.Contains(t, children(t, s), "ready")
		leaving(t, background, other).OK()
		clean(t, s)
	})
}

// A member gives up, and its client may not delete "ready". No caller waits for that, so it is logged.
func TestCloseThatIsRefusedIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		var log recipetest.Log
		d := barrier.NewDouble(newClient(t, s, framework.WithLogger(log.Logger())), path, 1)
		dead, cancel := context.WithCancel(background)
		cancel()
		require.ErrorIs(t, enter(t, d).Leave(dead), context.Canceled)
		clean(t, s)
		require.NotContains(t, log.String(), "cannot close")
		m := enter(t, d)
		refused := s.Inject(zktest.Fault{Op: "delete", PathPrefix: path + "/ready", Action: zktest.ReplyError, Err: zktest.ErrNoAuth, Times: -1})
		require.ErrorIs(t, m.Leave(dead), context.Canceled)
		require.Equal(t, []string{"ready"}, children(t, s))
		require.Equal(t, 1, strings.Count(log.String(), "cannot close the double barrier"), log.String())
		refused.Remove()
	})
}

// Close of a client that still has a barrier to close does not wait for a server.
func TestCloseAfterOutageAndClientClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s, framework.WithRetry(retry.RetryNTimes{}), framework.WithConnectionTimeout(time.Second))
		m := enter(t, barrier.NewDouble(c, path, 1))
		s.Stop()
		time.Sleep(time.Millisecond)
		require.ErrorIs(t, m.Leave(background), framework.ErrNotConnected)
		time.Sleep(3 * time.Second)
		began := time.Now()
		require.ErrorIs(t, c.Close(), framework.ErrUnacknowledged)
		require.LessOrEqual(t, time.Since(began), 6*time.Second)
		require.NoError(t, s.Start())
		time.Sleep(time.Minute)
		require.Equal(t, []string{"ready"}, children(t, s), "nobody is left to close it")
	})
}

// The session is lost by the clock, and its node still exists when the member leaves: the node does not count.
func TestCloseBehindLostSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		m := enter(t, barrier.NewDouble(c, path, 1))
		s.BlackHole(0, zktest.Both)
		<-m.Context().Done()
		require.ErrorIs(t, m.Leave(background), barrier.ErrSessionLost)
		require.True(t, s.Exists(m.Path()))
		s.Heal()
		time.Sleep(time.Minute)
		clean(t, s)
	})
}

// "ready" belongs to another client and may not be written. It is deleted all the same: that needs a right on the directory.
func TestCloseWithoutRightToWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		members, clients := enterAll(t, s, 2)
		require.NoError(t, s.SetACL(path+"/ready", zktest.ACL{Perms: 1, Scheme: "world", ID: "anyone"}))
		out := leaving(t, background, members[1]).Waits()
		s.Expire(session(t, clients[0]))
		out.OK()
		clean(t, s)
	})
}

// For a while the servers only accept reads, or refuse requests: the barrier is closed after that.
func TestCloseBehindRefusals(t *testing.T) {
	for name, refusal := range map[string]zktest.Error{"only reads": zktest.ErrNotReadOnly,
		"throttled": zktest.ErrThrottledOp} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				c := newClient(t, s, framework.WithRetry(retry.RetryNTimes{}),
					framework.WithConnectionTimeout(time.Second))
				m := enter(t, barrier.NewDouble(c, path, 1))
				s.Stop()
				time.Sleep(time.Millisecond)
				require.ErrorIs(t, m.Leave(background), framework.ErrNotConnected)
				refused := s.Inject(zktest.Fault{Op: "setData", PathPrefix: path, Times: 5, Action: zktest.ReplyError,
					Err: refusal})
				require.NoError(t, s.Start())
				time.Sleep(30 * time.Second)
				<-refused.Struck()
				clean(t, s)
			})
		})
	}
}

// The pauses grow with successive refusals. For a member that gives up after a success they start short again.
func TestCloseTriesAgainSoonAfterASuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		var blocks atomic.Bool
		closed, goesOn := make(chan struct{}), make(chan struct{})
		hooks := framework.Hooks{Operation: func(_ context.Context, op framework.Operation) func(framework.OperationEnd) {
			return func(framework.OperationEnd) {
				if op.Name == "delete" && op.Path == path+"/ready" && blocks.CompareAndSwap(true, false) {
					close(closed)
					<-goesOn
				}
			}
		}}
		d := barrier.NewDouble(newClient(t, s, framework.WithHooks(hooks)), path, 1)
		dead, cancel := context.WithCancel(background)
		cancel()
		refuse := func(times int) {
			s.Inject(zktest.Fault{Op: "setData", PathPrefix: path, Times: times, Action: zktest.ReplyError, Err: zktest.ErrNotReadOnly})
		}
		blocks.Store(true)
		refuse(10)
		require.ErrorIs(t, enter(t, d).Leave(dead), context.Canceled)
		<-closed
		second := enter(t, d)
		refuse(3)
		require.ErrorIs(t, second.Leave(dead), context.Canceled)
		synctest.Wait()
		close(goesOn)
		time.Sleep(141 * time.Millisecond) // 20 + 40 + 80
		clean(t, s)
	})
}

// Two members give up, and the servers execute the first one's delete of its node late: each sees the other's node, and leaves
// the close to the other.
func TestCloseByTwoWhoGiveUpWithANodeThatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		var calls []*call[*barrier.Member]
		for range 2 {
			calls = append(calls, entering(t, background, barrier.NewDouble(newClient(t, s), path, 2)))
		}
		members := []*barrier.Member{calls[0].OK(), calls[1].OK()}
		refused := s.Inject(zktest.Fault{Op: "delete", PathPrefix: members[0].Path(), Times: 3,
			Action: zktest.ReplyError, Err: zktest.ErrThrottledOp})
		for _, m := range members {
			ctx, cancel := context.WithCancel(background)
			cancel()
			require.ErrorIs(t, m.Leave(ctx), context.Canceled)
			synctest.Wait()
		}
		<-refused.Struck()
		time.Sleep(30 * time.Second)
		clean(t, s)
	})
}

// Two members give up. The servers execute the first one's delete late, and its node, whose create was in flight, appears only
// after the list of the members. So a list without the node does not prove that the other member will not see it, and leave the
// close to the first.
func TestCloseByTwoWhoGiveUpWithANodeThatComesLate(t *testing.T) {
	for name, refusals := range map[string]int{"first list": 0, "second list": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				members, clients := enterAll(t, s, 2)
				refused := s.Inject(zktest.Fault{Op: "delete", PathPrefix: members[0].Path(), Times: 3,
					Action: zktest.ReplyError, Err: zktest.ErrThrottledOp})
				require.NoError(t, s.Delete(members[0].Path())) // not created yet
				synctest.Wait()
				if refusals > 0 {
					s.Inject(zktest.Fault{Op: "getChildren2", PathPrefix: path, Times: refusals, Action: zktest.ReplyError,
						Err: zktest.ErrThrottledOp})
				}
				require.ErrorIs(t, members[0].Leave(background), barrier.ErrNodeDeleted)
				synctest.Wait()
				<-refused.Struck()
				_, err := s.CreateNode(members[0].Path(), nil, zktest.Ephemeral, session(t, clients[0]))
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(background)
				cancel()
				require.ErrorIs(t, members[1].Leave(ctx), context.Canceled)
				time.Sleep(30 * time.Second)
				clean(t, s)
			})
		})
	}
}

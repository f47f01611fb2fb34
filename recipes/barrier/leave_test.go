package barrier_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/barrier"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/retry"
	"github.com/go-curator/curator/zktest"
)

// No Leave returns before all members leave, in whatever order.
func TestLeaveTogether(t *testing.T) {
	for name, order := range map[string][]int{"lowest first": {0, 1, 2, 3}, "lowest last": {3, 2, 1, 0},
		"mixed": {2, 0, 3, 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				members, _ := enterAll(t, s, 4)
				var outs []*call[struct{}]
				for i, n := range order {
					time.Sleep(time.Minute)
					for _, out := range outs {
						out.Waits()
					}
					outs = append(outs, leaving(t, background, members[n]))
					if i < 3 {
						require.NotEmpty(t, children(t, s))
					}
				}
				for _, out := range outs {
					out.OK()
				}
				for _, m := range members {
					require.ErrorIs(t, context.Cause(m.Context()), barrier.ErrReleased)
				}
				clean(t, s)
			})
		})
	}
}

// The same barrier for many rounds: a fast member enters the next round before slow ones have noticed the end of the last. In
// Curator the slow ones take the fast ones for members that have not left yet, and both wait for each other.
func TestRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		const n, rounds = 5, 40
		inside := make(chan int, n*rounds)
		var calls []*call[struct{}]
		for range n {
			c := newClient(t, s)
			d := barrier.NewDouble(c, path, n)
			calls = append(calls, recipetest.Begin(t, func() (struct{}, error) {
				for round := range rounds {
					m, err := d.Enter(background)
					if err != nil {
						return struct{}{}, err
					}
					inside <- round
					if err := m.Leave(background); err != nil {
						return struct{}{}, err
					}
				}
				return struct{}{}, nil
			}))
		}
		time.Sleep(time.Minute)
		for _, c := range calls {
			c.OK()
		}
		for i := range n * rounds {
			require.Equal(t, i/n, <-inside, "nobody is a round ahead")
		}
		clean(t, s)
	})
}

// Rounds over a network that cuts connections and loses requests and replies: all members finish, and no member is a round ahead.
func TestRoundsUnderFaults(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				random := rand.New(rand.NewPCG(seed, 0))
				const n, rounds = 4, 8
				inside := make(chan int, n*rounds)
				var calls []*call[struct{}]
				var clients []*framework.Client
				for range n {
					clients = append(clients, newClient(t, s))
				}
				for _, c := range clients {
					d := barrier.NewDouble(c, path, n)
					calls = append(calls, recipetest.Begin(t, func() (struct{}, error) {
						for round := range rounds {
							m, err := d.Enter(background)
							if err != nil {
								return struct{}{}, err
							}
							inside <- round
							if err := m.Leave(background); err != nil {
								return struct{}{}, err
							}
						}
						return struct{}{}, nil
					}))
				}
				ops := []string{"create2", "getChildren2", "exists", "getData", "setWatches", "delete", "multi", "removeWatches"}
				actions := []zktest.Action{zktest.CutBefore, zktest.LoseReply}
				for range 60 {
					id := session(t, clients[random.IntN(n)])
					if random.IntN(3) == 0 {
						s.Cut(id)
					} else {
						s.Inject(zktest.Fault{Session: id, Op: ops[random.IntN(len(ops))], PathPrefix: path,
							Action: actions[random.IntN(2)]})
					}
					time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
				}
				time.Sleep(10 * time.Minute)
				for _, c := range calls {
					c.OK()
				}
				for i := range n * rounds {
					require.Equal(t, i/n, <-inside)
				}
				clean(t, s)
			})
		})
	}
}

// A fast member has entered the next round, a Java member under its old name, before a slow one has got the event of the last
// round's end.
func TestLeaveNotHeldByNextRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		slow, other := newClient(t, s), newClient(t, s)
		w := entering(t, background, barrier.NewDouble(slow, path, 3)).Waits()
		java(t, s, other, "!1") // sorts before any UUID
		java(t, s, other, "!2")
		require.NoError(t, s.Create(path+"/ready", nil))
		out := leaving(t, background, w.OK()).Waits()
		require.Equal(t, []string{"!1", "!2", "ready"}, children(t, s), "only the lowest keeps its node")

		s.BlackHole(session(t, slow), zktest.ToClient)
		require.NoError(t, s.Delete(path+"/!2"))
		require.NoError(t, s.Delete(path+"/!1"))
		require.NoError(t, s.Delete(path+"/ready"))
		java(t, s, other, "!1")
		java(t, s, other, "!2")
		s.Heal()
		out.OK()
		require.Equal(t, []string{"!1", "!2"}, children(t, s))
		synctest.Wait()
		require.Empty(t, s.Watches())
	})
}

// A member starts to leave after the end of the round. Another, which enters, still counts it, opens the barrier, and gives up:
// it leaves the close to the member that it has seen.
func TestLeaveWhileAnotherEntersAndGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		other := newClient(t, s)
		in := entering(t, background, barrier.NewDouble(newClient(t, s), path, 2)).Waits()
		java(t, s, other, "!1")
		require.NoError(t, s.Create(path+"/ready", nil))
		w := in.OK()
		require.NoError(t, s.Delete(path+"/!1"))
		require.NoError(t, s.Delete(path+"/ready"))
		listed := s.Inject(zktest.Fault{Op: "getChildren2", Action: zktest.HoldReply})
		out := leaving(t, background, w)
		<-listed.Struck()
		late, cancel := context.WithCancel(background)
		m := entering(t, late, barrier.NewDouble(other, path, 2)).OK()
		cancel()
		require.ErrorIs(t, m.Leave(late), context.Canceled)
		synctest.Wait()
		require.Len(t, children(t, s), 2, "the one that leaves, and ready")
		listed.Release()
		out.OK()
		clean(t, s)
	})
}

// The lowest member crashes while others wait for it and one still works. In Curator the waiting members return, and delete
// "ready".
func TestLeaveLowestCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		members, clients := enterAll(t, s, 4)
		second, third := leaving(t, background, members[1]).Waits(), leaving(t, background, members[2]).Waits()
		s.Expire(session(t, clients[0]))
		second.Waits()
		third.Waits()
		require.Len(t, children(t, s), 2, "the one at work, and ready")
		leaving(t, background, members[3]).OK()
		second.OK()
		third.OK()
		clean(t, s)
		require.ErrorIs(t, members[0].Leave(background), barrier.ErrSessionLost)
	})
}

// A late member counts like all others; a member that enters at the end of the round does not delay the others.
func TestLeaveAndLateMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		members, _ := enterAll(t, s, 2)
		client := newClient(t, s)
		late := enter(t, barrier.NewDouble(client, path, 2))
		// so that the lowest is a member that leaves, and that closes the barrier with its node
		for late.Path() < members[0].Path() {
			dead, cancel := context.WithCancel(background)
			cancel()
			require.ErrorIs(t, late.Leave(dead), context.Canceled)
			late = enter(t, barrier.NewDouble(client, path, 2))
		}
		first := leaving(t, background, members[0]).Waits()
		second := leaving(t, background, members[1]).Waits()
		first.Waits()
		later := enter(t, barrier.NewDouble(newClient(t, s), path, 2))
		s.Expire(session(t, client))
		require.False(t, s.Exists(late.Path()))
		first.OK()
		second.OK()
		// The others have ended the round: this member waits for no child that it finds.
		java(t, s, newClient(t, s), "next")
		leaving(t, background, later).OK()
		require.Equal(t, []string{"next"}, children(t, s))
		require.Empty(t, s.Watches())
	})
}

// A member that gives up is outside all the same, and does not delay the others.
func TestLeaveCancelled(t *testing.T) {
	for name, n := range map[string]int{"lowest": 0, "another": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				members, _ := enterAll(t, s, 2)
				ctx, cancel := context.WithTimeout(background, time.Minute)
				defer cancel()
				began := time.Now()
				require.ErrorIs(t, members[n].Leave(ctx), context.DeadlineExceeded)
				require.Equal(t, time.Minute, time.Since(began))
				synctest.Wait()
				require.False(t, s.Exists(members[n].Path()))
				require.True(t, s.Exists(path+"/ready"), "the barrier is still open for the other")
				require.ErrorIs(t, members[n].Leave(background), barrier.ErrReleased)
				leaving(t, background, members[1-n]).OK()
				clean(t, s)
			})
		})
	}
}

// The same with a context that has ended before Leave: then only the state of the server decides which member closes the barrier.
func TestLeaveDeadContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		members, _ := enterAll(t, s, 3)
		dead, cancel := context.WithCancel(background)
		cancel()
		for i, m := range members {
			synctest.Wait()
			s.ResetCounts()
			require.ErrorIs(t, m.Leave(dead), context.Canceled)
			synctest.Wait()
			require.Equal(t, i < 2, s.Exists(path+"/ready"))
			if i < 2 {
				counts(t, s, "the last closes the barrier", map[string]int{"delete": 1, "getChildren2": 1})
			}
		}
		clean(t, s)
	})
}

// At whichever request it hangs, Leave returns with its context, and its nodes are deleted.
func TestLeaveCancelledInBetween(t *testing.T) {
	for _, op := range []string{"getChildren2", "getData", "setWatches", "delete", "multi"} {
		for name, action := range map[string]zktest.Action{"request": zktest.Hold, "reply": zktest.HoldReply} {
			t.Run(op+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := zktest.RunT(t)
					members, clients := enterAll(t, s, 2)
					m, other, id := members[1], members[0], session(t, clients[1])
					if op == "multi" {
						m, other, id = members[0], members[1], session(t, clients[0])
						leaving(t, background, other).Waits()
					}
					if op == "getData" {
						refuseSetWatches(s)
					}
					held := s.Inject(zktest.Fault{Session: id, Op: op, PathPrefix: path, Action: action})
					ctx, cancel := context.WithTimeout(background, time.Second)
					defer cancel()
					began := time.Now()
					require.ErrorIs(t, m.Leave(ctx), context.DeadlineExceeded)
					require.Equal(t, time.Second, time.Since(began))
					require.Equal(t, 1, held.Hits())
					held.Release()
					synctest.Wait()
					require.False(t, s.Exists(m.Path()))
					if op != "multi" {
						leaving(t, background, other).OK()
					}
					clean(t, s)
				})
			})
		}
	}
}

func TestLeaveLostReplies(t *testing.T) {
	for _, op := range []string{"getChildren2", "getData", "setWatches", "delete", "multi"} {
		for name, action := range map[string]zktest.Action{"request": zktest.CutBefore, "reply": zktest.LoseReply} {
			t.Run(op+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := zktest.RunT(t)
					members, _ := enterAll(t, s, 2)
					if op == "getData" {
						refuseSetWatches(s)
					}
					lost := s.Inject(zktest.Fault{Op: op, PathPrefix: path, Action: action})
					first, second := leaving(t, background, members[0]), leaving(t, background, members[1])
					time.Sleep(time.Minute)
					first.OK()
					second.OK()
					require.Equal(t, 1, lost.Hits())
					clean(t, s)
					if op == "multi" {
						require.Zero(t, s.Counts()["setData"], "the two were removed as one")
					}
				})
			})
		}
	}
}

// Lost connections, and even lost sessions, let no member leave before the others.
func TestLeaveSurvives(t *testing.T) {
	for who, n := range map[string]int{"lowest": 0, "another": 1} {
		for what, fault := range map[string]func(*zktest.Server, int64){
			"cut":    func(s *zktest.Server, id int64) { s.Cut(id) },
			"expiry": func(s *zktest.Server, id int64) { s.Expire(id) },
		} {
			t.Run(who+" "+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := zktest.RunT(t)
					members, clients := enterAll(t, s, 2)
					out := leaving(t, background, members[n]).Waits()
					fault(s, session(t, clients[n]))
					time.Sleep(time.Minute)
					out.Waits()
					leaving(t, background, members[1-n]).OK()
					out.OK()
					clean(t, s)
				})
			})
		}
	}
}

// Other members' nodes change: that is not the end of the round.
func TestLeaveSpuriousWakeUps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		members, _ := enterAll(t, s, 3)
		outs := []*call[struct{}]{leaving(t, background, members[0]), leaving(t, background, members[1])}
		for range 3 {
			require.NoError(t, s.Set(members[0].Path(), []byte("x")))
			require.NoError(t, s.Set(members[2].Path(), []byte("y")))
			for _, out := range outs {
				out.Waits()
			}
		}
		leaving(t, background, members[2]).OK()
		for _, out := range outs {
			out.OK()
		}
		clean(t, s)
	})
}

// A member's node was deleted: Curator throws IllegalStateException.
func TestLeaveNodeDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		members, _ := enterAll(t, s, 2)
		for i, m := range members { // before the watch on it is armed
			require.NoError(t, s.Delete(m.Path()))
			require.ErrorIs(t, m.Leave(background), barrier.ErrNodeDeleted)
			synctest.Wait()
			require.Equal(t, i == 0, s.Exists(path+"/ready"), "the last closes the barrier, deleted or not")
		}
		clean(t, s)
	})
}

// All members lose their sessions together. The barrier must not stay open for the next round.
func TestLeaveAllSessionsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		members, _ := enterAll(t, s, 3)
		for _, info := range s.Sessions() {
			s.Expire(info.ID)
		}
		time.Sleep(time.Minute)
		for _, m := range members {
			require.ErrorIs(t, m.Leave(background), barrier.ErrSessionLost)
		}
		clean(t, s)
	})
}

func TestLeaveErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s, framework.WithRetry(retry.RetryNTimes{}), framework.WithConnectionTimeout(time.Second))
		d := barrier.NewDouble(c, path, 1)
		m := enter(t, d)
		require.ErrorIs(t, m.Leave(none), framework.ErrNilContext)
		require.NoError(t, m.Leave(background))
		require.ErrorIs(t, m.Leave(background), barrier.ErrReleased)

		m = enter(t, d)
		s.Inject(zktest.Fault{Op: "getChildren2", Action: zktest.ReplyError, Err: zktest.ErrNoAuth})
		require.ErrorIs(t, m.Leave(background), framework.ErrNoAuth)
		clean(t, s)

		m = enter(t, d) // without the right to delete "ready" it stays, and Leave returns the error
		refused := s.Inject(zktest.Fault{Op: "multi", Action: zktest.ReplyError, Err: zktest.ErrNoAuth})
		denied := s.Inject(zktest.Fault{Op: "delete", PathPrefix: path + "/ready", Times: -1,
			Action: zktest.ReplyError, Err: zktest.ErrNoAuth})
		require.ErrorIs(t, m.Leave(background), framework.ErrNoAuth)
		require.Equal(t, 1, refused.Hits())
		require.Equal(t, []string{"ready"}, children(t, s))
		denied.Remove()
		require.NoError(t, s.Delete(path+"/ready"))

		m = enter(t, d)
		s.Stop()
		synctest.Wait()
		require.ErrorIs(t, m.Leave(background), framework.ErrNotConnected)
		require.NoError(t, s.Start())
		time.Sleep(time.Minute)
		clean(t, s) // the member is outside all the same, and the barrier is closed

		// Without the right to delete its own node a member does not wait for the others, since they wait for that node.
		members, clients := enterAll(t, s, 2)
		stuck := s.Inject(zktest.Fault{Op: "delete", PathPrefix: members[1].Path(), Times: -1,
			Action: zktest.ReplyError, Err: zktest.ErrNoAuth})
		_, err := leaving(t, background, members[1]).Returned()
		require.ErrorIs(t, err, framework.ErrNoAuth)
		for _, w := range s.Watches() {
			own := members[0].Path()
			if w.Session == session(t, clients[1]) {
				own = members[1].Path()
			}
			require.Equal(t, own, w.Path)
		}
		stuck.Remove()
		s.Expire(session(t, clients[1]))
		leaving(t, background, members[0]).OK()
		clean(t, s)

		members, clients = enterAll(t, s, 2)
		out := leaving(t, background, members[0]).Waits()
		require.NoError(t, clients[0].Close())
		_, err = out.Returned()
		require.ErrorIs(t, err, framework.ErrClosed)
		require.NoError(t, members[1].Leave(background))
		clean(t, s)
	})
}

// This client may not read the members' nodes: a server may send no events of their deletion, but the watch on the directory
// fires.
func TestLeaveUnreadableMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		var log recipetest.Log
		c, other := newClient(t, s, framework.WithLogger(log.Logger())), newClient(t, s)
		w := entering(t, background, barrier.NewDouble(c, path, 3)).Waits()
		for _, name := range []string{"!1", "!2"} {
			java(t, s, other, name)
			require.NoError(t, s.SetACL(path+"/"+name, zktest.ACL{Perms: 8, Scheme: "world", ID: "anyone"}))
		}
		require.NoError(t, s.Create(path+"/ready", nil))
		out := leaving(t, background, w.OK()).Waits()
		for _, name := range []string{"!2", "!1"} {
			out.Waits()
			require.NoError(t, s.Delete(path+"/"+name))
		}
		out.OK()
		require.NotContains(t, log.String(), "is not an ephemeral node", "their sessions are not known")
		clean(t, s)
	})
}

// Leave waits for a node of no session until it is deleted, as Java does, and logs it once.
func TestLeaveWaitsForANodeOfNoSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		var log recipetest.Log
		require.NoError(t, s.Create(path+"/zzz", nil))
		m := enter(t, barrier.NewDouble(newClient(t, s, framework.WithLogger(log.Logger())), path, 2))
		leaves := leaving(t, background, m).Waits()
		time.Sleep(5 * time.Minute)
		require.NoError(t, s.Set(path+"/zzz", []byte("x")))
		leaves.Waits()
		require.Equal(t, 1, strings.Count(log.String(), path+"/zzz"), log.String())
		require.NoError(t, s.Delete(path+"/zzz"))
		leaves.OK()
	})
}

// Each of the 16 members of a round sends six requests. In the first round those that wait for the opening list once more, to see
// whether there are Java members.
func TestRoundTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 16
		s := zktest.RunT(t)
		require.NoError(t, s.Create("/barriers", nil))
		require.NoError(t, s.Create(path, nil))
		doubles := make([]*barrier.Double, n)
		for i := range doubles {
			doubles[i] = barrier.NewDouble(newClient(t, s), path, n)
		}
		s.Delay(0, 200*time.Microsecond)
		for _, most := range []int{6*n + n + 8, 6*n + 8, 6*n + 8} {
			synctest.Wait()
			s.ResetCounts()
			var all sync.WaitGroup
			for i, d := range doubles {
				all.Go(func() {
					time.Sleep(time.Duration(i) * 37 * time.Microsecond)
					m, err := d.Enter(background)
					if !assert.NoError(t, err) {
						return
					}
					time.Sleep(time.Second + time.Duration(i*7%n)*50*time.Microsecond)
					assert.NoError(t, m.Leave(background))
				})
			}
			all.Wait()
			require.LessOrEqual(t, recipetest.Sum(s.Counts()), most, recipetest.Requests(s))
		}
		s.Heal()
		clean(t, s)
	})
}

// The first member has found itself alone, and its closing transaction is in flight, when two others enter the barrier, which is
// still open. One of these leaves, and is not woken by the mark of that transaction: it waits for the other.
func TestMarkOfAnEarlierList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		first, c := memberAfter(t, s, "")
		closing := s.Inject(zktest.Fault{Session: session(t, c), Op: "multi", Action: zktest.Hold})
		out := leaving(t, background, first)
		<-closing.Struck()
		inside, _ := memberAfter(t, s, first.Path())
		leaver, _ := memberAfter(t, s, first.Path())
		waits := leaving(t, background, leaver).Waits()
		closing.Release()
		out.OK()
		waits.Waits()
		require.NoError(t, inside.Leave(background))
		waits.OK()
		clean(t, s)
	})
}

// The first member leaves a mark only if it is alone: a member that has entered since its first list is inside.
func TestNoMarkBesideALateMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		members, _ := enterAll(t, s, 3)
		first := leaving(t, background, members[0]).Waits()
		late, _ := memberAfter(t, s, members[0].Path())
		second := leaving(t, background, members[1]).Waits()
		third := leaving(t, background, members[2])
		first.OK()
		second.Waits()
		third.Waits()
		require.NoError(t, late.Leave(background))
		second.OK()
		third.OK()
		clean(t, s)
	})
}

// memberAfter enters a barrier that is open, or needs one member, with a node whose path sorts after the path after.
func memberAfter(t *testing.T, s *zktest.Server, after string) (*barrier.Member, *framework.Client) {
	t.Helper()
	for {
		c := newClient(t, s)
		m := enter(t, barrier.NewDouble(c, path, 1))
		if m.Path() > after {
			return m, c
		}
		dead, cancel := context.WithCancel(background)
		cancel()
		require.ErrorIs(t, m.Leave(dead), context.Canceled)
		synctest.Wait()
	}
}

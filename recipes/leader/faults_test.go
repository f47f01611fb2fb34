package leader_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/zktest"
)

// An administrator, or a clean-up job, deletes the leader's node. Curator's latch then leads for ever, at the same time as the
// next one. Here the term ends as soon as the event arrives, even a new term, and the latch joins the line again.
func TestLeadersNodeIsDeleted(t *testing.T) {
	for _, age := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			a, b := join(t, newClient(t, s), leader.WithID("a")), join(t, newClient(t, s), leader.WithID("b"))
			term := await(t, a)
			time.Sleep(age)
			require.NoError(t, s.Delete(term.Path()))
			if age == 0 {
				time.Sleep(50 * time.Millisecond) // the watch is armed by then
			}
			ended(t, term, leader.ErrNodeDeleted)
			second := await(t, b)
			follows(t, a)
			list, err := a.Participants(background)
			require.Equal(t, []string{"b", "a"}, ids(t, list, err))
			require.NoError(t, second.Resign(background))
			require.True(t, await(t, a).Valid())
		})
	}
}

// The whole directory is deleted (CURATOR-724): all latches join again, and one leads.
func TestDirectoryIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		latches := []*leader.Latch{join(t, newClient(t, s)), join(t, newClient(t, s)), join(t, newClient(t, s))}
		for range 5 {
			time.Sleep(time.Minute)
			require.NoError(t, s.DeleteAll(path))
			time.Sleep(2 * time.Second)
			leading := 0
			for _, l := range latches {
				if l.HasLeadership() {
					leading++
				} else {
					follows(t, l)
				}
			}
			require.Equal(t, 1, leading)
			children, err := s.Children(path)
			require.NoError(t, err)
			require.Len(t, children, 3)
		}
	})
}

// A lost connection ends the term, and after the reconnect the same latch leads again with the same node: there is no election,
// and no new node, so two latches cannot displace each other in turn (CURATOR-644, -645).
func TestReconnectKeepsTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		said := make(chan string, 100)
		ca, cb := newClient(t, s), newClient(t, s)
		a, b := join(t, ca, calls("a", said)), join(t, cb, calls("b", said))
		before, err := s.Children(path)
		require.NoError(t, err)
		for range 20 {
			term := await(t, a)
			require.Equal(t, []string{"a leads"}, told(said))
			s.Cut(0)
			ended(t, term, leader.ErrSuspended)
			again := await(t, a)
			require.Equal(t, term.Path(), again.Path())
			require.Equal(t, term.FencingToken(), again.FencingToken())
			require.NotSame(t, term, again)
			time.Sleep(3 * time.Second)
			follows(t, b)
			require.Equal(t, "a leads no more: connection suspended", <-said)
			require.ErrorIs(t, term.Resign(background), leader.ErrSuspended)
			require.True(t, again.Valid(), "the past term has no say")
		}
		after, err := s.Children(path)
		require.NoError(t, err)
		require.ElementsMatch(t, before, after)
		left(t, a)
		left(t, b)
		time.Sleep(time.Second)
		clean(t, s)
	})
}

// The leader's node is deleted while the leader is disconnected. After the reconnect it must read the node before it leads.
func TestReconnectVerifiesTheNode(t *testing.T) {
	for _, anew := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			ca, cb := newClient(t, s), newClient(t, s)
			a, b := join(t, ca), join(t, cb)
			term := await(t, a)
			refused := s.Inject(zktest.Fault{Op: "connect", Times: -1, Action: zktest.CutBefore})
			s.Cut(session(t, ca))
			ended(t, term, leader.ErrSuspended)
			require.NoError(t, s.Delete(term.Path()))
			second := await(t, b)
			if anew { // a new node of the same name is another node, even in the same session
				_, err := s.CreateNode(term.Path(), nil, zktest.Ephemeral, session(t, ca))
				require.NoError(t, err)
			}
			refused.Remove()
			time.Sleep(5 * time.Second)
			require.True(t, second.Valid())
			require.False(t, a.HasLeadership())
			for _, w := range s.Watches() {
				require.NotEqual(t, term.Path(), w.Path, "a watch is left")
			}
			if anew {
				require.NoError(t, s.Delete(term.Path()))
			}
			follows(t, a)
		})
	}
}

// With SessionOnly the restart of a server changes nothing for any latch.
func TestSessionOnlyRidesOutRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := join(t, newClient(t, s), leader.WithLossPolicy(framework.SessionOnly)),
			join(t, newClient(t, s), leader.WithLossPolicy(framework.SessionOnly))
		term := await(t, a)
		for range 3 {
			s.Stop()
			time.Sleep(4 * time.Second)
			require.True(t, term.Valid())
			require.Equal(t, leader.Leading, a.Health().Role)
			require.Equal(t, leader.Unknown, b.Health().Role)
			require.NoError(t, s.Start())
			time.Sleep(20 * time.Second)
			require.Same(t, term, await(t, a))
			follows(t, b)
		}
		// A leader that cannot reconnect does lose its term, before the next one begins.
		s.Stop()
		time.Sleep(10 * time.Second)
		ended(t, term, leader.ErrSessionLost)
		require.NoError(t, s.Start())
	})
}

// A leader that may not READ its own node, but has ADMIN, leads again after a reconnect.
func TestRegainsAnUnreadableNode(t *testing.T) {
	for _, profile := range zktest.Profiles() {
		t.Run(profile.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t, zktest.Config{Profile: profile})
				require.NoError(t, s.Create(path, nil))
				c := newClient(t, s, framework.WithDefaultACL(
					framework.ACL{Perms: framework.PermAll &^ framework.PermRead, Scheme: "world", ID: "anyone"}))
				l := join(t, c)
				term := await(t, l)
				cut(t, s, c)
				ended(t, term, leader.ErrSuspended)
				require.Equal(t, term.FencingToken(), await(t, l).FencingToken(), "of the same node")
			})
		})
	}
}

// The leader loses its network without notice. Its term ends before the next one begins, and that is within the session timeout
// and a second of the last reply.
func TestFailOverAfterACut(t *testing.T) {
	for _, opts := range [][]leader.Option{nil, {leader.WithLossPolicy(framework.SessionOnly)}} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t, zktest.Config{TickTime: 500 * time.Millisecond})
			ca := newClient(t, s, framework.WithSessionTimeout(5*time.Second))
			cb := newClient(t, s, framework.WithSessionTimeout(5*time.Second))
			a, b := join(t, ca, opts...), join(t, cb, opts...)
			term := await(t, a)
			time.Sleep(time.Minute)
			endedAt := make(chan time.Time, 1)
			context.AfterFunc(term.Context(), func() { endedAt <- time.Now() })
			began := time.Now()
			refused := s.Inject(zktest.Fault{Op: "connect", Times: -1, Action: zktest.CutBefore})
			s.BlackHole(session(t, ca), zktest.Both)
			second := await(t, b)
			require.LessOrEqual(t, time.Since(began), 6*time.Second)
			require.LessOrEqual(t, time.Until(<-endedAt), time.Duration(0))
			require.Error(t, term.Context().Err())
			require.Greater(t, second.FencingToken(), term.FencingToken())
			refused.Remove()
			time.Sleep(10 * time.Second)
			follows(t, a)
			require.Same(t, second, await(t, b))
		})
	}
}

// CURATOR-604, -696: for its client, which has reconnected, a waiting latch's session is lost, while the server still has its old
// node, ahead of the new one. The latch leads only with the new session's node.
func TestNoTermOnTheNodeOfADeadSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		ca, cb := newClient(t, s), newClient(t, s)
		a, b := join(t, ca), join(t, cb)
		await(t, a)
		old := session(t, cb)
		// The client cannot close the old session, which lives on for a while.
		refused := s.Inject(zktest.Fault{Op: "connect", Times: -1, Action: zktest.CutBefore})
		s.BlackHole(old, zktest.Both)
		for change := range cb.StateChanges(t.Context()) {
			if change.State == framework.Lost {
				break
			}
		}
		children, err := s.Children(path)
		require.NoError(t, err)
		require.Len(t, children, 2, "the server still has the old node")
		require.Equal(t, leader.Unknown, b.Health().Role)
		refused.Remove()
		require.NotEqual(t, old, session(t, cb))
		left(t, a)
		term := await(t, b)
		require.Equal(t, session(t, cb), s.Tree()[term.Path()].Stat.EphemeralOwner)
		children, err = s.Children(path)
		require.NoError(t, err)
		require.Equal(t, []string{term.Node()}, children)
	})
}

// The same for the leader: the term is lost with the session, although the server may still have its node.
func TestLeaderOfADeadSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		ca := newClient(t, s)
		a, b := join(t, ca), join(t, newClient(t, s))
		term := await(t, a)
		s.Expire(session(t, ca))
		ended(t, term, leader.ErrSuspended) // the first sign of the expiry
		require.ErrorIs(t, term.Resign(background), leader.ErrSuspended)
		second := await(t, b)
		time.Sleep(time.Second)
		follows(t, a)
		require.True(t, second.Valid())
		left(t, b)
		require.Greater(t, await(t, a).FencingToken(), second.FencingToken())
	})
}

// The create of a latch's node is refused. Curator's latch logs that and joins only after a reconnect. Here the error is
// reported, and the latch tries again.
func TestJoiningIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create(path, nil))
		require.NoError(t, s.SetACL(path, zktest.ACL{Perms: 1, Scheme: "world", ID: "anyone"}))
		l := join(t, newClient(t, s))
		for range 3 { // each Await returns the error of a new attempt
			began := time.Now()
			_, err := l.Await(background)
			require.ErrorIs(t, err, framework.ErrNoAuth)
			require.Positive(t, time.Since(began))
		}
		health := l.Health()
		require.Equal(t, leader.Unknown, health.Role)
		require.ErrorIs(t, health.Err, framework.ErrNoAuth)
		time.Sleep(time.Minute)
		s.ResetCounts()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.LessOrEqual(t, s.Counts()["create2"], 13, "less and less often")
		require.NoError(t, s.SetACL(path, zktest.ACL{Perms: 31, Scheme: "world", ID: "anyone"}))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.True(t, l.HasLeadership(), "without anybody's help")

		require.NoError(t, s.SetACL(path, zktest.ACL{Perms: 1, Scheme: "world", ID: "anyone"}))
		term := await(t, l)
		require.NoError(t, s.Delete(term.Path()))
		<-term.Context().Done()
		began := time.Now()
		for range 4 {
			_, err := l.Await(background)
			require.ErrorIs(t, err, framework.ErrNoAuth)
		}
		require.LessOrEqual(t, time.Since(began), 1500*time.Millisecond, "the pauses are short again: 0.1 + 0.2 + 0.4 + 0.8 s")
		require.NoError(t, s.SetACL(path, zktest.ACL{Perms: 31, Scheme: "world", ID: "anyone"}))
		left(t, l)

		require.NoError(t, s.SetSequence(path, line.SequenceLimit))
		l = join(t, newClient(t, s))
		_, err := l.Await(background)
		require.ErrorIs(t, err, leader.ErrSequenceExhausted)
		left(t, l)
		time.Sleep(time.Second)
		clean(t, s)
	})
}

// No server: Await ends only with its context, and its error contains the cause.
func TestNoServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		s.Stop()
		c, err := framework.New(s.Addr(), framework.WithDialer(s.Dial))
		require.NoError(t, err)
		defer c.Close()
		l, err := leader.NewLatch(c, path)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(background, 10*time.Minute)
		defer cancel()
		_, err = l.Await(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, framework.ErrNotConnected)
		require.ErrorContains(t, err, "cannot join the election")
		require.ErrorContains(t, err, s.Addr())
		require.NoError(t, s.Start())
		require.NotNil(t, await(t, l))
		require.NoError(t, l.Close())
	})
}

// A reply is lost at the worst moment: the created node is found, and nothing is left.
func TestLostReplies(t *testing.T) {
	for _, op := range []string{"create2", "getChildren2", "delete", "exists"} {
		for _, action := range []zktest.Action{zktest.LoseReply, zktest.CutBefore, zktest.DropRequest} {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				require.NoError(t, s.Create(path, nil))
				c := newClient(t, s)
				s.Inject(zktest.Fault{Op: op, Action: action})
				l := join(t, c)
				term := await(t, l)
				time.Sleep(30 * time.Second)
				children, err := s.Children(path)
				require.NoError(t, err)
				require.Len(t, children, 1, "%s %v", op, action)
				if again := await(t, l); again.Node() != term.Node() {
					require.ErrorIs(t, context.Cause(term.Context()), leader.ErrSessionLost, "%s %v", op, action)
				}
				ctx, cancel := context.WithTimeout(background, 30*time.Second)
				_ = l.Leave(ctx, leader.Silent)
				cancel()
				time.Sleep(30 * time.Second)
				clean(t, s)
				require.Zero(t, c.PendingCleanups())
			})
		}
	}
}

// Latches join and leave at random moments while replies are slow: nothing is left, and the last one leads.
func TestLeavingAtAnyMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		clients := []*framework.Client{newClient(t, s), newClient(t, s), newClient(t, s)}
		s.Delay(0, 3*time.Millisecond)
		for after := range 60 {
			l, err := leader.NewLatch(clients[after%3], path)
			require.NoError(t, err)
			other, err := leader.NewLatch(clients[(after+1)%3], path)
			require.NoError(t, err)
			time.Sleep(time.Duration(after) * 500 * time.Microsecond)
			began := time.Now()
			require.NoError(t, l.Close())
			require.Zero(t, time.Since(began), "Close waits for nobody")
			require.NotNil(t, await(t, other))
			require.NoError(t, other.Close())
		}
		s.Heal()
		time.Sleep(time.Second)
		clean(t, s)
		for _, c := range clients {
			require.Zero(t, c.PendingCleanups())
		}
	})
}

func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		ca, cb := newClient(t, s), newClient(t, s)
		a, b := join(t, ca), join(t, cb)
		start := time.Now()
		time.Sleep(time.Minute)
		require.Equal(t, leader.Health{Role: leader.Leading, Since: start}, a.Health())
		require.Equal(t, leader.Health{Role: leader.Following, Since: start, Ahead: 1}, b.Health())
		require.NoError(t, a.Health().Check(0))
		require.NoError(t, b.Health().Check(0))
		require.Contains(t, b.Health().String(), "following since ")
		require.Contains(t, b.Health().String(), "1 ahead")

		// A selector is idle since its creation, not since the first call of Health.
		made, idle := time.Now(), newSelector(t, ca, untilOver)
		time.Sleep(time.Minute)
		require.Equal(t, leader.Idle, idle.Health().Role)
		require.Equal(t, made, idle.Health().Since)

		// Both lose the connection. Since is the time of that loss, not of the first call of Health.
		s.Stop()
		cut := time.Now()
		time.Sleep(3 * time.Second)
		for _, l := range []*leader.Latch{a, b} {
			h := l.Health()
			require.Equal(t, leader.Unknown, h.Role)
			require.Equal(t, cut, h.Since)
			require.ErrorIs(t, h.Err, leader.ErrSuspended)
			require.NoError(t, h.Check(10*time.Second))
			require.NoError(t, h.Check(3*time.Second), "no longer than that")
			require.ErrorIs(t, h.Check(2*time.Second), leader.ErrSuspended)
			require.ErrorContains(t, h.Check(2*time.Second), "for 3s")
		}
		require.NoError(t, s.Start())
		time.Sleep(6 * time.Second)
		require.Equal(t, leader.Leading, a.Health().Role)
		require.Equal(t, leader.Following, b.Health().Role)
		s.Stop()
		time.Sleep(time.Minute)
		require.ErrorIs(t, a.Health().Err, leader.ErrSessionLost)
		require.NoError(t, s.Start())
		time.Sleep(20 * time.Second)
		require.NoError(t, a.Health().Check(0))
		require.NoError(t, b.Health().Check(0))
		require.NoError(t, a.Close())
		require.ErrorIs(t, a.Health().Check(time.Hour), leader.ErrLeft)
		require.Equal(t, leader.Idle, a.Health().Role)
	})
}

// Children that are no contenders do not matter. In Curator a child named 0 leads as long as it exists.
func TestForeignChildrenDoNotBlock(t *testing.T) {
	for name, join := range candidates {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				require.NoError(t, s.Create(path, nil))
				for _, child := range []string{"0", "aaa", "zzz", "0000000000"} {
					require.NoError(t, s.Create(path+"/"+child, nil))
				}
				first := join(t, newClient(t, s))
				second := join(t, newClient(t, s))
				term := <-first
				synctest.Wait()
				require.Empty(t, second)
				seen := observe(t, newClient(t, s), path)
				synctest.Wait()
				o := <-seen.all
				require.False(t, o.Nobody)
				require.Equal(t, term.FencingToken(), o.Leader.Czxid)
				require.NoError(t, term.Resign(background))
				require.Greater(t, (<-second).FencingToken(), term.FencingToken())
			})
		})
	}
}

// An election at the node of a namespace.
func TestPathRoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		at := func(c *framework.Client) *leader.Latch {
			l, err := leader.NewLatch(c, "/")
			require.NoError(t, err)
			t.Cleanup(func() { _ = l.Close() })
			synctest.Wait()
			return l
		}
		a, b := at(newClient(t, s).UsingNamespace("team/app")), at(newClient(t, s).UsingNamespace("team/app"))
		term := await(t, a)
		require.Equal(t, "/"+term.Node(), term.Path())
		follows(t, b)
		line, err := b.Participants(background)
		require.NoError(t, err)
		require.Len(t, line, 2)
		seen := observe(t, newClient(t, s).UsingNamespace("team/app"), "/")
		require.Equal(t, term.FencingToken(), (<-seen.all).Leader.Czxid)
		require.NoError(t, term.Resign(background))
		require.Equal(t, await(t, b).FencingToken(), (<-seen.all).Leader.Czxid)
	})
}

// A latch resigns, gets no reply to its delete, and joins the line again. Its later Leave, as a follower, succeeds.
func TestLeavingAfterAResignationThatWasNotConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		ca := newClient(t, s)
		a := join(t, ca)
		b := join(t, newClient(t, s))
		fault := s.Inject(zktest.Fault{Session: session(t, ca), Op: "delete", Action: zktest.LoseReply})
		require.ErrorIs(t, await(t, a).Resign(background), framework.ErrConnectionLoss)
		require.Equal(t, 1, fault.Hits())
		await(t, b)
		time.Sleep(5 * time.Second)
		follows(t, a)
		left(t, a)
		left(t, b)
		clean(t, s)
	})
}

// A leader resigns without waiting, and leaves: Leave returns when its node is deleted, whether or not it has joined the line
// again in between.
func TestLeavingWaitsForAResignation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		l := join(t, newClient(t, s))
		term := await(t, l)
		const slow = time.Second
		s.Inject(zktest.Fault{Op: "delete", Action: zktest.DelayReply, Delay: slow})
		began := time.Now()
		require.NoError(t, term.Resign(term.Context()))
		synctest.Wait()
		left(t, l)
		require.Equal(t, slow, time.Since(began))
		clean(t, s)
	})
}

// The first attempt to join is refused during Await: Await returns that error.
func TestAwaitReportsTheFirstRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create(path, nil))
		require.NoError(t, s.SetACL(path, zktest.ACL{Perms: 1, Scheme: "world", ID: "anyone"}))
		c := newClient(t, s)
		s.Delay(session(t, c), time.Second)
		l, err := leader.NewLatch(c, path)
		require.NoError(t, err)
		defer l.Close()
		began := time.Now()
		_, err = l.Await(background)
		require.ErrorIs(t, err, framework.ErrNoAuth)
		require.Equal(t, time.Second, time.Since(began))
	})
}

// After a single refusal a latch tries again within a tenth of a second.
func TestTheFirstRetryComesSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create(path, nil))
		c := newClient(t, s)
		for range 20 {
			refused := s.Inject(zktest.Fault{Op: "create2", Action: zktest.ReplyError, Err: zktest.ErrNoAuth})
			l := join(t, c)
			require.Equal(t, 1, refused.Hits())
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			require.True(t, l.HasLeadership())
			left(t, l)
		}
	})
}

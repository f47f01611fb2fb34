package semaphore_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/semaphore"
	"github.com/go-curator/curator/zktest"
)

// While the server hangs, a read of the line returns when its context ends.
func TestCancelWhileTheServerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		sem := semaphore.New(newClient(t, s), path, 5)
		recipetest.CancelWhileTheServerHangs(t, s, []string{locks, leases},
			func(ctx context.Context) error { _, err := sem.Participants(ctx); return err },
			func(ctx context.Context) error { _, _, err := sem.Usage(ctx); return err },
		)
	})
}

// The context ends at each step of the acquisition: after each number of replies.
func TestCancelAtEachStep(t *testing.T) {
	for _, held := range []int{0, 2} { // 0: the semaphore is free; 2: the caller must wait in line
		for _, op := range []string{"sync", "getChildren2", "create2", "getData"} {
			for after := range 6 {
				synctest.Test(t, func(t *testing.T) {
					s := zktest.RunT(t)
					a, b := newClient(t, s), newClient(t, s)
					sem := semaphore.New(a, path, 2, semaphore.WithSharedCount(countPath))
					var lease *semaphore.Lease
					if held > 0 {
						lease = acquire(t, sem, held)
					}
					fault := s.Inject(zktest.Fault{Session: session(t, b), Op: op, After: after, Action: zktest.HoldReply,
						Times: -1})
					ctx, cancel := context.WithCancel(background)
					done := begin(t, ctx, semaphore.New(b, path, 2, semaphore.WithSharedCount(countPath)), 2)
					synctest.Wait()
					if lease != nil {
						release(t, lease)
						synctest.Wait()
					}
					cancel()
					o := done.End()
					fault.Release()
					fault.Remove()
					if o.Err == nil {
						release(t, o.Value)
					} else {
						require.ErrorIs(t, o.Err, context.Canceled)
					}
					time.Sleep(time.Second)
					clean(t, s)
					require.Zero(t, b.PendingCleanups())
				})
			}
		}
	}
}

func isOneOf(err error, targets ...error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

func TestForeignChildrenTakeNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		for _, name := range []string{"0", "zzz", "lock-0000000000"} {
			require.NoError(t, s.Create(leases+"/"+name, nil))
		}
		var log recipetest.Log
		c := newClient(t, s, framework.WithLogger(log.Logger()))
		sem := semaphore.New(c, path, 2)
		lease := acquire(t, sem, 2)
		waiter := waiting(t, background, sem, 1)
		require.NoError(t, s.Create(leases+"/more", nil))
		waiter.Waits()
		release(t, lease)
		release(t, got(t, waiter))
		require.Equal(t, 1, strings.Count(log.String(), "is not a lease"), "one warning for the path")
		require.Contains(t, log.String(), "path="+leases)
	})
}

func TestSequenceNearItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create(leases, nil))
		sem := semaphore.New(newClient(t, s), path, 2)
		for next, want := range map[int32]error{
			line.SequenceLimit - 2: nil,
			line.SequenceLimit - 1: semaphore.ErrSequenceExhausted, // the number of the second node
			math.MaxInt32:          semaphore.ErrSequenceExhausted,
			math.MinInt32:          semaphore.ErrSequenceExhausted,
			-1:                     semaphore.ErrSequenceExhausted,
		} {
			require.NoError(t, s.SetSequence(leases, next))
			lease, err := sem.Acquire(background, 2)
			require.ErrorIs(t, err, want, "%d", next)
			if want == nil {
				release(t, lease)
			}
			clean(t, s)
		}
	})
}

// The servers delete the empty containers between two holds, and while a contender is about to create its node.
func TestContainersReaped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t, zktest.Config{ReapInterval: time.Second})
		c := newClient(t, s)
		sem := semaphore.New(c, path, 1)
		last := int64(0)
		for range 3 {
			lease := acquire(t, sem, 1)
			require.Greater(t, lease.ID(), last)
			last = lease.ID()
			release(t, lease)
			time.Sleep(10 * time.Second)
			require.False(t, s.Exists(path))
		}
		release(t, acquire(t, sem, 1))
		hold := s.Inject(zktest.Fault{Op: "create2", Action: zktest.Hold})
		done := begin(t, background, sem, 1)
		<-hold.Struck()
		require.NoError(t, s.Delete(leases))
		hold.Release()
		release(t, got(t, done))
	})
}

// An administrator deletes the node of one of several leases: the whole hold is lost, and Release deletes the remaining nodes.
func TestAdministratorDeletesALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s), newClient(t, s)
		sem := semaphore.New(a, path, 3)
		for i := range 3 {
			lease := acquire(t, sem, 3)
			waiter := waiting(t, background, semaphore.New(b, path, 3), 1)
			time.Sleep(100 * time.Millisecond)
			require.NoError(t, s.Delete(lease.Paths()[i]))
			<-lease.Context().Done()
			require.ErrorIs(t, context.Cause(lease.Context()), semaphore.ErrNodeDeleted)
			require.False(t, lease.Valid())
			require.Zero(t, lease.Remaining())
			other := got(t, waiter)
			require.ErrorIs(t, lease.Release(background), semaphore.ErrNodeDeleted)
			require.True(t, other.Valid())
			release(t, other)
			clean(t, s)
		}
	})
}

// The lease's node is deleted before a list has shown it: the caller does not rely on it, and creates another.
func TestLeaseDeletedWhileItIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		require.NoError(t, c.CreateContainers(background, leases))
		hold := s.Inject(zktest.Fault{Session: session(t, c), Op: "getChildren2", PathPrefix: leases, After: 1,
			Action: zktest.Hold})
		done := begin(t, background, semaphore.New(c, path, 1), 1)
		<-hold.Struck()
		children, err := s.Children(leases)
		require.NoError(t, err)
		require.NoError(t, s.Delete(leases+"/"+children[0]))
		hold.Release()
		lease := got(t, done)
		require.NotEqual(t, children, lease.Nodes())
		release(t, lease)
		clean(t, s)
	})
}

// An administrator deletes everything: the waiter starts again.
func TestAllDeletedWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s), newClient(t, s)
		sem := semaphore.New(a, path, 1)
		lease := acquire(t, sem, 1)
		first := waiting(t, background, semaphore.New(b, path, 1), 1)
		second := waiting(t, background, sem, 1)
		require.NoError(t, s.DeleteAll(path))
		<-lease.Context().Done()
		time.Sleep(2 * time.Second)
		first, second = inOrder(first, second)
		require.ErrorIs(t, lease.Release(background), semaphore.ErrNodeDeleted)
		second.Waits()
		release(t, first.OK())
		release(t, got(t, second))
		clean(t, s)
	})
}

// The server has executed the request, and the connection breaks before the reply: for each request of an acquire and a release.
func TestReplyLostAfterCommit(t *testing.T) {
	for _, fault := range []zktest.Fault{
		{Op: "sync"}, {Op: "exists"}, {Op: "getChildren2"}, {Op: "getChildren2", After: 1},
		{Op: "getData"}, {Op: "getData", After: 1},
		{Op: "create2"}, {Op: "create2", After: 1}, {Op: "create2", Times: 2}, {Op: "create2", Times: 4},
		{Op: "delete"}, {Op: "delete", After: 1},
		{Op: "getChildren2", Times: 3}, {Op: "getChildren2", After: 1, Times: 8},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			c := newClient(t, s)
			sem := semaphore.New(c, path, 2, semaphore.WithSharedCount(countPath))
			release(t, acquire(t, sem, 1))
			fault.Action, fault.Session = zktest.LoseReply, session(t, c)
			struck := s.Inject(fault)
			lease := acquire(t, sem, 2)
			require.Equal(t, 2, taken(t, s))
			for i, path := range lease.Paths() {
				_, stat, err := s.Get(path)
				require.NoError(t, err)
				if i == 0 {
					require.Equal(t, stat.Czxid, lease.ID())
				}
			}
			release(t, lease)
			require.Positive(t, struck.Hits(), "%+v", fault)
			struck.Remove()
			time.Sleep(time.Second)
			clean(t, s)
			require.Zero(t, c.PendingCleanups())
		})
	}
}

// One of two creates is refused with a temporary error: only that one is retried.
func TestOneCreateIsRepeated(t *testing.T) {
	for after := range 2 {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			sem := semaphore.New(newClient(t, s), path, 3)
			release(t, acquire(t, sem, 1))
			s.ResetCounts()
			s.Inject(zktest.Fault{Op: "create2", After: after, Action: zktest.ReplyError, Err: zktest.ErrThrottledOp})
			lease := acquire(t, sem, 2)
			require.Equal(t, 2, lease.Count())
			require.Equal(t, 2, taken(t, s))
			require.Equal(t, 3, s.Counts()["create2"])
			release(t, lease)
			clean(t, s)
		})
	}
}

// Each request of the first in the line loses its reply in turn.
func TestRepliesLostInLine(t *testing.T) {
	for _, op := range []string{"sync", "getChildren2", "create2", "getData", "delete"} {
		for after := range 5 {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				a, b := newClient(t, s), newClient(t, s)
				lease := acquire(t, semaphore.New(a, path, 2), 2)
				s.Inject(zktest.Fault{Session: session(t, b), Op: op, After: after, Times: 2, Action: zktest.LoseReply})
				waiter := begin(t, background, semaphore.New(b, path, 2), 2)
				time.Sleep(5 * time.Second)
				waiter.Waits()
				release(t, lease)
				next := got(t, waiter)
				require.Equal(t, 2, taken(t, s))
				release(t, next)
				time.Sleep(time.Second)
				clean(t, s)
			})
		}
	}
}

// The session expires repeatedly during an Acquire, more often than the retry policy retries a request: Acquire continues.
func TestExpiryWhileTaking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		hold := s.Inject(zktest.Fault{Op: "create2", PathPrefix: leases, Times: 20, Action: zktest.Hold})
		done := begin(t, background, semaphore.New(c, path, 1), 1)
		for range 20 {
			<-hold.Struck()
			s.Expire(session(t, c))
		}
		hold.Release()
		release(t, got(t, done))
		clean(t, s)

		hold = s.Inject(zktest.Fault{Op: "create2", PathPrefix: leases, Times: 20, Action: zktest.Hold})
		try := make(chan error, 1)
		go func() {
			_, err := semaphore.New(c, path, 1).TryAcquire(background, 1)
			try <- err
		}()
		for len(try) == 0 {
			select {
			case <-hold.Struck():
				s.Expire(session(t, c))
			case <-time.After(time.Minute):
			}
		}
		require.ErrorIs(t, <-try, semaphore.ErrSessionLost)
		hold.Remove()
		clean(t, s)
	})
}

// Like CURATOR-604 for the mutex: for the client, which has reconnected, the session is lost, while the server still has its
// leases. They belong to no holder, and count until they are deleted.
func TestLeasesOfADeadSessionCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		b := newClient(t, s)
		sem := semaphore.New(b, path, 1)
		lease := acquire(t, sem, 1)
		old := session(t, b)
		refused := s.Inject(zktest.Fault{Op: "connect", Times: -1, Action: zktest.CutBefore})
		s.BlackHole(old, zktest.Both)
		for change := range b.StateChanges(t.Context()) {
			if change.State == framework.Lost {
				break
			}
		}
		require.False(t, lease.Valid())
		require.Equal(t, 1, taken(t, s))
		refused.Remove()
		require.NotEqual(t, old, session(t, b))
		next := acquire(t, sem, 1)
		_, stat, err := s.Get(next.Paths()[0])
		require.NoError(t, err)
		require.Equal(t, session(t, b), stat.EphemeralOwner)
		require.Equal(t, 1, taken(t, s))
		require.ErrorIs(t, lease.Release(background), semaphore.ErrSessionLost)
		release(t, next)
		clean(t, s)
	})
}

// The event never arrives: servers send none to clients without the right to read, and there may be other causes. The first in
// the line reads again after about a session timeout.
func TestEventThatNeverComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t, zktest.Config{Profile: zktest.V38})
		a, b := newClient(t, s), newClient(t, s)
		lease := acquire(t, semaphore.New(a, path, 1), 1)
		waiter := waiting(t, background, semaphore.New(b, path, 1), 1)
		acl := s.Tree()[leases].ACL
		require.NoError(t, s.SetACL(leases, zktest.ACL{Perms: 31 &^ 1, Scheme: "world", ID: "anyone"}))
		release(t, lease)
		require.True(t, waiter.Pending(), "the server has dropped the event")
		require.NoError(t, s.SetACL(leases, acl...))
		released := time.Now()
		lease = got(t, waiter)
		require.Less(t, time.Since(released), 13*time.Second, "5/4 of the session timeout")
		release(t, lease)
		clean(t, s)
	})
}

func TestNoRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		for what, perms := range map[string]int32{"read": 31 &^ 1, "create": 31 &^ 4} {
			dir := "/closed-" + what
			require.NoError(t, s.Create(dir+"/leases", nil))
			require.NoError(t, s.SetACL(dir+"/leases", zktest.ACL{Perms: perms, Scheme: "world", ID: "anyone"}))
			for _, call := range []func(context.Context, int) (*semaphore.Lease, error){
				semaphore.New(c, dir, 2).Acquire, semaphore.New(c, dir, 2).TryAcquire,
			} {
				_, err := call(background, 2)
				require.ErrorIs(t, err, framework.ErrNoAuth)
				require.ErrorContains(t, err, dir)
			}
			synctest.Wait()
			children, err := s.Children(dir + "/leases")
			require.NoError(t, err)
			require.Empty(t, children)
		}
	})
}

// In an ensemble with a short session timeout holds depend on committed writes: the leases of one Acquire share them.
func TestHeartbeatRule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const servers = "server.1=a:2888:3888\nserver.2=b:2888:3888\nserver.3=c:2888:3888\n"
		s := zktest.RunT(t, zktest.Config{EnsembleConfig: servers})
		c := newClient(t, s)
		lease := acquire(t, semaphore.New(c, path, 5), 5)
		require.Equal(t, framework.RuleHeartbeat, c.Safety().Rule)
		require.Less(t, s.Counts()["multi"], 4)
		waiter := waiting(t, background, semaphore.New(newClient(t, s), path, 5), 5)
		time.Sleep(time.Minute)
		require.True(t, lease.Valid())
		release(t, lease)
		release(t, got(t, waiter))
		clean(t, s)
	})
}

// The server refuses to delete one node of a lease. The release reports that, for either node.
func TestAReleaseReportsTheOneNodeThatTheServerKeeps(t *testing.T) {
	for how, release := range map[string]func(*semaphore.Lease) error{
		"Release": func(l *semaphore.Lease) error { return l.Release(background) },
		"ReleaseInBackground": func(l *semaphore.Lease) error {
			reported := make(chan error, 1)
			l.ReleaseInBackground(func(err error) { reported <- err })
			return <-reported
		},
	} {
		for kept := range 3 {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				lease := acquire(t, semaphore.New(newClient(t, s), path, 3), 3)
				s.Inject(zktest.Fault{Op: "delete", PathPrefix: lease.Paths()[kept], Action: zktest.ReplyError, Err: zktest.ErrNoAuth})
				require.ErrorIs(t, release(lease), framework.ErrNoAuth, "%s, node %d", how, kept)
				left, err := s.Children(leases)
				require.NoError(t, err)
				require.Equal(t, []string{lease.Nodes()[kept]}, left, "%s", how)
			})
		}
	}
}

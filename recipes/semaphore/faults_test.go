package semaphore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/queue"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/semaphore"
	"github.com/go-curator/curator/zktest"
)

// In 1,000 acquires that are cancelled at random moments, some while leases change hands, nothing is left and
// nobody is stuck.
func TestCancelAtRandomMoments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		recipetest.CancelAtRandomMoments(t, s, 20, 80*time.Millisecond, func(c *framework.Client) recipetest.Take {
			sem := semaphore.New(c, path, 3)
			return func(ctx context.Context, random *rand.Rand) (func(context.Context) error, error) {
				acquire := sem.Acquire
				if random.IntN(5) == 0 {
					acquire = sem.TryAcquire
				}
				lease, err := acquire(ctx, 1+random.IntN(3))
				return lease.Release, err
			}
		}, []string{locks, leases}, semaphore.ErrNotAcquired)
	})
}

// While the server hangs, every call returns when its context ends, and the nodes go when the server is back.
func TestCancelWhileTheServerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a := newClient(t, s)
		sem := semaphore.New(a, path, 5)
		lease := acquire(t, sem, 2)
		recipetest.CancelWhileTheServerHangs(t, s, []string{locks, leases},
			func(ctx context.Context) error { _, err := sem.Acquire(ctx, 1); return err },
			func(ctx context.Context) error { _, err := sem.TryAcquire(ctx, 2); return err },
			func(ctx context.Context) error { _, err := sem.Participants(ctx); return err },
			func(ctx context.Context) error { _, _, err := sem.Usage(ctx); return err },
			lease.Release,
		)
	})
}

// Cancelled at each step of the leap: after any number of the requests have been answered.
func TestCancelAtEachStep(t *testing.T) {
	for _, held := range []int{0, 2} { // nobody is there; it has to wait in line
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
					fault := s.Inject(zktest.Fault{Session: session(t, b), Op: op, After: after, Action: zktest.HoldReply, Times: -1})
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

type lockedWriter struct {
	mu sync.Mutex
	w  strings.Builder
}

func (w *lockedWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.Write(b)
}

func (w *lockedWriter) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.String()
}

func TestForeignChildrenTakeNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		for _, name := range []string{"0", "zzz", "lock-0000000000"} {
			require.NoError(t, s.Create(leases+"/"+name, nil))
		}
		var log lockedWriter
		c := newClient(t, s, framework.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		sem := semaphore.New(c, path, 2)
		lease := acquire(t, sem, 2)
		waiter := waiting(t, background, sem, 1)
		require.NoError(t, s.Create(leases+"/more", nil))
		waiter.Waits()
		release(t, lease)
		release(t, got(t, waiter))
		require.Equal(t, 1, strings.Count(log.String(), "is no lease"), "one warning for the path")
		require.Contains(t, log.String(), "path="+leases)
	})
}

func TestSequenceNearItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create(leases, nil))
		sem := semaphore.New(newClient(t, s), path, 2)
		for next, want := range map[int32]error{
			queue.Limit - 2: nil,
			queue.Limit - 1: semaphore.ErrSequenceExhausted, // the second one
			math.MaxInt32:   semaphore.ErrSequenceExhausted,
			math.MinInt32:   semaphore.ErrSequenceExhausted,
			-1:              semaphore.ErrSequenceExhausted,
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

// The containers are reaped between two users, and while one is about to create.
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

// An administrator deletes the node of a lease, one of several: the whole lease is lost, and what is left of
// it goes with Release.
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

// The lease's node is deleted before it was seen in a list: it is not believed in, and made anew.
func TestLeaseDeletedWhileItIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		require.NoError(t, c.CreateContainers(background, leases))
		hold := s.Inject(zktest.Fault{Session: session(t, c), Op: "getChildren2", PathPrefix: leases, After: 1, Action: zktest.Hold})
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

// An administrator deletes the place in line of the first, or everything: it begins again.
func TestPlaceDeletedWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s), newClient(t, s)
		sem := semaphore.New(a, path, 1)
		lease := acquire(t, sem, 1)
		first := waiting(t, background, semaphore.New(b, path, 1), 1)
		for range 5 {
			line, err := sem.Waiting(background)
			require.NoError(t, err)
			require.Len(t, line, 1)
			time.Sleep(time.Second)
			require.NoError(t, s.Delete(line[0].Path))
			time.Sleep(2 * time.Second)
			first.Waits()
		}
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

// The server has done it and the connection breaks before the reply, with each request of an acquire and a
// release.
func TestReplyLostAfterCommit(t *testing.T) {
	for _, fault := range []zktest.Fault{
		{Op: "sync"}, {Op: "getChildren2"}, {Op: "getChildren2", After: 1}, {Op: "getChildren2", After: 2}, {Op: "getData"}, {Op: "getData", After: 1},
		{Op: "create2"}, {Op: "create2", After: 1}, {Op: "create2", Times: 2}, {Op: "create2", Times: 4}, {Op: "delete"}, {Op: "delete", After: 1},
		{Op: "getChildren2", Times: 3}, {Op: "getChildren2", After: 2, Times: 8},
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

// Every request of the first in line may lose its reply, one after the other.
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

// Leases are released while the first in line is disconnected: it finds out when it is back, and keeps its
// place until then.
func TestReleaseWhileTheFirstIsDisconnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s), newClient(t, s)
		lease := acquire(t, semaphore.New(a, path, 1), 1)
		first := waiting(t, background, semaphore.New(b, path, 1), 1)
		second := waiting(t, background, semaphore.New(a, path, 1), 1)
		refused := s.Inject(zktest.Fault{Op: "connect", Times: -1, Action: zktest.CutBefore})
		s.Cut(session(t, b))
		release(t, lease)
		time.Sleep(2 * time.Second)
		require.True(t, first.Pending() && second.Pending())
		refused.Remove()
		lease = got(t, first)
		second.Waits()
		release(t, lease)
		release(t, got(t, second))
		clean(t, s)
	})
}

func TestExpiryWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b, c := newClient(t, s), newClient(t, s), newClient(t, s)
		lease := acquire(t, semaphore.New(a, path, 1), 1)
		first := waiting(t, background, semaphore.New(b, path, 1), 1)
		second := waiting(t, background, semaphore.New(c, path, 1), 1)
		s.Expire(session(t, b))
		time.Sleep(time.Second)
		require.True(t, first.Pending() && second.Pending())
		line, err := semaphore.New(a, path, 1).Waiting(background)
		require.NoError(t, err)
		require.Len(t, line, 2)
		require.Equal(t, session(t, b), line[1].SessionID, "at the end of the line, in its new session")
		release(t, lease)
		lease = got(t, second)
		first.Waits()
		release(t, lease)
		release(t, got(t, first))
		clean(t, s)
	})
}

// The session ends again and again while the leases are taken, more often than the retry policy repeats
// anything: Acquire goes on.
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

func TestExpiryWhileHolding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s), newClient(t, s)
		lease := acquire(t, semaphore.New(a, path, 2), 2)
		waiter := waiting(t, background, semaphore.New(b, path, 2), 2)
		s.Expire(session(t, a))
		<-lease.Context().Done()
		require.ErrorIs(t, context.Cause(lease.Context()), semaphore.ErrSessionLost)
		require.False(t, lease.Valid())
		next := got(t, waiter)
		require.ErrorIs(t, lease.Release(background), semaphore.ErrSessionLost)
		require.ErrorIs(t, lease.Release(background), semaphore.ErrReleased)
		require.True(t, next.Valid(), "the release of the former holder does not touch the next one's nodes")
		release(t, next)
		clean(t, s)
	})
}

// As CURATOR-604 for the mutex: the session is over for the client, which is connected again, while the
// server still has its leases. They are nobody's, and count until they are gone.
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

// P1: a holder is cut off without a sign. Its context ends before the lease is given to somebody else.
func TestBlackHoleWhileHolding(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			s := zktest.RunT(t)
			a, b := newClient(t, s, framework.WithSessionTimeout(4*time.Second)), newClient(t, s)
			lease := acquire(t, semaphore.New(a, path, 2), 2)
			waiter := waiting(t, background, semaphore.New(b, path, 2), 1)
			time.Sleep(time.Duration(random.Int64N(int64(5 * time.Second))))
			s.BlackHole(session(t, a), []zktest.Direction{zktest.Both, zktest.FromClient, zktest.ToClient}[random.IntN(3)])
			blind := s.Inject(zktest.Fault{Op: "connect", Times: -1, Action: zktest.CutBefore}) // no way back either
			lost := make(chan time.Time, 1)
			context.AfterFunc(lease.Context(), func() { lost <- time.Now() })
			o := waiter.End()
			require.NoError(t, o.Err)
			ended := <-lost
			require.True(t, ended.Before(o.At), "the context ended at %v, the next grant was at %v", ended, o.At)
			require.ErrorIs(t, context.Cause(lease.Context()), semaphore.ErrSessionLost)
			blind.Remove()
			release(t, o.Value)
		})
	}
}

func TestLossPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a := newClient(t, s)
		stays := acquire(t, semaphore.New(a, "/stays", 2), 2)
		ends := acquire(t, semaphore.New(a, path, 2, semaphore.WithLossPolicy(framework.SuspendedIsLoss)), 2)
		s.Cut(session(t, a))
		time.Sleep(3 * time.Second)
		require.True(t, stays.Valid())
		require.NoError(t, stays.Context().Err())
		require.False(t, ends.Valid())
		require.ErrorIs(t, context.Cause(ends.Context()), semaphore.ErrSuspended)
		require.Equal(t, 2, taken(t, s), "it has to be released all the same")
		require.ErrorIs(t, ends.Release(background), semaphore.ErrSuspended)
		release(t, stays)
		clean(t, s)
	})
}

// The connection goes at the very moment of the grant: with SuspendedIsLoss that is no error of Acquire, and
// no lease that is over at once without its context saying so.
func TestSuspendedAtTheMomentOfTheGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		sem := semaphore.New(c, path, 2, semaphore.WithLossPolicy(framework.SuspendedIsLoss))
		random := rand.New(rand.NewPCG(1, 1))
		for range 300 {
			done := begin(t, background, sem, 2)
			for range random.IntN(60) {
				runtime.Gosched()
			}
			s.Cut(session(t, c))
			next := done.End().OK()
			if err := next.Release(background); err != nil {
				require.ErrorIs(t, err, semaphore.ErrSuspended)
				require.ErrorIs(t, context.Cause(next.Context()), semaphore.ErrSuspended)
			}
			time.Sleep(5 * time.Second)
			clean(t, s)
		}
	})
}

// On servers that drop events for want of rights, or for any other reason: the first in line looks again
// after a session timeout or so.
func TestEventThatNeverComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t, zktest.Config{Profile: zktest.V384})
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

func TestClientClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s), newClient(t, s)
		lease := acquire(t, semaphore.New(a, path, 1), 1)
		sb := semaphore.New(b, path, 1)
		first, second := waiting(t, background, sb, 1), waiting(t, background, sb, 1)
		began := time.Now()
		require.NoError(t, b.Close())
		for _, waiter := range []*call{first, second} {
			require.ErrorIs(t, waiter.End().Err, framework.ErrClosed)
			require.Equal(t, began, time.Now())
		}
		_, err := sb.Acquire(background, 1)
		require.ErrorIs(t, err, framework.ErrClosed)
		_, err = sb.TryAcquire(background, 1)
		require.ErrorIs(t, err, framework.ErrClosed)

		require.NoError(t, a.Close())
		require.ErrorIs(t, context.Cause(lease.Context()), framework.ErrClosed)
		require.ErrorIs(t, lease.Release(background), framework.ErrClosed)
		clean(t, s)
	})
}

// Nobody there: the retry policy decides how long to try, and the error says what was tried.
func TestNoServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		s.Stop()
		c, err := framework.New(s.Addr(), framework.WithDialer(s.Dial))
		require.NoError(t, err)
		defer c.Close()
		sem := semaphore.New(c, path, 1)
		for _, call := range []func(context.Context, int) (*semaphore.Lease, error){sem.Acquire, sem.TryAcquire} {
			began := time.Now()
			_, err = call(background, 1)
			require.ErrorIs(t, err, framework.ErrNotConnected)
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, s.Addr())
			require.Greater(t, time.Since(began), time.Minute)
			require.Less(t, time.Since(began), 2*time.Minute)

			ctx, cancel := context.WithTimeout(background, time.Second)
			began = time.Now()
			_, err = call(ctx, 1)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, time.Second, time.Since(began))
			cancel()
		}
	})
}

// A long outage does not cost the waiters their calls: they are in line again when the servers are back.
func TestOutageWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s), newClient(t, s)
		lease := acquire(t, semaphore.New(a, path, 2), 2)
		first := waiting(t, background, semaphore.New(b, path, 2), 1)
		second := waiting(t, background, semaphore.New(a, path, 2), 2)
		s.Stop()
		time.Sleep(10 * time.Minute)
		require.True(t, first.Pending() && second.Pending())
		require.False(t, lease.Valid())
		require.NoError(t, s.Start())
		first, second = inOrder(first, second)
		release(t, got(t, first))
		release(t, got(t, second))
		time.Sleep(time.Second)
		clean(t, s)
	})
}

// Not in a bubble: clean-ups run outside of it.
func TestForgottenRelease(t *testing.T) {
	s := zktest.RunT(t)
	var log lockedWriter
	c := newClient(t, s, framework.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	sem := semaphore.New(c, path, 2)
	release(t, acquire(t, sem, 2))
	node := acquire(t, sem, 2).Paths()[0] // dropped
	require.Eventually(t, func() bool {
		runtime.GC()
		return bytes.Contains([]byte(log.String()), []byte(node))
	}, 10*time.Second, time.Millisecond)
	require.Equal(t, 1, strings.Count(log.String(), "without Release"), "the released one is not mentioned")
	_, err := sem.TryAcquire(background, 1)
	require.ErrorIs(t, err, semaphore.ErrNotAcquired, "it is still taken")
}

// Whose session is over has taken nothing any more: there is nothing to warn of.
func TestForgottenReleaseAfterTheEnd(t *testing.T) {
	s := zktest.RunT(t)
	var log lockedWriter
	logger := framework.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))
	closed, live := newClient(t, s, logger), newClient(t, s, logger)
	acquire(t, semaphore.New(closed, "/closed", 2), 2)
	require.NoError(t, closed.Close())
	for i := range 5 {
		node := acquire(t, semaphore.New(live, fmt.Sprint("/live", i), 2), 2).Paths()[0] // dropped
		require.Eventually(t, func() bool {
			runtime.GC()
			return bytes.Contains([]byte(log.String()), []byte(node))
		}, 10*time.Second, time.Millisecond)
	}
	require.Equal(t, 5, strings.Count(log.String(), "without Release"), log.String())
}

// In an ensemble with a short session timeout holds live by committed writes: the leases of one Acquire share
// them.
func TestHeartbeatRule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t, zktest.Config{EnsembleConfig: "server.1=a:2888:3888\nserver.2=b:2888:3888\nserver.3=c:2888:3888\n"})
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

package recipetest_test

import (
	"cmp"
	"context"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/node"
	"github.com/go-curator/curator/recipes/once"
	items "github.com/go-curator/curator/recipes/queue"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/recipes/semaphore"
	"github.com/go-curator/curator/zktest"
)

// These stories hold for all locks with one holder at a time, and for readers with a writer. Each recipe's own features are in
// its own tests.

const lockPath = "/locks/shared"

var background = context.Background()

type acquireFunc func(ctx context.Context) (mutex.Held, error)

// kind is a kind of lock.
type kind struct {
	name  string
	dirs  []string // those that must be empty in the end
	line  string   // the directory of the waiters
	first int      // index of the first waiter there; 0 if holders have no node there
	lists int      // how many lists a grant after a reconnect needs
	make  func(c *framework.Client, loss framework.LossPolicy) (acquire, try acquireFunc)
	// against, if several of this kind can hold at a time, is a kind that cannot hold at the same time.
	against *kind
}

// rival returns a kind that cannot hold at the same time as this one.
func (k kind) rival() kind {
	if k.against != nil {
		return *k.against
	}
	return k
}

// of adapts a lock's method.
func of[H mutex.Held](f func(context.Context) (H, error)) acquireFunc {
	return func(ctx context.Context) (mutex.Held, error) {
		held, err := f(ctx)
		if err != nil {
			return nil, err
		}
		return held, nil
	}
}

// both acquires both leases of a semaphore.
func both(f func(context.Context, int) (*semaphore.Lease, error)) acquireFunc {
	return of(func(ctx context.Context) (*semaphore.Lease, error) { return f(ctx, 2) })
}

var (
	own    = []string{lockPath}
	leases = []string{lockPath + "/leases", lockPath + "/locks"}
)

var writers = kind{"write", own, lockPath, 1, 1, func(
	c *framework.Client, loss framework.LossPolicy,
) (_, _ acquireFunc) {
	w := rwlock.New(c, lockPath, rwlock.WithLossPolicy(loss)).WriteLock()
	return of(w.Acquire), of(w.TryAcquire)
}, nil}

var kinds = []kind{
	{"mutex", own, lockPath, 1, 1, func(c *framework.Client, loss framework.LossPolicy) (_, _ acquireFunc) {
		m := mutex.New(c, lockPath, mutex.WithLossPolicy(loss))
		return of(m.Acquire), of(m.TryAcquire)
	}, nil},
	{"cohort", own, lockPath, 1, 1, func(c *framework.Client, loss framework.LossPolicy) (_, _ acquireFunc) {
		m := mutex.NewCohort(c, lockPath, mutex.WithLossPolicy(loss))
		return of(m.Acquire), of(m.TryAcquire)
	}, nil},
	writers,
	{"read", own, lockPath, 1, 1, func(c *framework.Client, loss framework.LossPolicy) (_, _ acquireFunc) {
		r := rwlock.New(c, lockPath, rwlock.WithLossPolicy(loss)).ReadLock()
		return of(r.Acquire), of(r.TryAcquire)
	}, &writers},
	{"readers", own, lockPath, 1, 1, func(c *framework.Client, loss framework.LossPolicy) (_, _ acquireFunc) {
		r := rwlock.NewReaders(c, lockPath, rwlock.WithLossPolicy(loss))
		return of(r.Acquire), of(r.TryAcquire)
	}, &writers},
	{"semaphore", leases, leases[1], 0, 0, func(c *framework.Client, p framework.LossPolicy) (_, _ acquireFunc) {
		s := semaphore.New(c, lockPath, 2, semaphore.WithLossPolicy(p))
		return both(s.Acquire), both(s.TryAcquire)
	}, nil},
	{"lease", leases, leases[1], 0, 0, func(c *framework.Client, loss framework.LossPolicy) (_, _ acquireFunc) {
		m := semaphore.NewMutex(c, lockPath, semaphore.WithLossPolicy(loss))
		return of(m.Acquire), of(m.TryAcquire)
	}, nil},
}

// some returns the configuration of a server of one release or another, chosen by the test's name.
func some(t *testing.T) zktest.Config {
	all := zktest.Profiles()
	profile := all[crc32.ChecksumIEEE([]byte(t.Name()))%uint32(len(all))]
	t.Log("like ZooKeeper", profile)
	return zktest.Config{Profile: profile}
}

// story runs play with each kind of lock, in its own bubble.
func story(t *testing.T, play func(t *testing.T, s *zktest.Server, k kind)) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { play(t, zktest.RunT(t, some(t)), k) })
		})
	}
}

func (k kind) acquire(t *testing.T, c *framework.Client) mutex.Held {
	t.Helper()
	acquire, _ := k.make(c, framework.SessionOnly)
	held, err := acquire(background)
	require.NoError(t, err)
	require.True(t, held.Valid())
	return held
}

// begin starts an acquire on another goroutine.
func (k kind) begin(
	t *testing.T, c *framework.Client, loss framework.LossPolicy,
) *recipetest.Call[mutex.Held] {
	acquire, _ := k.make(c, loss)
	return recipetest.Begin(t, func() (mutex.Held, error) { return acquire(background) })
}

// waiting starts an acquire, and returns when it waits.
func (k kind) waiting(t *testing.T, c *framework.Client) *recipetest.Call[mutex.Held] {
	t.Helper()
	return k.begin(t, c, framework.SessionOnly).Waits()
}

// standing returns the paths of the waiters in their order.
func (k kind) standing(t *testing.T, s *zktest.Server) []string {
	t.Helper()
	synctest.Wait()
	names, err := s.Children(k.line)
	require.NoError(t, err)
	number := func(name string) string { return name[len(name)-10:] }
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	for i, name := range names {
		names[i] = k.line + "/" + name
	}
	return names[min(k.first, len(names)):]
}

func (k kind) clean(t *testing.T, s *zktest.Server) {
	t.Helper()
	recipetest.Clean(t, s, k.dirs...)
}

// pathOf returns the path of a holder's node.
func pathOf(held mutex.Held) string {
	switch held := held.(type) {
	case interface{ Path() string }:
		return held.Path()
	case interface{ Paths() []string }:
		return held.Paths()[0]
	}
	panic("no path")
}

// guardsOf returns the operations that make a transaction depend on the hold.
func guardsOf(held mutex.Held) []framework.TransactionOp {
	switch held := held.(type) {
	case interface {
		Guard() framework.TransactionOp
	}:
		return []framework.TransactionOp{held.Guard()}
	case interface {
		Guards() []framework.TransactionOp
	}:
		return held.Guards()
	}
	panic("no guard")
}

func release(t *testing.T, held mutex.Held) {
	t.Helper()
	require.NoError(t, held.Release(background))
}

func lostBy(t *testing.T, held mutex.Held, cause error) {
	t.Helper()
	<-held.Context().Done()
	require.ErrorIs(t, context.Cause(held.Context()), cause)
	require.False(t, held.Valid())
	require.Zero(t, held.Remaining())
}

func owner(t *testing.T, s *zktest.Server, path string) int64 {
	t.Helper()
	_, stat, err := s.Get(path)
	require.NoError(t, err)
	return stat.EphemeralOwner
}

// unreachable keeps clients from reconnecting until Remove.
func unreachable(s *zktest.Server) *zktest.Injection {
	return s.Inject(zktest.Fault{Op: "connect", Times: -1, Action: zktest.CutBefore})
}

// While the server hangs, every call returns when its context ends, and the nodes are deleted after that.
func TestCancelWhileTheServerHangs(t *testing.T) {
	story(t, func(t *testing.T, s *zktest.Server, k kind) {
		c := recipetest.Client(t, s)
		held := k.acquire(t, c)
		acquire, try := k.make(c, framework.SessionOnly)
		recipetest.CancelWhileTheServerHangs(t, s, k.dirs,
			func(ctx context.Context) error { _, err := acquire(ctx); return err },
			func(ctx context.Context) error { _, err := try(ctx); return err },
			held.Release,
		)
	})
}

// Another client acquires between the list and the create of a try: the try leaves nothing.
func TestTryAcquireBacksOut(t *testing.T) {
	story(t, func(t *testing.T, s *zktest.Server, k kind) {
		a, b := recipetest.Client(t, s), recipetest.Client(t, s)
		require.NoError(t, a.CreateContainers(background, k.dirs[0]))
		id := recipetest.Session(t, b)
		hold := s.Inject(zktest.Fault{Session: id, Op: "create2", Times: -1, Action: zktest.Hold})
		_, try := k.make(b, framework.SessionOnly)
		call := recipetest.Begin(t, func() (mutex.Held, error) { return try(background) })
		<-hold.Struck()
		held := k.rival().acquire(t, a)
		before, err := s.Children(k.dirs[0])
		require.NoError(t, err)
		hold.Release()
		hold.Remove()
		_, err = call.Returned()
		require.ErrorIs(t, err, mutex.ErrNotAcquired)
		synctest.Wait()
		after, err := s.Children(k.dirs[0])
		require.NoError(t, err)
		require.Equal(t, before, after)
		release(t, held)
		k.clean(t, s)
	})
}

// An administrator deletes the waiter's node repeatedly. The next waiter watches it; other waiters, and readers and writers, read
// about once per session timeout.
func TestOwnNodeDeletedWhileWaiting(t *testing.T) {
	story(t, func(t *testing.T, s *zktest.Server, k kind) {
		held := k.rival().acquire(t, recipetest.Client(t, s))
		waiter := k.waiting(t, recipetest.Client(t, s))
		for range 5 {
			line := k.standing(t, s)
			require.Len(t, line, 1)
			require.NoError(t, s.Delete(line[0]))
			if k.rival().name == "write" {
				time.Sleep(11 * time.Second)
			}
			time.Sleep(2 * time.Second)
			waiter.Waits()
		}
		release(t, held)
		next := waiter.End().OK()
		require.True(t, next.Valid())
		release(t, next)
		k.clean(t, s)
	})
}

func TestClientClosed(t *testing.T) {
	story(t, func(t *testing.T, s *zktest.Server, k kind) {
		a, b := recipetest.Client(t, s), recipetest.Client(t, s)
		held := k.rival().acquire(t, a)
		waiters := []*recipetest.Call[mutex.Held]{k.waiting(t, b), k.waiting(t, b)}
		began := time.Now()
		require.NoError(t, b.Close())
		for _, waiter := range waiters {
			require.ErrorIs(t, waiter.End().Err, framework.ErrClosed)
			require.Equal(t, began, time.Now())
		}
		acquire, try := k.make(b, framework.SessionOnly)
		for _, call := range []acquireFunc{acquire, try} {
			_, err := call(background)
			require.ErrorIs(t, err, framework.ErrClosed)
		}
		release(t, held)
		held = k.acquire(t, a)
		require.NoError(t, a.Close())
		lostBy(t, held, framework.ErrClosed)
		require.ErrorIs(t, held.Release(background), framework.ErrClosed)
		k.clean(t, s)
	})
}

// The predecessor's node is deleted while the waiter is disconnected: the event arrives after the reconnect, and a list decides.
func TestHandOverWhileDisconnected(t *testing.T) {
	story(t, func(t *testing.T, s *zktest.Server, k kind) {
		a, b := recipetest.Client(t, s), recipetest.Client(t, s)
		held := k.rival().acquire(t, a)
		waiter := k.waiting(t, b)
		second := k.rival().waiting(t, a)
		refused := unreachable(s)
		s.Cut(recipetest.Session(t, b))
		release(t, held)
		time.Sleep(2 * time.Second)
		waiter.Waits()
		second.Waits()
		s.ResetCounts()
		refused.Remove()
		next := waiter.End().OK()
		if k.lists > 0 {
			require.Equal(t, k.lists, s.Counts()["getChildren2"], "no grant without a list after a reconnect")
		}
		second.Waits()
		release(t, next)
		release(t, second.End().OK())
		k.clean(t, s)
	})
}

func TestExpiryWhileWaiting(t *testing.T) {
	story(t, func(t *testing.T, s *zktest.Server, k kind) {
		a, b, c := recipetest.Client(t, s), recipetest.Client(t, s), recipetest.Client(t, s)
		held := k.rival().acquire(t, a)
		second, third := k.waiting(t, b), k.rival().waiting(t, c)
		s.Expire(recipetest.Session(t, b))
		time.Sleep(time.Second)
		require.True(t, second.Pending() && third.Pending())
		line := k.standing(t, s)
		require.Len(t, line, 2)
		require.Equal(t, recipetest.Session(t, b), owner(t, s, line[1]),
			"at the end of the line, in its new session")
		release(t, held)
		next := third.End().OK()
		second.Waits()
		release(t, next)
		release(t, second.End().OK())
		k.clean(t, s)
	})
}

// CURATOR-604: for its client, which has reconnected, the waiter's session is lost, while the server still has its old node in
// the line. Only the new session's node is granted the lock.
func TestNoGrantOnTheNodeOfADeadSession(t *testing.T) {
	story(t, func(t *testing.T, s *zktest.Server, k kind) {
		a, b := recipetest.Client(t, s), recipetest.Client(t, s)
		held := k.rival().acquire(t, a)
		waiter := k.waiting(t, b)
		old := recipetest.Session(t, b)
		refused := unreachable(s)
		s.BlackHole(old, zktest.Both)
		for change := range b.StateChanges(t.Context()) {
			if change.State == framework.Lost {
				break
			}
		}
		require.Len(t, k.standing(t, s), 1, "the server still has the old node")
		refused.Remove()
		require.NotEqual(t, old, recipetest.Session(t, b))
		waiter.Waits()
		release(t, held)
		next := waiter.End().OK()
		require.Equal(t, recipetest.Session(t, b), owner(t, s, pathOf(next)))
		release(t, next)
		k.clean(t, s)
	})
}

func TestExpiryWhileHolding(t *testing.T) {
	story(t, func(t *testing.T, s *zktest.Server, k kind) {
		a, b := recipetest.Client(t, s), recipetest.Client(t, s)
		held := k.acquire(t, a)
		waiter := k.rival().waiting(t, b)
		s.Expire(recipetest.Session(t, a))
		lostBy(t, held, framework.ErrSessionLost)
		next := waiter.End().OK()
		acquire, _ := k.make(a, framework.SessionOnly)
		_, err := acquire(held.Context())
		require.ErrorIs(t, err, framework.ErrSessionLost, "no re-entry into what is lost")
		require.ErrorIs(t, held.Release(background), framework.ErrSessionLost)
		require.ErrorIs(t, held.Release(background), framework.ErrReleased)
		require.True(t, next.Valid(), "the release of the former holder does not touch the next one's nodes")
		release(t, next)
		k.clean(t, s)
	})
}

// P1: the holder loses its network without notice. Its context ends before the next grant.
func TestBlackHoleWhileHolding(t *testing.T) {
	for seed := range uint64(50) {
		story(t, func(t *testing.T, s *zktest.Server, k kind) {
			random := rand.New(rand.NewPCG(seed, 0))
			a := recipetest.Client(t, s, framework.WithSessionTimeout(4*time.Second))
			held := k.acquire(t, a)
			waiter := k.rival().waiting(t, recipetest.Client(t, s))
			time.Sleep(recipetest.Below(random, 5*time.Second))
			direction := []zktest.Direction{zktest.Both, zktest.FromClient, zktest.ToClient}[random.IntN(3)]
			s.BlackHole(recipetest.Session(t, a), direction)
			blind := unreachable(s) // it cannot reconnect either
			lost := make(chan time.Time, 1)
			context.AfterFunc(held.Context(), func() { lost <- time.Now() })
			next := waiter.End()
			require.NoError(t, next.Err)
			ended := <-lost
			require.True(t, ended.Before(next.At), "the context ended at %v, the next grant was at %v", ended, next.At)
			lostBy(t, held, framework.ErrSessionLost)
			blind.Remove()
			release(t, next.Value)
		})
	}
}

func TestLossPolicies(t *testing.T) {
	story(t, func(t *testing.T, s *zktest.Server, k kind) {
		c := recipetest.Client(t, s)
		held := k.acquire(t, c)
		recipetest.Cut(t, s, c)
		time.Sleep(3 * time.Second)
		require.True(t, held.Valid())
		require.NoError(t, held.Context().Err())
		release(t, held)

		held = k.begin(t, c, framework.SuspendedIsLoss).End().OK()
		recipetest.Cut(t, s, c)
		time.Sleep(3 * time.Second)
		lostBy(t, held, framework.ErrSuspended)
		if k.name != "cohort" { // a Cohort deletes its node, for its other callers
			require.True(t, s.Exists(pathOf(held)), "it has to be released all the same")
		}
		require.ErrorIs(t, held.Release(background), framework.ErrSuspended)
		k.clean(t, s)
	})
}

// With SuspendedIsLoss a waiter that becomes the first while it is disconnected is granted after its reconnect.
func TestTurnComesWhileSuspended(t *testing.T) {
	story(t, func(t *testing.T, s *zktest.Server, k kind) {
		a, b := recipetest.Client(t, s), recipetest.Client(t, s)
		held := k.rival().acquire(t, a)
		waiter := k.begin(t, b, framework.SuspendedIsLoss).Waits()
		refused := unreachable(s)
		s.Cut(recipetest.Session(t, b))
		time.Sleep(time.Second)
		release(t, held)
		waiter.Waits()
		refused.Remove()
		next := waiter.End().OK()
		require.True(t, next.Valid())
		release(t, next)
		k.clean(t, s)
	})
}

// The connection is lost at the moment of the grant. With SuspendedIsLoss Acquire returns no error for that, and if the hold is
// lost immediately, its context reports that.
func TestSuspendedAtTheMomentOfTheGrant(t *testing.T) {
	story(t, func(t *testing.T, s *zktest.Server, k kind) {
		c := recipetest.Client(t, s)
		require.NoError(t, s.Create(lockPath, nil))
		random := rand.New(rand.NewPCG(1, 1))
		for range 300 {
			call := k.begin(t, c, framework.SuspendedIsLoss)
			for range random.IntN(60) {
				runtime.Gosched()
			}
			s.Cut(recipetest.Session(t, c))
			held := call.End().OK()
			if err := held.Release(background); err != nil {
				require.ErrorIs(t, err, framework.ErrSuspended)
				require.ErrorIs(t, context.Cause(held.Context()), framework.ErrSuspended)
			}
			time.Sleep(5 * time.Second)
			k.clean(t, s)
		}
	})
}

// Without a server the retry policy decides how long the call tries, and the error contains the attempts.
func TestNoServer(t *testing.T) {
	story(t, func(t *testing.T, s *zktest.Server, k kind) {
		s.Stop()
		c, err := framework.New(s.Addr(), framework.WithDialer(s.Dial))
		require.NoError(t, err)
		defer c.Close()
		acquire, try := k.make(c, framework.SessionOnly)
		for _, call := range []acquireFunc{acquire, try} {
			began := time.Now()
			_, err = call(background)
			require.ErrorIs(t, err, framework.ErrNotConnected)
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, s.Addr())
			require.Greater(t, time.Since(began), time.Minute)
			require.Less(t, time.Since(began), 2*time.Minute)

			ctx, cancel := context.WithTimeout(background, time.Second)
			began = time.Now()
			_, err = call(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, time.Second, time.Since(began))
			cancel()
		}
	})
}

// A long outage does not end the waiters' calls: they join the line again when the servers are back.
func TestOutageWhileWaiting(t *testing.T) {
	story(t, func(t *testing.T, s *zktest.Server, k kind) {
		a, b := recipetest.Client(t, s), recipetest.Client(t, s)
		held := k.rival().acquire(t, a)
		waiters := []*recipetest.Call[mutex.Held]{k.waiting(t, b), k.waiting(t, a)}
		s.Stop()
		time.Sleep(10 * time.Minute)
		require.True(t, waiters[0].Pending() && waiters[1].Pending())
		require.False(t, held.Valid())
		require.NoError(t, s.Start())
		for _, waiter := range waiters {
			go func() {
				if waiter.End().Err == nil {
					_ = waiter.Value.Release(background)
				}
			}()
		}
		for _, waiter := range waiters {
			waiter.End().OK()
		}
		time.Sleep(time.Second)
		k.clean(t, s)
	})
}

// A transaction with the guard is executed only while the lock is held, from any client, even if the holder does not know yet of
// its loss.
func TestGuard(t *testing.T) {
	story(t, func(t *testing.T, s *zktest.Server, k kind) {
		if k.name == "cohort" {
			return // its turns have no guard
		}
		require.NoError(t, s.Create("/store", nil))
		other := recipetest.Client(t, s)
		write := func(held mutex.Held, data string) error {
			set := other.TransactionOp().SetData().ForPath("/store", []byte(data))
			_, err := other.Transaction(background, append(guardsOf(held), set)...)
			return err
		}
		held := k.acquire(t, recipetest.Client(t, s))
		require.NoError(t, s.Set(pathOf(held), []byte("x"))) // as a revoker does: that makes no difference
		require.NoError(t, write(held, "1"))
		last := pathOf(held)
		if several, ok := held.(*semaphore.Lease); ok {
			last = several.Paths()[1]
		}
		require.NoError(t, s.Delete(last))
		err := write(held, "2")
		require.ErrorIs(t, err, framework.ErrNotHeld)
		require.ErrorIs(t, err, framework.ErrNoNode)
		lostBy(t, held, framework.ErrNodeDeleted)
		_ = held.Release(background)
		held = k.acquire(t, recipetest.Client(t, s))
		release(t, held)
		require.ErrorIs(t, write(held, "3"), framework.ErrNotHeld)
		held = k.acquire(t, recipetest.Client(t, s))
		_, err = other.Transaction(background, append(guardsOf(held), other.TransactionOp().Delete().ForPath("/none"))...)
		require.ErrorIs(t, err, framework.ErrNoNode)
		require.NotErrorIs(t, err, framework.ErrNotHeld, "the node of another operation")
		data, _, err := s.Get("/store")
		require.NoError(t, err)
		require.Equal(t, "1", string(data))
	})
}

// An administrator deletes the holder's node.
func TestAdministratorDeletesTheHoldersNode(t *testing.T) {
	story(t, func(t *testing.T, s *zktest.Server, k kind) {
		a, b := recipetest.Client(t, s), recipetest.Client(t, s)
		for _, waited := range []bool{false, true} {
			var held mutex.Held
			if waited {
				first := k.rival().acquire(t, a)
				next := k.waiting(t, b)
				release(t, first)
				held = next.End().OK()
			} else {
				held = k.acquire(t, b)
				time.Sleep(100 * time.Millisecond)
			}
			node := pathOf(held)
			require.NoError(t, s.Delete(node))
			lostBy(t, held, framework.ErrNodeDeleted)
			other, err := s.CreateNode(node, nil, zktest.Ephemeral, recipetest.Session(t, a))
			require.NoError(t, err)
			require.ErrorIs(t, held.Release(background), framework.ErrNodeDeleted)
			require.NoError(t, s.Delete(other), "the release has not removed what is not its own")
			k.clean(t, s)
		}
	})
}

// A lock that is dropped without Release is logged, with its path; it stays held. Not in a bubble: the garbage collector's
// cleanups run outside of it.
func TestForgottenRelease(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			s := zktest.RunT(t)
			var log recipetest.Log
			c := recipetest.Client(t, s, framework.WithLogger(log.Logger()))
			release(t, k.acquire(t, c))
			node := pathOf(k.acquire(t, c)) // dropped without a release
			require.Eventually(t, func() bool {
				runtime.GC()
				return strings.Contains(log.String(), node)
			}, 2*time.Minute, time.Millisecond)
			require.Equal(t, 1, strings.Count(log.String(), "without Release"), "the released one is not mentioned")
			_, try := k.rival().make(c, framework.SessionOnly)
			_, err := try(background)
			require.ErrorIs(t, err, mutex.ErrNotAcquired, "it is still held")

			// A lock whose session is closed or lost holds nothing: only the later ones are logged.
			require.NoError(t, s.DeleteAll(lockPath))
			closed := recipetest.Client(t, s, framework.WithLogger(log.Logger()))
			k.acquire(t, closed)
			require.NoError(t, closed.Close())
			lost := recipetest.Client(t, s, framework.WithLogger(log.Logger()))
			k.acquire(t, lost)
			session, err := lost.Session(t.Context())
			require.NoError(t, err)
			s.Expire(session.ID())
			<-session.Done()
			for range 5 {
				node := pathOf(k.acquire(t, c))
				require.Eventually(t, func() bool {
					runtime.GC()
					return strings.Contains(log.String(), node)
				}, 2*time.Minute, time.Millisecond)
				require.NoError(t, s.DeleteAll(lockPath))
			}
			require.Equal(t, 6, strings.Count(log.String(), "without Release"), log.String())
		})
	}
}

// used is a hold that lasts until the function called by a recipe returns.
type used struct {
	mutex.Held
	ctx   context.Context
	leave chan struct{} // closed by Release
	over  chan error    // the result of the call
}

func (u used) Context() context.Context { return u.ctx }

func (u used) Release(context.Context) error {
	close(u.leave)
	return <-u.over
}

// using adapts a recipe's call that runs a function during its hold.
func using(call func(ctx context.Context, f func(context.Context) error) error) acquireFunc {
	return func(ctx context.Context) (mutex.Held, error) {
		u, begun := used{leave: make(chan struct{}), over: make(chan error, 1)}, make(chan context.Context, 1)
		go func() {
			u.over <- call(ctx, func(ctx context.Context) error {
				begun <- ctx
				<-u.leave
				return nil
			})
		}()
		select {
		case u.ctx = <-begun:
			return u, nil
		case err := <-u.over:
			return nil, err
		}
	}
}

// slowKinds are recipes other than locks that wait for a hold, or try. Those that do not wait have no acquire, those that do not
// try have no try.
var slowKinds = []kind{
	{name: "claim", dirs: own, make: func(c *framework.Client, _ framework.LossPolicy) (_, try acquireFunc) {
		return nil, of(func(ctx context.Context) (*node.Claim, error) {
			return node.TryClaim(ctx, c, lockPath+"/claim", nil)
		})
	}},
	{name: "selector", dirs: own, make: func(c *framework.Client, _ framework.LossPolicy) (acquire, _ acquireFunc) {
		return using(func(ctx context.Context, f func(context.Context) error) error {
			return leader.NewSelector(c, lockPath, f).RunOnce(ctx)
		}), nil
	}},
	{name: "once", dirs: []string{lockPath + "/job/lock"}, make: func(
		c *framework.Client, _ framework.LossPolicy,
	) (acquire, _ acquireFunc) {
		jobs, slots := once.New(c, lockPath), 0
		return using(func(ctx context.Context, f func(context.Context) error) error {
			slots++
			_, err := jobs.Do(ctx, "job", once.Named(strconv.Itoa(slots)), func(ctx context.Context, _ once.Run) error {
				return f(ctx)
			})
			return err
		}), nil
	}},
	{name: "consumer", dirs: []string{lockPath + "/items"}, make: func(
		c *framework.Client, _ framework.LossPolicy,
	) (acquire, _ acquireFunc) {
		q := items.New(c, lockPath+"/items", items.WithLockPath(lockPath+"/taken"))
		put := cmp.Or(q.Put(background, []byte("first")), q.Put(background, []byte("second")))
		return using(func(ctx context.Context, f func(context.Context) error) error {
			if put != nil {
				return put
			}
			ctx, cancel := context.WithCancel(ctx)
			err := q.Consume(ctx, func(held context.Context, _ []byte) error {
				defer cancel()
				return f(held)
			})
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		}), nil
	}},
}

// If servers commit slowly for half a minute, no wait fails; a try returns ErrNotAcquired.
func TestSlowCommitsEndNoWaiter(t *testing.T) {
	const members = "server.1=a:2888:3888;2181\nserver.2=b:2888:3888;2181\nversion=0"
	story := func(k kind) {
		t.Run(k.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := some(t)
				cfg.EnsembleConfig = members
				s := zktest.RunT(t, cfg)
				a := recipetest.Client(t, s, framework.WithSessionTimeout(8*time.Second))
				acquire, try := k.make(a, framework.SessionOnly)
				first := acquire
				if first == nil {
					first = try
				}
				held, err := first(background)
				require.NoError(t, err)
				require.NoError(t, held.Release(background))
				var slow []*zktest.Injection
				for _, op := range []zktest.Op{"multi", "create2", "delete"} {
					slow = append(slow, s.Inject(zktest.Fault{
						Op: op, Times: -1, Action: zktest.DelayReply, Delay: 3 * time.Second,
					}))
				}
				time.Sleep(10 * time.Second)

				if try != nil {
					began := time.Now()
					_, err = try(background)
					require.ErrorIs(t, err, mutex.ErrNotAcquired)
					require.ErrorContains(t, err, "too long to commit")
					require.LessOrEqual(t, time.Since(began), 21*time.Second, "a session timeout for each node after its create")
				}
				if acquire == nil { // tries again, when the servers are faster
					acquire = func(ctx context.Context) (mutex.Held, error) {
						time.Sleep(35 * time.Second)
						return try(ctx)
					}
				}
				waits := recipetest.Begin(t, func() (mutex.Held, error) { return acquire(background) })
				time.Sleep(30 * time.Second)
				waits.Waits()
				for _, fault := range slow {
					fault.Remove()
				}
				time.Sleep(10 * time.Second)
				require.NoError(t, waits.OK().Release(background))
				recipetest.Clean(t, s, k.dirs...)
			})
		})
	}
	for _, k := range append(slices.Clone(kinds), slowKinds...) {
		story(k)
	}
}

// The caller's context, derived from another lock, ends with that lock's loss, while its own hold waits for a write: this is no
// loss of its own node, which is deleted.
func TestGivenUpByAnotherLoss(t *testing.T) {
	for _, k := range kinds {
		for _, waits := range []bool{true, false} {
			t.Run(k.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					cfg := some(t)
					cfg.EnsembleConfig = "server.1=a:2888:3888;2181\nserver.2=b:2888:3888;2181\nversion=0"
					s := zktest.RunT(t, cfg)
					c := recipetest.Client(t, s, framework.WithSessionTimeout(8*time.Second))
					acquire, how := k.make(c, framework.SessionOnly)
					if waits {
						how = acquire
					}
					release(t, k.acquire(t, recipetest.Client(t, s))) // creates the directories
					slow := zktest.Fault{Op: "create2", Times: -1, Action: zktest.DelayReply, Delay: 3 * time.Second}
					s.Inject(slow) // so that a hold needs a write before it begins
					time.Sleep(10 * time.Second)
					ctx, cancel := context.WithCancelCause(background)
					writing := s.Inject(zktest.Fault{Op: "multi", Session: recipetest.Session(t, c), Action: zktest.Hold})
					call := recipetest.Begin(t, func() (mutex.Held, error) { return how(ctx) })
					<-writing.Struck()
					cancel(framework.ErrNodeDeleted)
					require.ErrorIs(t, call.End().Err, context.Canceled)
					writing.Release()
					time.Sleep(30 * time.Second)
					k.clean(t, s)
				})
			})
		}
	}
}

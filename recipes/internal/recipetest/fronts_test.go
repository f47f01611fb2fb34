package recipetest_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/zktest"
)

// These stories test line.Front, with which the callers of one value share one node: in turn in a Cohort, at the same time as
// Readers. The recipes' own tests have only their options and the results of tries.

// front is a kind whose values contend with one node for all their callers.
type front struct {
	name     string
	together bool // callers hold at the same time
	make     func(c *framework.Client, o frontOptions) (acquire, try acquireFunc)
	rival    kind
}

// frontOptions are the options of the stories; by default they are the recipe's, with bounds large enough for a node to last.
type frontOptions struct {
	strict    bool // a lost connection is a loss
	revocable bool
	keeps     bool // keeps the node without a user, if the front can
	one       bool // only one turn, or one caller that joins
}

func (o frontOptions) turns() int {
	if o.one {
		return 1
	}
	return 10
}

func (o frontOptions) loss() framework.LossPolicy {
	if o.strict {
		return framework.SuspendedIsLoss
	}
	return framework.SessionOnly
}

var fronts = []front{
	{"cohort", false, func(c *framework.Client, o frontOptions) (acquire, try acquireFunc) {
		opts := []mutex.Option{mutex.WithLossPolicy(o.loss()), mutex.WithTurns(o.turns(), time.Hour)}
		if o.revocable {
			opts = append(opts, mutex.WithRevocation())
		}
		if o.keeps {
			opts = append(opts, mutex.WithKept(2*time.Hour))
		}
		m := mutex.NewCohort(c, lockPath, opts...)
		return of(m.Acquire), of(m.TryAcquire)
	}, kinds[0]},
	{"readers", true, func(c *framework.Client, o frontOptions) (acquire, try acquireFunc) {
		opts := []rwlock.Option{rwlock.WithLossPolicy(o.loss()), rwlock.WithJoins(o.turns(), 2*time.Hour)}
		if o.revocable {
			opts = append(opts, rwlock.WithRevocation())
		}
		r := rwlock.NewReaders(c, lockPath, opts...)
		return of(r.Acquire), of(r.TryAcquire)
	}, writers},
}

// frontStory runs play with each kind of front, in its own bubble.
func frontStory(t *testing.T, play func(t *testing.T, s *zktest.Server, f front)) {
	for _, f := range fronts {
		t.Run(f.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { play(t, zktest.RunT(t, some(t)), f) })
		})
	}
}

// take acquires, and must not wait.
func (a acquireFunc) take(t *testing.T) mutex.Held {
	t.Helper()
	held, err := a(background)
	require.NoError(t, err)
	require.True(t, held.Valid())
	return held
}

// begin starts an acquire on another goroutine.
func (a acquireFunc) begin(t *testing.T, ctx context.Context) *recipetest.Call[mutex.Held] {
	return recipetest.Begin(t, func() (mutex.Held, error) { return a(ctx) })
}

func contenders(t *testing.T, s *zktest.Server) []string {
	t.Helper()
	synctest.Wait()
	names, err := s.Children(lockPath)
	require.NoError(t, err)
	return names
}

func cleanLock(t *testing.T, s *zktest.Server, clients ...*framework.Client) {
	t.Helper()
	recipetest.Clean(t, s, own...)
	recipetest.Tidy(t, clients...)
}

// The session is lost, and so are the holds of all callers that share the node. Waiting and later callers get another node, in
// the next session.
func TestAFrontLosesItsSession(t *testing.T) {
	frontStory(t, func(t *testing.T, s *zktest.Server, f front) {
		c := recipetest.Client(t, s)
		acquire, _ := f.make(c, frontOptions{})
		all := []mutex.Held{acquire.take(t)}
		var line []*recipetest.Call[mutex.Held]
		for range 2 {
			if f.together {
				all = append(all, acquire.take(t))
			} else {
				line = append(line, acquire.begin(t, background).Waits())
			}
		}
		other := f.rival.waiting(t, recipetest.Client(t, s))
		s.Expire(recipetest.Session(t, c))
		for _, held := range all {
			lostBy(t, held, framework.ErrSessionLost)
			require.ErrorIs(t, held.(interface{ Lost() error }).Lost(), framework.ErrSessionLost)
		}
		lock := other.End().OK()
		_, err := acquire(all[0].Context())
		require.ErrorIs(t, err, framework.ErrSessionLost, "no re-entry into what is lost")
		line = append(line, acquire.begin(t, background))
		time.Sleep(time.Second)
		require.Len(t, contenders(t, s), 2, "they are in line again, with one node")
		require.ErrorIs(t, all[0].Release(background), framework.ErrSessionLost)
		release(t, lock)
		next := line[0].OK()
		require.NotEqual(t, pathOf(all[0]), pathOf(next))
		for _, old := range all[1:] {
			require.ErrorIs(t, old.Release(background), framework.ErrSessionLost)
		}
		require.True(t, next.Valid(), "the release of a former holder does not touch the next one")
		for _, call := range line[1:] {
			call.Waits()
			release(t, next)
			next = call.OK()
		}
		release(t, next)
		cleanLock(t, s)
	})
}

// An administrator deletes the node: the holds of all callers that share it are lost, and the next caller gets another.
func TestAFrontLosesItsNode(t *testing.T) {
	frontStory(t, func(t *testing.T, s *zktest.Server, f front) {
		acquire, _ := f.make(recipetest.Client(t, s), frontOptions{})
		all := []mutex.Held{acquire.take(t)}
		next := (*recipetest.Call[mutex.Held])(nil)
		if f.together {
			all = append(all, acquire.take(t))
		} else {
			next = acquire.begin(t, background).Waits()
		}
		time.Sleep(time.Second) // so that the hold watches its node
		require.NoError(t, s.Delete(pathOf(all[0])))
		for _, held := range all {
			lostBy(t, held, framework.ErrNodeDeleted)
		}
		if next == nil {
			next = acquire.begin(t, background)
		}
		held := next.End().OK()
		require.NotEqual(t, pathOf(all[0]), pathOf(held))
		for _, old := range all {
			require.ErrorIs(t, old.Release(background), framework.ErrNodeDeleted)
		}
		require.True(t, held.Valid())
		release(t, held)
		cleanLock(t, s)
	})
}

// Without a connection further callers may use the node as long as the session is certain; with framework.SuspendedIsLoss none
// may.
func TestAFrontWithoutAConnection(t *testing.T) {
	frontStory(t, func(t *testing.T, s *zktest.Server, f front) {
		c := recipetest.Client(t, s)
		acquire, _ := f.make(c, frontOptions{})
		first := acquire.take(t)
		next := acquire.begin(t, background)
		away := unreachable(s)
		s.Cut(recipetest.Session(t, c))
		time.Sleep(time.Second)
		if !f.together {
			next.Waits()
			release(t, first)
		}
		second := next.OK()
		require.Equal(t, pathOf(first), pathOf(second))
		time.Sleep(20 * time.Second)
		lostBy(t, second, framework.ErrSessionLost)
		third := acquire.begin(t, background).Waits()
		require.ErrorIs(t, second.Release(background), framework.ErrSessionLost)
		if f.together {
			require.ErrorIs(t, first.Release(background), framework.ErrSessionLost)
		}
		away.Remove()
		release(t, third.End().OK())

		strict, _ := f.make(c, frontOptions{strict: true})
		held := strict.take(t)
		away = unreachable(s)
		s.Cut(recipetest.Session(t, c))
		time.Sleep(time.Second)
		lostBy(t, held, framework.ErrSuspended)
		late := strict.begin(t, background).Waits()
		away.Remove()
		release(t, late.End().OK())
		require.ErrorIs(t, held.Release(background), framework.ErrSuspended)
		time.Sleep(time.Second)
		cleanLock(t, s)
	})
}

// If a caller's context ends, the others stay; if all contexts end, the node is deleted, and the next caller gets another.
func TestCallersOfAFrontGiveUp(t *testing.T) {
	frontStory(t, func(t *testing.T, s *zktest.Server, f front) {
		other := recipetest.Client(t, s)
		lock := f.rival.acquire(t, other)
		c := recipetest.Client(t, s)
		acquire, _ := f.make(c, frontOptions{})
		ctx, cancel := context.WithCancelCause(background)
		leaver, stays := acquire.begin(t, ctx).Waits(), acquire.begin(t, background).Waits()
		line := contenders(t, s)
		cancel(context.DeadlineExceeded)
		require.ErrorIs(t, leaver.End().Err, context.Canceled)
		require.ErrorIs(t, leaver.Err, context.DeadlineExceeded, "the cause")
		require.Equal(t, line, contenders(t, s), "the place in line is that of the others, too")
		release(t, lock)
		held := stays.OK()
		if !f.together {
			limited, cancel := context.WithTimeout(background, time.Second)
			defer cancel()
			_, err := acquire(limited)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		release(t, held)
		cleanLock(t, s)

		for _, late := range []bool{false, true} { // true: the next caller arrives after the node's delete
			lock = f.rival.acquire(t, other)
			ctx, cancel := context.WithCancel(background)
			all := []*recipetest.Call[mutex.Held]{}
			for range 3 {
				all = append(all, acquire.begin(t, ctx).Waits())
			}
			require.Len(t, contenders(t, s), 2)
			cancel()
			if late {
				require.Len(t, contenders(t, s), 1)
			}
			next := acquire.begin(t, background)
			for _, call := range all {
				require.ErrorIs(t, call.End().Err, context.Canceled)
			}
			next.Waits()
			require.Len(t, contenders(t, s), 2)
			release(t, lock)
			release(t, next.OK())
			cleanLock(t, s, c)
		}
	})
}

// The reply to each of the requests is lost: there is one node, and nothing is left.
func TestAFrontLosesAReply(t *testing.T) {
	for _, op := range []zktest.Op{"create2", "getChildren2", "delete"} {
		t.Run(string(op), func(t *testing.T) {
			frontStory(t, func(t *testing.T, s *zktest.Server, f front) {
				require.NoError(t, s.Create(lockPath, nil))
				c := recipetest.Client(t, s)
				acquire, _ := f.make(c, frontOptions{})
				s.Inject(zktest.Fault{
					Session: recipetest.Session(t, c), Op: op, PathPrefix: lockPath, Action: zktest.LoseReply,
				})
				calls := []*recipetest.Call[mutex.Held]{acquire.begin(t, background), nil}
				synctest.Wait() // so that it is the first in the local line
				calls[1] = acquire.begin(t, background)
				first := calls[0].End().OK()
				if !f.together {
					release(t, first)
				}
				second := calls[1].End().OK()
				if op != "delete" {
					require.Equal(t, pathOf(first), pathOf(second))
					require.Len(t, contenders(t, s), 1)
				}
				if f.together {
					release(t, first)
				}
				second.(inBackground).ReleaseInBackground()
				time.Sleep(30 * time.Second)
				cleanLock(t, s, c)
			})
		})
	}
}

// The client is closed: waiting callers get that error, and so do holders.
func TestAFrontOfAClosedClient(t *testing.T) {
	frontStory(t, func(t *testing.T, s *zktest.Server, f front) {
		other, c := recipetest.Client(t, s), recipetest.Client(t, s)
		acquire, try := f.make(c, frontOptions{})
		held := acquire.take(t)
		lock := f.rival.waiting(t, other)
		busy, _ := f.make(c, frontOptions{}) // waits behind the rival
		waiters := []*recipetest.Call[mutex.Held]{busy.begin(t, background).Waits(), busy.begin(t, background).Waits()}
		require.NoError(t, c.Close())
		for _, waiter := range waiters {
			require.ErrorIs(t, waiter.End().Err, framework.ErrClosed)
		}
		lostBy(t, held, framework.ErrClosed)
		require.ErrorIs(t, held.Release(background), framework.ErrClosed)
		release(t, lock.End().OK())
		for _, get := range []acquireFunc{acquire, try} {
			_, err := get(background)
			require.ErrorIs(t, err, framework.ErrClosed)
		}
		cleanLock(t, s)
	})
}

// With the view of a session no caller waits for a later session.
func TestAFrontOfASession(t *testing.T) {
	frontStory(t, func(t *testing.T, s *zktest.Server, f front) {
		in, err := recipetest.Client(t, s).Session(background)
		require.NoError(t, err)
		acquire, _ := f.make(in.Client(), frontOptions{})
		lock := f.rival.acquire(t, recipetest.Client(t, s))
		waiter := acquire.begin(t, background).Waits()
		s.Expire(in.ID())
		require.ErrorIs(t, waiter.End().Err, framework.ErrSessionLost)
		release(t, lock)
		_, err = acquire(background)
		require.ErrorIs(t, err, framework.ErrSessionLost)
		cleanLock(t, s)
	})
}

// A caller that re-enters holds until the last release, and sends nothing; also through another value, and when no other caller
// may use the node.
func TestAFrontIsReentered(t *testing.T) {
	frontStory(t, func(t *testing.T, s *zktest.Server, f front) {
		c := recipetest.Client(t, s)
		acquire, _ := f.make(c, frontOptions{one: true})
		_, try := f.make(c, frontOptions{})
		outer := acquire.take(t)
		if f.together {
			release(t, acquire.take(t))
		}
		other := f.rival.waiting(t, recipetest.Client(t, s))
		next := acquire.begin(t, background).Waits()
		s.ResetCounts()
		derived, cancel := context.WithCancel(outer.Context())
		defer cancel()
		inner, err := acquire(derived)
		require.NoError(t, err)
		third, err := try(inner.Context())
		require.NoError(t, err)
		require.Equal(t, pathOf(outer), pathOf(third))
		release(t, outer)
		require.False(t, outer.Valid())
		release(t, third)
		require.True(t, inner.Valid())
		require.NoError(t, inner.Context().Err())
		other.Waits()
		next.Waits()
		recipetest.Counts(t, s, "re-entry", map[string]int{})
		release(t, inner)
		require.ErrorIs(t, context.Cause(derived), framework.ErrReleased)
		lock := other.OK()

		// A hold that has ended is not entered again.
		limited, cancel := context.WithTimeout(context.WithoutCancel(outer.Context()), time.Second)
		defer cancel()
		_, err = acquire(limited)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, mutex.ErrSelfWait)
		release(t, lock)
		release(t, next.OK())
		cleanLock(t, s)
	})
}

// All callers that share the node get the request to release; the next caller gets another node, without a request.
func TestAFrontIsRevoked(t *testing.T) {
	frontStory(t, func(t *testing.T, s *zktest.Server, f front) {
		other := recipetest.Client(t, s)
		acquire, _ := f.make(recipetest.Client(t, s), frontOptions{revocable: true, keeps: true})
		asked := func(held mutex.Held) bool {
			return recipetest.Closed(held.(interface{ Revoked() <-chan struct{} }).Revoked())
		}
		all := []mutex.Held{acquire.take(t)}
		if f.together {
			all = append(all, acquire.take(t))
		}
		lock := f.rival.waiting(t, other)
		require.False(t, asked(all[0]))
		require.NoError(t, mutex.Revoke(background, other, pathOf(all[0])))
		for _, held := range all {
			require.True(t, asked(held))
			require.True(t, held.Valid(), "the holder decides when")
		}
		behind := acquire.begin(t, background).Waits()
		for _, held := range all {
			lock.Waits()
			release(t, held)
		}
		got := lock.OK()
		behind.Waits()
		release(t, got)
		next := behind.OK()
		require.False(t, asked(next), "another node")
		release(t, next)
		if !f.together {
			require.Len(t, contenders(t, s), 1, "kept")
			require.NoError(t, mutex.Revoke(background, other, pathOf(next)))
		}
		cleanLock(t, s)
	})
}

// If a hook ends its goroutine, waiting callers get an error, and nothing else breaks.
func TestAHookEndsAGoroutineOfAFront(t *testing.T) {
	frontStory(t, func(t *testing.T, s *zktest.Server, f front) {
		var strikes atomic.Bool
		strike := func() {
			if strikes.CompareAndSwap(true, false) {
				runtime.Goexit()
			}
		}
		with := func(hooks framework.Hooks) acquireFunc {
			acquire, _ := f.make(recipetest.Client(t, s, framework.WithHooks(hooks)), frontOptions{one: true})
			return acquire
		}
		for where, hooks := range map[string]framework.Hooks{
			"queue": {Queue: func(framework.Queue) { strike() }},
			"hold": {Hold: func(ctx context.Context, _ framework.HoldInfo) (context.Context, func(error)) {
				strike()
				return ctx, nil
			}},
		} {
			acquire := with(hooks)
			strikes.Store(true)
			_, err := acquire(background)
			require.ErrorContains(t, err, "did not return", where)
			require.False(t, strikes.Load(), where)
			release(t, acquire.take(t))
			cleanLock(t, s)
		}

		// At the end of a hold: the node is deleted all the same, and the next caller is granted.
		acquire := with(framework.Hooks{
			Hold: func(ctx context.Context, _ framework.HoldInfo) (context.Context, func(error)) {
				return ctx, func(error) { strike() }
			},
		})
		for _, last := range []func(mutex.Held){
			func(held mutex.Held) { _ = held.Release(background) },
			func(held mutex.Held) { held.(inBackground).ReleaseInBackground() },
		} {
			held := acquire.take(t)
			other := f.rival.waiting(t, recipetest.Client(t, s))
			next := (*recipetest.Call[mutex.Held])(nil)
			if !f.together {
				next = acquire.begin(t, background).Waits()
			}
			strikes.Store(true)
			go last(held) // does not return
			time.Sleep(time.Second)
			if f.together {
				next = acquire.begin(t, background)
			}
			next.Waits()
			release(t, other.OK())
			release(t, next.OK())
			cleanLock(t, s)
		}

		// At the end of an Acquire: no caller holds.
		acquire = with(framework.Hooks{
			Queue: func(framework.Queue) {},
			Acquire: func(ctx context.Context, _ framework.Acquisition) (context.Context, func(error)) {
				return ctx, func(error) { strike() }
			},
		})
		for _, joins := range []bool{false, f.together} {
			var held mutex.Held
			if joins {
				held = acquire.take(t)
			}
			strikes.Store(true)
			go func() { _, _ = acquire(background) }()
			time.Sleep(time.Second)
			if joins {
				release(t, held)
			}
			cleanLock(t, s)
		}
	})
}

// A context from a hook may call the value at any time: the Front holds no mutex while it calls the context. Here the first
// caller learns of the loss by the clock.
func TestAFrontAsksNoContextUnderItsLock(t *testing.T) {
	recipetest.NoDeadlock(t)
	frontStory(t, func(t *testing.T, s *zktest.Server, f front) {
		var acquire, try acquireFunc
		var armed atomic.Bool
		meddle := func() {
			if armed.CompareAndSwap(true, false) {
				if held, err := try(background); err == nil {
					held.(inBackground).ReleaseInBackground()
				}
			}
		}
		acquire, try = f.make(recipetest.Client(t, s, framework.WithHooks(framework.Hooks{
			Hold: func(ctx context.Context, _ framework.HoldInfo) (context.Context, func(error)) {
				ended, cancel := context.WithCancel(ctx)
				return recipetest.Meddler{Context: ended, Meddle: meddle}, func(error) { cancel() }
			},
		})), frontOptions{keeps: true})
		before := acquire.take(t)
		if !f.together {
			release(t, before) // the node is kept
		}
		time.Sleep(time.Millisecond)
		armed.Store(true)
		wire.Sleep(time.Hour)
		after := acquire.take(t)
		armed.Store(false)
		require.NotEqual(t, pathOf(before), pathOf(after))
		if f.together {
			require.ErrorIs(t, before.Release(background), framework.ErrSessionLost)
		}
		release(t, after)
	})
}

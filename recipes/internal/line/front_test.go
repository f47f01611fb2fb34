package line_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/recipes/internal/line"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/zktest"
)

// frontRig is a Front, and a server on which other clients can have a node before or behind the Front's node. The stories of
// all recipes with a Front are in recipes/internal/recipetest.
type frontRig struct {
	*lineRig
	l     *line.Line
	front *line.Front
}

// newFrontRig makes a Front of callers that take turns, or, without limits.Users, of readers.
func newFrontRig(t *testing.T, limits line.Limits, change ...func(*line.Line)) *frontRig {
	r := &frontRig{lineRig: newLineRig(t), front: &line.Front{}}
	r.l = &line.Line{Client: r.c, Dir: dir, Name: "lock-", Order: mutexOrder, Loss: framework.SessionOnly}
	if limits.Users == 0 {
		r.l.Name, r.l.Order = "__READ__", readOrder
	}
	for _, f := range change {
		f(r.l)
	}
	require.NoError(t, r.front.Init(r.l, limits, "front"))
	synctest.Wait()
	r.s.ResetCounts()
	return r
}

type turnCall = recipetest.Call[*line.Share]

func (r *frontRig) begin(ctx context.Context, try bool) *turnCall {
	return recipetest.Begin(r.t, func() (*line.Share, error) { return r.front.AcquireTurn(ctx, try) })
}

func (r *frontRig) call() *turnCall { return r.begin(context.Background(), false) }
func (r *frontRig) try() *turnCall  { return r.begin(context.Background(), true) }

// endInBackground ends a turn, and waits for the callback.
func (r *frontRig) endInBackground(turn *line.Share) {
	r.t.Helper()
	ended := make(chan error, 1)
	line.ReleaseInBackground(turn, func(_ string, err error) error { return err }, []func(error){func(err error) { ended <- err }})
	require.False(r.t, recipetest.Pending(ended))
	require.NoError(r.t, <-ended)
}

// end ends turns.
func (r *frontRig) end(turns ...*line.Share) {
	r.t.Helper()
	for _, turn := range turns {
		require.NoError(r.t, line.Release(context.Background(), turn))
	}
}

// other starts an acquire with another client's node, behind which the Front's readers have to wait.
func (r *frontRig) other() *recipetest.Call[*line.Grant] {
	l := &line.Line{Client: recipetest.Client(r.t, r.s), Dir: dir, Name: "lock-", Order: mutexOrder, Loss: framework.SessionOnly}
	if r.l.Name != l.Name {
		l.Name, l.Order = "__WRIT__", writeOrder
	}
	call := recipetest.Begin(r.t, func() (*line.Grant, error) { return l.Acquire(context.Background()) })
	synctest.Wait()
	r.s.ResetCounts()
	return call
}

func (r *frontRig) requests(want map[string]int, what string) {
	r.t.Helper()
	recipetest.Counts(r.t, r.s, what, want)
}

// nodes is the number of nodes in line.
func (r *frontRig) nodes() int {
	r.t.Helper()
	return len(nodes(r.t, r.s, []string{dir}))
}

var (
	aLook    = map[string]int{"sync": 1, "getChildren2": 1}
	aGrant   = map[string]int{"create2": 1, "getChildren2": 1}
	aRelease = map[string]int{"delete": 1}
	nothing  = map[string]int{}
)

// The callers use one node, one after the other, in the order of their calls. After the last of its turns the node is deleted.
func TestCallersThatTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFrontRig(t, line.Limits{Users: 1, Turns: 3, Period: time.Hour})
		first := r.call().OK()
		r.requests(aGrant, "the first")
		ctx, cancel := context.WithCancel(first.Context())
		leaver, second, third, fourth := r.begin(ctx, false).Waits(), r.call().Waits(), r.call().Waits(), r.call().Waits()
		require.ErrorContains(t, r.try().End().Err, "a goroutine of this process has the lock")
		cancel()
		require.ErrorIs(t, leaver.End().Err, context.Canceled)
		require.ErrorIs(t, leaver.Err, line.ErrSelfWait)
		r.end(first)
		require.ErrorIs(t, line.Release(t.Context(), first), framework.ErrReleased)
		second.OK()
		third.Waits()
		r.end(second.OK())
		require.Equal(t, first.Node(), third.OK().Node())
		fourth.Waits()
		r.requests(nothing, "turns")
		deletes := r.s.Inject(zktest.Fault{Op: "delete", Action: zktest.HoldReply})
		r.end(third.OK()) // does not wait for the reply, since callers wait
		deletes.Release()
		require.NotEqual(t, first.Node(), fourth.OK().Node())
		r.requests(map[string]int{"create2": 1, "getChildren2": 1, "delete": 1}, "another node")
		deletes = r.s.Inject(zktest.Fault{Op: "delete", Action: zktest.HoldReply})
		last := recipetest.Begin(t, func() (any, error) { return nil, line.Release(t.Context(), fourth.Value) }).Waits()
		deletes.Release()
		last.OK()
		recipetest.Clean(t, r.s, dir)

		// The contexts of all waiting callers end: the node is deleted, and the next caller gets another.
		holder := r.other().OK()
		ctx, cancel = context.WithCancel(t.Context())
		for range 2 {
			leaver = r.begin(ctx, false).Waits()
		}
		require.Equal(t, 2, r.nodes())
		cancel()
		require.ErrorIs(t, leaver.End().Err, context.Canceled)
		require.Equal(t, 1, r.nodes())
		next := r.call().Waits()
		r.release(holder)
		r.endInBackground(next.OK())
		recipetest.Clean(t, r.s, dir)
	})
}

// A reader joins the others' node, until its turns or its period are over. A try that would have to wait for a writer is refused.
func TestCallersThatReadTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFrontRig(t, line.Limits{Turns: 2, Period: time.Second})
		first := r.call().OK()
		second := r.try().OK()
		require.Equal(t, first.Node(), second.Node())
		r.requests(aGrant, "one node for both")
		r.end(first)
		require.True(t, second.Valid())
		r.requests(nothing, "the other still reads")
		time.Sleep(time.Second)
		late := r.call().OK()
		require.NotEqual(t, second.Node(), late.Node(), "the period is over")
		require.Equal(t, 2, r.nodes())
		r.end(second, late)
		recipetest.Clean(t, r.s, dir)

		writer := r.other().OK()
		_, err := r.try().Returned()
		require.ErrorIs(t, err, line.ErrNotAcquired)
		r.requests(aLook, "a try behind a writer")
		creates := r.s.Inject(zktest.Fault{Op: "create2", Action: zktest.Hold})
		waiters := []*turnCall{r.call().Waits(), r.call().Waits()}
		try := r.try().Waits() // for the first list of the node
		creates.Release()
		_, err = try.Returned()
		require.ErrorIs(t, err, line.ErrNotAcquired)
		waiters[0].Waits()
		r.s.ResetCounts()
		_, err = r.try().Returned()
		require.ErrorIs(t, err, line.ErrNotAcquired)
		require.ErrorContains(t, err, writer.Name)
		r.requests(nothing, "a try while others of the process wait")
		r.release(writer)
		r.endInBackground(waiters[0].OK())
		require.True(t, waiters[1].OK().Valid())
		r.requests(map[string]int{"delete": 1, "getChildren2": 1}, "the writer's delete and the readers' list")

		// The last user of a node waits for the delete, also if other callers wait behind a writer.
		time.Sleep(time.Second)
		behind := r.other().Waits()
		next := r.call().Waits()
		deletes := r.s.Inject(zktest.Fault{Op: "delete", Action: zktest.HoldReply})
		last := recipetest.Begin(t, func() (any, error) { return nil, line.Release(t.Context(), waiters[1].Value) }).Waits()
		r.release(behind.OK())
		last.Waits()
		deletes.Release()
		last.OK()
		r.endInBackground(next.OK())
		recipetest.Clean(t, r.s, dir)
	})
}

// A list refuses the tries that came before it. Later ones cause another list, since this one may be older; and callers that wait
// do not get the errors of tries.
func TestTriesThatComeDuringAList(t *testing.T) {
	for _, users := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			r := newFrontRig(t, line.Limits{Users: users})
			holder := r.other().OK()
			lists := r.s.Inject(zktest.Fault{Op: "getChildren2", Times: 1, Action: zktest.Hold})
			first := r.try()
			<-lists.Struck()
			later := r.try()
			if users == 0 {
				later.Waits()
			} else {
				require.ErrorIs(t, later.End().Err, line.ErrNotAcquired, "another caller is ahead")
			}
			waits := r.call().Waits()
			r.s.ResetCounts()
			lists.Release()
			require.ErrorIs(t, first.End().Err, line.ErrNotAcquired)
			require.ErrorIs(t, later.End().Err, line.ErrNotAcquired)
			waits.Waits()
			require.Equal(t, 1-users, r.s.Counts()["sync"], "a list for the later try")
			r.release(holder)
			r.end(waits.OK())
			recipetest.Clean(t, r.s, dir)
		})
	}
}

// A failure to acquire is the error of all callers, and the next one tries again.
func TestCallersOfANodeThatIsRefused(t *testing.T) {
	for _, users := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			r := newFrontRig(t, line.Limits{Users: users})
			creates := r.s.Inject(zktest.Fault{Op: "create2", Action: zktest.Hold})
			calls := []*turnCall{r.call().Waits(), r.call().Waits()}
			<-creates.Struck()
			refused := r.s.Inject(zktest.Fault{Op: "getChildren2", Action: zktest.ReplyError, Err: zktest.ErrNoAuth, Times: -1})
			creates.Release()
			for _, call := range calls {
				require.ErrorIs(t, call.End().Err, framework.ErrNoAuth)
			}
			refused.Remove()
			r.end(r.call().OK())
			recipetest.Clean(t, r.s, dir)

			holder := r.other().OK()
			waiter := r.call().Waits()
			require.NoError(t, r.c.Close())
			require.ErrorIs(t, waiter.End().Err, framework.ErrClosed)
			require.ErrorIs(t, r.call().End().Err, framework.ErrClosed)
			r.release(holder)
		})
	}
}

// On a kept node turns need no requests, until the node was not used for the idle time, or another contender comes.
func TestANodeThatIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFrontRig(t, line.Limits{Users: 1, Turns: 2, Period: time.Hour, Idle: time.Minute})
		r.end(r.call().OK())
		r.requests(map[string]int{"create2": 1, "getChildren2": 2}, "acquired, and the directory watched")
		time.Sleep(time.Second)
		r.s.ResetCounts() // the holder's read of its node
		for range 3 {
			time.Sleep(50 * time.Second)
			r.end(r.try().OK())
		}
		r.requests(nothing, "turns on a kept node")
		time.Sleep(time.Minute - 1)
		require.Equal(t, 1, r.nodes())
		time.Sleep(time.Nanosecond)
		require.Equal(t, 0, r.nodes(), "the idle time is over")
		r.requests(aRelease, "the delete")
		recipetest.Clean(t, r.s, dir)

		turn := r.call().OK()
		time.Sleep(time.Hour)
		require.True(t, turn.Valid(), "a turn may be longer")
		r.end(turn)
		require.Equal(t, 1, r.nodes())
		r.release(r.other().OK()) // so that the Front deletes its node immediately
		recipetest.Clean(t, r.s, dir)

		turn = r.call().OK()
		time.Sleep(time.Second)
		next, other := r.call().Waits(), r.other().Waits()
		r.end(turn)
		turn = next.OK()
		other.Waits()
		next = r.call().Waits()
		r.end(turn)
		r.release(other.OK()) // after two turns
		r.end(next.OK())
		require.Equal(t, 1, r.nodes())

		for _, op := range []string{"multi", "delete"} {
			r.s.Inject(zktest.Fault{Op: op, Action: zktest.ReplyError, Err: zktest.ErrNoAuth, Times: -1})
		}
		time.Sleep(time.Minute)
		require.Equal(t, 1, r.nodes(), "the delete is refused")
		for _, watch := range r.s.Watches() {
			require.NotEqual(t, dir, watch.Path)
		}
	})
}

// After a reconnect, or a sleep of the machine, a kept node is not used before the client is certain of it.
func TestANodeThatIsKeptThroughAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFrontRig(t, line.Limits{Users: 1, Idle: time.Hour})
		turn := r.call().OK()
		r.end(turn)
		time.Sleep(time.Second)
		recipetest.Cut(t, r.s, r.c)
		time.Sleep(time.Second)
		r.s.ResetCounts()
		lists := r.s.Inject(zktest.Fault{Op: "getChildren2", Action: zktest.Hold})
		next := r.call()
		<-lists.Struck()
		next.Waits()
		lists.Release()
		require.Equal(t, turn.Node(), next.End().OK().Node())
		require.Equal(t, 1, r.s.Counts()["getChildren2"])
		r.end(next.OK())
		r.s.ResetCounts()
		r.end(r.call().OK())
		r.requests(nothing, "once more")

		recipetest.Cut(t, r.s, r.c)
		time.Sleep(time.Second)
		lists = r.s.Inject(zktest.Fault{Op: "getChildren2", Action: zktest.ReplyError, Err: zktest.ErrNoAuth})
		other := r.call().End().OK()
		require.NotEqual(t, turn.Node(), other.Node(), "a node is not kept if the directory cannot be watched")
		lists.Remove()
		r.end(other)

		time.Sleep(time.Second)
		wire.Sleep(time.Hour)
		next = r.call()
		require.NotEqual(t, other.Node(), next.End().OK().Node())
		turn = next.Value
		wire.Sleep(time.Hour)
		require.Error(t, turn.Context().Err(), "by the clock")
		require.ErrorIs(t, line.Release(t.Context(), turn), framework.ErrSessionLost)
	})
}

// A client asks for the release of a node: a kept one is deleted immediately, and one in use after the turn.
func TestANodeThatIsAskedFor(t *testing.T) {
	for _, limits := range []line.Limits{{Users: 1, Idle: time.Hour}, {}} {
		synctest.Test(t, func(t *testing.T) {
			r := newFrontRig(t, limits, (*line.Line).MakeRevocable)
			revoke := func(turn *line.Share) {
				require.NoError(t, line.Revoke(t.Context(), r.c, turn.Path()))
				synctest.Wait()
			}
			turn := r.call().OK()
			revoke(turn)
			require.True(t, recipetest.Closed(line.Revoked(turn)))
			require.True(t, turn.Valid())
			next := r.call()
			if limits.Users == 0 {
				require.NotEqual(t, turn.Node(), next.OK().Node(), "no reader joins")
			} else {
				next.Waits()
			}
			r.end(turn)
			require.NotEqual(t, turn.Node(), next.OK().Node())
			r.end(next.OK())
			if limits.Users == 1 {
				require.Equal(t, 1, r.nodes())
				revoke(next.OK())
			}
			recipetest.Clean(t, r.s, dir)
		})
	}
}

// A hold is lost in a session that continues: its user has time to stop, or releases, before the node is deleted.
func TestANodeThatIsLostDuringATurn(t *testing.T) {
	for _, released := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newFrontRig(t, line.Limits{Users: 1}, func(l *line.Line) { l.Loss = framework.SuspendedIsLoss })
			turn := r.call().OK()
			time.Sleep(time.Second)
			recipetest.Cut(t, r.s, r.c)
			<-turn.Context().Done()
			began := time.Now()
			next, other := r.call(), r.other().Waits()
			least := time.Second
			stop := func() { require.ErrorIs(t, line.Release(t.Context(), turn), framework.ErrSuspended) }
			if released {
				least = 300 * time.Millisecond
				time.Sleep(least)
				stop()
			} else {
				defer stop()
			}
			grant := other.End().OK()
			require.GreaterOrEqual(t, time.Since(began), least)
			require.Less(t, time.Since(began), least+100*time.Millisecond)
			next.Waits()
			r.release(grant)
			r.end(next.OK())
			recipetest.Clean(t, r.s, dir)
		})
	}
}

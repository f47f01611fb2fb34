package assignment_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/assignment"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/zktest"
)

// Members join and leave: their items, the nodes, and the time it takes.
func TestJoinAndLeave(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		a := w.start("a", numbers(4), nil)
		w.after(settle, "1=a 2=a 3=a 4=a")
		b := w.start("b", numbers(4), nil)
		w.after(settle, "1=a 2=a 3=b 4=b")
		require.Equal(t, []error{assignment.ErrMoved, assignment.ErrMoved}, a.ended)

		tree := w.s.Tree()
		require.Equal(t, `{"owners":{"a":["1","2"],"b":["3","4"]}}`, string(tree[members].Data))
		require.Equal(t, zktest.Persistent, tree[members].Mode)
		require.Equal(t, `{"weight":1}`, string(tree[members+"/a"].Data))
		require.Equal(t, zktest.Ephemeral, tree[members+"/a"].Mode)
		require.Equal(t, zktest.Container, tree[items+"/1"].Mode)
		locks, err := w.s.Children(items + "/1")
		require.NoError(t, err)
		require.Len(t, locks, 1)
		require.Regexp(t, "^_c_[0-9a-f-]{36}-lock-[0-9]{10}$", locks[0])
		require.Equal(t, "a", string(tree[items+"/1/"+locks[0]].Data))
		plan, err := b.a.Plan(background)
		require.NoError(t, err)
		require.Equal(t, map[string]string{"1": "a", "2": "a", "3": "b", "4": "b"}, plan)

		one := w.item("1")
		require.True(t, one.item.Valid())
		require.Positive(t, one.item.Remaining())
		_, err = a.c.Transaction(background, one.item.Guard())
		require.NoError(t, err)
		a.leave()
		require.False(t, one.item.Valid())
		require.Zero(t, one.item.Remaining())
		_, err = b.c.Transaction(background, one.item.Guard())
		require.ErrorIs(t, err, framework.ErrNoNode)
		w.after(settle, "1=b 2=b 3=b 4=b")
		b.leave()
		w.clean(numbers(4)...)
		recipetest.Tidy(t, a.c, b.c)
		require.True(t, w.s.Exists(members), "the plan stays")
	})
}

// At rest a member sends only an exists per session timeout. The test also counts the requests of a join, a move and a leave.
func TestTraffic(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		list := numbers(6)
		w.start("a", list, func(ctx context.Context, _ assignment.Item) error {
			<-ctx.Done()
			time.Sleep(10 * time.Millisecond) // so that the next owner waits for it
			return nil
		})
		time.Sleep(time.Second)
		b := w.start("b", list, nil)
		time.Sleep(10 * time.Second) // all locks have existed once, and all watches are armed
		b.leave()
		time.Sleep(10 * time.Second)
		w.s.ResetCounts()
		time.Sleep(10 * time.Minute)
		at := w.s.Counts()
		looks := at["exists"]
		require.Equal(t, looks, recipetest.Sum(at), "%v", at)
		require.InDelta(t, 60, looks, 15, "one member, one look per session timeout of ten seconds")

		w.s.ResetCounts()
		b.begin("b", nil)
		time.Sleep(5 * time.Second)
		assert.Equal(t, "1=a 2=a 3=a 4=b 5=b 6=b", w.owners())
		at = w.s.Counts()
		assert.LessOrEqual(t, at["exists"], 3, "the watch of its own node, and looks after a session timeout")
		delete(at, "exists")
		delete(at, "ping")
		require.Equal(t, map[zktest.Op]int{
			"create2": 2 + 3, "addWatch": 1, // the directory, its node, three locks
			"multiRead": 3 + 1 + 2, // its reads at the start; the other member's after the join; both members' of the plan
			"setData":   1,         // the plan
			// Each lock is listed once; its waiter watches its predecessor's node, and its own. The members are listed before the plan is
			// written.
			"getChildren2": 3 + 1, "getData": 3, "setWatches": 3, "delete": 3,
		}, at)
	})
}

// A disconnected member's holds are lost before another member gets its items; after its reconnect it has items again.
func TestCutOff(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		a := w.start("a", numbers(2), nil)
		time.Sleep(time.Second)
		w.start("b", numbers(2), nil)
		w.after(settle, "1=a 2=b")
		first := w.item("1")
		blind := w.s.Inject(zktest.Fault{Op: "connect", Times: -1, Action: zktest.CutBefore})
		w.s.BlackHole(recipetest.Session(t, a.c), zktest.Both)
		<-first.ctx.Done() // world fails if b has it at the same time
		require.ErrorIs(t, context.Cause(first.ctx), framework.ErrSessionLost)
		require.False(t, first.item.Valid())
		time.Sleep(10*time.Second + 2*settle)
		require.Equal(t, "1=b 2=b", w.owners())
		blind.Remove()
		time.Sleep(10*time.Second + 2*settle)
		require.Equal(t, "1=a 2=b", sortedOwners(w))
	})
}

// sortedOwners returns "1=a 2=b" if a and b have one item each, in either order, and otherwise the owners.
func sortedOwners(w *world) string {
	if got := w.owners(); got != "1=b 2=a" {
		return got
	}
	return "1=a 2=b"
}

// The first member, which should write the plan, loses its network: the next one writes it a settle time later, while the first
// one's session lives.
func TestTheFirstDoesNotWrite(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		a := w.start("a", numbers(2), nil)
		time.Sleep(time.Second)
		w.start("b", numbers(2), nil)
		w.after(settle, "1=a 2=b")
		id := recipetest.Session(t, a.c)
		w.s.Inject(zktest.Fault{Op: "connect", Session: id, Times: -1, Action: zktest.CutBefore})
		w.s.BlackHole(id, zktest.Both)
		w.start("c", numbers(2), nil, assignment.WithWeight(4))
		w.after(2*settle, "1=a 2=c")
	})
}

// The session expires: the member's items continue in its next session, or move to another member.
func TestExpiry(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		a := w.start("a", numbers(2), nil)
		time.Sleep(time.Second)
		w.s.Expire(recipetest.Session(t, a.c))
		time.Sleep(2 * time.Second)
		require.Equal(t, "1=a 2=a", w.owners())
		require.Len(t, a.ended, 2)
		require.ErrorIs(t, a.ended[0], framework.ErrSessionLost)
	})
}

// An outage in which no session expires changes nothing. If a member leaves during an outage, its items move after it.
func TestOutage(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		a := w.start("a", numbers(2), nil)
		time.Sleep(time.Second)
		b := w.start("b", numbers(2), nil)
		w.after(settle, "1=a 2=b")
		w.s.Stop()
		time.Sleep(3 * time.Second)
		require.Equal(t, "1=a 2=b", w.owners())
		require.NoError(t, w.s.Start())
		time.Sleep(5 * time.Second)
		require.Equal(t, "1=a 2=b", w.owners())
		require.Equal(t, 3, w.moves())
		w.s.Stop()
		time.Sleep(time.Second)
		b.leave()
		require.Equal(t, "1=a", w.owners())
		require.NoError(t, w.s.Start())
		time.Sleep(10 * time.Second)
		require.Equal(t, "1=a 2=a", w.owners())
		a.leave()
		w.clean(numbers(2)...)
	})
}

// A member hangs, with its clock and timers; the test's functions do not return. Its items stay until they return, or until its
// session ends.
func TestHang(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		free := make(chan struct{})
		hangs := func(ctx context.Context, item assignment.Item) error {
			<-free
			if context.Cause(ctx) == assignment.ErrMoved { // until now it was this member's
				assert.NoError(t, item.Context().Err())
				assert.True(t, item.Valid())
			}
			return ctx.Err()
		}
		a := w.start("a", numbers(2), hangs)
		time.Sleep(time.Second)
		b := w.start("b", numbers(2), nil)
		time.Sleep(time.Hour)
		require.Equal(t, "1=a", w.owners(), "2 is to be b's, and a does not let it go")
		free <- struct{}{} // for one of the two
		free <- struct{}{}
		time.Sleep(time.Second)
		require.Equal(t, "1=a 2=b", w.owners())

		had := w.item("1")
		a.stop()
		a.run.Waits()
		time.Sleep(time.Hour)
		require.Equal(t, "2=b", w.owners(), "Run does not return, and a keeps 1")
		go a.c.Close()
		time.Sleep(time.Second)
		require.Equal(t, "1=b 2=b", w.owners())
		a.run.Waits()
		require.ErrorIs(t, context.Cause(had.item.Context()), framework.ErrClosed)
		close(free)
		_, err := a.run.Returned()
		require.ErrorIs(t, err, context.Canceled)
		b.leave()
	})
}

// If the function returns it is called again, with growing pauses, and the item does not move.
func TestTheFunctionReturns(t *testing.T) {
	for name, end := range map[string]func() error{
		"nil":    func() error { return nil },
		"error":  func() error { return errWork },
		"goexit": func() error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, w *world) {
				times := make(chan time.Time, 1000)
				w.start("a", numbers(1), func(context.Context, assignment.Item) error {
					times <- time.Now()
					return end()
				})
				time.Sleep(time.Millisecond)
				w.start("b", numbers(1), nil)
				time.Sleep(10 * time.Minute)
				n := len(times)
				require.InDelta(t, 85, n, 20, "every 5 to 10 seconds in the end")
				first, second := <-times, <-times
				require.LessOrEqual(t, second.Sub(first), 100*time.Millisecond)
				require.Empty(t, w.owners())
			})
		})
	}
}

// A function that has worked for long is called again soon after a failure, however many failures came before.
func TestTheFunctionFailsAfterLongWork(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		const quick = 10 // calls that fail immediately, with growing pauses
		var began, ended []time.Time
		p := w.start("a", numbers(1), func(ctx context.Context, _ assignment.Item) error {
			if began = append(began, time.Now()); len(began) > quick {
				time.Sleep(2 * time.Minute)
			}
			ended = append(ended, time.Now())
			return errWork
		})
		time.Sleep(10 * time.Minute)
		p.stop()
		<-p.run.Done
		require.Greater(t, len(began), quick+2)
		require.Greater(t, began[quick].Sub(ended[quick-1]), time.Second)
		for n := quick + 1; n < len(began); n++ {
			require.Less(t, began[n].Sub(ended[n-1]), 200*time.Millisecond, "call %d", n)
		}
	})
}

// A new list of items is for all members, whichever member has set it, and is set only once.
func TestSetItems(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		a := w.start("a", numbers(2), nil)
		time.Sleep(time.Second)
		b := w.start("b", nil, nil)
		w.after(settle, "1=a 2=b")
		moves := w.moves()
		require.NoError(t, b.a.SetItems(background, []string{"4", "2", "3", "1", "3"}))
		time.Sleep(time.Millisecond)
		require.Equal(t, "1=a 2=b 3=a 4=b", w.owners())
		require.Equal(t, moves+2, w.moves())
		require.NoError(t, a.a.SetItems(background, []string{"2", "4"}))
		time.Sleep(time.Second)
		require.Equal(t, "2=a 4=b", sorted24(w))
		// A member that joins with another list sets it once, and the others do not set theirs again.
		c := w.start("c", []string{"2", "4", "x"}, nil)
		time.Sleep(5 * time.Second)
		plan, err := a.a.Plan(background)
		require.NoError(t, err)
		require.Len(t, plan, 3)
		require.Equal(t, "c", plan["x"])
		w.s.Expire(recipetest.Session(t, a.c))
		c.leave()
		time.Sleep(5 * time.Second)
		plan, err = b.a.Plan(background)
		require.NoError(t, err)
		require.Len(t, plan, 3)
		require.NoError(t, a.a.SetItems(background, nil))
		time.Sleep(time.Millisecond)
		require.Empty(t, w.owners())
	})
}

func sorted24(w *world) string {
	if got := w.owners(); got != "2=b 4=a" {
		return got
	}
	return "2=a 4=b"
}

// SetItems without Run, with a Run that ends, across an outage, and with a list that is too long.
func TestSetItemsThatWaits(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		var tooMany []string
		for _, n := range numbers(6000) {
			tooMany = append(tooMany, strings.Repeat("x", 200)+n)
		}
		p := &process{w: w, c: recipetest.Client(t, w.s)}
		p.begin("a", numbers(1))
		w.after(settle, "1=a")
		w.s.Stop()
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		require.ErrorIs(t, p.a.SetItems(ctx, numbers(2)), context.DeadlineExceeded)
		set := recipetest.Begin(t, func() (int, error) { return 0, p.a.SetItems(background, numbers(3)) }).Waits()
		require.NoError(t, w.s.Start())
		require.NoError(t, set.End().Err)
		time.Sleep(time.Millisecond)
		require.Equal(t, "1=a 2=a 3=a", w.owners())

		require.ErrorIs(t, p.a.SetItems(background, tooMany), framework.ErrTooLarge)
		time.Sleep(time.Second)
		require.Equal(t, "1=a 2=a 3=a", w.owners(), "the list stays")

		w.s.Stop()
		set = recipetest.Begin(t, func() (int, error) { return 0, p.a.SetItems(background, numbers(4)) }).Waits()
		p.leave()
		require.ErrorIs(t, set.End().Err, assignment.ErrNotRunning)
		require.NoError(t, w.s.Start())

		before := assignment.New(p.c, "/other", numbers(1), assignment.WithID("a"))
		require.NoError(t, before.SetItems(background, tooMany))
		require.ErrorIs(t, before.Run(background, p.has), framework.ErrTooLarge)
	})
}

// A SetItems that is followed by another of the same member returns together with it.
func TestSetItemsThatIsOvertaken(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		a := w.start("a", numbers(1), nil)
		w.after(settle, "1=a")
		first := recipetest.Begin(t, func() (int, error) { return 0, a.a.SetItems(background, numbers(2)) }).Waits()
		require.NoError(t, a.a.SetItems(background, numbers(3)))
		first.OK()
		w.after(time.Millisecond, "1=a 2=a 3=a")
	})
}

// Weights at the start, and changed; with 0 a member's items move to others.
func TestWeights(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		a := w.start("a", numbers(4), nil)
		time.Sleep(time.Second)
		b := w.start("b", nil, nil, assignment.WithWeight(3))
		w.after(settle, "1=a 2=b 3=b 4=b")
		require.NoError(t, b.a.SetWeight(background, 1))
		w.after(settle, "1=a 2=b 3=b 4=a")
		require.NoError(t, a.a.SetWeight(background, 0))
		w.after(settle, "1=b 2=b 3=b 4=b")
		require.NoError(t, b.a.SetWeight(background, 0))
		w.after(settle, "")
		plan, err := a.a.Plan(background)
		require.NoError(t, err)
		require.Equal(t, map[string]string{"1": "", "2": "", "3": "", "4": ""}, plan)
		w.s.Expire(recipetest.Session(t, a.c))
		require.NoError(t, b.a.SetWeight(background, 1))
		w.after(settle, "1=b 2=b 3=b 4=b")
	})
}

// The plan is deleted or overwritten, or a member's node is deleted: no member loses an item.
func TestMeddling(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		a := w.start("a", numbers(2), nil)
		time.Sleep(time.Second)
		w.start("b", nil, nil)
		w.after(settle, "1=a 2=b")
		moves := w.moves()
		same := func(what string) {
			t.Helper()
			time.Sleep(5 * time.Second)
			plan, err := a.a.Plan(background)
			require.NoError(t, err, what)
			require.Equal(t, map[string]string{"1": "a", "2": "b"}, plan, what)
			require.Equal(t, "1=a 2=b", w.owners(), what)
			require.Equal(t, moves, w.moves(), what)
		}
		require.NoError(t, w.s.Set(members, []byte("something else")))
		plan, err := a.a.Plan(background)
		require.ErrorIs(t, err, assignment.ErrBadPlan)
		require.Nil(t, plan)
		same("overwritten")
		require.NoError(t, w.s.Set(members, nil))
		same("emptied")
		require.NoError(t, w.s.Delete(members+"/b"))
		same("a member's node")
		require.NoError(t, w.s.DeleteAll(members))
		same("the whole directory")
		require.NoError(t, w.s.Create(members+"/stranger", []byte(`{"weight":9}`)))
		same("a node of no session")
		require.NoError(t, w.s.Set(members, []byte(`{"owners":{"who":["1"],"b":["2"]}}`)))
		time.Sleep(5 * time.Second)
		require.Equal(t, "1=a 2=b", w.owners(), "given to nobody, and shared again")
		// If the lock's node is deleted the hold is lost, and the item is acquired again.
		locks, err := w.s.Children(items + "/1")
		require.NoError(t, err)
		require.NoError(t, w.s.Delete(items+"/1/"+locks[0]))
		time.Sleep(time.Second)
		require.Equal(t, "1=a 2=b", w.owners())
		require.ErrorIs(t, a.ended[len(a.ended)-1], framework.ErrNodeDeleted)
	})
}

// The holder of an item's lock has the item, member or not: it may be a Curator mutex.
func TestAStrangerHasTheLock(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		c := recipetest.Client(t, w.s)
		lock, err := c.Create().CreatingParentsIfNeeded().WithMode(framework.EphemeralSequential).
			ForPath(background, items+"/1/lock-", nil)
		require.NoError(t, err)
		w.start("a", numbers(2), nil)
		time.Sleep(time.Hour)
		require.Equal(t, "2=a", w.owners())
		require.NoError(t, c.Delete().ForPath(background, lock))
		synctest.Wait()
		require.Equal(t, "1=a 2=a", w.owners())
	})
}

// A process that restarts with its ID within the settle time keeps its items.
func TestBackInTime(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		a := w.start("a", numbers(2), nil)
		time.Sleep(time.Second)
		w.start("b", nil, nil)
		w.after(settle, "1=a 2=b")
		_, stat, err := w.s.Get(members)
		require.NoError(t, err)
		a.leave()
		time.Sleep(settle / 2)
		a.begin("a", nil)
		time.Sleep(5 * time.Second)
		require.Equal(t, "1=a 2=b", w.owners())
		_, again, err := w.s.Get(members)
		require.NoError(t, err)
		require.Equal(t, stat.Version, again.Version, "the plan was not written")
	})
}

// The same if the member that writes the plan has seen the process leave, and gets no events after that:
//
//  1. b leaves, and a sees that.
//  2. a's connection becomes silent, and b restarts.
//  3. The settle time ends, and a is about to write a plan without b.
//  4. a's connection works again, long before a session timeout.
func TestBackInTimeWhileTheWriterHearsNothing(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		a := w.start("a", numbers(2), nil)
		time.Sleep(time.Second)
		b := w.start("b", nil, nil)
		w.after(settle, "1=a 2=b")
		_, stat, err := w.s.Get(members)
		require.NoError(t, err)
		b.leave()
		time.Sleep(settle / 4)
		w.s.BlackHole(recipetest.Session(t, a.c), zktest.Both)
		time.Sleep(settle / 4)
		b.begin("b", nil)
		time.Sleep(settle)
		w.s.Heal()
		moves := w.moves()
		time.Sleep(5 * time.Second)
		require.Equal(t, "1=a 2=b", w.owners())
		require.Equal(t, moves, w.moves(), "nothing has moved")
		_, again, err := w.s.Get(members)
		require.NoError(t, err)
		require.Equal(t, stat.Version, again.Version, "the plan was not written")
	})
}

// A plan that was computed before another was written does not replace it, however late its write is executed.
func TestAPlanThatComesLate(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		a := w.start("a", numbers(3), nil)
		time.Sleep(time.Second)
		b := w.start("b", nil, nil)
		time.Sleep(time.Second)
		late := w.s.Inject(zktest.Fault{Session: recipetest.Session(t, a.c), Op: "setData", Action: zktest.Hold})
		w.start("c", nil, nil)
		<-late.Struck() // a writes that c has an item
		require.NoError(t, b.a.SetItems(background, numbers(4)))
		late.Release()
		time.Sleep(5 * time.Second)
		require.Equal(t, 4, strings.Count(w.owners(), "="), w.owners())
	})
}

// A member writes no plan after a reconnect from what it has read before:
//
//  1. c leaves, a gets the event, and a is disconnected.
//  2. b's weight, and so its share, grows.
//  3. The settle time ends, and a reconnects.
func TestAPlanIsOfWhatWasReadSinceTheReconnect(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		a := w.start("a", numbers(4), nil)
		time.Sleep(time.Second)
		b := w.start("b", nil, nil)
		c := w.start("c", nil, nil)
		time.Sleep(5 * time.Second)
		_, stat, err := w.s.Get(members)
		require.NoError(t, err)
		id := recipetest.Session(t, a.c)
		c.leave()
		synctest.Wait()
		away := w.s.Inject(zktest.Fault{Session: id, Op: "connect", Action: zktest.Hold})
		w.s.Cut(id)
		<-away.Struck()
		require.NoError(t, b.a.SetWeight(background, 3))
		time.Sleep(settle + settle/4)
		away.Release()
		time.Sleep(5 * time.Second)
		mine := strings.Count(w.owners(), "=a")
		require.Equal(t, 1, mine, w.owners())
		_, again, err := w.s.Get(members)
		require.NoError(t, err)
		require.Equal(t, stat.Version+1, again.Version, "the plan was written once")
	})
}

// Replies to all kinds of writes are lost now and then: in the end each member has its items.
func TestLostReplies(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		for _, op := range []zktest.Op{"setData", "create", "create2", "delete"} {
			w.s.Inject(zktest.Fault{Op: op, Action: zktest.LoseReply, After: 1, Times: 2})
		}
		a := w.start("a", numbers(4), nil)
		b := w.start("b", numbers(4), nil)
		time.Sleep(30 * time.Second)
		a.leave()
		time.Sleep(30 * time.Second)
		require.Equal(t, "1=b 2=b 3=b 4=b", w.owners())
		b.leave()
		w.clean(numbers(4)...)
	})
}

// Many members join at the same time, and leave one after the other.
func TestMany(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.s.Delay(0, time.Millisecond)
		var all []*process
		for i := range 10 {
			all = append(all, w.start(fmt.Sprintf("m%d", i), numbers(40), nil))
		}
		time.Sleep(10 * time.Second)
		require.Equal(t, 40, w.moves(), "they settled before anybody took anything")
		for i, p := range all[:9] {
			before := w.moves()
			p.leave()
			time.Sleep(5 * time.Second)
			require.LessOrEqual(t, w.moves()-before, 40/(10-i)+1)
			plan, err := all[9].a.Plan(background)
			require.NoError(t, err)
			has := map[string]int{}
			for _, owner := range plan {
				has[owner]++
			}
			require.Len(t, has, 9-i)
			for owner, n := range has {
				require.InDelta(t, 40/(9-i), n, 1, owner)
			}
		}
		all[9].leave()
		w.clean(numbers(40)...)
	})
}

// Invalid arguments are reported before any request is sent.
func TestArguments(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		c := recipetest.Client(t, w.s)
		wait := func(ctx context.Context, _ assignment.Item) error { <-ctx.Done(); return nil }
		synctest.Wait() // until the client knows its server
		w.s.ResetCounts()
		for _, bad := range []struct {
			a  *assignment.Assignment
			is error
		}{
			{assignment.New(nil, path, nil), framework.ErrNoClient},
			{&assignment.Assignment{}, framework.ErrNoClient},
			{assignment.New(c, "shards", nil), framework.ErrInvalidPath},
			{assignment.New(c, "/", nil), framework.ErrInvalidPath},
			{assignment.New(c, path, []string{""}), framework.ErrBadArguments},
			{assignment.New(c, path, []string{"a/b"}), framework.ErrBadArguments},
			{assignment.New(c, path, []string{"a", ".."}), framework.ErrBadArguments},
			{assignment.New(c, path, []string{"\x00"}), framework.ErrBadArguments},
			{assignment.New(c, path, nil, nil), framework.ErrInvalidOption},
			{assignment.New(c, path, nil, assignment.WithID("")), framework.ErrInvalidOption},
			{assignment.New(c, path, nil, assignment.WithID("a/b")), framework.ErrInvalidOption},
			{assignment.New(c, path, nil, assignment.WithWeight(-1)), framework.ErrInvalidOption},
			{assignment.New(c, path, nil, assignment.WithWeight(1_000_001)), framework.ErrInvalidOption},
			{assignment.New(c, path, nil, assignment.WithSettle(0)), framework.ErrInvalidOption},
			{assignment.New(c, path, nil, assignment.WithSettle(-time.Second)), framework.ErrInvalidOption},
			{assignment.New(c, path, nil, assignment.WithSettle(24*time.Hour)), framework.ErrInvalidOption},
		} {
			require.ErrorIs(t, bad.a.Run(background, wait), bad.is)
			require.ErrorIs(t, bad.a.SetItems(background, nil), bad.is)
			require.ErrorIs(t, bad.a.SetWeight(background, 1), bad.is)
			plan, err := bad.a.Plan(background)
			require.ErrorIs(t, err, bad.is)
			require.Nil(t, plan)
		}
		a := assignment.New(c, path, numbers(1), assignment.WithWeight(1_000_000), assignment.WithSettle(time.Hour),
			assignment.WithSettle(time.Millisecond))
		require.Len(t, a.ID(), 36)
		require.ErrorIs(t, a.Run(background, nil), framework.ErrBadArguments)
		//lint:ignore SA1012 that is what is tested
		require.ErrorIs(t, a.Run(nil, wait), framework.ErrNilContext)
		ended, cancel := context.WithCancel(background)
		cancel()
		require.ErrorIs(t, a.Run(ended, wait), context.Canceled)
		require.ErrorIs(t, a.SetItems(background, []string{"/"}), framework.ErrBadArguments)
		require.ErrorIs(t, a.SetWeight(background, -1), framework.ErrBadArguments)
		require.NoError(t, a.SetWeight(background, 2))
		recipetest.Counts(t, w.s, "nothing was sent", map[string]int{})
		plan, err := a.Plan(background)
		require.NoError(t, err)
		require.Equal(t, map[string]string{}, plan)
		recipetest.Counts(t, w.s, "a look at the plan", map[string]int{"getData": 1})
	})
}

// Run returns the error of the closed client; a second concurrent Run is refused; a later one is not.
func TestRunEnds(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		p := w.start("a", numbers(1), nil)
		w.after(settle, "1=a")
		require.ErrorIs(t, p.a.Run(background, p.has), assignment.ErrRunning)
		p.leave()
		ctx, cancel := context.WithCancelCause(background)
		again := recipetest.Begin(t, func() (int, error) { return 0, p.a.Run(ctx, p.has) })
		w.after(0, "1=a")
		cancel(errWork)
		_, err := again.Returned()
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, errWork)
		again = recipetest.Begin(t, func() (int, error) { return 0, p.a.Run(background, p.has) })
		w.after(0, "1=a")
		require.NoError(t, p.c.Close())
		_, err = again.Returned()
		require.ErrorIs(t, err, framework.ErrClosed)
		require.ErrorIs(t, p.a.Run(background, p.has), framework.ErrClosed)
	})
}

// Without permission Run returns the error immediately.
func TestNoPermission(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		require.NoError(t, w.s.Create(members, nil))
		require.NoError(t, w.s.SetACL(members, zktest.ACL{Perms: 1, Scheme: "world", ID: "anyone"}))
		p := w.start("a", numbers(1), nil)
		require.ErrorIs(t, p.run.End().Err, framework.ErrNoAuth)
		require.NoError(t, w.s.SetACL(members, zktest.ACL{Perms: 4 | 8, Scheme: "world", ID: "anyone"}))
		p = w.start("b", numbers(1), nil)
		require.ErrorIs(t, p.run.End().Err, framework.ErrNoAuth, "it may not read the plan")
	})
}

// A child of the members' directory that may not be read is no member, and does not keep the members from writing a plan, whether
// or not it is older than the group.
func TestAChildThatMayNotBeRead(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		other := recipetest.Client(t, w.s)
		hide := func(name string, mode framework.CreateMode) {
			unreadable := framework.ACL{Perms: framework.PermAll &^ framework.PermRead, Scheme: "world", ID: "anyone"}
			_, err := other.Create().WithMode(mode).WithACL(unreadable).ForPath(background, members+"/"+name, []byte(`{"weight":1}`))
			require.NoError(t, err)
		}
		require.NoError(t, w.s.Create(members, nil))
		hide("first", framework.Persistent)
		w.start("a", numbers(2), nil)
		w.after(settle, "1=a 2=a")
		hide("second", framework.Ephemeral)
		time.Sleep(time.Second)
		b := w.start("b", nil, nil)
		w.after(settle, "1=a 2=b")
		b.leave()
		w.after(settle, "1=a 2=a")
	})
}

// Run returns immediately when its context ends, even if the server hangs.
func TestTheServerHangs(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		p := w.start("a", numbers(3), nil)
		w.after(settle, "1=a 2=a 3=a")
		w.s.Pause()
		p.leave()
		late := &process{w: w, c: p.c}
		late.begin("b", nil)
		late.run.Waits()
		late.leave()
		w.s.Resume()
		w.clean(numbers(3)...)
	})
}

// An item that moves from a to b and back, before a's function has returned, is a's again after the return.
func TestThereAndBack(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		free := make(chan struct{})
		w.start("a", numbers(2), func(ctx context.Context, _ assignment.Item) error {
			<-ctx.Done()
			<-free
			return nil
		})
		time.Sleep(time.Second)
		b := w.start("b", nil, nil)
		time.Sleep(time.Second)
		require.Equal(t, "1=a", w.owners())
		b.leave()
		time.Sleep(time.Second)
		require.Equal(t, "1=a", w.owners(), "2 has not been let go")
		free <- struct{}{}
		time.Sleep(time.Second)
		require.Equal(t, "1=a 2=a", w.owners())
		close(free)
	})
}

// A second process with the same ID waits. The log and the error of Run have the session that it waits for.
func TestAnIDThatAnotherHas(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		var log recipetest.Log
		a := w.start("a", numbers(1), nil)
		time.Sleep(time.Second)
		c := recipetest.Client(t, w.s, framework.WithLogger(log.Logger()))
		ctx, cancel := context.WithTimeout(background, time.Minute)
		defer cancel()
		err := assignment.New(c, path, nil, assignment.WithID("a")).Run(ctx, func(context.Context, assignment.Item) error {
			return nil
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		owner := fmt.Sprintf("%#x", recipetest.Session(t, a.c))
		require.ErrorContains(t, err, owner)
		require.Equal(t, 1, strings.Count(log.String(), "session="+owner), log.String())
	})
}

// An unreadable plan is logged once, however often the group changes, and again only if it is another plan.
func TestAnUnreadablePlanIsLogged(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		var log recipetest.Log
		lines := func(want int, what string) {
			t.Helper()
			synctest.Wait()
			require.Equal(t, want, strings.Count(log.String(), "cannot read the plan"), what)
		}
		require.NoError(t, w.s.Create(members, []byte("something else")))
		a := &process{w: w, c: recipetest.Client(t, w.s, framework.WithLogger(log.Logger()))}
		a.begin("a", nil)
		time.Sleep(time.Second)
		lines(1, "at the start")
		b := w.start("b", nil, nil)
		time.Sleep(time.Second)
		lines(1, "a member joins")
		require.NoError(t, w.s.Set(members, []byte("something worse")))
		lines(2, "written again")
		require.NoError(t, b.a.SetItems(background, numbers(2)))
		time.Sleep(time.Second)
		require.Equal(t, "1=a 2=b", w.owners())
		lines(2, "replaced")
	})
}

// A refused acquire, an error of an item's function, and a refused release are logged; moves are not.
func TestFailuresWithItemsAreLogged(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		var log recipetest.Log
		refuse := func(op zktest.Op) {
			w.s.Inject(zktest.Fault{Op: op, PathPrefix: items + "/1", Action: zktest.ReplyError, Err: zktest.ErrNoAuth})
		}
		require.NoError(t, w.s.Create(items+"/2/lock-0000000000", nil)) // a waits for it in vain
		calls := 0
		a := &process{w: w, c: recipetest.Client(t, w.s, framework.WithLogger(log.Logger()))}
		a.work = func(ctx context.Context, _ assignment.Item) error {
			switch calls++; calls {
			case 1:
				return errWork
			case 2:
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}
		refuse(zktest.OpCreate2)
		a.begin("a", numbers(2))
		time.Sleep(5 * time.Second)
		require.Equal(t, "1=a", w.owners())
		refuse(zktest.OpDelete)
		require.NoError(t, a.a.SetItems(background, nil))
		time.Sleep(time.Second)
		require.Empty(t, w.owners())
		for problem, reason := range map[string]string{
			"cannot acquire an item": "no permission", "the function of an item failed": errWork.Error(),
			"cannot release an item": "no permission",
		} {
			var lines []string
			for line := range strings.Lines(log.String()) {
				if strings.Contains(line, problem) {
					lines = append(lines, line)
				}
			}
			require.Len(t, lines, 1, problem)
			require.Contains(t, lines[0], "path="+items+"/1")
			require.Contains(t, lines[0], reason)
		}
	})
}

// The servers refuse each plan: in the end the member waits from five to ten seconds before it writes again, and each refusal is
// logged. When they accept a plan again, no item has moved.
func TestAPlanIsRefused(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		var log recipetest.Log
		a := &process{w: w, c: recipetest.Client(t, w.s, framework.WithLogger(log.Logger()))}
		a.begin("a", numbers(1))
		w.after(settle, "1=a")
		w.s.Delay(recipetest.Session(t, a.c), time.Millisecond) // so that time passes between two writes
		refused := w.s.Inject(zktest.Fault{Op: zktest.OpSetData, Action: zktest.ReplyError, Err: zktest.ErrNoAuth, Times: -1})
		require.NoError(t, w.s.Set(members, nil))
		time.Sleep(10 * time.Minute)
		require.InDelta(t, 75, refused.Hits(), 20)
		require.Equal(t, refused.Hits(), strings.Count(log.String(), "cannot write the plan"))
		refused.Remove()
		time.Sleep(15 * time.Second)
		plan, err := a.a.Plan(background)
		require.NoError(t, err)
		require.Equal(t, map[string]string{"1": "a"}, plan)
		require.Equal(t, 1, w.moves())

		// A plan that fits ends the failures, whoever has written it: the next write comes after the settle time.
		fitting, _, err := w.s.Get(members)
		require.NoError(t, err)
		refused = w.s.Inject(zktest.Fault{Op: zktest.OpSetData, Action: zktest.ReplyError, Err: zktest.ErrNoAuth, Times: -1})
		require.NoError(t, w.s.Set(members, nil))
		time.Sleep(time.Minute)
		require.NoError(t, w.s.Set(members, fitting))
		time.Sleep(15 * time.Second)
		refused.Remove()
		require.NoError(t, w.s.Set(members, nil))
		time.Sleep(settle + 10*time.Millisecond)
		plan, err = a.a.Plan(background)
		require.NoError(t, err)
		require.Equal(t, map[string]string{"1": "a"}, plan)
	})
}

// The servers refuse a list while another is already set: the refusal is not that of the later list.
func TestAListThatIsRefusedAfterALaterSetItems(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		p := w.start("a", numbers(1), nil)
		w.after(settle, "1=a")
		w.s.Delay(recipetest.Session(t, p.c), 10*time.Millisecond)
		refused := w.s.Inject(zktest.Fault{Op: zktest.OpSetData, Action: zktest.ReplyError, Err: zktest.ErrNoAuth})
		set := func(n int) *recipetest.Call[int] {
			return recipetest.Begin(t, func() (int, error) { return 0, p.a.SetItems(background, numbers(n)) })
		}
		first := set(2)
		<-refused.Struck()
		second := set(3)
		first.End().OK()
		second.End().OK()
		time.Sleep(time.Second)
		require.Equal(t, "1=a 2=a 3=a", w.owners())
	})
}

// SetWeight between two Runs sends nothing: the weight is used from the next Run on.
func TestAWeightThatIsSetBetweenTwoRuns(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.start("a", numbers(4), nil)
		time.Sleep(time.Second)
		b := w.start("b", nil, nil)
		w.after(settle, "1=a 2=a 3=b 4=b")
		b.leave()
		w.after(settle, "1=a 2=a 3=a 4=a")
		for weight, want := range map[int]string{3: "1=a 2=b 3=b 4=b", 0: "1=a 2=a 3=a 4=a"} {
			time.Sleep(time.Second)
			w.s.ResetCounts()
			require.NoError(t, b.a.SetWeight(background, weight), "no node of the former Run")
			recipetest.Counts(t, w.s, "nothing was sent", map[string]int{})
			ctx, cancel := context.WithCancel(background)
			again := recipetest.Begin(t, func() (int, error) { return 0, b.a.Run(ctx, b.has) })
			time.Sleep(2 * settle)
			require.Equal(t, want, w.owners())
			cancel()
			_, err := again.Returned()
			require.ErrorIs(t, err, context.Canceled)
		}
	})
}

// The reply to the write of a list is lost, or the write itself: Run and SetItems retry it.
func TestTheWriteOfAListIsLost(t *testing.T) {
	for _, action := range []zktest.Action{zktest.LoseReply, zktest.CutBefore} {
		story(t, func(t *testing.T, w *world) {
			lost := zktest.Fault{Op: "setData", PathPrefix: members, Action: action}
			w.s.Inject(lost)
			p := w.start("a", numbers(2), nil)
			time.Sleep(10 * time.Second)
			require.Equal(t, "1=a 2=a", w.owners())
			w.s.Inject(lost)
			require.NoError(t, p.a.SetItems(background, numbers(3)))
			time.Sleep(time.Millisecond)
			require.Equal(t, "1=a 2=a 3=a", w.owners())
			p.leave()
			w.clean(numbers(3)...)
		})
	}
}

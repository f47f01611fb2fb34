package counter_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/counter"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/zktest"
)

// Plain use, and the bytes of the number.
func TestAdd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		n := counter.NewLong(c, path)
		require.NoError(t, s.Create("/counters", nil))
		require.EqualValues(t, 300, add(t, n, 300))
		require.EqualValues(t, 301, add(t, n, 1))
		require.EqualValues(t, 299, add(t, n, -2))
		node := s.Tree()[path]
		require.Equal(t, "\x00\x00\x00\x00\x00\x00\x01\x2b", string(node.Data))
		require.Equal(t, zktest.Persistent, node.Mode)
		require.Len(t, marks(t, s), 1)

		time.Sleep(15 * time.Second)
		require.Empty(t, marks(t, s), "a number at rest has no children")
		require.EqualValues(t, 300, add(t, n, 1))

		other := counter.NewLong(newClient(t, s), path)
		require.EqualValues(t, 310, add(t, other, 10))
		require.EqualValues(t, 311, add(t, n, 1))
		require.EqualValues(t, 312, add(t, other, 1))
		require.EqualValues(t, 313, add(t, n, 1))
		require.EqualValues(t, 314, add(t, n, 1))
		require.EqualValues(t, 315, add(t, n, 1))
		tidy(t, s, c)
	})
}

func TestInteger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		n := counter.NewInteger(newClient(t, s), path)
		require.NoError(t, n.Set(background, math.MaxInt32-1))
		sum, err := n.Add(background, 1)
		require.NoError(t, err)
		require.EqualValues(t, math.MaxInt32, sum)
		_, err = n.Add(background, 1)
		require.ErrorIs(t, err, counter.ErrOverflow)
		sum, err = n.Add(background, math.MinInt32)
		require.NoError(t, err)
		require.EqualValues(t, -1, sum)
		_, err = n.Add(background, math.MinInt32)
		require.ErrorIs(t, err, counter.ErrOverflow)
		require.Equal(t, "\xff\xff\xff\xff", string(s.Tree()[path].Data))

		require.NoError(t, s.Set(path, nil))
		seen, err := n.Get(background)
		require.NoError(t, err)
		require.Zero(t, seen.N, "no data are 0, as for Curator")
		sum, err = n.Add(background, 2)
		require.NoError(t, err)
		require.EqualValues(t, 2, sum)
	})
}

// Concurrent Adds are combined in one write; each returns its own sum, in the order of the calls.
func TestAddersAreCombined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		n := counter.NewLong(newClient(t, s), path)
		add(t, n, 0)
		hold := s.Inject(zktest.Fault{Op: "multi", Action: zktest.Hold})
		first := recipetest.Begin(t, func() (int64, error) { return n.Add(background, 1) }).Waits()
		<-hold.Struck()
		s.ResetCounts()
		var more []*recipetest.Call[int64]
		for i := range 8 {
			delta := 1 + int64(i%2)
			call := recipetest.Begin(t, func() (int64, error) { return n.Add(background, delta) })
			more = append(more, call.Waits())
		}
		big := recipetest.Begin(t, func() (int64, error) { return n.Add(background, math.MaxInt64) }).Waits()
		hold.Release()
		require.EqualValues(t, 1, first.OK())
		want := int64(1)
		for i, call := range more {
			want += 1 + int64(i%2)
			require.Equal(t, want, call.OK())
		}
		_, err := big.Returned()
		require.ErrorIs(t, err, counter.ErrOverflow, "and the others are not affected")
		counts(t, s, "eight adders", map[string]int{"multi": 1})
		require.EqualValues(t, 13, at(t, s))
	})
}

// If an Add's context ends before its delta is in a write, nothing is added, and the error is clear; after that the outcome is
// unknown. Other Adds are not affected.
func TestAddGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		n := counter.NewLong(c, path)
		add(t, n, 0)
		stop := errors.New("stop")
		ctx, cancel := context.WithCancelCause(background)
		hold := s.Inject(zktest.Fault{Op: "multi", Action: zktest.Hold})
		written := recipetest.Begin(t, func() (int64, error) { return n.Add(ctx, 1) }).Waits()
		<-hold.Struck()
		waiting := recipetest.Begin(t, func() (int64, error) { return n.Add(ctx, 10) }).Waits()
		stays := recipetest.Begin(t, func() (int64, error) { return n.Add(background, 100) }).Waits()
		cancel(stop)
		_, err := written.Returned()
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, stop)
		require.ErrorIs(t, err, framework.ErrOutcomeUnknown)
		_, err = waiting.Returned()
		require.ErrorIs(t, err, stop)
		require.NotErrorIs(t, err, framework.ErrOutcomeUnknown)
		stays.Waits()
		hold.Release()
		require.EqualValues(t, 101, stays.OK())
		require.EqualValues(t, 101, at(t, s))
		tidy(t, s, c)
	})
}

// An Add that ends at the same instant as its context returns its sum.
func TestAddGivesUpWhenItIsFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		n := counter.NewLong(c, path)
		for sum := range int64(20) { // select takes either of the two
			got, err := n.Add(lateContext{background}, 1)
			require.NoError(t, err)
			require.Equal(t, sum+1, got)
		}
		tidy(t, s, c)
	})
}

// lateContext is a context that has ended when Done returns, after a second.
type lateContext struct{ context.Context }

func (lateContext) Done() <-chan struct{} {
	time.Sleep(time.Second)
	ended := make(chan struct{})
	close(ended)
	return ended
}

// If a write is refused, the delta of a caller whose context has ended is not tried again.
func TestAddGivesUpAndSomebodyElseIsFaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		n := counter.NewLong(c, path)
		add(t, n, 0)
		first := s.Inject(zktest.Fault{Op: "multi", Action: zktest.Hold})
		before := recipetest.Begin(t, func() (int64, error) { return n.Add(background, 1000) }).Waits()
		<-first.Struck()
		ctx, cancel := context.WithCancel(background)
		leaves := recipetest.Begin(t, func() (int64, error) { return n.Add(ctx, 1) }).Waits()
		stays := recipetest.Begin(t, func() (int64, error) { return n.Add(background, 10) }).Waits()
		second := s.Inject(zktest.Fault{Op: "multi", Action: zktest.Hold})
		first.Release()
		before.OK()
		<-second.Struck() // this write has both deltas
		cancel()
		require.ErrorIs(t, leaves.End().Err, framework.ErrOutcomeUnknown)
		require.NoError(t, s.Set(path, []byte("\x00\x00\x00\x00\x00\x00\x00\x64")))
		second.Release()
		require.EqualValues(t, 110, stays.End().OK())
		require.EqualValues(t, 110, at(t, s))
		tidy(t, s, c)
	})
}

// When the contexts of all callers have ended, the write ends, too. The next write does not depend on the unknown outcome.
func TestAllAddersGiveUp(t *testing.T) {
	for _, executed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			c := newClient(t, s)
			n := counter.NewLong(c, path)
			add(t, n, 0)
			want, action := int64(5), zktest.DropRequest
			if executed {
				want, action = 6, zktest.HoldReply
			}
			fault := s.Inject(zktest.Fault{Op: "multi", Action: action})
			ctx, cancel := context.WithTimeout(background, time.Second)
			defer cancel()
			began := time.Now()
			_, err := n.Add(ctx, 1)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, framework.ErrOutcomeUnknown)
			require.Equal(t, time.Second, time.Since(began))
			synctest.Wait() // the writer has ended, too
			if executed {
				fault.Release()
			}
			// The first try of this Add is not executed, and the earlier write must not be taken for it.
			s.Inject(zktest.Fault{Op: "multi", Action: zktest.CutBefore})
			require.Equal(t, want, add(t, n, 5))
			require.Equal(t, want, at(t, s))
			tidy(t, s, c)
		})
	}
}

// The context of the last waiting Add ends while the writer waits for the lock. Before the writer handles that, another Add is
// called: its context has not ended, and its delta is added.
func TestAnAddThatBeginsAsTheLastOneIsCancelledIsAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lock = "/counters/lock"
		s := zktest.RunT(t)
		var n *counter.Long
		var next *recipetest.Call[int64]
		ended := func(error) { // runs on the writer's goroutine, when its wait for the lock has ended
			if next == nil {
				next = recipetest.Begin(t, func() (int64, error) { return n.Add(background, 5) })
				time.Sleep(time.Millisecond)
			}
		}
		c := newClient(t, s, framework.WithHooks(framework.Hooks{
			Acquire: func(ctx context.Context, _ framework.Acquisition) (context.Context, func(error)) { return ctx, ended },
		}))
		n = counter.NewLong(c, path, counter.WithLock(lock))
		add(t, n, 1)
		require.NoError(t, s.Create(lock+"/lock-0000000000", nil))
		ctx, cancel := context.WithCancel(background)
		overtaken := s.Inject(zktest.Fault{Op: "multi", Action: zktest.Hold})
		last := recipetest.Begin(t, func() (int64, error) { return n.Add(ctx, 1) })
		for i := range byte(2) {
			<-overtaken.Struck()
			require.NoError(t, s.Set(path, []byte{0, 0, 0, 0, 0, 0, 0, 10 + i}))
			held := overtaken
			if i == 0 {
				overtaken = s.Inject(zktest.Fault{Op: "multi", Action: zktest.Hold})
			}
			held.Release()
		}
		time.Sleep(time.Second)
		cancel()
		require.ErrorIs(t, last.End().Err, context.Canceled)
		require.NotErrorIs(t, last.Err, framework.ErrOutcomeUnknown)
		time.Sleep(time.Second)
		require.NoError(t, s.Delete(lock+"/lock-0000000000"))
		require.EqualValues(t, 16, next.End().OK())
		tidy(t, s, c)
	})
}

func TestAddRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		n := counter.NewLong(c, path)
		for _, data := range []string{"7", "\x00\x00\x00\x01"} {
			require.NoError(t, n.Set(background, 1))
			require.NoError(t, s.Set(path, []byte(data)))
			_, err := n.Add(background, 1)
			require.ErrorIs(t, err, counter.ErrBadValue)
			require.NotErrorIs(t, err, framework.ErrOutcomeUnknown)
			require.Equal(t, data, string(s.Tree()[path].Data), "not overwritten")
		}
		require.NoError(t, s.Set(path, []byte("\x00\x00\x00\x00\x00\x00\x00\x05rest")))
		require.EqualValues(t, 6, add(t, n, 1), "as Curator reads it")
		require.EqualValues(t, 6, at(t, s))

		require.NoError(t, s.SetACL(path, zktest.ACL{Perms: 1, Scheme: "world", ID: "anyone"}))
		_, err := n.Add(background, 1)
		require.ErrorIs(t, err, framework.ErrNoAuth)
		require.NotErrorIs(t, err, framework.ErrOutcomeUnknown)

		var none context.Context
		_, err = n.Add(none, 1)
		require.ErrorIs(t, err, framework.ErrNilContext)
		ended, cancel := context.WithCancel(background)
		cancel()
		_, err = n.Add(ended, 1)
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, framework.ErrOutcomeUnknown)
		for _, wrong := range []*counter.Long{nil, {}, counter.NewLong(nil, path)} {
			_, err = wrong.Add(background, 1)
			require.ErrorIs(t, err, framework.ErrNoClient)
		}
		_, err = counter.NewLong(c, "/").Add(background, 1)
		require.ErrorIs(t, err, framework.ErrInvalidPath)
		_, err = counter.NewLong(c, path, nil).Add(background, 1)
		require.ErrorIs(t, err, framework.ErrInvalidOption)
		_, err = counter.NewLong(c, path, counter.WithLock("x")).Add(background, 1)
		require.ErrorIs(t, err, framework.ErrInvalidPath)
	})
}

// A missing chroot is not taken for a deleted number: nothing is retried for ever.
func TestAddWithoutTheChroot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c, err := framework.New(s.Addr()+"/none", framework.WithDialer(s.Dial))
		require.NoError(t, err)
		defer c.Close()
		_, err = counter.NewLong(c, path).Add(background, 1)
		require.ErrorIs(t, err, framework.ErrNoChroot)
	})
}

func TestAddWhenTheClientCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		n := counter.NewLong(c, path)
		add(t, n, 1)
		hold := s.Inject(zktest.Fault{Op: "multi", Action: zktest.Hold})
		written := recipetest.Begin(t, func() (int64, error) { return n.Add(background, 1) }).Waits()
		<-hold.Struck()
		waiting := recipetest.Begin(t, func() (int64, error) { return n.Add(background, 1) }).Waits()
		closed := recipetest.Begin(t, func() (int, error) { return 0, c.Close() })
		err := written.End().Err
		require.ErrorIs(t, err, framework.ErrClosed)
		require.ErrorIs(t, err, framework.ErrOutcomeUnknown)
		require.NotErrorIs(t, err, context.Canceled)
		err = waiting.End().Err
		require.ErrorIs(t, err, framework.ErrClosed)
		require.NotErrorIs(t, err, framework.ErrOutcomeUnknown)
		require.NotErrorIs(t, err, context.Canceled)
		hold.Release()
		closed.End()
		_, err = n.Add(background, 1)
		require.ErrorIs(t, err, framework.ErrClosed)
	})
}

// A deleted number starts again at 0. If the new node has the same version by chance, Add still reads it.
func TestAddAfterTheNumberWasDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		n := counter.NewLong(c, path)
		require.EqualValues(t, 7, add(t, n, 7)) // version 1
		require.NoError(t, s.DeleteAll(path))
		require.EqualValues(t, 2, add(t, n, 2))
		require.NoError(t, s.DeleteAll(path))
		require.NoError(t, s.Create(path, nil))
		require.NoError(t, s.Set(path, []byte("\x00\x00\x00\x00\x00\x00\x00\x64"))) // version 1, too
		require.EqualValues(t, 101, add(t, n, 1))

		require.NoError(t, s.Delete(path+"/"+marks(t, s)[0]))
		require.EqualValues(t, 102, add(t, n, 1), "somebody else has deleted the mark")
		require.NoError(t, s.Set(path+"/"+marks(t, s)[0], []byte("x")))
		require.EqualValues(t, 103, add(t, n, 1), "or written into it")
		tidy(t, s, c)
	})
}

// A hook that ends its goroutine ends only the Adds of that write.
func TestAddAndAHookThatEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		armed := false
		c := newClient(t, s, framework.WithHooks(framework.Hooks{
			Operation: func(_ context.Context, op framework.Operation) func(framework.OperationEnd) {
				if armed && op.Name == "transaction" {
					armed = false
					runtime.Goexit()
				}
				return nil
			},
		}))
		n := counter.NewLong(c, path)
		add(t, n, 1)
		armed = true
		_, err := n.Add(background, 1)
		require.Error(t, err)
		before := at(t, s)
		require.Equal(t, before+1, add(t, n, 1))
	})
}

// crowd makes each adder of each number call Add one time after the other. It returns how long that took, and the number of
// requests.
func crowd(
	t *testing.T, s *zktest.Server, numbers []*counter.Long, adders, each int, rest time.Duration,
) (time.Duration, int) {
	t.Helper()
	s.ResetCounts()
	began := time.Now()
	var wg sync.WaitGroup
	var mu sync.Mutex
	sums := map[int64]bool{}
	for _, n := range numbers {
		for range adders {
			wg.Go(func() {
				last := int64(0)
				for range each {
					sum, err := n.Add(background, 1)
					if !assert.NoError(t, err) {
						return
					}
					assert.Greater(t, sum, last)
					last = sum
					mu.Lock()
					assert.False(t, sums[sum], "%d twice", sum)
					sums[sum] = true
					mu.Unlock()
					time.Sleep(rest)
				}
			})
		}
	}
	wg.Wait()
	took := time.Since(began)
	require.EqualValues(t, len(numbers)*adders*each, at(t, s))
	return took, recipetest.Sum(s.Counts())
}

// The requests of an Add, and its duration in round trips. Without combined writes, and with all clients trying all the time,
// eight contenders would need 16 requests for an Add.
func TestTraffic(t *testing.T) {
	for _, c := range []struct {
		name                 string
		processes, adders    int
		lock                 bool
		rest                 time.Duration // after each add
		requests, roundTrips float64       // per add, at most
	}{
		{"one adder", 1, 1, false, 0, 1.1, 1.1},
		{"eight adders of a process", 1, 8, false, 0, 0.4, 0.4},
		{"two processes", 2, 1, false, 0, 2.5, 2},
		{"eight processes", 8, 1, false, 0, 2.5, 1.6},
		{"eight processes that rest", 8, 1, false, 50 * time.Millisecond, 2.5, 4},
		{"eight processes with eight adders", 8, 8, false, 0, 0.6, 0.5},
		{"eight processes with a lock", 8, 1, true, 0, 2.5, 1.6},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const lag = 2 * time.Millisecond
				const each = 200
				s := zktest.RunT(t)
				var numbers []*counter.Long
				for range c.processes {
					var opts []counter.Option
					if c.lock {
						opts = append(opts, counter.WithLock("/counters/orders-lock"))
					}
					numbers = append(numbers, counter.NewLong(newClient(t, s), path, opts...))
				}
				require.NoError(t, numbers[0].Set(background, 0))
				s.Delay(0, lag)
				took, sent := crowd(t, s, numbers, c.adders, each, c.rest)
				adds := float64(c.processes * c.adders * each)
				requests, trips := float64(sent)/adds, float64(took)/float64(lag)/adds
				t.Logf("%s: %.2f requests and %.2f round trips per add", c.name, requests, trips)
				require.LessOrEqual(t, requests, c.requests)
				require.LessOrEqual(t, trips, c.roundTrips)
				if c.lock {
					time.Sleep(11 * time.Second)
					recipetest.Clean(t, s, "/counters/orders-lock", path)
				}
			})
		})
	}
}

// The first Add of a process creates its mark while it reads the number, also if the number must be created.
func TestTrafficOfTheFirstAdd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create("/counters", nil))
		first, second := counter.NewLong(newClient(t, s), path), counter.NewLong(newClient(t, s), path)
		synctest.Wait()
		s.Delay(0, time.Second)
		s.ResetCounts()
		began := time.Now()
		add(t, first, 1)
		require.Equal(t, 5*time.Second, time.Since(began), "reads, creates, reads, creates the mark again, writes")
		counts(t, s, "a missing number", map[string]int{"getData": 2, "create2": 3, "multi": 1})
		began = time.Now()
		add(t, second, 1)
		require.Equal(t, 2*time.Second, time.Since(began), "reads, writes")
		counts(t, s, "a number", map[string]int{"getData": 1, "create2": 1, "multi": 1})
	})
}

// An Add whose write loses the race tries again immediately. Later Adds read before they write, except right after a write, until
// a read shows that no other client has written.
func TestTrafficWhenOthersWriteNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		n := counter.NewLong(newClient(t, s), path)
		s.Delay(0, time.Second)
		add(t, n, 1)
		require.NoError(t, s.Set(path, []byte{0, 0, 0, 0, 0, 0, 0, 10}))
		s.ResetCounts()
		for _, step := range []struct {
			what  string
			rest  time.Duration
			takes time.Duration
			sends map[string]int
		}{
			{"it is overtaken", 0, 3 * time.Second, map[string]int{"multi": 2, "getData": 1}},
			{"right after a write", 0, time.Second, map[string]int{"multi": 1}},
			{"later", 5 * time.Second, 2 * time.Second, map[string]int{"getData": 1, "multi": 1}},
			{"no other client has written", 5 * time.Second, time.Second, map[string]int{"multi": 1}},
		} {
			time.Sleep(step.rest)
			began := time.Now()
			add(t, n, 1)
			require.Equal(t, step.takes, time.Since(began), step.what)
			counts(t, s, step.what, step.sends)
		}
	})
}

// An Add with a lock loses the race twice, and acquires the lock; then the servers refuse to delete the lock's node. No caller
// waits for that, so it is logged.
func TestReleaseThatIsRefusedIsLogged(t *testing.T) {
	for _, refused := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const lock = "/counters/lock"
			s := zktest.RunT(t)
			var log recipetest.Log
			n := counter.NewLong(newClient(t, s, framework.WithLogger(log.Logger())), path, counter.WithLock(lock))
			add(t, n, 1)
			overtaken := s.Inject(zktest.Fault{Op: "multi", Action: zktest.Hold})
			call := recipetest.Begin(t, func() (int64, error) { return n.Add(background, 1) })
			for i := range byte(2) {
				<-overtaken.Struck()
				require.NoError(t, s.Set(path, []byte{0, 0, 0, 0, 0, 0, 0, 10 + i}))
				next := s.Inject(zktest.Fault{Op: "multi", Action: zktest.Hold})
				overtaken.Release()
				overtaken = next
			}
			<-overtaken.Struck()
			held, err := s.Children(lock)
			require.NoError(t, err)
			require.Len(t, held, 1)
			if refused {
				s.Inject(zktest.Fault{Op: "delete", PathPrefix: lock, Action: zktest.ReplyError, Err: zktest.ErrNoAuth, Times: -1})
			}
			overtaken.Release()
			require.EqualValues(t, 12, call.End().OK())
			time.Sleep(time.Second)
			require.Equal(t, refused, strings.Contains(log.String(), "cannot release the lock of a counter"), log.String())
			s.Heal()
		})
	}
}

// After a write that took long once, a process does not wait long for its next turns.
func TestTurnsAfterASlowWrite(t *testing.T) {
	waited := time.Duration(0)
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			slow := counter.NewLong(newClient(t, s), path)
			busy := counter.NewLong(newClient(t, s), path)
			s.Delay(0, 2*time.Millisecond)
			add(t, slow, 1)
			add(t, slow, 1)
			hold := s.Inject(zktest.Fault{Op: "multi", Action: zktest.Hold})
			hangs := recipetest.Begin(t, func() (int64, error) { return slow.Add(background, 1) }).Waits()
			time.Sleep(time.Second)
			hold.Release()
			hangs.End().OK()
			ctx, stop := context.WithCancel(background)
			var others sync.WaitGroup
			others.Go(func() {
				for ctx.Err() == nil {
					_, _ = busy.Add(ctx, 1)
				}
			})
			time.Sleep(100 * time.Millisecond)
			began := time.Now()
			add(t, slow, 1)
			waited += time.Since(began)
			stop()
			others.Wait()
		})
	}
	t.Logf("%v for a turn", waited/20)
	require.Less(t, waited/20, time.Second)
}

// ErrOverflow depends on the current number, not on this process's last write.
func TestOverflowIsOfThePresentNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		n := counter.NewLong(newClient(t, s), path)
		require.NoError(t, n.Set(background, math.MaxInt64-5))
		add(t, n, 1)
		require.NoError(t, s.Set(path, make([]byte, 8)))
		require.EqualValues(t, 100, add(t, n, 100))
		_, err := n.Add(background, math.MaxInt64)
		require.ErrorIs(t, err, counter.ErrOverflow)
	})
}

// A lagging member shows a number that another client has since set back.
func TestOverflowAtAMemberThatLags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := zktest.RunEnsembleT(t, 3)
		require.NoError(t, e.AwaitSettled(t.Context()))
		lagging := (e.Leader() + 1) % 3
		near := counter.NewLong(connectTo(t, e, e.Member(e.Leader()).Addr()), path)
		late := counter.NewLong(connectTo(t, e, e.Member(lagging).Addr()), path)
		require.NoError(t, near.Set(background, math.MaxInt64))
		_, err := late.Add(background, 1)
		require.ErrorIs(t, err, counter.ErrOverflow)
		e.SetLag(lagging, 2*time.Second)
		require.NoError(t, near.Set(background, 0))
		require.EqualValues(t, 1, add(t, late, 1))
		e.SetLag(lagging, 0)
	})
}

// A leader that has lost its quorum still replies to a sync, and shows an old number.
func TestOverflowAtALeaderWithoutAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := zktest.RunEnsembleT(t, 3)
		require.NoError(t, e.AwaitSettled(t.Context()))
		old := e.Leader()
		late := counter.NewLong(connectTo(t, e, e.Member(old).Addr()), path)
		near := counter.NewLong(connectTo(t, e, e.Member((old+1)%3).Addr()), path)
		require.NoError(t, near.Set(background, math.MaxInt64))
		_, err := late.Add(background, 1)
		require.ErrorIs(t, err, counter.ErrOverflow)
		e.Partition(old)
		for _, other := range []int{(old + 1) % 3, (old + 2) % 3} { // these elect a leader before the old one notices the lost quorum
			require.NoError(t, e.Member(other).Restart())
		}
		require.NoError(t, near.Set(background, 0))
		time.AfterFunc(time.Second, e.HealPeers)
		require.EqualValues(t, 1, add(t, late, 1))
	})
}

func connectTo(t *testing.T, e *zktest.Ensemble, addr string) *framework.Client {
	c, err := framework.New(addr, framework.WithDialer(e.Dial), framework.WithSessionTimeout(30*time.Second))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

package counter_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
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
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// adder is a client that adds one repeatedly.
type adder struct {
	delay, rest time.Duration // of its replies; between its additions
	curator     bool          // it adds as Curator's clients do
	most        time.Duration // the longest an addition may take
	p99         time.Duration // at most
	adds        int           // in a second, at least
	opts        []framework.Option
}

// same returns n adders.
func same(n int, a adder) []adder { return slices.Repeat([]adder{a}, n) }

// checkAdders makes clients add to a number for three seconds. After that the only children are marks, and at most others more.
func checkAdders(t *testing.T, prepare func(*testing.T, *zktest.Server), others int, clients ...adder) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		const seconds = 3
		s := zktest.RunT(t)
		require.NoError(t, s.Create("/counters", nil))
		require.NoError(t, s.Create(path, make([]byte, 8)))
		if prepare != nil {
			prepare(t, s)
		}
		var all sync.WaitGroup
		took := make([][]time.Duration, len(clients))
		end := time.Now().Add(seconds * time.Second)
		for i, a := range clients {
			c := newClient(t, s, a.opts...)
			s.Delay(session(t, c), a.delay+time.Duration(i)*10*time.Microsecond)
			n := counter.NewLong(c, path)
			all.Go(func() {
				for time.Now().Before(end) {
					var err error
					began := time.Now()
					if a.curator {
						err = addAsCurator(c)
					} else {
						_, err = n.Add(background, 1)
					}
					if !assert.NoError(t, err) {
						return
					}
					took[i] = append(took[i], time.Since(began))
					time.Sleep(a.rest + a.rest*time.Duration(i)/100)
				}
			})
		}
		all.Wait()
		s.Heal()
		time.Sleep(time.Second)
		sum := 0
		for i, a := range clients {
			own := took[i]
			sum += len(own)
			slices.Sort(own)
			most, p99 := own[len(own)-1], own[len(own)*99/100]
			t.Logf("%v, rest %v: %d additions, p99 %v, longest %v", a.delay, a.rest, len(own), p99, most)
			assert.GreaterOrEqual(t, len(own), a.adds*seconds, "client %d", i)
			if a.most > 0 {
				assert.LessOrEqual(t, most, a.most, "client %d", i)
			}
			if a.p99 > 0 {
				assert.LessOrEqual(t, p99, a.p99, "client %d", i)
			}
		}
		require.EqualValues(t, sum, at(t, s))
		require.LessOrEqual(t, len(marks(t, s)), len(clients)+others)
	})
}

// Clients with slower replies, and clients that rest between their additions, get their turns next to one that does not rest.
func TestUnequalAddersTakeTurns(t *testing.T) {
	const ms, us = time.Millisecond, time.Microsecond
	fast := adder{delay: 500 * us, adds: 100}
	for name, clients := range map[string][]adder{
		"slower":              {fast, {delay: 1890 * us, adds: 180, most: 60 * ms}},
		"much slower":         {fast, {delay: 30 * ms, adds: 12, most: 500 * ms}},
		"now and then":        {fast, {delay: 700 * us, rest: 101 * ms, adds: 8, most: 30 * ms}},
		"two, short rests":    same(2, adder{delay: 500 * us, rest: 20 * us, adds: 700, most: 30 * ms}),
		"eight, short rests":  same(8, adder{delay: 500 * us, rest: 20 * us, adds: 150, most: 60 * ms}),
		"eight, longer rests": same(8, adder{delay: 500 * us, rest: 600 * us, adds: 90, most: 60 * ms}),
		"Curator's, slower":   append(same(2, fast), adder{delay: ms, curator: true, adds: 15, most: time.Second}),
	} {
		t.Run(name, func(t *testing.T) { checkAdders(t, nil, 0, clients...) })
	}
}

// Processes that are first in the line have stopped: the others wait for each of them only once, and not until its session
// expires.
func TestHungProcessesArePassed(t *testing.T) {
	const ms = time.Millisecond
	for hung := range 3 {
		for _, rest := range []time.Duration{0, ms} {
			t.Run(fmt.Sprint(hung, " hung, rest ", rest), func(t *testing.T) {
				checkAdders(t, func(t *testing.T, s *zktest.Server) {
					for i := range hung {
						require.NoError(t, s.SetSequence(path, int32(i+1)))
						require.NoError(t, s.Create(hungPlace(i), nil))
					}
				}, hung, same(3, adder{delay: 500 * time.Microsecond, rest: rest, most: 500 * ms, p99: 30 * ms, adds: 200})...)
			})
		}
	}
}

// hungPlace returns the place of a stopped process: it stays, and the process writes nothing.
func hungPlace(i int) string {
	return fmt.Sprintf("%s/_c_00000000-0000-8000-8000-00000000000%d-turn-%010d", path, i, i)
}

// Processes that may not create or delete children, or find no number left for a place, race. All of them add.
func TestAddersWithoutALine(t *testing.T) {
	const ms, us = time.Millisecond, time.Microsecond
	without := func(permission int32) func(*testing.T, *zktest.Server) {
		return func(t *testing.T, s *zktest.Server) {
			require.NoError(t, s.SetACL(path, zktest.ACL{Perms: 31 &^ permission, Scheme: "world", ID: "anyone"}))
		}
	}
	equal := same(4, adder{delay: 500 * us, adds: 100, most: time.Second})
	t.Run("no CREATE", func(t *testing.T) {
		var server *zktest.Server
		checkAdders(t, func(t *testing.T, s *zktest.Server) { server = s; without(4)(t, s) }, 0, equal...)
		require.LessOrEqual(t, server.Counts()["create2"], 2*len(equal), "a mark and a place of each, once")
	})
	t.Run("no DELETE", func(t *testing.T) { // at first they wait for the places that stay
		checkAdders(t, without(8), 2*len(equal), same(4, adder{delay: 500 * us, adds: 30, most: 3 * time.Second})...)
	})
	t.Run("no READ on places", func(t *testing.T) {
		own := framework.WithDefaultACL(framework.ACL{Perms: framework.PermAll &^ framework.PermRead, Scheme: "world", ID: "anyone"})
		checkAdders(t, nil, 0, same(3, adder{delay: 500 * us, adds: 100, most: time.Second, opts: []framework.Option{own}})...)
	})
	t.Run("no numbers", func(t *testing.T) {
		checkAdders(t, func(t *testing.T, s *zktest.Server) { require.NoError(t, s.SetSequence(path, 1<<31-1)) }, 0,
			adder{delay: 500 * us, adds: 700}, adder{delay: ms, adds: 100, most: time.Second})
	})
}

// A process that wins its races does not acquire the lock, whichever marks exist.
func TestTheLockIsTakenOnlyAfterLostRaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		other := newClient(t, s)
		held, err := mutex.New(other, "/turns").Acquire(background)
		require.NoError(t, err)
		add(t, counter.NewLong(other, path), 1)
		n := counter.NewLong(newClient(t, s), path, counter.WithLock("/turns"))
		for i := range 50 {
			require.EqualValues(t, i+2, add(t, n, 1))
		}
		require.NoError(t, held.Release(background))
	})
}

// waitInLine returns an Add to n, a number of c, that waits behind the stopped process's place.
func waitInLine(
	t *testing.T, s *zktest.Server, ctx context.Context, c *framework.Client, n *counter.Long,
) *recipetest.Call[int64] {
	t.Helper()
	other := counter.NewLong(newClient(t, s), path)
	add(t, other, 1)
	add(t, n, 1)
	add(t, other, 1) // so that n's write without a read is refused
	require.NoError(t, s.SetSequence(path, 1))
	require.NoError(t, s.Create(hungPlace(0), nil))
	call := loseTwoRaces(t, s, ctx, c, n, other)
	synctest.Wait()
	require.Len(t, places(t, s), 2)
	return call
}

// loseTwoRaces returns an addition to n, a number of c, that loses two races with other.
func loseTwoRaces(
	t *testing.T, s *zktest.Server, ctx context.Context, c *framework.Client, n, other *counter.Long,
) *recipetest.Call[int64] {
	t.Helper()
	hold := s.Inject(zktest.Fault{Session: session(t, c), Op: "multi", Action: zktest.Hold})
	call := recipetest.Begin(t, func() (int64, error) { return n.Add(ctx, 1) })
	for range 2 {
		<-hold.Struck()
		add(t, other, 1)
		last := hold
		hold = s.Inject(zktest.Fault{Session: session(t, c), Op: "multi", Action: zktest.Hold})
		last.Release()
	}
	hold.Release()
	return call
}

// A process waits once for the place of a hung process, also if it waits in line again.
func TestAHungProcessIsWaitedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create("/counters", nil))
		c := newClient(t, s)
		n, other := counter.NewLong(c, path), counter.NewLong(newClient(t, s), path)
		began := time.Now()
		waitInLine(t, s, background, c, n).End().OK()
		require.InDelta(t, 200*time.Millisecond, time.Since(began), float64(5*time.Millisecond))
		for range 3 {
			time.Sleep(time.Second) // it has left the line
			began = time.Now()
			loseTwoRaces(t, s, background, c, n, other).End().OK()
			require.Less(t, time.Since(began), 10*time.Millisecond)
		}
	})
}

// places returns the places in the line.
func places(t *testing.T, s *zktest.Server) []string {
	t.Helper()
	return slices.DeleteFunc(marks(t, s), func(name string) bool { return !strings.Contains(name, "turn-") })
}

// If the session of a waiting adder expires, it adds in the next one. If its context ends, nothing is added, and its place is
// deleted.
func TestTheWaitInLineEnds(t *testing.T) {
	for _, lost := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			require.NoError(t, s.Create("/counters", nil))
			ctx, cancel := context.WithCancel(background)
			defer cancel()
			c := newClient(t, s)
			call := waitInLine(t, s, ctx, c, counter.NewLong(c, path))
			before := at(t, s)
			if lost {
				s.Expire(session(t, c))
				require.NoError(t, call.End().Err)
				require.Equal(t, before+1, at(t, s))
			} else {
				cancel()
				require.ErrorIs(t, call.End().Err, context.Canceled)
				require.NotErrorIs(t, call.Err, framework.ErrOutcomeUnknown)
				require.Equal(t, before, at(t, s))
			}
			require.Len(t, places(t, s), 1)
			require.NoError(t, s.Delete(hungPlace(0)))
			tidy(t, s, c)
		})
	}
}

// The context of an Add ends after its place was made, and before the others are listed: the place is deleted.
func TestAnAddGivesUpWhileItTakesAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c, other := newClient(t, s), counter.NewLong(newClient(t, s), path)
		n := counter.NewLong(c, path)
		add(t, other, 1)
		add(t, n, 1)
		add(t, other, 1) // so that n's write without a read is refused
		ctx, cancel := context.WithCancel(background)
		listing := s.Inject(zktest.Fault{Session: session(t, c), Op: zktest.OpGetChildren2, Action: zktest.HoldReply})
		call := loseTwoRaces(t, s, ctx, c, n, other)
		<-listing.Struck()
		synctest.Wait()
		require.Len(t, places(t, s), 1)
		cancel()
		require.ErrorIs(t, call.End().Err, context.Canceled)
		listing.Release()
		synctest.Wait()
		require.Empty(t, places(t, s))
	})
}

// The server refuses a place, and the process tries for none in this session; in its next session it has one.
func TestAPlaceIsTriedInEachSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c, other := newClient(t, s), counter.NewLong(newClient(t, s), path)
		n := counter.NewLong(c, path)
		add(t, other, 1)
		add(t, n, 1)
		add(t, other, 1) // so that n's write without a read is refused
		mayNotCreate, mayAll := zktest.ACL{Perms: 31 &^ 4, Scheme: "world", ID: "anyone"}, zktest.ACL{Perms: 31, Scheme: "world", ID: "anyone"}
		require.NoError(t, s.SetACL(path, mayNotCreate))
		loseTwoRaces(t, s, background, c, n, other).End().OK()
		require.NoError(t, s.SetACL(path, mayAll))
		s.Expire(session(t, c))
		time.Sleep(5 * time.Second)
		call := waitInLine(t, s, background, c, n)
		require.NoError(t, s.Delete(hungPlace(0)))
		call.End().OK()
	})
}

// A hook ends the writer's goroutine during its turn: its place does not stay, so that no other process waits for it.
func TestAHookThatEndsTheWriterLeavesNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		armed := false
		c := newClient(t, s, framework.WithHooks(framework.Hooks{
			Operation: func(_ context.Context, op framework.Operation) func(framework.OperationEnd) {
				if children, err := s.Children(path); armed && op.Name == "transaction" && assert.NoError(t, err) &&
					slices.ContainsFunc(children, func(name string) bool { return strings.Contains(name, "turn-") }) {
					armed = false
					runtime.Goexit()
				}
				return nil
			},
		}))
		n, other := counter.NewLong(c, path), counter.NewLong(newClient(t, s), path)
		add(t, other, 1)
		add(t, n, 1)
		add(t, other, 1) // so that n's write without a read is refused
		armed = true
		require.Error(t, loseTwoRaces(t, s, background, c, n, other).End().Err)
		require.False(t, armed)
		synctest.Wait()
		require.Empty(t, places(t, s))
		add(t, n, 1)
	})
}

// The number is deleted while an adder waits: it starts again at 0.
func TestTheNumberIsDeletedDuringTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create("/counters", nil))
		c := newClient(t, s)
		n := counter.NewLong(c, path)
		call := waitInLine(t, s, background, c, n)
		require.NoError(t, s.DeleteAll(path))
		require.EqualValues(t, 1, call.End().OK())

		// It is deleted repeatedly, also when the adder is about to create a place. The next Add can wait with a place.
		time.Sleep(time.Second)
		hold := s.Inject(zktest.Fault{Session: session(t, c), Op: "multi", Action: zktest.Hold})
		call = recipetest.Begin(t, func() (int64, error) { return n.Add(background, 1) })
		for range 3 {
			<-hold.Struck()
			require.NoError(t, s.DeleteAll(path))
			last := hold
			hold = s.Inject(zktest.Fault{Session: session(t, c), Op: "multi", Action: zktest.Hold})
			last.Release()
		}
		hold.Release()
		require.EqualValues(t, 1, call.End().OK())
		time.Sleep(time.Second)
		waitInLine(t, s, background, c, n).End().OK()
	})
}

package mutex_test

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// Flights: the number of round trips that a caller waits for, with a delay for each reply.
func TestFlights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trip = time.Second
		s := zktest.RunT(t)
		require.NoError(t, s.Create(path, nil))
		m, other := mutex.New(newClient(t, s), path), mutex.New(newClient(t, s), path)
		s.Delay(0, trip)
		flights := func(want int, what string, do func()) {
			t.Helper()
			began := time.Now()
			do()
			require.Equal(t, time.Duration(want)*trip, time.Since(began), what)
		}
		var lock *mutex.Lock
		flights(1, "acquire, free", func() { lock = acquire(t, m) })
		flights(0, "fencing token, re-entry and its release", func() {
			require.NotZero(t, lock.FencingToken())
			inner, err := m.Acquire(lock.Context())
			require.NoError(t, err)
			release(t, inner)
		})
		flights(1, "try, taken", func() {
			_, err := other.TryAcquire(background)
			require.ErrorIs(t, err, mutex.ErrNotAcquired)
		})
		armed := func() (n int) {
			for _, w := range s.Watches() {
				if w.Path == lock.Path() {
					n++
				}
			}
			return n
		}
		time.Sleep(trip)
		before := armed()
		next := waiting(t, background, other)
		time.Sleep(trip) // the list has arrived, and both watches are requested in one flight
		synctest.Wait()
		require.Equal(t, before+1, armed())
		time.Sleep(trip)
		flights(1, "release, and the only waiter has it by then", func() { release(t, lock) })
		o := next.End()
		require.NoError(t, o.Err)
		require.Equal(t, time.Now(), o.At)
		flights(1, "release", func() { release(t, o.Value) })
		flights(2, "try, free", func() {
			var err error
			lock, err = m.TryAcquire(background)
			require.NoError(t, err)
		})
		release(t, lock)
		time.Sleep(trip)
		clean(t, s, path)
	})
}

// A release wakes one waiter, however many wait.
func TestNoHerd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		m := mutex.New(c, path)
		lock := acquire(t, m)
		const waiters = 300
		done := make(chan *mutex.Lock, waiters)
		for range waiters {
			go func() {
				lock, err := m.Acquire(background)
				if err == nil {
					done <- lock
				}
			}()
		}
		synctest.Wait()
		line, err := m.Participants(background)
		require.NoError(t, err)
		require.Len(t, line, waiters+1)
		watched := map[string]int{}
		for _, w := range s.Watches() {
			watched[w.Path]++
		}
		for _, p := range line[1:] {
			require.LessOrEqual(t, watched[p.Path], 1, "own-node and predecessor watch are one on the server")
			require.LessOrEqual(t, watched[p.Path+"-released"], 1)
		}
		s.ResetCounts()
		for i := range waiters {
			require.Equal(t, line[i].Name, lock.Node())
			release(t, lock)
			lock = <-done
		}
		release(t, lock)
		synctest.Wait()
		got := s.Counts()
		require.Equal(t, map[string]int{"delete": 1, "multi": waiters}, got)
		clean(t, s, path)
	})
}

// The cost of a cycle (acquire and release) with contenders that take turns, and the time of the hand-over: from the request to
// delete the node to the next grant. Only replies take time, a trip each.
func TestCycles(t *testing.T) {
	const trip = time.Millisecond
	for i, c := range []struct {
		name     string
		k        int
		together bool // all contenders in one client
		hold     time.Duration
		events   float64
	}{
		{"two clients", 2, false, 5 * trip, 2},
		{"three clients", 3, false, 5 * trip, 3},
		{"eight clients", 8, false, 0, 3},
		{"eight clients that hold", 8, false, 5 * trip, 3},
		{"two goroutines of a client", 2, true, 5 * trip, 1},
		{"three goroutines of a client", 3, true, 5 * trip, 2},
		{"eight goroutines of a client", 8, true, 0, 2},
		{"eight goroutines of a client that hold", 8, true, 2 * trip, 2},
	} {
		if testing.Short() && i%4 != 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				require.NoError(t, s.Create(path, nil))
				s.Delay(0, trip)
				took := takeTurns(t, s, c.k, c.together, c.hold)
				slices.Sort(took)
				require.Equal(t, trip, took[len(took)/2], "hand-over")
				trace := strings.Join(s.Trace()[500:3500], "\n") // while the line is full
				per := func(what string) float64 {
					return float64(strings.Count(trace, " "+what+" ")) / float64(strings.Count(trace, " create2 "))
				}
				require.InDelta(t, c.events, per("event"), 0.05, "events")
				for op, n := range map[string]float64{
					"getChildren2": 1, "getData": 1, "setWatches": 1, "multi": 1, "exists": 0, "removeWatches": 0,
				} {
					require.InDelta(t, n, per(op), 0.05, op)
				}
			})
		})
	}
}

// takeTurns lets k contenders, each of its own client or all of one, take turns until the trace is full. It returns the times of
// the hand-overs.
func takeTurns(
	t *testing.T, s *zktest.Server, k int, together bool, hold time.Duration,
) (took []time.Duration) {
	t.Helper()
	clients := make([]*framework.Client, k)
	for i := range clients {
		if clients[i] = clients[0]; i == 0 || !together {
			clients[i] = newClient(t, s)
		}
	}
	var (
		all      sync.WaitGroup
		holders  atomic.Int32
		released time.Time // by the last holder
	)
	for _, c := range clients {
		m := mutex.New(c, path)
		all.Go(func() {
			for range 1500 / k {
				lock, err := m.Acquire(background)
				if !assert.NoError(t, err) {
					return
				}
				assert.EqualValues(t, 1, holders.Add(1))
				took = append(took, time.Since(released))
				time.Sleep(hold)
				holders.Add(-1)
				released = time.Now()
				assert.NoError(t, lock.Release(background))
			}
		})
	}
	all.Wait()
	clean(t, s, path)
	return took
}

package counter_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
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

// Clients that add without a rest share the number: none waits long, and together they use most of the time. Their replies take
// from 0.5 to 0.7 ms. Curator's clients read and write, and repeat that until they win the race.
func TestAddersTakeTurns(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name               string
		ours, curators     int
		resting            int
		lock               bool
		gap, p99           time.Duration // at most, of this library's clients
		rate, curatorsRate int           // additions per second, at least
		requests           float64       // per addition of this library's clients, at most
	}{
		{name: "one", ours: 1, gap: 1 * ms, p99: 1 * ms, rate: 1900, requests: 1},
		{name: "one, and marks of others that rest", ours: 1, resting: 31, gap: 6 * ms, p99: 1 * ms, rate: 1800, requests: 1.1},
		{name: "two", ours: 2, gap: 25 * ms, p99: 20 * ms, rate: 1600, requests: 1.4},
		{name: "two, and marks of others that rest", ours: 2, resting: 14, gap: 25 * ms, p99: 20 * ms, rate: 1600, requests: 1.4},
		{name: "eight", ours: 8, gap: 60 * ms, p99: 35 * ms, rate: 1350, requests: 2.3},
		{name: "32", ours: 32, gap: 250 * ms, p99: 140 * ms, rate: 1200, requests: 2.4},
		{name: "eight with a lock", ours: 8, lock: true, gap: 120 * ms, p99: 90 * ms, rate: 1500, requests: 1.9},
		{name: "one of eight", ours: 1, curators: 7, gap: 60 * ms, p99: 20 * ms, rate: 1000, curatorsRate: 300},
		{name: "seven of eight", ours: 7, curators: 1, gap: 700 * ms, p99: 150 * ms, rate: 500, curatorsRate: 250},
		{name: "four of eight with a lock", ours: 4, curators: 4, lock: true, gap: 150 * ms, p99: 80 * ms, rate: 900,
			curatorsRate: 300},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				require.NoError(t, s.Create("/counters", nil))
				require.NoError(t, s.Create(path, make([]byte, 8)))
				var ours, curators adders
				for i := range c.ours + c.curators {
					client := newClient(t, s)
					s.Delay(session(t, client), 500*time.Microsecond+200*time.Microsecond*time.Duration(i)/32)
					if i >= c.ours {
						curators.add = append(curators.add, func() error { return addAsCurator(client) })
						continue
					}
					var opts []counter.Option
					if c.lock {
						opts = append(opts, counter.WithLock("/counters/orders-lock"))
					}
					number := counter.NewLong(client, path, opts...)
					ours.add = append(ours.add, func() error { _, err := number.Add(background, 1); return err })
				}
				for i := range c.resting {
					require.NoError(t, s.Create(path+"/"+fmt.Sprint(i), nil))
				}
				var all sync.WaitGroup
				end := time.Now().Add(500 * ms) // by then their turns are regular
				ours.run(t, &all, end)
				curators.run(t, &all, end)
				all.Wait()
				s.ResetCounts()
				const long = 3 * time.Second
				end = time.Now().Add(long)
				ours.run(t, &all, end)
				curators.run(t, &all, end)
				all.Wait()
				s.Heal()
				rate, curatorsRate := len(ours.took)/3, len(curators.took)/3
				requests := float64(recipetest.Sum(s.Counts())) / float64(len(ours.took))
				slices.Sort(ours.took)
				gap, p99 := ours.took[len(ours.took)-1], ours.took[len(ours.took)*99/100]
				t.Logf("%d additions/s (%d as Curator), %.2f requests, p99 %v, gap %v", rate, curatorsRate, requests, p99, gap)
				assert.LessOrEqual(t, gap, c.gap, "the longest time between two additions of a client")
				assert.LessOrEqual(t, p99, c.p99, "p99 of an addition")
				assert.GreaterOrEqual(t, rate, c.rate)
				assert.GreaterOrEqual(t, curatorsRate, c.curatorsRate)
				if c.curators == 0 {
					assert.LessOrEqual(t, requests, c.requests)
				}
			})
		})
	}
}

// adders are clients that add, each one addition after the other.
type adders struct {
	add []func() error

	mu   sync.Mutex
	took []time.Duration // the additions of the last run; guarded by mu
}

// run makes the clients add until end.
func (a *adders) run(t *testing.T, all *sync.WaitGroup, end time.Time) {
	a.took = nil
	for _, add := range a.add {
		all.Go(func() {
			var took []time.Duration
			for began := time.Now(); began.Before(end); {
				if !assert.NoError(t, add()) {
					return
				}
				now := time.Now()
				took = append(took, now.Sub(began))
				began = now
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			a.took = append(a.took, took...)
		})
	}
}

// addAsCurator adds one as Curator's DistributedAtomicLong does with a policy that retries immediately.
func addAsCurator(client *framework.Client) error {
	for {
		var stat framework.Stat
		data, err := client.GetData().StoringStatIn(&stat).ForPath(background, path)
		if err != nil {
			return err
		}
		next := binary.BigEndian.AppendUint64(nil, binary.BigEndian.Uint64(data)+1)
		_, err = client.SetData().WithVersion(stat.Version).ForPath(background, path, next)
		if !errors.Is(err, framework.ErrBadVersion) {
			return err
		}
	}
}

// Two or three clients that add now and then leave the server idle most of the time, so that none waits for turns. Eight use more
// than half of its time.
func TestAddersThatRestDoNotWait(t *testing.T) {
	for clients, most := range map[int]time.Duration{2: 40 * time.Millisecond, 3: 50 * time.Millisecond, 8: 400 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			require.NoError(t, s.Create("/counters", nil))
			require.NoError(t, s.Create(path, make([]byte, 8)))
			s.Delay(0, 5*time.Millisecond)
			var all sync.WaitGroup
			longest := make([]time.Duration, clients)
			for i := range clients {
				number := counter.NewLong(newClient(t, s), path)
				all.Go(func() {
					for range 300 {
						began := time.Now()
						if _, err := number.Add(background, 1); err != nil {
							t.Error(err)
						}
						longest[i] = max(longest[i], time.Since(began))
						time.Sleep(time.Duration(100+13*i) * time.Millisecond)
					}
				})
			}
			all.Wait()
			assert.LessOrEqual(t, slices.Max(longest), most, "%d clients", clients)
		})
	}
}

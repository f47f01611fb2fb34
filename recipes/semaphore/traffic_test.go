package semaphore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/recipes/semaphore"
	"github.com/go-curator/curator/zktest"
)

// A free acquire takes two flights: with a delay of one second for each reply, two seconds.
func TestFlights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		for _, dir := range []string{locks, leases} {
			require.NoError(t, s.Create(dir, nil))
		}
		c := newClient(t, s)
		shared := semaphore.New(c, path, 5, semaphore.WithSharedCount(countPath))
		require.NoError(t, semaphore.NewCount(c, countPath).Set(background, 5))
		release(t, acquire(t, semaphore.New(c, path, 5), 1))
		s.Delay(0, time.Second)
		for name, acquire := range map[string]func() (*semaphore.Lease, error){
			"one": func() (*semaphore.Lease, error) {
				return semaphore.New(c, path, 5).Acquire(background, 1)
			},
			"several": func() (*semaphore.Lease, error) {
				return semaphore.New(c, path, 5).Acquire(background, 5)
			},
			"try": func() (*semaphore.Lease, error) {
				return semaphore.New(c, path, 5).TryAcquire(background, 1)
			},
			"shared": func() (*semaphore.Lease, error) { return shared.Acquire(background, 2) },
			"mutex, inside": func() (*semaphore.Lease, error) {
				return semaphore.New(c, path, 1).Acquire(background, 1)
			},
		} {
			began := time.Now()
			lease, err := acquire()
			require.NoError(t, err)
			require.Equal(t, 2*time.Second, time.Since(began), name)
			began = time.Now()
			require.NoError(t, lease.Release(background))
			require.Equal(t, time.Second, time.Since(began), name)
		}
	})
}

// The average requests of a cycle (acquire and release) of clients that contend without a pause. It takes 6: create, list, a
// watch on the predecessor's node, a list of the leases with a watch, the transaction, and a delete. While a quarter of the leases
// is free it takes 5, without the list of the leases. After a quick release the next in the line may find its predecessor's node
// deleted already, and then lists the line as well, unless it counts (a mutex). Two clients that alternate without a pause find
// the lease sometimes free and sometimes taken, and so more often list before they join the line.
func TestTrafficOfContention(t *testing.T) {
	for i, c := range []struct {
		clients, leases int
		hold            time.Duration
		most            float64
	}{
		{8, 1, 0, 6}, {8, 1, 2 * time.Millisecond, 6}, {16, 4, 0, 5}, {16, 4, 2 * time.Millisecond, 6},
		{2, 1, 0, 7.5}, {2, 1, 2 * time.Millisecond, 6}, {3, 1, 0, 6.5}, {3, 1, 2 * time.Millisecond, 6},
		{3, 2, 0, 7}, {3, 2, 2 * time.Millisecond, 6}, {3, 3, 0, 6}, {3, 3, 2 * time.Millisecond, 6},
	} {
		if testing.Short() && i%5 != 0 {
			continue
		}
		t.Run(fmt.Sprintf("%d clients, %d leases, %v", c.clients, c.leases, c.hold), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const rounds = 100
				s := zktest.RunT(t)
				for _, dir := range []string{locks, leases} {
					require.NoError(t, s.Create(dir, nil))
				}
				sems := make([]*semaphore.Semaphore, c.clients)
				for i := range sems {
					sems[i] = semaphore.New(newClient(t, s), path, c.leases)
				}
				s.Delay(0, 200*time.Microsecond)
				s.ResetCounts()
				var wg sync.WaitGroup
				for _, sem := range sems {
					wg.Go(func() {
						for range rounds {
							lease, err := sem.Acquire(background, 1)
							if !assert.NoError(t, err) {
								return
							}
							time.Sleep(c.hold)
							assert.NoError(t, lease.Release(background))
						}
					})
				}
				wg.Wait()
				synctest.Wait()
				got := s.Counts()
				each := float64(sum(got)) / float64(rounds*c.clients)
				t.Logf("%.2f requests: %v", each, got)
				require.LessOrEqual(t, each, c.most+0.2) // at first each finds that it must wait
				clean(t, s)
			})
		})
	}
}

// A release wakes one waiter, however many wait.
func TestNoHerd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		const max, waiters = 5, 100
		sem := semaphore.New(c, path, max)
		held := make(chan *semaphore.Lease, max+waiters)
		for range max {
			held <- acquire(t, sem, 1)
		}
		for range waiters {
			go func() {
				if lease, err := sem.Acquire(background, 1); err == nil {
					held <- lease
				}
			}()
		}
		synctest.Wait()
		line, err := sem.Waiting(background)
		require.NoError(t, err)
		require.Len(t, line, waiters)
		onLeases := 0
		for _, w := range s.Watches() {
			if w.Path == leases {
				onLeases++
			}
		}
		require.Equal(t, 1, onLeases, "only the first in line looks at the leases")
		time.Sleep(time.Second)
		s.ResetCounts()
		for range waiters {
			release(t, <-held)
			synctest.Wait()
			require.LessOrEqual(t, taken(t, s), max)
			require.Len(t, held, max)
		}
		got := s.Counts()
		require.Equal(t, waiters, got["multi"], "each leaves the line as it takes its lease")
		require.Equal(t, waiters, got["delete"])
		require.Zero(t, got["create2"])
		require.LessOrEqual(t, sum(got), 4*waiters, fmt.Sprint(got))
		for range max {
			release(t, <-held)
		}
		clean(t, s)
	})
}

// Callers that arrive while many wait do not list them all for themselves.
func TestNewcomersShareLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiters = 300
		s := zktest.RunT(t)
		require.NoError(t, s.Create(locks, nil))
		c := newClient(t, s)
		lease := acquire(t, semaphore.New(c, path, 1), 1)
		s.Delay(0, time.Millisecond) // so that all of them arrive while the first list is in flight
		s.ResetCounts()
		ctx, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range waiters {
			all.Go(func() {
				_, err := semaphore.New(c, path, 1).Acquire(ctx, 1)
				assert.ErrorIs(t, err, context.Canceled)
			})
		}
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, waiters, s.Counts()["create2"])
		assert.LessOrEqual(t, s.Counts()["getChildren2"], waiters+5, "one each of the leases, and a few of the line")
		leave()
		all.Wait()
		release(t, lease)
		clean(t, s)
	})
}

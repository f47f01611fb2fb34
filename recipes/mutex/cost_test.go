package mutex_test

import (
	"context"
	"math"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// A free cycle must stay cheap for the client: programs acquire thousands of locks. The counts do not depend on how busy the
// machine is.
func TestClientCost(t *testing.T) {
	const cycles = 300
	addr := server(t)
	for _, c := range []struct {
		name              string
		cycle             func()
		most, mostOfBytes float64
	}{
		{"awaited", awaitedCycle(t, addr), 40, 4096}, // the Lock of go-zookeeper, which has fewer features: 53, 2193
		{"unawaited", unawaitedCycle(t, addr), 50, 4700},
	} {
		name, cycle := c.name, c.cycle
		for range 20 { // the first cycles create the directory and fill the pools
			cycle()
		}
		allocations, bytes := math.Inf(1), math.Inf(1)
		for range 5 { // pings, and the garbage collector (it empties pools), only add: the minimum is the cycle's own cost
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range cycles {
				cycle()
			}
			runtime.ReadMemStats(&after)
			allocations = min(allocations, float64(after.Mallocs-before.Mallocs)/cycles)
			bytes = min(bytes, float64(after.TotalAlloc-before.TotalAlloc)/cycles)
		}
		t.Logf("%s: %.1f allocations, %.0f bytes", name, allocations, bytes)
		assert.LessOrEqual(t, allocations, c.most*slack, name)
		assert.LessOrEqual(t, bytes, c.mostOfBytes*slack, name)
	}
}

// Goroutines of one client that arrive together share lists of the line: n waiters must not cost n lists of n names.
func TestNewcomersShareLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiters = 300
		s := zktest.RunT(t)
		m := mutex.New(newClient(t, s), path)
		lock := acquire(t, m)
		s.Delay(0, time.Millisecond) // so that all of them arrive while the first list is in flight
		s.ResetCounts()
		ctx, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range waiters {
			all.Go(func() {
				_, err := m.Acquire(ctx)
				assert.ErrorIs(t, err, context.Canceled)
			})
		}
		time.Sleep(time.Second)
		synctest.Wait()
		line, err := m.Participants(t.Context())
		require.NoError(t, err)
		assert.Len(t, line, waiters+1)
		assert.Equal(t, waiters, s.Counts()["create2"])
		assert.LessOrEqual(t, s.Counts()["getChildren2"], 5, "that of Participants included")
		leave()
		all.Wait()
		release(t, lock)
		clean(t, s, path)
	})
}

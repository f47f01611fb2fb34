package promises

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/proxy"
	"github.com/go-curator/curator/integration/zkserver"
	"github.com/go-curator/curator/recipes/mutex"
)

// P3: a caller that gives up leaves nothing: no node, no watch, no goroutine. 1,000 acquires are cancelled at random
// moments, on a good connection and on one that sometimes breaks.
func TestNothingLeaks(t *testing.T) { // alone: it counts goroutines
	for _, test := range []struct {
		name   string
		broken bool
	}{{"on a good connection", false}, {"on a bad connection", true}} {
		t.Run(test.name, func(t *testing.T) { leaks(t, test.broken) })
	}
}

func leaks(t *testing.T, broken bool) {
	const clients, paths, acquires = 8, 5, 1000
	node := zkserver.Start(t, zkserver.Options{TickTime: tick, MaxSessionTimeout: timeout})
	link := proxy.New(t, node.Addr())
	ctx := kit.Context(t)
	observer, _ := kit.Connected(t, node.ConnectString())
	var cs []*framework.Client
	path := func(i int) string { return fmt.Sprintf("/leaks/%d", i%paths) }
	for range clients {
		c, _ := kit.Connected(t, link.Addr())
		cs = append(cs, c)
	}
	for i := range paths { // so that no containers are created and removed
		_, err := observer.Create().CreatingParentsIfNeeded().ForPath(ctx, path(i), nil)
		require.NoError(t, err)
	}
	for i := range 200 { // a server that has just started is slow
		require.NoError(t, mutex.New(cs[i%clients], path(i)).Do(ctx, func(context.Context) error { return nil }))
	}
	kit.Soon(t, "quiet", func() bool { return kit.Watches(t, node) == 0 })
	goroutines := settled()

	stop := make(chan struct{})
	var disturber sync.WaitGroup
	if broken {
		disturber.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(rand.N(300 * time.Millisecond)):
					link.Cut()
					link.Heal()
				}
			}
		})
	}
	var acquired, cancelled atomic.Int64
	var all sync.WaitGroup
	var next atomic.Int64
	for worker := range 4 * clients {
		all.Go(func() {
			for i := next.Add(1); i <= acquires; i = next.Add(1) {
				patience := rand.N(20 * time.Millisecond) // a caller that gives up while the create is in flight
				if i%3 > 0 {
					patience = rand.N(300 * time.Millisecond) // a caller that leaves the line
				}
				short, cancel := context.WithTimeout(ctx, patience)
				m := mutex.New(cs[worker%clients], path(rand.N(paths)))
				acquire := m.Acquire
				if i%7 == 0 {
					acquire = m.TryAcquire
				}
				lock, err := acquire(short)
				switch {
				case err == nil:
					acquired.Add(1)
					time.Sleep(rand.N(70 * time.Millisecond)) // sometimes long enough for the hold to watch its node
					releasing, done := context.WithTimeout(ctx, rand.N(10*time.Millisecond))
					_ = lock.Release(releasing) // the client continues the release in the background
					done()
				default:
					cancelled.Add(1)
					if i%7 != 0 {
						assert.ErrorIs(t, err, context.DeadlineExceeded)
					}
				}
				cancel()
			}
		})
	}
	all.Wait()
	close(stop)
	disturber.Wait()
	kit.Figure(t, "P3: %d acquires: %d granted, %d gave up", acquires, acquired.Load(), cancelled.Load())
	assert.Positive(t, acquired.Load())
	assert.Greater(t, cancelled.Load(), int64(acquires/3))

	for _, c := range cs {
		require.NoError(t, c.WaitConnected(ctx))
	}
	began := time.Now()
	kit.Soon(t, "no clean-up is pending", func() bool {
		for _, c := range cs {
			if c.PendingCleanups() > 0 {
				return false
			}
		}
		return true
	})
	kit.Soon(t, "no node is left", func() bool {
		for i := range paths {
			require.NoError(t, observer.Sync().ForPath(ctx, path(i)))
			names, err := observer.GetChildren().ForPath(ctx, path(i))
			require.NoError(t, err)
			if len(names) > 0 {
				return false
			}
		}
		return true
	})
	kit.Soon(t, "no watch is left", func() bool { return kit.Watches(t, node) == 0 })
	kit.Soon(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= goroutines })
	t.Logf("everything was gone %v after the last one had left", time.Since(began))
	for _, c := range cs {
		assert.Equal(t, int64(1), c.State().Epoch, "the same session all the time")
	}
}

// settled returns the number of goroutines when it does not fall any more.
func settled() int {
	n := runtime.NumGoroutine()
	for same := 0; same < 20; time.Sleep(5 * time.Millisecond) {
		if now := runtime.NumGoroutine(); now < n {
			n, same = now, 0
		} else {
			same++
		}
	}
	return n
}

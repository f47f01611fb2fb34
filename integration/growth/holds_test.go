package growth_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/zkserver"
	"github.com/go-curator/curator/recipes/mutex"
)

// Locks that one client holds, each at its own path: on a standalone server, where the session's pings are enough, and
// on an ensemble with a session timeout of 4 s, where each lock has heartbeats.
func TestHolds(t *testing.T) {
	c := &curve{id: "holds", of: "locks", plotted: 3, columns: []string{
		"acquired a second", "heap, kB each", "requests a second at rest", "bytes a second at rest",
		"CPU at rest, %", "first to last loss, ms"}}
	t.Run("standalone", func(t *testing.T) {
		node := server(t)
		for _, n := range sizes(100_000) {
			hoard(t, c, "one server, T = 30 s", n, kit.Patience/2, node.Addr(), node.Addr())
		}
	})
	t.Run("ensemble", func(t *testing.T) {
		o := options()
		o.JVMFlags = append(o.JVMFlags, "-Xmx1g")
		ensemble := zkserver.StartEnsemble(t, 3, o)
		for _, n := range sizes(100_000) {
			hoard(t, c, "ensemble, T = 4 s", n, 4*time.Second, ensemble.ConnectString(), ensemble.Addr(0))
		}
	})
	for _, r := range c.rows {
		if r.what == "one server, T = 30 s" {
			assert.LessOrEqual(t, r.figures[2], 2.0, "requests a second for %d locks", r.n)
		} else {
			assert.LessOrEqual(t, r.figures[2], 16.0, "requests a second for %d locks", r.n)
		}
	}
	c.save(t)
}

func hoard(t *testing.T, c *curve, what string, n int, timeout time.Duration, servers, one string) {
	m := &meter{}
	client := m.connect(t, servers, 1, timeout)[0]
	defer end([]*framework.Client{client})
	ctx := patience(t)
	locks := make([]*mutex.Lock, n)
	before, begin := live(), time.Now()
	var all sync.WaitGroup
	var next atomic.Int64
	for range min(n, 64) {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				// A thousand parents keep the lists of children short.
				path := fmt.Sprintf("/holds/%d-%d-%d/%d/%d", len(c.rows), n, len(what), i%1000, i)
				lock, err := mutex.New(client, path).Acquire(ctx)
				if !assert.NoError(t, err) {
					return
				}
				locks[i] = lock
			}
		})
	}
	all.Wait()
	require.False(t, t.Failed())
	rate := float64(n) / time.Since(begin).Seconds()
	time.Sleep(2 * time.Second) // until the heartbeats have begun
	perLock := max(0, live()-before) / float64(n) / 1000

	span := 5 * time.Second
	sent, bytes, spent := m.requests.Load(), m.out.Load(), cpu(t)
	time.Sleep(span)
	requests := float64(m.requests.Load()-sent) / span.Seconds()
	sentBytes := float64(m.out.Load()-bytes) / span.Seconds()
	busy := 100 * (cpu(t) - spent).Seconds() / span.Seconds()

	for _, lock := range locks {
		require.NoError(t, lock.Context().Err(), "lost while the servers were well")
	}
	var first atomic.Int64
	for range 16 { // the first end of these is hardly later than the first of all
		context.AfterFunc(locks[rand.IntN(n)].Context(), func() { first.CompareAndSwap(0, time.Now().UnixNano()) })
	}
	session, err := client.Session(ctx)
	require.NoError(t, err)
	kit.EndSession(t, one, session.ID())
	for _, lock := range locks {
		<-lock.Context().Done()
	}
	last := time.Now()
	for first.Load() == 0 { // the goroutine of the first end is about to run
		time.Sleep(time.Millisecond)
	}
	c.add(t, what, n, rate, perLock, requests, sentBytes, busy,
		milliseconds(max(0, last.Sub(time.Unix(0, first.Load())))))
}

// cpu returns the CPU time of the process.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

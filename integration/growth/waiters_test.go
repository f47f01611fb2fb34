package growth_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/zkserver"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/recipes/semaphore"
)

// enter begins to acquire something with few places, on a goroutine of all if necessary. It calls got when it is
// granted; leave releases it and does not wait.
type enter func(ctx context.Context, all *sync.WaitGroup, got func(leave func()))

// line is a recipe with waiters.
type line struct {
	name     string
	room     int // number of holders at a time
	of       func(c *framework.Client, path string, i int) enter
	handOver float64 // requests that a hand-over may cost
}

// hold is a lock or a lease.
type hold interface{ ReleaseInBackground(then ...func(error)) }

func held[H hold](acquire func(ctx context.Context) (H, error)) enter {
	return func(ctx context.Context, all *sync.WaitGroup, got func(func())) {
		all.Go(func() {
			if h, err := acquire(ctx); err == nil {
				got(func() { h.ReleaseInBackground() })
			}
		})
	}
}

const leases = 4

var lines = []line{
	{"mutex", 1, func(c *framework.Client, path string, _ int) enter {
		return held(mutex.New(c, path).Acquire)
	}, 4},
	{"read-write lock, half of them readers", 1, func(c *framework.Client, path string, i int) enter {
		if rw := rwlock.New(c, path); i%2 == 1 {
			return held(rw.ReadLock().Acquire)
		} else {
			return held(rw.WriteLock().Acquire)
		}
	}, 5},
	{"semaphore of 4", leases, func(c *framework.Client, path string, _ int) enter {
		s := semaphore.New(c, path, leases)
		return held(func(ctx context.Context) (*semaphore.Lease, error) { return s.Acquire(ctx, 1) })
	}, 6},
	{"latch with a listener", 1, func(c *framework.Client, path string, _ int) enter {
		return func(_ context.Context, _ *sync.WaitGroup, got func(func())) {
			var l *leader.Latch
			leave := func() { _ = l.Close() } // called by the test's goroutine, after l is set
			var err error
			if l, err = leader.NewLatch(c, path, leader.WithListener(leader.Listener{
				OnLeader: func(*leader.Term) { got(leave) },
			})); err != nil {
				panic(err)
			}
		}
	}, 4},
}

// granted is the grant of a waiter.
type granted struct {
	at    time.Time
	leave func()
}

// Waiters at one lock, from ten clients: the cost for each to stand in line, and the cost of a hand-over with so many
// waiters.
func TestWaiters(t *testing.T) {
	node := server(t)
	c := &curve{id: "waiters", of: "waiters", plotted: 3, columns: []string{
		"requests each", "bytes received each", "heap at rest, kB each", "heap at most, kB each",
		"hand-over, requests", "hand-over, bytes received", "hand-over p50, ms"}}
	for _, l := range lines {
		for _, n := range sizes(10_000) {
			wait(t, node, c, l, n)
		}
		c.flat(t, l.name, "requests each", 1.5)
		c.flat(t, l.name, "hand-over, requests", 1.5)
		for _, r := range c.rows {
			if r.what == l.name && r.n >= 10 {
				assert.LessOrEqual(t, r.figures[4], l.handOver+1, "requests of a hand-over, %d waiters: %s", r.n, l.name)
			}
		}
	}
	c.save(t)
}

func wait(t *testing.T, node *zkserver.Node, c *curve, l line, n int) {
	m := &meter{}
	path := fmt.Sprintf("/growth/%d-%d", len(c.rows), n)
	clients := m.connect(t, node.Addr(), min(10, n)+1, kit.Patience/2)
	defer end(clients)
	ctx, stop := context.WithCancel(patience(t))
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()

	grants := make(chan granted, n+l.room)
	got := func(leave func()) { grants <- granted{time.Now(), leave} }
	next := func() (g granted) {
		select {
		case g = <-grants:
		case <-ctx.Done():
			require.FailNow(t, "nobody was granted", "%s, %d", l.name, n)
		}
		return g
	}
	for range l.room { // holders, with a separate client
		l.of(clients[0], path, 0)(ctx, &all, got)
	}
	leave := next().leave
	for range l.room - 1 {
		next()
	}
	nodes, received, before := kit.Metric(t, node, "zk_ephemerals_count"), kit.Metric(t, node, "zk_packets_received"), live()
	bytes, most := m.in.Load(), peak()
	for i := range n {
		l.of(clients[1+i%(len(clients)-1)], path, i)(ctx, &all, got)
	}
	for kit.Metric(t, node, "zk_ephemerals_count") < nodes+n {
		time.Sleep(50 * time.Millisecond)
		require.NoError(t, ctx.Err(), "the line does not fill")
	}
	m.rest(t)
	each := 1 / float64(n)
	figures := []float64{
		float64(kit.Metric(t, node, "zk_packets_received")-received) * each, float64(m.in.Load()-bytes) * each,
		0, max(0, most()-before) * each / 1000,
	}
	figures[2] = max(0, live()-before) * each / 1000

	received, bytes = kit.Metric(t, node, "zk_packets_received"), m.in.Load()
	times := min(n, 200)
	var took []time.Duration
	for range times {
		begin := time.Now()
		leave()
		g := next()
		took, leave = append(took, g.at.Sub(begin)), g.leave
		time.Sleep(2 * time.Millisecond) // each holds for a moment
	}
	m.rest(t)
	slices.SortFunc(took, cmp.Compare)
	per := 1 / float64(times)
	c.add(t, l.name, n, append(figures, float64(kit.Metric(t, node, "zk_packets_received")-received)*per,
		float64(m.in.Load()-bytes)*per, milliseconds(took[len(took)/2]))...)
}

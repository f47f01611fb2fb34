package growth_test

import (
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
)

// Idle clients, and all of them again after a restart of their server.
func TestSessions(t *testing.T) {
	c := &curve{id: "sessions", of: "sessions", plotted: 4, columns: []string{
		"connected after, s", "heap, kB each", "goroutines each", "requests a minute at rest, each",
		"connected again after a restart, s", "dials each, in the restart"}}
	for _, n := range sizes(10_000) {
		node := server(t)
		m := &meter{}
		before, goroutines := live(), runtime.NumGoroutine()
		begin := time.Now()
		clients := m.connect(t, node.Addr(), n, kit.Patience/2)
		connected := time.Since(begin)
		m.rest(t)
		each := 1 / float64(n)
		figures := []float64{connected.Seconds(), max(0, live()-before) * each / 1000,
			float64(runtime.NumGoroutine()-goroutines) * each}

		out, minute := kit.Metric(t, node, "zk_packets_received"), 30*time.Second
		if *most <= 100 {
			minute = 5 * time.Second
		}
		time.Sleep(minute)
		sent := kit.Metric(t, node, "zk_packets_received") - out
		figures = append(figures, float64(sent)*each*time.Minute.Seconds()/minute.Seconds())

		node.Stop()
		dials := m.dials.Load()
		node.Start()
		begin = time.Now()
		for _, c := range clients {
			again(t, c)
		}
		c.add(t, "client", n, append(figures, time.Since(begin).Seconds(), float64(m.dials.Load()-dials)*each)...)
		end(clients)
		node.Stop()
	}
	c.flat(t, "client", "goroutines each", 1.2)
	for _, r := range c.rows {
		assert.LessOrEqual(t, r.figures[2], 6.0, "goroutines of a client, %d of them", r.n)
		assert.False(t, math.IsNaN(r.figures[3]))
	}
	c.save(t)
}

// again waits until a client has got a reply.
func again(t *testing.T, c *framework.Client) {
	t.Helper()
	ctx := patience(t)
	for {
		err := c.Sync().ForPath(ctx, "/") // a member that has not noticed yet may reply to a read
		if err == nil {
			return
		}
		require.NoError(t, ctx.Err(), "after the restart: %v", err)
	}
}

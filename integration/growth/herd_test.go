package growth_test

import (
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/zkserver"
)

// All clients of an ensemble after its leader was killed: no member serves until there is a new leader.
func TestHerd(t *testing.T) {
	o := options()
	o.JVMFlags = append(o.JVMFlags, "-Xmx1g")
	ensemble := zkserver.StartEnsemble(t, 3, o)
	c := &curve{id: "herd", of: "clients", plotted: 1, columns: []string{
		"members serve again after, s", "half of the replies after, s", "all replies after, s", "dials each", "sessions lost"}}
	limits := sizes(3000)
	if *most >= 3000 {
		limits = append(limits, 3000)
	}
	for _, n := range limits {
		if n < 10 {
			continue
		}
		m := &meter{}
		clients := m.connect(t, ensemble.ConnectString(), n, kit.Patience/2)
		m.rest(t)
		leader, err := ensemble.Leader(patience(t))
		require.NoError(t, err)
		dials, begin := m.dials.Load(), time.Now()
		require.NoError(t, ensemble.Kill(leader))
		answered := make([]time.Duration, n)
		var all sync.WaitGroup
		lost := 0
		for i, client := range clients {
			all.Go(func() {
				again(t, client)
				answered[i] = time.Since(begin)
			})
		}
		serving := math.NaN()
		if err := ensemble.AwaitServing(patience(t)); err == nil {
			serving = time.Since(begin).Seconds()
		}
		all.Wait()
		slices.Sort(answered)
		for _, client := range clients {
			session, err := client.Session(patience(t))
			require.NoError(t, err)
			if session.Epoch() != 1 {
				lost++
			}
		}
		c.add(t, "client", n, serving, answered[n/2].Seconds(), answered[n-1].Seconds(),
			float64(m.dials.Load()-dials)/float64(n), float64(lost))
		assert.Zero(t, lost, "sessions lost by a change of leader, with T = 30 s")
		end(clients)
		require.NoError(t, ensemble.Start(leader))
		require.NoError(t, ensemble.AwaitServing(patience(t)))
	}
	c.save(t)
}

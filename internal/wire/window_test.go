package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
)

func TestWindow(t *testing.T) {
	const late = 250 * time.Millisecond
	quick, slow := 25*time.Millisecond, time.Second
	type answer struct {
		took   time.Duration
		times  int
		cost   int
		wanted bool
	}
	for name, tc := range map[string]struct {
		most    int
		answers []answer
		size    int
		base    time.Duration
	}{
		"nothing answered":                     {1000, nil, windowAtFirst, 0},
		"a small window":                       {5, []answer{{quick, 10, 1, true}}, 5, quick},
		"nobody waits":                         {1000, []answer{{quick, 100, 1, false}}, windowAtFirst, quick},
		"it grows by what is answered":         {1000, []answer{{quick, 32, 1, true}}, 64, quick},
		"large requests make as much room":     {1000, []answer{{quick, 2, 16, true}}, 64, quick},
		"up to its limit":                      {1000, []answer{{quick, 5000, 1, true}}, 1000, quick},
		"a way that is long is nobody's fault": {1000, []answer{{slow, 32, 1, true}}, 64, slow},
		"an answer at the limit is not late":   {1000, []answer{{quick, 32, 1, true}, {quick + late, 4, 1, true}}, 68, quick},
		"late answers halve it, once per round": {1000, []answer{{quick, 32, 1, true}, {slow, 64, 1, true}}, 32,
			quick},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRequestWindow(tc.most, late*windowShare)
			for _, a := range tc.answers {
				for range a.times {
					w.used += a.cost
					w.release(a.cost, a.took, 63, a.wanted)
				}
			}
			assert.Equal(t, tc.size, w.size)
			assert.Equal(t, tc.base, w.baseLatency)
			assert.Zero(t, w.used)
		})
	}

	t.Run("a server that has become slower is not starved", func(t *testing.T) {
		w := newRequestWindow(1000, late*windowShare)
		round := func(took time.Duration) {
			for flying := w.size - 1; flying >= 0; flying-- {
				w.used++
				w.release(1, took, flying, true)
			}
		}
		round(quick)
		for range 3 {
			round(slow)
		}
		require.Equal(t, windowAtLeast, w.size)
		round(slow)
		require.Equal(t, slow, w.baseLatency)
		for range 10 {
			round(slow)
		}
		require.Equal(t, 1000, w.size)
	})
	assert.Equal(t, 1, (&Call{}).windowCost())
	assert.Equal(t, 65, (&Call{Body: make([]byte, 1<<20)}).windowCost())
}

// Urgent calls overtake the calls that wait for room, and no other call changes its place.
func TestUrgentCallsGoInFront(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen []string
		done := make(chan struct{})
		f := scripted(t, func(_ int, p *peer) {
			p.welcome(10 * time.Second)
			for {
				h, body := p.next()
				var r jute.PathWatchRequest
				assert.NoError(t, jute.Unmarshal(body, &r))
				if seen = append(seen, r.Path); len(seen) == 6 {
					close(done)
				}
				time.Sleep(100 * time.Millisecond)
				p.reply(h, 1, 0)
			}
		})
		c := connected(t, f.Dial, func(cfg *Config) { cfg.Window = 1 })
		for _, path := range []string{"/a", "/b", "/c", "/d"} {
			c.start(jute.OpGetData, read(path))
		}
		for _, path := range []string{"/first", "/second"} {
			x, _ := call(jute.OpGetData, read(path))
			x.Urgent = true
			c.Submit(x)
		}
		<-done
		assert.Equal(t, []string{"/a", "/first", "/second", "/b", "/c", "/d"}, seen)
	})
}

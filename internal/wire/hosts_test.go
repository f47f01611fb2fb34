package wire

import (
	"context"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func names(n int) (servers []string) {
	for i := range n {
		servers = append(servers, fmt.Sprintf("zk%d:2181", i))
	}
	return servers
}

// visit is one Next and the pause that goes with it.
func visit(h *hosts) (server string, pause time.Duration) {
	server, start := h.Next()
	pause = h.takeWait()
	if start {
		pause += libraryPause
	}
	return server, pause
}

func TestHostsPassWithoutAPauseFirst(t *testing.T) {
	for n := 1; n <= 5; n++ {
		h := newHosts(names(n))
		require.NoError(t, h.Init([]string{"ignored"}))
		require.Equal(t, n, h.Len())
		var pass []string
		for range n {
			server, pause := visit(h)
			assert.Zero(t, pause)
			pass = append(pass, server)
		}
		assert.ElementsMatch(t, names(n), pass, "every server once")
	}
}

func TestHostsPauseLongerAndLongerBetweenPasses(t *testing.T) {
	t.Run("out of reach", func(t *testing.T) { pauses(t, time.Second, func(*hosts) {}) })
	t.Run("refusing", func(t *testing.T) { pauses(t, 5*time.Second, (*hosts).refused) })
}

func pauses(t *testing.T, most time.Duration, each func(h *hosts)) {
	h := newHosts(names(3))
	var pauses []time.Duration
	for pass := range 14 {
		var seen []string
		for i := range 3 {
			server, pause := visit(h)
			seen = append(seen, server)
			each(h)
			if i > 0 {
				assert.Zero(t, pause, "only between passes")
			} else if pass > 0 {
				pauses = append(pauses, pause)
			}
		}
		assert.ElementsMatch(t, names(3), seen)
	}
	base := 50 * time.Millisecond
	for i, p := range pauses {
		assert.GreaterOrEqual(t, p, base/2, "pause %d", i)
		assert.LessOrEqual(t, p, base*3/2, "pause %d", i)
		base = min(2*base, most)
	}
}

func TestHostsJitter(t *testing.T) {
	seen := map[time.Duration]bool{}
	orders := map[string]bool{}
	for range 20 {
		h := newHosts(names(4))
		order := ""
		for range 4 {
			server, _ := visit(h)
			order += server
		}
		orders[order] = true
		_, pause := visit(h)
		seen[pause] = true
	}
	assert.Greater(t, len(seen), 10, "clients do not come back in step")
	assert.Greater(t, len(orders), 5, "nor all to the same server")
}

// retryStart costs a second that nothing ends, and fails the library's waiting requests.
func TestHostsSayRetryStartOnlyForASecondOrMore(t *testing.T) {
	h := newHosts(names(1))
	for range 200 {
		_, start := h.Next()
		h.refused()
		assert.False(t, start, "the library has no requests of its own")
		assert.LessOrEqual(t, h.takeWait(), 7500*time.Millisecond)
	}
	h.lend()
	said := 0
	for range 200 {
		_, start := h.Next()
		h.refused()
		wait := h.takeWait()
		if start {
			said++
		} else {
			assert.Less(t, wait, libraryPause)
		}
		assert.LessOrEqual(t, wait, 7500*time.Millisecond-libraryPause)
	}
	assert.Greater(t, said, 150)
}

func TestASteadyConnectionIsForgiven(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := newHosts(names(2))
		for range 20 {
			visit(h)
		}
		h.Connected()
		time.Sleep(steady)
		for range 2 {
			_, pause := visit(h)
			assert.Zero(t, pause, "a lost connection is replaced at once")
		}
		_, pause := visit(h)
		assert.LessOrEqual(t, pause, 75*time.Millisecond, "and the back-off starts anew")
	})
}

// A server that takes connections and drops them is no server.
func TestAFlappingServerIsNotHammered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, n := range []int{1, 3} {
			h := newHosts(names(n))
			start, dials := time.Now(), 0
			for time.Since(start) < time.Minute {
				_, pause := visit(h)
				time.Sleep(pause)
				dials++
				h.Connected()
				time.Sleep(10 * time.Millisecond)
			}
			assert.Less(t, dials, 30, "%d servers", n)
		}
	})
}

func TestHostsAfterTheEndNeverPause(t *testing.T) {
	h := newHosts(names(2))
	for range 20 {
		visit(h)
	}
	h.close()
	for range 20 {
		server, start := h.Next()
		assert.Equal(t, "zk0:2181", server)
		assert.False(t, start)
		assert.Zero(t, h.takeWait())
	}
}

func TestDialTCPRefusesBadNames(t *testing.T) {
	_, err := DialTCP(t.Context(), "tcp", "no port")
	assert.Error(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = DialTCP(ended, "tcp", "localhost:1")
	assert.Error(t, err)
}

// A name is resolved for every dial, and all its addresses are tried.
func TestDialTCPConnects(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	for _, host := range []string{"127.0.0.1", "localhost"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		conn, err := DialTCP(ctx, "tcp", net.JoinHostPort(host, port))
		cancel()
		require.NoError(t, err, host)
		conn.Close()
	}
}

// When a connection that held is lost, the first pass begins after a random pause, if there is another server; one that did not hold waits anyway.
func TestHostsSpreadAfterALoss(t *testing.T) {
	const longest = 500 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		seen := map[time.Duration]bool{}
		h := newHosts(names(3))
		h.spread = longest
		_, pause := visit(h)
		assert.Zero(t, pause, "nothing was lost yet")
		for range 50 {
			h.Connected()
			time.Sleep(steady)
			_, pause := visit(h)
			assert.LessOrEqual(t, pause, longest)
			seen[pause] = true
			_, pause = visit(h)
			assert.Zero(t, pause, "within the pass")
		}
		assert.Greater(t, len(seen), 40)

		h.limit = func(d time.Duration) time.Duration { return min(d, time.Millisecond) }
		h.Connected()
		time.Sleep(steady)
		_, pause = visit(h)
		assert.LessOrEqual(t, pause, time.Millisecond, "there is a session to be kept")

		alone := newHosts(names(1))
		alone.spread = longest
		visit(alone)
		alone.Connected()
		time.Sleep(steady)
		_, pause = visit(alone)
		assert.Zero(t, pause)
	})
}

func TestHostsOfANewList(t *testing.T) {
	h := newHosts(names(3))
	visit(h)
	h.set([]string{"other:2181"})
	assert.Equal(t, 1, h.Len())
	server, _ := visit(h)
	assert.Equal(t, "other:2181", server, "at once, in the middle of a pass")

	for range 10 {
		visit(h)
	}
	h.set(names(2))
	_, pause := visit(h)
	assert.Zero(t, pause, "nobody has tried these yet")
	for range 10 {
		visit(h)
	}
	h.set(names(1))
	_, pause = visit(h)
	assert.NotZero(t, pause, "these were tried in vain")
}

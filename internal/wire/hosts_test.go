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

func TestHostsPassWithoutAPauseFirst(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 5, 2 * maxServersPerPass} {
		h := newHostProvider(names(n))
		require.Equal(t, n, h.Len())
		var pass []string
		for range n {
			server, pause := h.nextServer()
			assert.Zero(t, pause)
			pass = append(pass, server)
		}
		assert.ElementsMatch(t, names(n), pass, "every server once")
	}
}

func TestHostsPauseLongerAndLongerBetweenPasses(t *testing.T) {
	t.Run("out of reach", func(t *testing.T) { pauses(t, time.Second, func(*hostProvider) {}) })
	t.Run("refusing", func(t *testing.T) { pauses(t, 5*time.Second, (*hostProvider).recordRefusal) })
}

func pauses(t *testing.T, most time.Duration, each func(h *hostProvider)) {
	h := newHostProvider(names(3))
	var pauses []time.Duration
	for pass := range 14 {
		var seen []string
		for i := range 3 {
			server, pause := h.nextServer()
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

// A refusal makes one pause long, not those after the later passes.
func TestHostsPauseShorterAgainWithoutARefusal(t *testing.T) {
	h := newHostProvider(names(1))
	for range 20 {
		h.nextServer()
		h.recordRefusal()
	}
	_, pause := h.nextServer()
	assert.Greater(t, pause, 3*time.Second/2)
	for range 20 {
		_, pause = h.nextServer()
		assert.LessOrEqual(t, pause, 3*time.Second/2)
	}
}

func TestHostsJitter(t *testing.T) {
	seen := map[time.Duration]bool{}
	orders := map[string]bool{}
	for range 20 {
		h := newHostProvider(names(4))
		order := ""
		for range 4 {
			server, _ := h.nextServer()
			order += server
		}
		orders[order] = true
		_, pause := h.nextServer()
		seen[pause] = true
	}
	assert.Greater(t, len(seen), 10, "clients do not come back in step")
	assert.Greater(t, len(orders), 5, "nor all to the same server")
}

// After a connection that has held, or when a new server is in the list, the pauses are short again: those between passes
// without a refusal, and the others.
func TestASteadyConnectionIsForgiven(t *testing.T) {
	for attempt, fails := range map[string]func(*hostProvider){
		"out of reach": func(*hostProvider) {}, "refusing": (*hostProvider).recordRefusal,
	} {
		for change, reset := range map[string]func(*hostProvider){
			"a connection": func(h *hostProvider) {
				h.recordConnection()
				time.Sleep(minHeldTime)
			},
			"a new list": func(h *hostProvider) { h.setServers([]string{"new:2181", "other:2181"}, nil) },
		} {
			bubble(t, func(t *testing.T) {
				h := newHostProvider(names(2))
				pass := func() (pause time.Duration) {
					for range 2 {
						_, wait := h.nextServer()
						fails(h)
						pause += wait
					}
					return pause
				}
				for range 10 {
					pass()
				}
				reset(h)
				assert.Zero(t, pass(), "%s, after %s: no pause before the first pass", attempt, change)
				assert.LessOrEqual(t, pass(), 75*time.Millisecond, "%s, after %s", attempt, change)
			})
		}
	}
}

// The pauses also grow for a server that accepts connections and drops them.
func TestAFlappingServerIsNotHammered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, n := range []int{1, 3} {
			h := newHostProvider(names(n))
			start, dials := time.Now(), 0
			for time.Since(start) < time.Minute {
				_, pause := h.nextServer()
				time.Sleep(pause)
				dials++
				h.recordConnection()
				time.Sleep(10 * time.Millisecond)
			}
			assert.Less(t, dials, 30, "%d servers", n)
		}
	})
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

// When a connection that held is lost, the first pass begins after a random pause; after one that did not hold there is a
// pause anyway.
func TestHostsSpreadAfterALoss(t *testing.T) {
	t.Run("three servers", func(t *testing.T) { spreads(t, 3) })
	t.Run("one server", func(t *testing.T) { spreads(t, 1) })
}

func spreads(t *testing.T, servers int) {
	const longest = 500 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		seen := map[time.Duration]bool{}
		h := newHostProvider(names(servers))
		h.spread = longest
		_, pause := h.nextServer()
		assert.Zero(t, pause, "nothing was lost yet")
		for range 50 {
			h.recordConnection()
			time.Sleep(minHeldTime)
			_, pause := h.nextServer()
			assert.LessOrEqual(t, pause, longest)
			seen[pause] = true
			for range servers - 1 {
				_, pause = h.nextServer()
				assert.Zero(t, pause, "within the pass")
			}
		}
		assert.Greater(t, len(seen), 40)

		h.shorten = func(d time.Duration) time.Duration { return min(d, time.Millisecond) }
		h.recordConnection()
		time.Sleep(minHeldTime)
		_, pause = h.nextServer()
		assert.LessOrEqual(t, pause, time.Millisecond, "there is a session to be kept")
	})
}

// The longer an outage, the more clients wait for its end: the time over which they come back grows, up to a tenth of the
// outage, and 5 s.
func TestPausesGrowWithTheOutage(t *testing.T) {
	longest := func(h *hostProvider) (pause time.Duration) {
		for range 200 { // the back-off grows, and no time passes
			_, wait := h.nextServer()
			pause = max(pause, wait)
		}
		return pause
	}
	near := func(t *testing.T, want, pause time.Duration) {
		assert.LessOrEqual(t, pause, want*3/2)
		assert.Greater(t, pause, want*5/4)
	}
	synctest.Test(t, func(t *testing.T) {
		h := newHostProvider(names(1))
		for _, c := range []struct{ passes, want time.Duration }{
			{5 * time.Second, time.Second}, {15 * time.Second, 2 * time.Second}, {10 * time.Second, 3 * time.Second},
			{time.Hour, 5 * time.Second},
		} {
			time.Sleep(c.passes)
			near(t, c.want, longest(h))
		}
		h.recordConnection()
		time.Sleep(minHeldTime)
		near(t, time.Second, longest(h))
		h.spread = 7 * time.Second
		near(t, 7*time.Second, longest(h))
	})
}

// The outage of an earlier session counts, too.
func TestPausesOfASessionAfterAnOutage(t *testing.T) {
	for away, long := range map[time.Duration]bool{0: false, time.Hour: true} {
		bubble(t, func(t *testing.T) {
			f := scripted(t, nil)
			f.refuse = true
			open(t, f.Dial, func(cfg *Config) { cfg.Away = away })
			time.Sleep(10 * time.Second)
			var longest time.Duration
			dials := f.dials()
			for i := range dials[1:] {
				longest = max(longest, dials[i+1].Sub(dials[i]))
			}
			assert.Equal(t, long, longest > 3*time.Second/2, "%v away: %v", away, longest)
		})
	}
}

func TestHostsOfANewList(t *testing.T) {
	h := newHostProvider(names(3))
	h.nextServer()
	h.setServers([]string{"other:2181"}, nil)
	assert.Equal(t, 1, h.Len())
	server, _ := h.nextServer()
	assert.Equal(t, "other:2181", server, "at once, in the middle of a pass")

	for range 10 {
		h.nextServer()
	}
	h.setServers(names(2), nil)
	_, pause := h.nextServer()
	assert.Zero(t, pause, "nobody has tried these yet")
	for range 10 {
		h.nextServer()
	}
	h.setServers(names(1), nil)
	_, pause = h.nextServer()
	assert.NotZero(t, pause, "these have failed")
}

// After a failed pass the whole further list is tried first; a pass over the other list is never longer than
// maxServersPerPass.
func TestHostsFallBack(t *testing.T) {
	h := newHostProvider(names(1))
	next := func(n int) (pass []string) {
		for range n {
			server, _ := h.nextServer()
			pass = append(pass, server)
		}
		return pass
	}
	h.setServers(names(100), []string{"a:1", "b:1"})
	assert.Equal(t, 102, h.Len())
	for range 3 {
		assert.Subset(t, names(100), next(maxServersPerPass), "the list alone")
		for range 5 {
			assert.ElementsMatch(t, []string{"a:1", "b:1"}, next(2))
			assert.Subset(t, names(100), next(maxServersPerPass))
		}
		h.setServers([]string{"other:1"}, nil)
		assert.Equal(t, []string{"other:1", "other:1"}, next(2))
		h.setServers(names(100), []string{"a:1", "b:1"})
	}

	h.setServers([]string{"c:1", "d:1"}, []string{"d:1", "e:1"})
	assert.ElementsMatch(t, []string{"c:1", "d:1"}, next(2))
	assert.ElementsMatch(t, []string{"d:1", "e:1"}, next(2))
	assert.Equal(t, []string{"c:1"}, next(1), "each once")
	assert.Equal(t, []string{"c:1", "d:1"}, h.servers, "not changed in place")

	assert.False(t, h.areAllIn(map[string]bool{"c:1": true, "d:1": true}), "the other has not refused us")
	assert.True(t, h.areAllIn(map[string]bool{"c:1": true, "d:1": true, "e:1": true}))
	h.setServers([]string{"c:1"}, []string{"e:1"})
	assert.Equal(t, "e:1", h.anotherServer("c:1"))
	h.preferServer("e:1")
	assert.Equal(t, []string{"e:1"}, next(1))
}

// In the search for a member with a quorum each server gets its turn, not only the one after the connected server.
func TestEachOtherServerHasItsTurn(t *testing.T) {
	h := newHostProvider([]string{"a:1", "b:1", "c:1"})
	h.setServers(h.servers, []string{"d:1", "a:1"})
	for range 3 {
		turns := []string{h.anotherServer("b:1"), h.anotherServer("b:1"), h.anotherServer("b:1")}
		assert.ElementsMatch(t, []string{"a:1", "c:1", "d:1"}, turns)
	}
	assert.Empty(t, newHostProvider([]string{"a:1"}).anotherServer("a:1"))
}

// If the connected server leaves the list, the client closes the connection itself. Even if that was young, the rest of the
// list is tried first, without a pause: not the further list, which still has the server.
func TestHostsOfAShorterListWhileConnected(t *testing.T) {
	h := newHostProvider([]string{"a:1", "b:1", "c:1"})
	h.setServers([]string{"a:1", "b:1", "c:1"}, []string{"a:1"})
	h.nextServer()
	h.recordConnection()
	h.setServers([]string{"b:1", "c:1"}, []string{"a:1"})
	var pass []string
	for range 2 {
		server, pause := h.nextServer()
		assert.Zero(t, pause)
		pass = append(pass, server)
	}
	assert.ElementsMatch(t, []string{"b:1", "c:1"}, pass)
	server, _ := h.nextServer()
	assert.Equal(t, "a:1", server)
}

// Setting the same list again changes nothing: a server that accepts connections and immediately drops them still gets
// pauses.
func TestHostsOfTheSameList(t *testing.T) {
	h := newHostProvider([]string{"a:1"})
	h.nextServer()
	for range 5 {
		h.recordConnection()
		h.setServers([]string{"a:1"}, nil)
		_, pause := h.nextServer()
		assert.NotZero(t, pause)
	}
}

func TestHostsPreferAServerOnce(t *testing.T) {
	h := newHostProvider(names(5))
	for range 20 {
		h.preferServer("zk3:2181")
		var pass []string
		for range 5 {
			server, pause := h.nextServer()
			assert.Zero(t, pause)
			pass = append(pass, server)
		}
		assert.Equal(t, "zk3:2181", pass[0])
		assert.ElementsMatch(t, names(5), pass)
	}
	_, pause := h.nextServer()
	assert.NotZero(t, pause)
}

// A server whose connection was closed because of its error is tried after the others, once.
func TestHostsShun(t *testing.T) {
	h, lastAgain := newHostProvider(names(5)), 0
	for range 20 {
		one, _ := h.nextServer()
		h.recordConnection()
		h.avoidServer(one)
		var pass []string
		for range 10 {
			server, _ := h.nextServer()
			pass = append(pass, server)
		}
		assert.Equal(t, one, pass[4])
		assert.ElementsMatch(t, names(5), pass[:5])
		assert.ElementsMatch(t, names(5), pass[5:])
		if pass[9] == one {
			lastAgain++
		}
		h.recordConnection()
	}
	assert.Less(t, lastAgain, 20, "the second pass is in any order")
	h.avoidServer("gone:1")
	for range 5 {
		server, _ := h.nextServer()
		assert.Contains(t, names(5), server)
	}
}

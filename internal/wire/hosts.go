package wire

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/go-curator/curator/internal/chance"
)

// hostProvider decides which server is tried next, and when. Each pass tries the list in a new random order. Before the
// first pass after a lost connection there is a short random pause, before each later pass a growing one with jitter:
// the longer an outage, the more clients wait for its end, and the longer the time over which they return.
type hostProvider struct {
	shorten func(time.Duration) time.Duration // shortens a pause, so that there is time for another attempt
	spread  time.Duration                     // the longest pause before the first pass
	chance  *chance.Source

	mu           sync.Mutex
	servers      []string                    // never changed in place
	further      []string                    // tried from the second pass on; never changed in place
	remaining    []string                    // the rest of this pass
	silentDelay  *backoff.ExponentialBackOff // the pauses after passes without hadRefusal
	refusalDelay *backoff.ExponentialBackOff // the pauses after the others
	hadRefusal   bool                        // this pass had a refusal, or a connection that did not hold: see minHeldTime
	passes       int                         // begun since resetPauses
	connectedAt  clockReading                // when the last connection was made
	lostAt       clockReading                // when the last connection that held was lost, or the first was wanted
	preferred    string                      // to be tried before the others in the next pass
	avoided      string                      // to be tried after them
	rotation     int                         // the place of the server that anotherServer returned last
}

// minHeldTime is the least duration of a connection that has held. After shorter ones the pauses grow, so that a server
// that accepts connections and closes them immediately is tried less and less often.
const minHeldTime = time.Second

func newHostProvider(servers []string) *hostProvider {
	h := &hostProvider{servers: servers, lostAt: readClock(), shorten: func(d time.Duration) time.Duration { return d }}
	pauses := func(most time.Duration) *backoff.ExponentialBackOff {
		return backoff.NewExponentialBackOff(
			backoff.WithInitialInterval(50*time.Millisecond), backoff.WithMaxInterval(most),
			backoff.WithMultiplier(2), backoff.WithRandomizationFactor(0), backoff.WithMaxElapsedTime(0))
	}
	h.silentDelay = pauses(time.Second)
	h.refusalDelay = pauses(longestPause)
	return h
}

// longestPause is the longest pause between two passes, before jitter (± 50 %), unless spread is longer.
const longestPause = 5 * time.Second

// maxServersPerPass limits the servers of the list in a pass if there is a further list, which would otherwise be tried
// late after a long list.
const maxServersPerPass = 16

// allServers returns the servers of both lists, each once.
func (h *hostProvider) allServers() []string {
	all := h.servers
	for _, s := range h.further {
		if !slices.Contains(h.servers, s) {
			all = append(slices.Clip(all), s)
		}
	}
	return all
}

// shuffledServers returns the servers of both lists, in a random order.
func (h *hostProvider) shuffledServers() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.shuffledCopy(h.allServers())
}

// nextPass returns the servers of the next pass, in order. atOnce means that a server is preferred: there is no
// pause before the pass.
func (h *hostProvider) nextPass() (servers []string, atOnce bool) {
	servers = h.shuffledCopy(h.servers)
	without := func(server string) []string {
		return slices.DeleteFunc(servers, func(other string) bool { return other == server })
	}
	if slices.Contains(servers, h.avoided) {
		servers = append(without(h.avoided), h.avoided)
	}
	h.avoided = ""
	if len(h.further) > 0 {
		servers = servers[:min(len(servers), maxServersPerPass)]
		if h.passes > 0 {
			for _, s := range h.shuffledCopy(h.further) {
				servers = slices.Insert(without(s), 0, s)
			}
		}
	}
	if h.preferred != "" && slices.Contains(h.allServers(), h.preferred) {
		servers = slices.Insert(without(h.preferred), 0, h.preferred)
		atOnce = true
	}
	h.preferred = ""
	return servers, atOnce
}

func (h *hostProvider) shuffledCopy(servers []string) []string {
	servers = slices.Clone(servers)
	h.chance.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	return servers
}

// resetPauses makes the next pass count as the first one: there is no nextPause before it, and later ones begin short
// again.
func (h *hostProvider) resetPauses() {
	h.silentDelay.Reset()
	h.refusalDelay.Reset()
	h.passes, h.hadRefusal = 0, false
}

// nextPause returns the next pause between two passes, before jitter.
func (h *hostProvider) nextPause() time.Duration {
	// A pause may prolong an outage. So without a refusal it is, before jitter, at most a tenth of the outage or, if that
	// is longer, a second or spread. A refusalDelay may be longer.
	h.silentDelay.MaxInterval = max(min(elapsed(h.lostAt, readClock())/10, longestPause), h.spread, time.Second)
	delay := h.silentDelay
	if h.hadRefusal {
		delay, h.hadRefusal = h.refusalDelay, false
	}
	return delay.NextBackOff()
}

// recordRefusal records that a server has accepted a connection, but has refused the handshake, or has not replied to
// it.
func (h *hostProvider) recordRefusal() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hadRefusal = true
}

// Len returns the number of servers.
func (h *hostProvider) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.allServers())
}

// setServers changes the lists, and ends the current pass. The next pass counts as the first one if the list has new
// servers. It also does if the list lacks servers and there is a connection: the client may close that connection
// because its server is not listed any more, which is no failure.
func (h *hostProvider) setServers(servers, further []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	added, left := !containsAll(h.servers, servers), !containsAll(servers, h.servers)
	if added || left && !h.connectedAt.t.IsZero() {
		h.resetPauses()
	}
	h.servers, h.further, h.remaining = servers, further, nil
}

// containsAll reports whether a list has all of another.
func containsAll(list, all []string) bool {
	return !slices.ContainsFunc(all, func(s string) bool { return !slices.Contains(list, s) })
}

// nextServer returns the server to be tried next, and how long to wait before that.
func (h *hostProvider) nextServer() (server string, wait time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.connectedAt.t.IsZero() {
		if elapsed(h.connectedAt, readClock()) >= minHeldTime {
			h.resetPauses()
			h.lostAt = readClock()
			if h.spread > 0 { // all clients of that server reconnect now
				wait = h.shorten(h.chance.Duration(h.spread + 1))
			}
		}
		h.hadRefusal = h.hadRefusal || h.passes > 0 // no reset: the connection has not held
		h.connectedAt, h.remaining = clockReading{}, nil
	}
	if len(h.remaining) == 0 {
		if h.passes > 0 {
			pause := h.nextPause()
			wait = h.shorten(pause/2 + h.chance.Duration(pause+1))
		}
		var atOnce bool
		if h.remaining, atOnce = h.nextPass(); atOnce {
			wait = 0
		}
		h.passes++
	}
	server, h.remaining = h.remaining[0], h.remaining[1:]
	return server, wait
}

// areAllIn reports whether all servers are in the set.
func (h *hostProvider) areAllIn(set map[string]bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !slices.ContainsFunc(h.allServers(), func(server string) bool { return !set[server] })
}

// anotherServer returns a server other than this one, the next at each call; "" if there is none.
func (h *hostProvider) anotherServer(than string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.allServers()
	for range all {
		h.rotation++
		if s := all[h.rotation%len(all)]; s != than {
			return s
		}
	}
	return ""
}

// preferServer makes the next pass begin with a server, without a pause.
func (h *hostProvider) preferServer(server string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.preferred = server
}

// avoidServer makes the next pass end with a server: a server that replies to the handshake, but to no request, must not
// use up the little time that is left.
func (h *hostProvider) avoidServer(server string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.avoided = server
}

// recordConnection records that there is a connection to the server that nextServer returned last.
func (h *hostProvider) recordConnection() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.connectedAt = readClock()
}

// DialTCP connects to one of the host's addresses, resolved now and tried in random order, with keepalive.
func DialTCP(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{KeepAlive: 15 * time.Second}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	ips, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil || len(ips) <= 1 {
		return d.DialContext(ctx, network, addr)
	}
	chance.Shuffle(len(ips), func(i, j int) { ips[i], ips[j] = ips[j], ips[i] })
	for i, ip := range ips {
		// Each address gets its share of the time that is left.
		one, cancel := ctx, context.CancelFunc(func() {})
		if end, ok := ctx.Deadline(); ok {
			one, cancel = context.WithTimeout(ctx, time.Until(end)/time.Duration(len(ips)-i))
		}
		var c net.Conn
		c, err = d.DialContext(one, network, net.JoinHostPort(ip, port))
		cancel()
		if err == nil {
			return c, nil
		}
	}
	return nil, err
}

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

// hosts decides which server to try next, and when: the list in a new random order for every pass, with a short random
// pause before the first pass if a connection was lost, and a growing, jittered one before each later pass: the longer
// an outage, the more clients wait for its end, and the longer the time over which they come back. Names are resolved
// for every dial.
type hosts struct {
	shorten func(time.Duration) time.Duration // a pause, so that there is time for another attempt
	spread  time.Duration                     // the longest pause before the first pass
	chance  *chance.Source

	mu      sync.Mutex
	servers []string                    // never changed in place
	further []string                    // tried, too, after the first pass has failed; never changed in place
	left    []string                    // the rest of this pass
	delay   *backoff.ExponentialBackOff // while no server answers
	refuses *backoff.ExponentialBackOff // while one answers, but no connection holds
	refusal bool                        // one has answered so in this pass
	passes  int                         // since the last connection that held
	up      instant                     // when the last connection was made
	lost    instant                     // when the last connection that held was lost, or the first was wanted
	first   string                      // to be tried before the others in the next pass
	last    string                      // to be tried after them
	turn    int                         // of another
}

// steady is how long a connection must last to have held: a server that accepts and closes immediately must not be
// hammered.
const steady = time.Second

func newHosts(servers []string) *hosts {
	h := &hosts{servers: servers, lost: now(), shorten: func(pause time.Duration) time.Duration { return pause }}
	pauses := func(most time.Duration) *backoff.ExponentialBackOff {
		return backoff.NewExponentialBackOff(
			backoff.WithInitialInterval(50*time.Millisecond), backoff.WithMaxInterval(most),
			backoff.WithMultiplier(2), backoff.WithRandomizationFactor(0), backoff.WithMaxElapsedTime(0))
	}
	h.delay, h.refuses = pauses(time.Second), pauses(longestPause) // for servers that refuse, or drop connections
	return h
}

// longestPause is the longest pause between two passes by itself, half as much more or less.
const longestPause = 5 * time.Second

// maxPass limits the servers tried in a pass if there is a further list, so that its turn comes soon, however long the
// first list is.
const maxPass = 16

// all returns the servers of both lists, each once.
func (h *hosts) all() []string {
	all := h.servers
	for _, s := range h.further {
		if !slices.Contains(h.servers, s) {
			all = append(slices.Clip(all), s)
		}
	}
	return all
}

// shuffledAll is every server, in a random order.
func (h *hosts) shuffledAll() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.shuffled(h.all())
}

// pass returns the servers of the next pass, in order. atOnce is true if one is preferred: the pass begins without a
// pause.
func (h *hosts) pass() (servers []string, atOnce bool) {
	servers = h.shuffled(h.servers)
	without := func(server string) []string {
		return slices.DeleteFunc(servers, func(other string) bool { return other == server })
	}
	if slices.Contains(servers, h.last) {
		servers = append(without(h.last), h.last)
	}
	h.last = ""
	if len(h.further) > 0 {
		servers = servers[:min(len(servers), maxPass)]
		if h.passes > 0 {
			for _, s := range h.shuffled(h.further) {
				servers = slices.Insert(without(s), 0, s)
			}
		}
	}
	if h.first != "" && slices.Contains(h.all(), h.first) {
		servers = slices.Insert(without(h.first), 0, h.first)
		atOnce = true
	}
	h.first = ""
	return servers, atOnce
}

func (h *hosts) shuffled(servers []string) []string {
	servers = slices.Clone(servers)
	h.chance.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	return servers
}

// resetPauses begins with the short pauses again.
func (h *hosts) resetPauses() {
	h.delay.Reset()
	h.refuses.Reset()
	h.passes, h.refusal = 0, false
}

// pause is the next one between two passes.
func (h *hosts) pause() time.Duration {
	// The end of an outage is not announced: a pause prolongs it, but by no more than a tenth, or a second.
	h.delay.MaxInterval = max(min(elapsed(h.lost, now())/10, longestPause), h.spread, time.Second)
	delay := h.delay
	if h.refusal {
		delay, h.refusal = h.refuses, false
	}
	return delay.NextBackOff()
}

// refused records that a server has answered, but the attempt has failed.
func (h *hosts) refused() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refusal = true
}

// Len returns the number of servers.
func (h *hosts) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.all())
}

// set changes the lists, and ends the current pass. Servers that are new on the list are tried without a pause. So are
// the servers of a shorter list if there is a connection: only the client itself may end it, and no pass over the list
// has failed.
func (h *hosts) set(servers, further []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	added, left := !contains(h.servers, servers), !contains(servers, h.servers)
	if added || left && !h.up.t.IsZero() {
		h.resetPauses()
	}
	h.servers, h.further, h.left = servers, further, nil
}

// contains reports whether a list has all of another.
func contains(list, all []string) bool {
	return !slices.ContainsFunc(all, func(s string) bool { return !slices.Contains(list, s) })
}

// next returns the server to be tried next, and how long to wait before that.
func (h *hosts) next() (server string, wait time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.up.t.IsZero() {
		if elapsed(h.up, now()) >= steady {
			h.resetPauses()
			h.lost = now()
			if h.spread > 0 { // all the clients of that server come back now
				wait = h.shorten(h.chance.Duration(h.spread + 1))
			}
		}
		h.refusal = h.refusal || h.passes > 0 // it has not held
		h.up, h.left = instant{}, nil
	}
	if len(h.left) == 0 {
		if h.passes > 0 {
			pause := h.pause()
			wait = h.shorten(pause/2 + h.chance.Duration(pause+1))
		}
		var atOnce bool
		if h.left, atOnce = h.pass(); atOnce {
			wait = 0
		}
		h.passes++
	}
	server, h.left = h.left[0], h.left[1:]
	return server, wait
}

// within reports whether all servers are in the set.
func (h *hosts) within(set map[string]bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !slices.ContainsFunc(h.all(), func(server string) bool { return !set[server] })
}

// another returns a server that is not this one, each in its turn; "" if there is none.
func (h *hosts) another(than string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.all()
	for range all {
		h.turn++
		if s := all[h.turn%len(all)]; s != than {
			return s
		}
	}
	return ""
}

// prefer makes the next pass begin with a server, without a pause.
func (h *hosts) prefer(server string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.first = server
}

// shun makes the next pass end with a server. One that answers a handshake and nothing else must not be tried
// again while there is little time left.
func (h *hosts) shun(server string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = server
}

// connected records that there is a connection to the server that next returned last.
func (h *hosts) connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.up = now()
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

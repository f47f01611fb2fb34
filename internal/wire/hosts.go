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

// libraryPause is how long the library sleeps when a host provider says that it has been through the list.
const libraryPause = time.Second

// hosts is the library's host provider: the list in a new random order for every pass, with a short random pause before the first pass if a connection was
// lost, and with a growing, jittered one before each further pass. Names are resolved by the dialer, for every dial.
type hosts struct {
	limit  func(time.Duration) time.Duration // shortens a pause; nil for none
	spread time.Duration                     // the longest pause before the first pass
	chance *chance.Source

	mu      sync.Mutex
	servers []string        // never changed in place
	left    []string        // of this pass
	delay   backoff.BackOff // while no server answers
	refuses backoff.BackOff // while one answers, and no connection that holds comes of it
	refusal bool            // that was so in this pass
	wait    time.Duration   // to be slept by the dialer before the next dial
	passes  int             // since the last connection that held
	up      instant         // when the last connection was made
	closed  bool
	lent    bool   // the library has requests of its own, perhaps
	first   string // to be tried before the others in the next pass
	asked   int    // of another
}

// steady is how long a connection must hold to count: a server that accepts and closes at once is not to be hammered.
const steady = time.Second

func newHosts(servers []string) *hosts {
	h := &hosts{servers: servers}
	pauses := func(most time.Duration) backoff.BackOff {
		return backoff.NewExponentialBackOff(
			backoff.WithInitialInterval(50*time.Millisecond), backoff.WithMultiplier(2), backoff.WithRandomizationFactor(0),
			backoff.WithMaxInterval(most), backoff.WithMaxElapsedTime(0))
	}
	// An outage ends at an instant that nobody tells: a long pause would make it longer. A server that answers and refuses, or that drops us, is to be spared.
	h.delay, h.refuses = pauses(time.Second), pauses(5*time.Second)
	return h
}

// afresh begins with the short pauses again.
func (h *hosts) afresh() {
	h.delay.Reset()
	h.refuses.Reset()
	h.passes, h.refusal = 0, false
}

// pause is the next one between two passes.
func (h *hosts) pause() time.Duration {
	delay := h.delay
	if h.refusal {
		delay, h.refusal = h.refuses, false
	}
	return delay.NextBackOff()
}

// refused notes that a server has answered, and that no connection came of it.
func (h *hosts) refused() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refusal = true
}

// Init is called by the library; the list is ours already.
func (h *hosts) Init([]string) error { return nil }

// Len returns the number of servers.
func (h *hosts) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.servers)
}

// set changes the list; a pass that is going on ends. Servers that were not on the old one are tried without a pause.
func (h *hosts) set(servers []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range servers {
		if !slices.Contains(h.servers, s) {
			h.afresh()
		}
	}
	h.servers, h.left = servers, nil
}

// lend says that the library may have requests of its own from now on.
func (h *hosts) lend() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lent = true
}

// Next returns the next server. retryStart makes the library fail requests of its own that nobody could send, and sleep for a second: so it is
// only said where there may be such requests, and a pause of a second or more is due.
func (h *hosts) Next() (server string, retryStart bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return h.servers[0], false
	}
	if !h.up.zero() {
		if elapsed(h.up, now()) >= steady {
			h.afresh()
			if h.spread > 0 && len(h.servers) > 1 { // all the clients of that server are looking for another now
				h.wait = h.chance.Duration(h.spread + 1)
				if h.limit != nil {
					h.wait = h.limit(h.wait)
				}
			}
		}
		h.refusal = h.refusal || h.passes > 0 // it has not held
		h.up, h.left = instant{}, nil
	}
	if len(h.left) == 0 {
		if h.passes > 0 {
			pause := h.pause()
			h.wait = pause/2 + h.chance.Duration(pause+1)
			if h.limit != nil {
				h.wait = h.limit(h.wait)
			}
			if h.lent && h.wait >= libraryPause {
				h.wait -= libraryPause
				retryStart = true
			}
		}
		h.passes++
		h.left = append([]string(nil), h.servers...)
		h.chance.Shuffle(len(h.left), func(i, j int) { h.left[i], h.left[j] = h.left[j], h.left[i] })
		if i := slices.Index(h.left, h.first); i >= 0 {
			h.left[0], h.left[i], h.wait = h.left[i], h.left[0], 0
		}
		h.first = ""
	}
	server, h.left = h.left[0], h.left[1:]
	return server, retryStart
}

// within says whether all servers are in the set.
func (h *hosts) within(set map[string]bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !slices.ContainsFunc(h.servers, func(server string) bool { return !set[server] })
}

// another returns a server that is not this one, each in its turn; "" if there is none.
func (h *hosts) another(than string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for range h.servers {
		h.asked++
		if s := h.servers[h.asked%len(h.servers)]; s != than {
			return s
		}
	}
	return ""
}

// prefer has the next pass begin with a server, at once.
func (h *hosts) prefer(server string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.first = server
}

// Connected is called by the library after a handshake.
func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.up = now()
}

func (h *hosts) takeWait() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.wait
	h.wait = 0
	return w
}

func (h *hosts) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
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

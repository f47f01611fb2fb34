package wire

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// libraryPause is how long the library sleeps when a host provider says that it has been through the list.
const libraryPause = time.Second

// hosts is the library's host provider: the list in a new random order for every pass, without a pause before the first pass and with a growing,
// jittered one before each further pass. Names are resolved by the dialer, for every dial.
type hosts struct {
	servers []string
	limit   func(time.Duration) time.Duration // shortens a pause; nil for none

	mu     sync.Mutex
	left   []string // of this pass
	delay  backoff.BackOff
	wait   time.Duration // to be slept by the dialer before the next dial
	passes int           // since the last connection that held
	up     time.Time     // when the last connection was made
	closed bool
}

// steady is how long a connection must hold to count: a server that accepts and closes at once is not to be hammered.
const steady = time.Second

func newHosts(servers []string) *hosts {
	h := &hosts{servers: servers}
	h.delay = backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(50*time.Millisecond), backoff.WithMultiplier(2), backoff.WithRandomizationFactor(0.5),
		backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0))
	return h
}

// Init is called by the library; the list is ours already.
func (h *hosts) Init([]string) error { return nil }

// Len returns the number of servers.
func (h *hosts) Len() int { return len(h.servers) }

// Next returns the next server. retryStart makes the library fail requests of its own that nobody could send, and sleep for a second: so it is
// only said where a pause of a second or more is due.
func (h *hosts) Next() (server string, retryStart bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return h.servers[0], false
	}
	if !h.up.IsZero() {
		if elapsed(h.up, time.Now()) >= steady {
			h.delay.Reset()
			h.passes = 0
		}
		h.up, h.left = time.Time{}, nil
	}
	if len(h.left) == 0 {
		if h.passes > 0 {
			h.wait = h.delay.NextBackOff()
			if h.limit != nil {
				h.wait = h.limit(h.wait)
			}
			if h.wait >= libraryPause {
				h.wait -= libraryPause
				retryStart = true
			}
		}
		h.passes++
		h.left = append([]string(nil), h.servers...)
		rand.Shuffle(len(h.left), func(i, j int) { h.left[i], h.left[j] = h.left[j], h.left[i] })
	}
	server, h.left = h.left[0], h.left[1:]
	return server, retryStart
}

// Connected is called by the library after a handshake.
func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.up = time.Now()
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
	rand.Shuffle(len(ips), func(i, j int) { ips[i], ips[j] = ips[j], ips[i] })
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

package wire

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// drainTime limits the reading from a connection after a write to it has failed.
const drainTime = time.Second

// connection is one connection after its handshake. Its goroutines: reader (serveConnection), which ends it, writer (writeOutput)
// and keeper (keepAlive).
type connection struct {
	number   uint64
	server   string
	conn     net.Conn
	in       *meteredReader
	readOnly bool
	end      connectionEnd
	wg       sync.WaitGroup

	// Guarded by Session.mu.
	output  outputBuffer
	window  requestWindow
	probing bool // a probe of the server's version is in flight
	pulse   connectionPulse
	gapZxid int64 // the highest zxid before this connection, or before the last that had armed its watches

	guestWatches bool // the guest has its own watches on it, and gets the events, too
}

// connectionEnd is the state of a connection's end.
type connectionEnd struct {
	ctx      context.Context // its end ends the connection; its cause is the reason
	cancel   context.CancelCauseFunc
	closed   atomic.Bool
	broken   atomic.Bool   // a write has failed
	reported chan struct{} // closed when the connection has ended and all but the guest have been notified
}

// connectionPulse is a connection's signs of life.
type connectionPulse struct {
	lastSent      clockReading   // when the last request was written, without the guest's
	lastReply     clockReading   // when the last whole reply came in
	owedSince     clockReading   // since when the server has owed a reply, see recordReply; zero if it owes none
	pingsInFlight []clockReading // when they were written, oldest first: they share one xid
}

// recordRequest records a request.
func (p *connectionPulse) recordRequest(at clockReading) {
	if p.lastSent = at; p.owedSince.t.IsZero() {
		p.owedSince = at
	}
}

// recordReply records a reply; waiting means that other calls are in flight: the server owes their replies from now on,
// not from their sending. Pings in flight do not count: they share one xid, so after a lost ping the list has one too many.
func (p *connectionPulse) recordReply(at clockReading, waiting bool) {
	if p.lastReply, p.owedSince = at, at; !waiting {
		p.owedSince = clockReading{}
	}
}

// owedFor returns the time for which the server has owed a reply.
func (p *connectionPulse) owedFor(at clockReading) time.Duration {
	if p.owedSince.t.IsZero() {
		return 0
	}
	return elapsed(p.owedSince, at)
}

// outputBuffer is the data that the writer has to write.
type outputBuffer struct {
	buf  []byte
	wake chan struct{}
}

// addFrame appends a frame.
func (o *outputBuffer) addFrame(xid, op int32, body []byte) {
	o.buf = binary.BigEndian.AppendUint32(o.buf, uint32(8+len(body)))
	o.buf = binary.BigEndian.AppendUint32(o.buf, uint32(xid))
	o.buf = binary.BigEndian.AppendUint32(o.buf, uint32(op))
	o.buf = append(o.buf, body...)
	wakeReceiver(o.wake)
}

// closeWith makes the connection end; the first reason counts.
func (l *connection) closeWith(err error) {
	if l.end.closed.CompareAndSwap(false, true) {
		l.end.cancel(err)
		l.conn.Close()
	}
}

// endReason returns the reason why the connection ends, nil while it does not.
func (l *connection) endReason() error { return context.Cause(l.end.ctx) }

// requestWindow limits the calls of a connection in flight. A server replies to one client in order, so an urgent call
// waits for all calls written before it. How long depends on the server, the network and the sizes, so it is measured:
// the window grows while calls wait and replies come soon, and shrinks when they come late. Session.mu guards it.
type requestWindow struct {
	maxSize     int           // it never grows beyond this
	size        int           // the present size
	used        int           // how much of it is taken
	baseLatency time.Duration // the shortest latency so far: the round trip
	hasBase     bool          // there has been a reply
	maxDelay    time.Duration // how much more than that is not late
	staleCalls  int           // calls in flight from before the last shrinking: their latency shrinks it no further
}

const (
	// windowAtFirst and windowAtLeast are a connection's first and smallest window.
	windowAtFirst = 32
	windowAtLeast = 8
	// windowUnit is the number of bytes of a request that cost one more unit of the window.
	windowUnit = 16 << 10
	// windowShare is the fraction of the ping interval by which this client's calls may delay replies.
	windowShare = 2
)

// newRequestWindow returns the window of a connection with a ping interval. The client's calls may delay replies by a
// share of it.
func newRequestWindow(most int, ping time.Duration) requestWindow {
	return requestWindow{maxSize: most, size: min(windowAtFirst, most), maxDelay: ping / windowShare}
}

// release gives back a call's part of the window and adjusts the window to the latency of its reply; inFlight other calls
// have none yet. wanted means that calls wait for the window.
func (w *requestWindow) release(cost int, latency time.Duration, inFlight int, wanted bool) {
	w.used -= cost
	stale := w.staleCalls > 0
	w.staleCalls = max(w.staleCalls-1, 0)
	if !w.hasBase || latency < w.baseLatency {
		w.baseLatency, w.hasBase = latency, true
	}
	switch {
	case latency-w.baseLatency <= w.maxDelay:
		if wanted {
			w.size = min(w.size+cost, w.maxSize)
		}
	case stale:
	case w.size > windowAtLeast:
		w.size, w.staleCalls = max(w.size/2, windowAtLeast), inFlight
	default:
		w.baseLatency = latency // not caused by the window: the server, or the network, has become slower
	}
}

// wakeReceiver puts a value into a channel with one slot, if it is empty.
func wakeReceiver(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

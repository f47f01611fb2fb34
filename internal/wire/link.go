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

// link is one live connection. Its goroutines: reader (owner of the end), writer, keeper (pings and
// watchdog).
type link struct {
	n        uint64
	server   string
	conn     net.Conn
	in       *meter
	readOnly bool
	end      linkEnd
	wg       sync.WaitGroup

	// Guarded by Session.mu.
	output output
	window window
	asking bool // a question of how old the server is has no answer yet
	pulse  pulse
	since  int64 // the highest zxid before this connection, or before the last that had armed its watches

	guestWatches bool // the guest has its own watches on it, and gets the events, too
}

// linkEnd is the state of a link's end.
type linkEnd struct {
	ctx    context.Context // ends to end the link; its cause is the reason
	cancel context.CancelCauseFunc
	closed atomic.Bool
	broken atomic.Bool   // a write has failed
	gone   chan struct{} // closed when the link has ended and all have been notified
}

// pulse is a connection's signs of life.
type pulse struct {
	sent  instant   // when the last request was written, without the guest's
	heard instant   // when the last whole answer came in
	owing instant   // since when the server has owed an answer, as far as is known; zero if it owes none
	pings []instant // when the unanswered pings were written, oldest first: they share one xid
}

// noteRequest records a request.
func (p *pulse) noteRequest(at instant) {
	if p.sent = at; p.owing.t.IsZero() {
		p.owing = at
	}
}

// noteReply records a reply; waiting means that other calls are in flight: the server is alive even if older requests are
// still unanswered. (Pings share one xid: after a lost ping later ones look unanswered, though they are not.)
func (p *pulse) noteReply(at instant, waiting bool) {
	if p.heard, p.owing = at, at; !waiting {
		p.owing = instant{}
	}
}

// owedFor returns the time for which the server has owed a reply.
func (p *pulse) owedFor(at instant) time.Duration {
	if p.owing.t.IsZero() {
		return 0
	}
	return elapsed(p.owing, at)
}

// output is the data that the writer has to write.
type output struct {
	buf  []byte
	wake chan struct{}
}

// add appends a frame.
func (o *output) add(xid, op int32, body []byte) {
	o.buf = binary.BigEndian.AppendUint32(o.buf, uint32(8+len(body)))
	o.buf = binary.BigEndian.AppendUint32(o.buf, uint32(xid))
	o.buf = binary.BigEndian.AppendUint32(o.buf, uint32(op))
	o.buf = append(o.buf, body...)
	wake(o.wake)
}

// close makes the link end; the first reason counts.
func (l *link) close(err error) {
	if l.end.closed.CompareAndSwap(false, true) {
		l.end.cancel(err)
		l.conn.Close()
	}
}

// err returns the reason why the link ends, nil while it does not.
func (l *link) err() error { return context.Cause(l.end.ctx) }

// window limits the calls of a connection in flight. A server answers one client in order, so an urgent call still
// waits for all that was written before it: in the client's buffers, on the network, at the server. How long that takes
// depends on the server, the network and the sizes, so it is measured: the window grows while calls wait and replies
// come soon, and shrinks when they come late. Session.mu guards it.
type window struct {
	most  int           // it never grows beyond this
	size  int           // the present size
	used  int           // how much of it is taken
	base  time.Duration // the shortest time that an answer has taken: the round trip
	known bool          // there has been an answer
	late  time.Duration // how much longer than that it may take
	stale int           // calls in flight from a larger window: ignore their latency
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

// newWindow returns the window of a connection with a ping interval. The client's calls may delay replies by a share of
// it.
func newWindow(most int, ping time.Duration) window {
	return window{most: most, size: min(windowAtFirst, most), late: ping / windowShare}
}

// answered records the reply to a call of this cost, and its latency. flying is the number of calls in flight; wanted
// means that others wait for the window.
func (w *window) answered(cost int, took time.Duration, flying int, wanted bool) {
	w.used -= cost
	stale := w.stale > 0
	w.stale = max(w.stale-1, 0)
	if !w.known || took < w.base {
		w.base, w.known = took, true
	}
	switch {
	case took-w.base <= w.late:
		if wanted {
			w.size = min(w.size+cost, w.most)
		}
	case stale:
	case w.size > windowAtLeast:
		w.size, w.stale = max(w.size/2, windowAtLeast), flying
	default:
		w.base = took // not caused by this window: the server, or the network, has become slower
	}
}

// wake puts a value into a channel with one slot, if it is empty.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

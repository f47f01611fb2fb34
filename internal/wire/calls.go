package wire

import (
	"fmt"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// A call's way: Submit queues it, pump takes it off the queue while the window is open, write puts it into
// the connection's output, and replied finds it again when its answer comes.

// firstXid is the first xid of the session's own requests; they count down from here. ZooKeeper reserves small negative
// numbers, and a guest counts up. The counter is never reset within a session: members match replies to sessions by
// (session, xid), also across connections.
const firstXid int32 = -1000

// calls are a session's requests without an answer. Session.mu guards it.
type calls struct {
	urgent   callList // not written yet, in the order of submission: these come first,
	others   callList // and then these
	flight   callList // written, in the order of sending, which is the order of the answers
	xid      int32    // the last one given
	unknown  map[serverOp]bool
	asked    map[string]bool // the servers that have been asked how old they are
	patience patience
}

// serverOp is an operation that a server does not know.
type serverOp struct {
	server string
	op     int32
}

func newCalls() calls {
	p := patience{watched: true, wake: make(chan struct{}, 1)}
	return calls{xid: firstXid, unknown: map[serverOp]bool{}, asked: map[string]bool{}, patience: p}
}

// behind returns the call in flight with that xid, if it is not the next to be answered; else nil.
func (cs *calls) behind(xid int32) *Call {
	for c := cs.flight.first; c != nil; c = c.next {
		if c.xid == xid && c != cs.flight.first {
			return c
		}
	}
	return nil
}

// eachQueued calls f, which may fail the call that it is given.
func (cs *calls) eachQueued(f func(*Call)) {
	for _, c := range []*Call{cs.urgent.first, cs.others.first} {
		for c != nil {
			following := c.next
			f(c)
			c = following
		}
	}
}

// callList is a FIFO of calls that any call can leave. Session.mu guards it.
type callList struct {
	first, last *Call
	n           int
	least       time.Duration // no call in it has less Patience, unless it has none; 0 if none has any
}

func (l *callList) push(c *Call) {
	if l.n == 0 {
		l.least = 0
	}
	if c.Patience > 0 && (l.least == 0 || c.Patience < l.least) {
		l.least = c.Patience
	}
	c.list, c.prev, c.next = l, l.last, nil
	if l.last == nil {
		l.first = c
	} else {
		l.last.next = c
	}
	l.last = c
	l.n++
}

// leave takes the call off its list.
func (c *Call) leave() {
	l := c.list
	if c.prev == nil {
		l.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		l.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.list, c.prev, c.next = nil, nil, nil
	l.n--
}

// todo collects callbacks that are due once Session.mu is released. The first, which is usually the only one, needs no
// allocation.
type todo struct {
	first due
	more  []due
}

// due is a call that has ended, or an event.
type due struct {
	call  *Call
	reply Reply
	event delivery
}

// delivery is an event on its way to a subscriber.
type delivery struct {
	to *Watch
	ev WatchEvent
}

func (t *todo) add(d due) {
	if t.none() {
		t.first = d
	} else {
		t.more = append(t.more, d)
	}
}

func (t *todo) none() bool { return t.first.call == nil && t.first.event.to == nil }

func (t *todo) done(c *Call, r Reply) {
	if c.Done != nil {
		t.add(due{call: c, reply: r})
	}
}

func (t *todo) fire(ds ...delivery) {
	for _, d := range ds {
		t.add(due{event: d})
	}
}

func (t *todo) run() {
	if t.none() {
		return
	}
	t.first.run()
	for i := range t.more {
		t.more[i].run()
	}
}

func (d *due) run() {
	if d.call != nil {
		d.call.Done(d.reply)
	} else {
		d.event.to.call(d.event.ev)
	}
}

// wake puts a value into a channel with one slot, if it is empty.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// locked runs f under the session's mutex, and what f returns after it.
func (s *Session) locked(f func() todo) {
	s.mu.Lock()
	t := f()
	s.mu.Unlock()
	t.run()
}

// Submit queues calls. They are written in the order of submission, urgent ones first, as soon as there is a
// connection and its window is open.
func (s *Session) Submit(calls ...*Call) {
	s.locked(func() (t todo) {
		at := time.Now()
		for _, c := range calls {
			if c.Rearm != nil {
				c.Op, c.Body = jute.OpSetWatches, c.Rearm.body(nil)
			}
			if err := s.refuse(c); err != nil {
				t.done(c, Reply{Err: err})
				continue
			}
			s.watches.submitting(c)
			c.queued = at
			list := &s.calls.others
			if c.Urgent {
				list = &s.calls.urgent
			}
			list.push(c)
			if s.links.live == nil && s.calls.patience.add(c) {
				wake(s.calls.patience.wake)
			}
		}
		s.pump(&t)
		return t
	})
}

// refuse returns an error if a call cannot be accepted. The last accepted call is that submitted by Close.
func (s *Session) refuse(c *Call) error {
	switch _, known := ops[c.Op]; {
	case !known:
		return fmt.Errorf("%w: %w: %d", ErrNotSent, ErrNoOperation, c.Op)
	case s.ending.err != nil:
		return fmt.Errorf("%w: %w", ErrNotSent, s.ending.seen())
	case s.ending.closing && (c.Op != jute.OpCloseSession || s.links.live == nil):
		return fmt.Errorf("%w: %w", ErrNotSent, ErrClosed)
	case s.admission.refused != nil && c.Patience > 0:
		return fmt.Errorf("%w: %w", ErrNotSent, s.admission.refused)
	}
	return Fits(len(c.Body)+8, s.cfg.MaxFrame)
}

// Fits returns ErrTooLarge for a request of more bytes than the limit. So parts of a request can be refused before they
// are copied into it.
func Fits(bytes, limit int) error {
	if bytes <= limit {
		return nil
	}
	return fmt.Errorf("%w: %w: it has %d bytes, and the limit is %d", ErrNotSent, ErrTooLarge, bytes, limit)
}

// pump moves calls from the queue to the connection: urgent ones, and the others while its window is open.
func (s *Session) pump(t *todo) {
	for l := s.links.live; l != nil; {
		c := s.calls.urgent.first
		if c == nil && l.window.used < l.window.size {
			if c = s.calls.others.first; c != nil && s.asks(l, c) {
				return
			}
		}
		if c == nil {
			return
		}
		c.leave()
		if s.calls.unknown[serverOp{l.server, c.Op}] {
			s.answerWatches(c, jute.CodeUnimplemented, t)
			t.done(c, Reply{Code: jute.CodeUnimplemented, Link: l.n})
			continue
		}
		s.write(l, c)
	}
}

// write moves a call to the connection's output, after what its watch needs is set in its body. Its time is
// taken first (rule R2).
func (s *Session) write(l *link, c *Call) {
	switch {
	case c.Watch != nil:
		s.watches.writing(c)
	case c.Rearm != nil:
		s.watches.rearming(c)
	}
	if s.calls.xid--; s.calls.xid > firstXid { // wrapped after two billion requests
		s.calls.xid = firstXid - 1
	}
	c.xid, c.sent = s.calls.xid, now()
	s.calls.flight.push(c)
	l.sends(c.sent)
	l.window.used += c.cost()
	l.output.add(c.xid, c.Op, c.Body)
}

// Cancel takes a call back if it has not been written: then its Done is called with ErrNotSent and cause, and Cancel
// returns true. Otherwise the call continues: the server may execute it.
func (s *Session) Cancel(c *Call, cause error) (cancelled bool) {
	s.locked(func() (t todo) {
		if cancelled = c.list != nil && c.list != &s.calls.flight; cancelled {
			s.unqueue(c, cause, &t)
		}
		return t
	})
	return cancelled
}

func (s *Session) unqueue(c *Call, cause error, t *todo) {
	c.leave()
	s.failWatch(c, t)
	t.done(c, Reply{Err: fmt.Errorf("%w: %w", ErrNotSent, cause)})
}

// replied handles the reply to a call of the session. It returns an error if the connection cannot continue: ErrLapsed
// if the answer came after the session had lapsed, errSkipped if an earlier call was not answered.
func (s *Session) replied(l *link, in incoming) (err error) {
	s.locked(func() (t todo) {
		c := s.calls.flight.first
		var early *Call
		if in.head.Err == jute.CodeUnimplemented {
			early = s.calls.behind(in.head.Xid)
		}
		switch {
		case s.links.live != l:
			return t
		case early != nil:
			// A server answers an operation that it does not know ahead of those before it, and closes the connection.
			// The reply proves nothing about the session: it is out of order.
			early.leave()
			l.window.used -= early.cost()
			s.complete(l, early, in, &t)
			return t
		case c == nil || c.xid != in.head.Xid:
			// A server answers in order. If it skipped a request that arms watches again, an answer could
			// show changes before their events.
			err = errSkipped
			return t
		}
		c.leave()
		at, code := now(), in.head.Err
		l.hears(at)
		l.window.answered(c.cost(), elapsed(c.sent, at), s.calls.flight.n, s.calls.others.n > 0)
		proof := Local
		if code == jute.CodeOK && ops[c.Op].commits {
			proof = Committed
		}
		if !l.readOnly && extends(code) && !s.validity.answer(c.sent, proof) {
			err = ErrLapsed
			s.failWatch(c, &t)
			lost := fmt.Errorf("%w: %w", ErrConnectionLost, ErrSessionLost)
			t.done(c, Reply{Err: lost, Sent: c.sent.t, Link: l.n})
			return t
		}
		s.complete(l, c, in, &t)
		return t
	})
	return err
}

// complete handles a reply that counts. Session.mu is held.
func (s *Session) complete(l *link, c *Call, in incoming, t *todo) {
	code := in.head.Err
	if in.head.Zxid >= 0 { // -1 in the reply to an unknown operation: not the server's zxid
		s.identity.saw(in.head.Zxid)
	}
	if code == jute.CodeUnimplemented {
		s.calls.unknown[serverOp{l.server, c.Op}] = true
	}
	r := Reply{Zxid: in.head.Zxid, Code: code, Body: in.body, Sent: c.sent.t, Link: l.n}
	if in.skipped > 0 {
		r.Err = fmt.Errorf("%w: it has %d bytes, and the limit is %d",
			ErrReplyTooLarge, in.skipped, s.cfg.MaxReply)
	}
	if c.Watch != nil && in.skipped > 0 {
		c.Watch.stopped = true // it is armed, but its owner takes the call for failed
	}
	s.answerWatches(c, code, t)
	t.done(c, r)
	s.pump(t)
}

// extends reports whether a reply with this code shows that the server has touched the session (rule R1).
func extends(code int32) bool {
	switch code {
	case jute.CodeSessionExpired, jute.CodeSessionMoved, jute.CodeSessionClosedRequireSASL, jute.CodeAuthFailed:
		return false
	}
	return true
}

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

// cost returns the units of the window that a call takes.
func (c *Call) cost() int { return 1 + len(c.Body)/windowUnit }

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

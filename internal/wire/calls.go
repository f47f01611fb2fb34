package wire

import (
	"fmt"
	"time"
)

// firstXid is the first xid of the session's own requests; they count down from here. ZooKeeper reserves small negative
// numbers, and a guest counts up. The counter is never reset within a session: members match replies to sessions by
// (session, xid), also across connections.
const firstXid int32 = -1000

// Call is one request. Its fields may not change after Submit.
type Call struct {
	Op int32
	// Body is the encoded record after the request header.
	Body []byte
	// Watch is armed with this read; the watch flag in Body is set as needed.
	Watch *Watch
	// Rearm arms watches by setWatches; Body is made of it.
	Rearm *Rearming
	// Patience, if set, limits the wait for a connection: from Submit, or from the loss of the last connection if that
	// is later. Then it fails with ErrNotSent. While every server refuses the credentials it fails immediately, with
	// ErrAuthFailed, too. While there is a connection it waits for its turn without limit.
	Patience time.Duration
	// Done is called exactly once, by wire's goroutines or inside Submit, Cancel, Abort; it must not block.
	// It may call Submit.
	Done func(Reply)
	// Urgent puts the call before all that are not urgent, and it does not wait for the window. It is for
	// small and rare calls that keep the session or its holds alive. A call that arms or removes a watch must
	// not be urgent: it has to stay in order.
	Urgent bool

	arms       bool // as written, it arms Watch, or lets a persistent watch serve it
	xid        int32
	list       *callList // where it is: queued or in flight; nil when it has ended
	prev, next *Call     // there
	queued     time.Time
	sent       instant
}

// Reply is a call's end.
type Reply struct {
	Zxid int64
	// Code is the server's error code, 0 for success; only meaningful when Err is nil.
	Code int32
	Body []byte
	// Err is set without a reply, or when the reply was skipped (ErrReplyTooLarge).
	Err error
	// Suspect is the size of the request, header included, if that may be why the server closed the
	// connection; else 0.
	Suspect int
	// Sent is the time at which the request was written, zero if it was not.
	Sent time.Time
	// Link numbers the connection that carried it.
	Link uint64
}

// notSent is the reply of a call that was not written.
func notSent(cause error) Reply { return Reply{Err: fmt.Errorf("%w: %w", ErrNotSent, cause)} }

// connectionLost is the reply of a call whose connection was lost, or the session with it.
func (c *Call) connectionLost(cause error, link uint64) Reply {
	return Reply{Err: fmt.Errorf("%w: %w", ErrConnectionLost, cause), Sent: c.sent.t, Link: link}
}

// watches returns the watches that the call arms.
func (c *Call) watches() []*Watch {
	switch {
	case c.Watch != nil:
		return []*Watch{c.Watch}
	case c.Rearm != nil:
		return c.Rearm.Watches
	}
	return nil
}

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

// suspect returns the largest of the calls in flight, if its size may have made the server close the connection: to a
// request above its jute.maxbuffer a server sends no reply, but closes immediately. It is nil if none is large.
func (cs *calls) suspect() (largest *Call) {
	at := now()
	for c := cs.flight.first; c != nil; c = c.next {
		large := len(c.Body) >= suspectSize && elapsed(c.sent, at) <= suspectTime
		if large && (largest == nil || len(c.Body) > len(largest.Body)) {
			largest = c
		}
	}
	return largest
}

const (
	// suspectSize is the least size of a request that a server may refuse by closing the connection.
	suspectSize = 16 << 10
	// suspectTime limits the delay of that close: the server reads only the length of the request.
	suspectTime = 2 * time.Second
)

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

// patience determines which calls have waited too long for a connection. A goroutine watches the queue while there is
// none. Session.mu guards it.
type patience struct {
	since   time.Time     // when the last connection was lost
	next    time.Time     // when the first call's patience ends; zero if no call has a limit
	watched bool          // the goroutine runs
	wake    chan struct{} // wakes it: next is earlier now, or there is a connection
}

// settled reports whether a call and all later ones in its list can be skipped: none of them has waited long enough at
// that time, or ends before next. The list is in the order of Submit, so if all calls have the same patience, the first
// one that still waits settles the others, however many they are.
func (p *patience) settled(c *Call, at time.Time) bool {
	earliest := p.from(c).Add(c.list.least)
	return c.list.least == 0 || earliest.After(at) && !p.next.IsZero() && !earliest.Before(p.next)
}

// from returns the time from which a call has waited for a connection.
func (p *patience) from(c *Call) time.Time {
	if p.since.After(c.queued) {
		return p.since
	}
	return c.queued
}

// ends returns the time at which a call stops waiting for a connection. limited is false if it has no limit.
func (p *patience) ends(c *Call) (at time.Time, limited bool) {
	return p.from(c).Add(c.Patience), c.Patience > 0
}

// add counts a call that waits. It reports whether the goroutine has to look earlier because of it.
func (p *patience) add(c *Call) (earlier bool) {
	ends, limited := p.ends(c)
	if earlier = limited && (p.next.IsZero() || ends.Before(p.next)); earlier {
		p.next = ends
	}
	return earlier
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

// reset reports to persistent watches that still exist that events may have been missed.
func (t *todo) reset(ws []*Watch) {
	for _, w := range ws {
		if w.entry != nil && !w.stopped {
			t.fire(delivery{w, WatchEvent{Type: EventReset, Path: w.Path}})
		}
	}
}

func (d *due) run() {
	if d.call != nil {
		d.call.Done(d.reply)
	} else {
		d.event.to.call(d.event.ev)
	}
}

// cost returns the units of the window that a call takes.
func (c *Call) cost() int { return 1 + len(c.Body)/windowUnit }

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
	// Watch is armed by this call; the watch flag or mode in Body is set as needed.
	Watch *Watch
	// Rearm arms watches by setWatches; Body is made of it.
	Rearm *Rearming
	// Patience, if set, limits the wait for a connection: from Submit, or from the loss of the last connection if that
	// is later. Then the call fails with ErrNotSent. While every server refuses the credentials it fails immediately:
	// its error matches ErrAuthFailed, too. While there is a connection it waits for the window without limit.
	Patience time.Duration
	// Done is called exactly once, by wire's goroutines or inside Submit, Cancel, Abort; it must not block.
	// It may call Submit.
	Done func(Reply)
	// Urgent puts the call before all that are not urgent, and it does not wait for the window. It is for small and rare
	// calls that keep the session or its holds alive, not for calls that arm or remove watches: these stay in order.
	Urgent bool

	armsWatch  bool // once written: it arms its watches, or a persistent one serves Watch
	xid        int32
	list       *callList // where it is: queued or in flight; nil when it has ended
	prev, next *Call     // there
	queued     time.Time
	sent       clockReading
}

// Reply is the reply to a call, or the error of a call without one.
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
	// Connection is the number of the call's connection, 0 if it had none.
	Connection uint64
}

// notSentReply is the reply of a call that was not written.
func notSentReply(cause error) Reply { return Reply{Err: fmt.Errorf("%w: %w", ErrNotSent, cause)} }

// connectionLostReply is the reply of a call whose connection was lost, or the session with it.
func (c *Call) connectionLostReply(cause error, number uint64) Reply {
	return Reply{Err: fmt.Errorf("%w: %w", ErrConnectionLost, cause), Sent: c.sent.t, Connection: number}
}

// watchesToArm returns the watches that the call arms.
func (c *Call) watchesToArm() []*Watch {
	switch {
	case c.Watch != nil:
		return []*Watch{c.Watch}
	case c.Rearm != nil:
		return c.Rearm.Watches
	}
	return nil
}

// pendingCalls are a session's requests without a reply. Session.mu guards it.
type pendingCalls struct {
	urgent        callList // not written yet, in the order of submission: these come first,
	ordinary      callList // and then these
	inFlight      callList // written, in the order of sending, which is the order of the replies
	xid           int32    // the last one given
	unknownOps    map[serverOperation]bool
	probedServers map[string]bool // the servers whose version has been probed
	patience      patienceTimer
}

// serverOperation is an operation that a server does not know.
type serverOperation struct {
	server string
	op     int32
}

func newPendingCalls() pendingCalls {
	p := patienceTimer{watched: true, wake: make(chan struct{}, 1)}
	return pendingCalls{xid: firstXid, unknownOps: map[serverOperation]bool{},
		probedServers: map[string]bool{}, patience: p}
}

// findBehindFirst returns the call in flight with that xid, nil if there is none or if it is the oldest.
func (cs *pendingCalls) findBehindFirst(xid int32) *Call {
	for c := cs.inFlight.first; c != nil; c = c.next {
		if c.xid == xid && c != cs.inFlight.first {
			return c
		}
	}
	return nil
}

// forEachQueued calls f, which may fail the call that it is given.
func (cs *pendingCalls) forEachQueued(f func(*Call)) {
	for _, c := range []*Call{cs.urgent.first, cs.ordinary.first} {
		for c != nil {
			following := c.next
			f(c)
			c = following
		}
	}
}

// findSuspect returns the largest of the recent calls in flight, which may be why the server has closed the connection:
// that is its reaction to a request above its jute.maxbuffer. It returns nil if none is large.
func (cs *pendingCalls) findSuspect() (largest *Call) {
	at := readClock()
	for c := cs.inFlight.first; c != nil; c = c.next {
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
	first, last   *Call
	count         int
	leastPatience time.Duration // a lower bound of its calls' Patience, where set; 0 if none has any
}

func (l *callList) pushBack(c *Call) {
	if l.count == 0 {
		l.leastPatience = 0
	}
	if c.Patience > 0 && (l.leastPatience == 0 || c.Patience < l.leastPatience) {
		l.leastPatience = c.Patience
	}
	c.list, c.prev, c.next = l, l.last, nil
	if l.last == nil {
		l.first = c
	} else {
		l.last.next = c
	}
	l.last = c
	l.count++
}

// removeFromList takes the call off its list.
func (c *Call) removeFromList() {
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
	l.count--
}

// patienceTimer determines which calls have waited too long for a connection. Without one a goroutine watches the queue.
// Session.mu guards it.
type patienceTimer struct {
	waitsSince time.Time     // when the last connection was lost
	nextEnd    time.Time     // the earliest end of any call's patience; zero if no call has a limit
	watched    bool          // the goroutine runs
	wake       chan struct{} // wakes it: nextEnd is earlier now, or there is a connection
}

// canSkipFrom reports whether c and all later calls in its list can be skipped: no patience of theirs has ended by at, or
// ends before nextEnd. The list is in the order of Submit, so if all calls have the same patience, one call
// that still waits is enough for all after it.
func (p *patienceTimer) canSkipFrom(c *Call, at time.Time) bool {
	earliest := p.waitStart(c).Add(c.list.leastPatience)
	return c.list.leastPatience == 0 || earliest.After(at) && !p.nextEnd.IsZero() && !earliest.Before(p.nextEnd)
}

// waitStart returns the time from which a call has waited for a connection.
func (p *patienceTimer) waitStart(c *Call) time.Time {
	if p.waitsSince.After(c.queued) {
		return p.waitsSince
	}
	return c.queued
}

// waitEnd returns the time at which a call stops waiting for a connection. limited is false if it has no limit.
func (p *patienceTimer) waitEnd(c *Call) (at time.Time, limited bool) {
	return p.waitStart(c).Add(c.Patience), c.Patience > 0
}

// addWaiting sets nextEnd to the end of the call's patience if that is earlier, and reports whether it is.
func (p *patienceTimer) addWaiting(c *Call) (earlier bool) {
	ends, limited := p.waitEnd(c)
	if earlier = limited && (p.nextEnd.IsZero() || ends.Before(p.nextEnd)); earlier {
		p.nextEnd = ends
	}
	return earlier
}

// callbackList collects callbacks that are due once Session.mu is released. The first, which is usually the only one,
// needs no allocation.
type callbackList struct {
	first callback
	more  []callback
}

// callback is a reply to a call, or an event for a watch.
type callback struct {
	call  *Call
	reply Reply
	event eventDelivery
}

func (t *callbackList) addCallback(d callback) {
	if t.isEmpty() {
		t.first = d
	} else {
		t.more = append(t.more, d)
	}
}

func (t *callbackList) isEmpty() bool { return t.first.call == nil && t.first.event.to == nil }

func (t *callbackList) addReply(c *Call, r Reply) {
	if c.Done != nil {
		t.addCallback(callback{call: c, reply: r})
	}
}

func (t *callbackList) addEvents(ds ...eventDelivery) {
	for _, d := range ds {
		t.addCallback(callback{event: d})
	}
}

func (t *callbackList) runAll() {
	if t.isEmpty() {
		return
	}
	t.first.invoke()
	for i := range t.more {
		t.more[i].invoke()
	}
}

// addGapEvents adds an EventReset for each of the persistent watches that still exists.
func (t *callbackList) addGapEvents(ws []*Watch) {
	for _, w := range ws {
		if w.entry != nil && !w.stopped {
			t.addEvents(eventDelivery{w, WatchEvent{Type: EventReset, Path: w.Path}})
		}
	}
}

func (d *callback) invoke() {
	if d.call != nil {
		d.call.Done(d.reply)
	} else {
		d.event.to.deliver(d.event.ev)
	}
}

// windowCost returns the units of the window that a call takes.
func (c *Call) windowCost() int { return 1 + len(c.Body)/windowUnit }

package wire

import (
	"errors"
	"time"
)

// firstXid is the first xid of our own requests; they count down from here. ZooKeeper reserves small negative
// numbers, and the library counts up. The counter is never reset within a session: members match replies to
// sessions by (session, xid), also across connections.
const firstXid int32 = -1000

// calls are a session's requests without an answer. Session.mu guards it.
type calls struct {
	queue    queue
	flight   callList // written, in the order of sending, which is the order of the answers
	xid      int32    // the last one given
	unknown  map[serverOp]bool
	patience patience
}

// serverOp is an operation that a server does not know.
type serverOp struct {
	server string
	op     int32
}

func newCalls() calls {
	p := patience{watched: true, wake: make(chan struct{}, 1)}
	return calls{xid: firstXid, unknown: map[serverOp]bool{}, patience: p}
}

// next takes the next call off the queue if the window is open for it; else it returns nil.
func (cs *calls) next(w *window) *Call {
	c := cs.queue.first()
	if c == nil || cs.queue.urgent.n == 0 && !w.open() {
		return nil
	}
	cs.queue.remove(c)
	return c
}

// write moves a call to the connection's output. Its time is taken first (rule R2).
func (cs *calls) write(l *link, c *Call) {
	c.xid, c.sent = cs.nextXid(), now()
	cs.flight.push(c)
	l.pulse.sent = c.sent
	l.window.used += c.cost()
	l.output.add(c.xid, c.Op, c.Body)
}

func (cs *calls) nextXid() int32 {
	if cs.xid--; cs.xid > firstXid { // wrapped after two billion requests
		cs.xid = firstXid - 1
	}
	return cs.xid
}

// find is the call in flight that has this xid, or nil.
func (cs *calls) find(xid int32) *Call {
	c := cs.flight.first
	for c != nil && c.xid != xid {
		c = c.next
	}
	return c
}

// suspect is the largest of the calls in flight, if its size may have made the server close the connection: a
// server answers a request above its jute.maxbuffer by nothing else, and at once. It is nil if none is large.
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
	// suspectTime is how soon it does: it reads no more of the request than its length.
	suspectTime = 2 * time.Second
)

// patience says when calls have waited too long for a connection. A goroutine watches the queue while there
// is none. Session.mu guards it.
type patience struct {
	since   time.Time     // when the last connection was lost
	next    time.Time     // when the first call's patience ends; zero if no call has a limit
	watched bool          // the goroutine runs
	wake    chan struct{} // tells it that next is earlier now, or that there is a connection
}

var errNoConnection = errors.New("no connection in time")

// ends is when a call that waits for a connection has waited long enough. limited is false if it has no
// limit.
func (p *patience) ends(c *Call) (at time.Time, limited bool) {
	if at = c.queued; p.since.After(at) {
		at = p.since
	}
	return at.Add(c.Patience), c.Patience > 0
}

// add counts a call that waits. It says whether the goroutine has to look earlier because of it.
func (p *patience) add(c *Call) (earlier bool) {
	ends, limited := p.ends(c)
	if earlier = limited && (p.next.IsZero() || ends.Before(p.next)); earlier {
		p.next = ends
	}
	return earlier
}

// expireQueued fails the calls that have waited too long for a connection, and returns how long until the
// next ones have. down is false if there is a connection: then the goroutine that asks ends.
func (s *Session) expireQueued() (wait time.Duration, down bool) {
	s.locked(func() (t todo) {
		p := &s.calls.patience
		p.watched = s.links.live == nil
		if wait, down = time.Hour, p.watched; !down {
			return nil
		}
		at := time.Now()
		p.next = time.Time{}
		s.calls.queue.each(func(c *Call) {
			if ends, limited := p.ends(c); limited && !ends.After(at) {
				s.unqueue(c, errNoConnection, &t)
			} else if p.add(c) {
				wait = p.next.Sub(at)
			}
		})
		return t
	})
	return wait, down
}

// watchPatience ends calls that wait too long for a connection, until there is one.
func (s *Session) watchPatience() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for wait, down := s.expireQueued(); down; wait, down = s.expireQueued() {
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-s.calls.patience.wake:
		case <-s.ctx.Done():
			return
		}
	}
}

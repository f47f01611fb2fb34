package wire

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// firstXid is the first xid of our own requests; they go down from here. ZooKeeper reserves small negative numbers and the library counts up.
// The counter is never reset within a session: members match replies to sessions by (session, xid), also across connections.
const firstXid int32 = -1000

// todo collects callbacks that are due once Session.mu is released.
type todo []func()

func (t *todo) done(c *Call, r Reply) {
	c.state = callDone
	if c.Done != nil {
		*t = append(*t, func() { c.Done(r) })
	}
}

func (t *todo) fire(ds []delivery) {
	for _, d := range ds {
		*t = append(*t, func() { d.to.Fn(d.ev) })
	}
}

func (t todo) run() {
	for _, f := range t {
		f()
	}
}

// Submit queues calls. They are written in the order of submission, but urgent ones first, as soon as there is a connection with room for them.
func (s *Session) Submit(calls ...*Call) { s.submit(false, calls...) }

func (s *Session) submit(last bool, calls ...*Call) {
	var t todo
	s.mu.Lock()
	now := time.Now()
	for _, c := range calls {
		if err := s.refuse(c, last); err != nil {
			t.done(c, Reply{Err: err})
			continue
		}
		if c.Watch != nil {
			s.watches.submitted(c.Watch)
		}
		c.state, c.queued = callQueued, now
		s.queue.push(c)
		if ends, ok := s.givesUp(c); ok && (s.expires.IsZero() || ends.Before(s.expires)) {
			s.expires = ends
			s.wakeWatch()
		}
	}
	s.pump(&t)
	s.mu.Unlock()
	t.run()
}

// refuse says why a call cannot be accepted.
func (s *Session) refuse(c *Call, last bool) error {
	switch {
	case s.endErr != nil:
		return fmt.Errorf("%w: %w", ErrNotSent, s.ended())
	case s.closing && (!last || s.link == nil):
		return fmt.Errorf("%w: %w", ErrNotSent, ErrClosed)
	case s.admission.refused != nil && c.Patience > 0:
		return fmt.Errorf("%w: %w", ErrNotSent, s.admission.refused)
	case len(c.Body)+8 > s.cfg.MaxFrame:
		return fmt.Errorf("%w: %w: %d bytes, at most %d", ErrNotSent, ErrTooLarge, len(c.Body)+8, s.cfg.MaxFrame)
	}
	return nil
}

// ended is the session's end as callers see it.
func (s *Session) ended() error {
	if errors.Is(s.endErr, ErrClosed) {
		return ErrClosed
	}
	return fmt.Errorf("%w: %w", ErrSessionLost, s.endErr)
}

// pump moves calls from the queue to the connection while there is room.
func (s *Session) pump(t *todo) {
	l := s.link
	if l == nil {
		return
	}
	for s.queue.urgent.n > 0 || s.queue.others.n > 0 && l.room.free() {
		c := s.queue.pop()
		if s.lacking[l.server][c.Op] {
			if c.Watch != nil {
				t.fire(s.watches.answered(c, jute.CodeUnimplemented))
			}
			t.done(c, Reply{Code: jute.CodeUnimplemented, Link: l.n})
			continue
		}
		s.write(l, c)
	}
}

// write appends a call to the connection's output. Its time is taken first (rule R2).
func (s *Session) write(l *link, c *Call) {
	if c.Watch != nil {
		s.watches.writing(c)
	}
	c.xid = s.nextXid()
	c.state, c.sent = callWritten, now()
	l.sent = c.sent
	s.byXid[c.xid] = c
	s.flight.push(c)
	l.room.load += c.places()
	l.append(&jute.RequestHeader{Xid: c.xid, Op: c.Op}, c.Body)
}

func (s *Session) nextXid() int32 {
	for {
		if s.xid--; s.xid > firstXid { // wrapped after two billion requests
			s.xid = firstXid - 1
		}
		if s.byXid[s.xid] == nil {
			return s.xid
		}
	}
}

// Cancel takes a call back if it has not been written: then its Done is called with ErrNotSent and cause, and Cancel returns true. Otherwise the
// call goes on: the server may execute it.
func (s *Session) Cancel(c *Call, cause error) bool {
	var t todo
	s.mu.Lock()
	ok := c.state == callQueued
	if ok {
		s.unqueue(c, cause, &t)
	}
	s.mu.Unlock()
	t.run()
	return ok
}

func (s *Session) unqueue(c *Call, cause error, t *todo) {
	s.queue.remove(c)
	s.failWatch(c, t)
	t.done(c, Reply{Err: fmt.Errorf("%w: %w", ErrNotSent, cause)})
}

// replied handles the answer to one of our calls. It returns an error if the connection cannot go on: ErrLapsed if it came after the session had
// lapsed, errSkipped if one before it was not answered.
func (s *Session) replied(l *link, in incoming) error {
	var t todo
	h := in.head
	s.mu.Lock()
	c := s.byXid[h.Xid]
	switch {
	case c == nil || s.link != l:
		s.mu.Unlock()
		return nil
	case c != s.flight.first:
		// A server answers in order. What it has skipped may have been the watches to be armed again, and then no answer is behind their events.
		s.mu.Unlock()
		return errSkipped
	}
	delete(s.byXid, h.Xid)
	s.flight.remove(c)
	l.heard = now()
	ping, _ := s.pace(s.timeout)
	l.room.answered(c.places(), elapsed(c.sent, now()), ping/roomShare, s.flight.n, s.queue.others.n > 0)
	if !l.readOnly && extends(h.Err) && !s.validity.answer(c.sent) {
		s.failWatch(c, &t)
		t.done(c, Reply{Err: fmt.Errorf("%w: %w", ErrConnectionLost, ErrSessionLost), Sent: c.sent.t, Link: l.n})
		s.mu.Unlock()
		t.run()
		return ErrLapsed
	}
	if h.Err == jute.CodeOK && isWrite(c.Op) {
		s.validity.committed(c.sent)
	}
	s.maxZxid = max(s.maxZxid, h.Zxid)
	if h.Err == jute.CodeUnimplemented {
		if s.lacking[l.server] == nil {
			s.lacking[l.server] = map[int32]bool{}
		}
		s.lacking[l.server][c.Op] = true
	}
	r := Reply{Zxid: h.Zxid, Code: h.Err, Body: in.body, Sent: c.sent.t, Link: l.n}
	if in.skipped > 0 {
		r.Err = fmt.Errorf("%w: %d bytes, at most %d", ErrReplyTooLarge, in.skipped, s.cfg.MaxReply)
		if c.Watch != nil {
			c.Watch.stopped = true // it is armed, and its owner takes it for one that is not
		}
	}
	if c.Watch != nil {
		t.fire(s.watches.answered(c, h.Err))
		if c.Watch.entry == nil {
			s.tidy(c.Watch.Path, &t)
		}
	}
	t.done(c, r)
	s.pump(&t)
	s.mu.Unlock()
	t.run()
	return nil
}

// extends says whether a reply with this code shows that the server has touched the session (rule R1).
func extends(code int32) bool {
	switch code {
	case jute.CodeSessionExpired, jute.CodeSessionMoved, jute.CodeSessionClosedRequireSASL, jute.CodeAuthFailed:
		return false
	}
	return true
}

// isWrite says whether a successful op went through the quorum.
func isWrite(op int32) bool {
	switch op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL, jute.OpDelete, jute.OpSetData, jute.OpSetACL, jute.OpMulti:
		return true
	}
	return false
}

// expireQueued fails calls that have waited too long for a connection and returns when the next one will have.
func (s *Session) expireQueued(now time.Time) (next time.Duration, ok bool) {
	var t todo
	s.mu.Lock()
	s.expires = time.Time{}
	if s.link != nil {
		s.mu.Unlock()
		return 0, false
	}
	s.queue.each(func(c *Call) {
		switch ends, limited := s.givesUp(c); {
		case !limited:
		case !ends.After(now):
			s.unqueue(c, errNoConnection, &t)
		case s.expires.IsZero() || ends.Before(s.expires):
			s.expires = ends
		}
	})
	next, ok = s.expires.Sub(now), !s.expires.IsZero()
	s.mu.Unlock()
	t.run()
	return next, ok
}

// givesUp is when a queued call has waited for a connection for long enough; false if it does not wait for one, or has no limit.
func (s *Session) givesUp(c *Call) (at time.Time, limited bool) {
	if s.link != nil || c.Patience <= 0 {
		return at, false
	}
	if at = c.queued; s.down.After(at) {
		at = s.down
	}
	return at.Add(c.Patience), true
}

var errNoConnection = errors.New("no connection in time")

// watchWaiting ends calls that wait too long for a connection, until there is one.
func (s *Session) watchWaiting(up <-chan struct{}) {
	defer s.wakeWatch() // what has come to this one may be for the next
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait := time.Hour
		if next, ok := s.expireQueued(time.Now()); ok {
			wait = next
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-s.wake:
		case <-up:
			return
		case <-s.ctx.Done():
			return
		}
	}
}

func (s *Session) wakeWatch() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

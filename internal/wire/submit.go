package wire

import (
	"fmt"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// todo collects callbacks that are due once Session.mu is released.
type todo []func()

func (t *todo) done(c *Call, r Reply) {
	if c.Done != nil {
		*t = append(*t, func() { c.Done(r) })
	}
}

func (t *todo) fire(ds ...delivery) {
	for _, d := range ds {
		*t = append(*t, func() { d.to.Fn(d.ev) })
	}
}

func (t todo) run() {
	for _, f := range t {
		f()
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
func (s *Session) Submit(calls ...*Call) { s.submit(false, calls...) }

// submit is Submit; last says that the call is the one that closes the session.
func (s *Session) submit(last bool, calls ...*Call) {
	s.locked(func() (t todo) {
		at := time.Now()
		for _, c := range calls {
			if err := s.refuse(c, last); err != nil {
				t.done(c, Reply{Err: err})
				continue
			}
			if c.Watch != nil {
				s.watches.submitted(c.Watch)
			}
			c.queued = at
			s.calls.queue.push(c)
			if s.links.live == nil && s.calls.patience.add(c) {
				wake(s.calls.patience.wake)
			}
		}
		s.pump(&t)
		return t
	})
}

// refuse says why a call cannot be accepted.
func (s *Session) refuse(c *Call, last bool) error {
	switch {
	case s.ending.err != nil:
		return fmt.Errorf("%w: %w", ErrNotSent, s.ending.seen())
	case s.ending.closing && (!last || s.links.live == nil):
		return fmt.Errorf("%w: %w", ErrNotSent, ErrClosed)
	case s.admission.refused != nil && c.Patience > 0:
		return fmt.Errorf("%w: %w", ErrNotSent, s.admission.refused)
	case len(c.Body)+8 > s.cfg.MaxFrame:
		return fmt.Errorf("%w: %w: %d bytes, at most %d", ErrNotSent, ErrTooLarge, len(c.Body)+8, s.cfg.MaxFrame)
	}
	return nil
}

// pump moves calls from the queue to the connection while its window is open.
func (s *Session) pump(t *todo) {
	l := s.links.live
	if l == nil {
		return
	}
	for c := s.calls.next(&l.window); c != nil; c = s.calls.next(&l.window) {
		if s.calls.unknown[serverOp{l.server, c.Op}] {
			if c.Watch != nil {
				t.fire(s.watches.answered(c, jute.CodeUnimplemented)...)
			}
			t.done(c, Reply{Code: jute.CodeUnimplemented, Link: l.n})
			continue
		}
		s.write(l, c)
	}
}

// write writes a call to the connection, after what its watch needs is set in its body.
func (s *Session) write(l *link, c *Call) {
	if c.Watch != nil {
		s.watches.writing(c)
	}
	s.calls.write(l, c)
}

// Cancel takes a call back if it has not been written: then its Done is called with ErrNotSent and cause, and
// Cancel returns true. Otherwise the call goes on: the server may execute it.
func (s *Session) Cancel(c *Call, cause error) (cancelled bool) {
	s.locked(func() (t todo) {
		if cancelled = c.waits; cancelled {
			s.unqueue(c, cause, &t)
		}
		return t
	})
	return cancelled
}

func (s *Session) unqueue(c *Call, cause error, t *todo) {
	s.calls.queue.remove(c)
	s.failWatch(c, t)
	t.done(c, Reply{Err: fmt.Errorf("%w: %w", ErrNotSent, cause)})
}

// replied handles the answer to one of our calls. It returns an error if the connection cannot go on:
// ErrLapsed if the answer came after the session had lapsed, errSkipped if an earlier call was not answered.
func (s *Session) replied(l *link, in incoming) (err error) {
	s.locked(func() (t todo) {
		c := s.calls.flight.first
		switch {
		case s.links.live != l:
			return nil
		case c == nil || c.xid != in.head.Xid:
			// A server answers in order. If it skipped a request that arms watches again, an answer could show
			// changes before their events.
			err = errSkipped
			return nil
		}
		s.calls.flight.pop()
		at := now()
		l.pulse.heard = at
		ping, _ := s.pace(s.identity.timeout)
		flying, wanted := s.calls.flight.n, s.calls.queue.others.n > 0
		l.window.answered(c.cost(), elapsed(c.sent, at), ping/windowShare, flying, wanted)
		if code := in.head.Err; !l.readOnly && extends(code) && !s.validity.answer(c.sent) {
			err = ErrLapsed
			s.failWatch(c, &t)
			t.done(c, Reply{Err: fmt.Errorf("%w: %w", ErrConnectionLost, ErrSessionLost), Sent: c.sent.t, Link: l.n})
			return t
		}
		s.complete(l, c, in, &t)
		return t
	})
	return err
}

// complete takes what an answer that counts says. Session.mu is held.
func (s *Session) complete(l *link, c *Call, in incoming, t *todo) {
	code := in.head.Err
	if code == jute.CodeOK && isWrite(c.Op) {
		s.validity.committed(c.sent)
	}
	s.identity.zxid = max(s.identity.zxid, in.head.Zxid)
	if code == jute.CodeUnimplemented {
		s.calls.unknown[serverOp{l.server, c.Op}] = true
	}
	r := Reply{Zxid: in.head.Zxid, Code: code, Body: in.body, Sent: c.sent.t, Link: l.n}
	if in.skipped > 0 {
		r.Err = fmt.Errorf("%w: %d bytes, at most %d", ErrReplyTooLarge, in.skipped, s.cfg.MaxReply)
	}
	if c.Watch != nil {
		if in.skipped > 0 {
			c.Watch.stopped = true // it is armed, but its owner takes the call for failed
		}
		t.fire(s.watches.answered(c, code)...)
		if c.Watch.entry == nil {
			s.tidy(c.Watch.Path, t)
		}
	}
	t.done(c, r)
	s.pump(t)
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
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL, jute.OpDelete, jute.OpSetData,
		jute.OpSetACL, jute.OpMulti:
		return true
	}
	return false
}

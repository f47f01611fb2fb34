package wire

import (
	"fmt"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// A call's way: Submit queues it, pump takes it off the queue while the window is open, write puts it into
// the connection's output, and replied finds it again when its answer comes.

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

// cannotRearm reports whether the session has persistent watches that the server is too old to arm again.
func (s *Session) cannotRearm(server string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls.unknown[serverOp{server, jute.OpSetWatches2}] && s.watches.persistent()
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

// primeLink writes the first requests of a new connection: catchUp, if this server may be behind the last event, and the
// requests that arm the watches again. The queued calls follow. Session.mu is held.
func (s *Session) primeLink(l *link) {
	if s.identity.ahead && !l.readOnly {
		s.write(l, catchUp())
	}
	calls, gaps := s.watches.rearm(s.identity.zxid, s.cfg.MaxFrame)
	l.since = s.watches.gapFrom
	for i, c := range calls {
		c.Done = func(r Reply) {
			switch {
			case r.Err != nil:
			case r.Code != jute.CodeOK:
				l.close(fmt.Errorf("wire: the server did not re-arm the watches: %s", jute.CodeName(r.Code)))
			default:
				s.locked(func() (t todo) {
					if i == len(calls)-1 {
						t.reset(gaps)
					}
					if s.links.live == l {
						s.watches.unarmed--
					}
					return t
				})
			}
		}
		s.write(l, c)
	}
	var t todo
	s.pump(&t)
	if !t.none() {
		s.wg.Go(t.run) // calls that this server does not know; nothing may be called back under the lock
	}
}

// catchUp is a write that changes nothing, but goes through the quorum: a server replies to it, and to later requests,
// after it has executed all that was committed before. It is needed because events have no zxid: without it a lagging
// server would accept a client that has seen a later event, and may hold a lock because of that event. (A sync would do
// only if the leader is certain to lead.)
func catchUp() *Call {
	return &Call{Op: jute.OpMulti, Body: jute.Checks("/")}
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
	l.pulse.noteRequest(c.sent)
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
	t.done(c, notSent(cause))
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
		l.pulse.noteReply(at, s.calls.flight.first != nil)
		l.window.answered(c.cost(), elapsed(c.sent, at), s.calls.flight.n, s.calls.others.n > 0)
		proof := Local
		if code == jute.CodeOK && ops[c.Op].commits {
			proof = Committed
		}
		if !l.readOnly && extends(code) && !s.validity.answer(c.sent, proof) {
			err = ErrLapsed
			s.failWatch(c, &t)
			t.done(c, c.connectionLost(ErrSessionLost, l.n))
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

// expireQueued fails the calls that have waited too long for a connection, and returns how long until the
// next ones have. down is false if there is a connection: then the goroutine that asks ends.
func (s *Session) expireQueued() (wait time.Duration, down bool) {
	s.locked(func() (t todo) {
		p := &s.calls.patience
		p.watched = s.links.live == nil
		if wait, down = time.Hour, p.watched; !down {
			return t
		}
		at := time.Now()
		p.next = time.Time{}
		for _, l := range []*callList{&s.calls.urgent, &s.calls.others} {
			for c := l.first; c != nil && !p.settled(c, at); {
				following := c.next
				if ends, limited := p.ends(c); limited && !ends.After(at) {
					s.unqueue(c, errNoConnection, &t)
				} else {
					p.add(c)
				}
				c = following
			}
		}
		if !p.next.IsZero() {
			wait = p.next.Sub(at)
		}
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

// awaitConnection has the queued calls begin to wait for a connection. Session.mu is held.
func (s *Session) awaitConnection() {
	p := &s.calls.patience
	p.since = time.Now()
	if !p.watched {
		p.watched = true
		s.wg.Go(s.watchPatience)
	} else {
		wake(p.wake)
	}
}

// Servers before 3.6 close the connection on an operation that they do not know, such as addWatch. So before the first
// such operation on a server that may be so old, the session sends a harmless question: whether there are watches on a
// path without a slash, which no watch can have.
//
//	type of watcher                  3.5               3.6 to 3.8        3.9
//	4, which is new in 3.9           MarshallingError  MarshallingError  NoWatcher
//	3, all types                     NoWatcher         MarshallingError  NoWatcher
//
// (From 3.6 to 3.8 a server looks for recursive watches on the parents of a path, and fails when there is no slash.)
// Until the reply the other calls wait, to keep their order.

// noPath is the path in the questions.
const noPath = "x"

// before36 judges the answer to the question for watchers of a type: whether the server is older than 3.6, and whether
// that is certain, or one more question is needed. Servers that answer otherwise are not older: they have to be tried.
func before36(watcherType, code int32) (older, certain bool) {
	switch {
	case code == jute.CodeUnimplemented: // before 3.5
		return true, true
	case watcherType == jute.WatcherPersistent:
		return false, code != jute.CodeMarshallingError
	}
	return code == jute.CodeNoWatcher, true
}

// asks reports whether a call has to wait for the answer to a question, which it asks if need be. A question that is
// lost with its connection is not repeated: it may be why the connection ended. Session.mu is held.
func (s *Session) asks(l *link, c *Call) bool {
	if !l.asking && ops[c.Op].from36 && !s.calls.asked[l.server] {
		s.calls.asked[l.server], l.asking = true, true
		s.ask(l, jute.WatcherPersistent)
	}
	return l.asking
}

// ask sends a question. Session.mu is held.
func (s *Session) ask(l *link, watcherType int32) {
	s.write(l, &Call{
		Op: jute.OpCheckWatches, Body: jute.Marshal(&jute.PathIntRequest{Path: noPath, Value: watcherType}),
		Done: func(r Reply) {
			if r.Err != nil {
				return // the connection is gone
			}
			s.locked(func() (t todo) {
				if s.links.live != l {
					return t
				}
				older, certain := before36(watcherType, r.Code)
				if !certain {
					s.ask(l, jute.WatcherAny)
					return t
				}
				if older {
					for code, op := range ops {
						if op.from36 {
							s.calls.unknown[serverOp{l.server, code}] = true
						}
					}
				}
				l.asking = false
				s.pump(&t)
				return t
			})
		},
	})
}

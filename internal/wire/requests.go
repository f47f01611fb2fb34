package wire

import (
	"fmt"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// A call's way: Submit queues it, sendQueued takes it off the queue while the window is open, writeCall puts it into
// the connection's output, and handleReply finds it again when its reply comes.

// Submit queues calls. They are written in the order of submission, urgent ones first, as soon as there is a connection
// and its window is open. Submit does not block. A call that cannot be accepted gets its Done inside Submit.
func (s *Session) Submit(calls ...*Call) {
	s.withLock(func() (t callbackList) {
		at := time.Now()
		for _, c := range calls {
			if c.Rearm != nil {
				c.Op, c.Body = jute.OpSetWatches, c.Rearm.encodeBody(nil)
			}
			if err := s.checkCall(c); err != nil {
				t.addReply(c, Reply{Err: err})
				continue
			}
			s.watches.recordSubmit(c)
			c.queued = at
			list := &s.calls.ordinary
			if c.Urgent {
				list = &s.calls.urgent
			}
			list.pushBack(c)
			if s.connections.live == nil && s.calls.patience.addWaiting(c) {
				wakeReceiver(s.calls.patience.wake)
			}
		}
		s.sendQueued(&t)
		return t
	})
}

// checkCall returns an error if a call cannot be accepted. After Close was called only its closeSession is.
func (s *Session) checkCall(c *Call) error {
	switch _, known := operations[c.Op]; {
	case !known:
		return fmt.Errorf("%w: %w: %d", ErrNotSent, ErrNoOperation, c.Op)
	case s.ending.err != nil:
		return fmt.Errorf("%w: %w", ErrNotSent, s.ending.callerError())
	case s.ending.closing && (c.Op != jute.OpCloseSession || s.connections.live == nil):
		return fmt.Errorf("%w: %w", ErrNotSent, ErrClosed)
	case s.refusals.refused != nil && c.Patience > 0:
		return fmt.Errorf("%w: %w", ErrNotSent, s.refusals.refused)
	}
	return Fits(len(c.Body)+8, s.cfg.MaxFrame)
}

// cannotRearm reports whether the session has persistent watches that the server is too old to arm again.
func (s *Session) cannotRearm(server string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls.unknownOps[serverOperation{server, jute.OpSetWatches2}] && s.watches.hasPersistent()
}

// Fits returns ErrTooLarge for a request of more bytes than the limit. A caller can ask before it encodes the request.
func Fits(bytes, limit int) error {
	if bytes <= limit {
		return nil
	}
	return fmt.Errorf("%w: %w: it has %d bytes, and the limit is %d", ErrNotSent, ErrTooLarge, bytes, limit)
}

// sendQueued moves calls from the queue to the connection: urgent ones, and the others while its window is open.
func (s *Session) sendQueued(t *callbackList) {
	for l := s.connections.live; l != nil; {
		c := s.calls.urgent.first
		if c == nil && l.window.used < l.window.size {
			if c = s.calls.ordinary.first; c != nil && s.mustAwaitProbe(l, c) {
				return
			}
		}
		if c == nil {
			return
		}
		c.removeFromList()
		if s.calls.unknownOps[serverOperation{l.server, c.Op}] {
			s.completeWatches(c, jute.CodeUnimplemented, t)
			t.addReply(c, Reply{Code: jute.CodeUnimplemented, Connection: l.number})
			continue
		}
		s.writeCall(l, c)
	}
}

// primeConnection writes the first requests of a new connection: catchUpCall if the server may be behind the last event,
// then the requests that arm the watches again. The queued calls follow. Session.mu is held.
func (s *Session) primeConnection(l *connection) {
	if s.identity.eventsAhead && !l.readOnly {
		s.writeCall(l, catchUpCall())
	}
	calls, gaps := s.watches.rearmAll(s.identity.zxid, s.cfg.MaxFrame)
	l.gapZxid = s.watches.gapZxid
	for i, c := range calls {
		c.Done = func(r Reply) {
			switch {
			case r.Err != nil:
			case r.Code != jute.CodeOK:
				l.closeWith(fmt.Errorf("wire: the server did not re-arm the watches: %s", jute.CodeName(r.Code)))
			default:
				s.withLock(func() (t callbackList) {
					if i == len(calls)-1 {
						t.addGapEvents(gaps)
					}
					if s.connections.live == l {
						s.watches.unconfirmed--
					}
					return t
				})
			}
		}
		s.writeCall(l, c)
	}
	var t callbackList
	s.sendQueued(&t)
	if !t.isEmpty() {
		s.wg.Go(t.runAll) // operations that this server does not know; no callback runs under the lock
	}
}

// catchUpCall returns a write that changes nothing, but goes through the quorum: a server replies to it, and to later
// requests, after it has executed all that was committed before. Without it, since events have no zxid: (1) an event
// grants the client a lock; (2) the client reconnects to a server that has not executed that change yet; (3) the server
// accepts it, and its reads show the lock's previous holder. (A sync would do only if the leader is certain to lead.)
func catchUpCall() *Call {
	return &Call{Op: jute.OpMulti, Body: jute.Checks("/")}
}

// writeCall moves a call to the connection's output, after the watch's flag or mode is set in its body. The time of
// sending is read before that.
func (s *Session) writeCall(l *connection, c *Call) {
	switch {
	case c.Watch != nil:
		s.watches.prepareWrite(c)
	case c.Rearm != nil:
		s.watches.attachRearming(c)
	}
	if s.calls.xid--; s.calls.xid > firstXid { // it has wrapped, after two billion requests
		s.calls.xid = firstXid - 1
	}
	c.xid, c.sent = s.calls.xid, readClock()
	s.calls.inFlight.pushBack(c)
	l.pulse.recordRequest(c.sent)
	l.window.used += c.windowCost()
	l.output.addFrame(c.xid, c.Op, c.Body)
}

// Cancel cancels a call that has not been written: its Done is called with ErrNotSent and cause, and Cancel returns true.
// Otherwise the call continues: the server may execute it.
func (s *Session) Cancel(c *Call, cause error) (cancelled bool) {
	s.withLock(func() (t callbackList) {
		if cancelled = c.list != nil && c.list != &s.calls.inFlight; cancelled {
			s.failQueued(c, cause, &t)
		}
		return t
	})
	return cancelled
}

func (s *Session) failQueued(c *Call, cause error, t *callbackList) {
	c.removeFromList()
	s.failWatches(c, t)
	t.addReply(c, notSentReply(cause))
}

// handleReply handles the reply to a call of the session. It returns an error if the connection cannot continue:
// ErrLapsed if the session was lost before the reply, errSkipped if an earlier call has no reply.
func (s *Session) handleReply(l *connection, in incomingFrame) (err error) {
	s.withLock(func() (t callbackList) {
		c := s.calls.inFlight.first
		var early *Call
		if in.head.Err == jute.CodeUnimplemented {
			early = s.calls.findBehindFirst(in.head.Xid)
		}
		switch {
		case s.connections.live != l:
			return t
		case early != nil:
			// A server refuses an operation that it does not have before it replies to earlier ones, and closes the
			// connection. The reply is out of order, so it does not count for the session.
			early.removeFromList()
			l.window.used -= early.windowCost()
			s.completeCall(l, early, in, &t)
			return t
		case c == nil || c.xid != in.head.Xid:
			// A server replies in order. If it skipped a request that arms watches again, this reply could show
			// changes before their events.
			err = errSkipped
			return t
		}
		c.removeFromList()
		at, code := readClock(), in.head.Err
		l.window.release(c.windowCost(), elapsed(c.sent, at), s.calls.inFlight.count, s.calls.ordinary.count > 0)
		proof := Local
		if code == jute.CodeOK && operations[c.Op].commits {
			proof = Committed
		}
		if !s.countReply(l, c.sent, at, code, proof) {
			err = ErrLapsed
			s.failWatches(c, &t)
			t.addReply(c, c.connectionLostReply(ErrSessionLost, l.number))
			return t
		}
		s.completeCall(l, c, in, &t)
		return t
	})
	return err
}

// completeCall handles a reply that counts. Session.mu is held.
func (s *Session) completeCall(l *connection, c *Call, in incomingFrame, t *callbackList) {
	code := in.head.Err
	if in.head.Zxid >= 0 { // -1 in the reply to an unknown operation: not the server's zxid
		s.identity.recordZxid(in.head.Zxid)
	}
	if code == jute.CodeUnimplemented {
		s.calls.unknownOps[serverOperation{l.server, c.Op}] = true
	}
	r := Reply{Zxid: in.head.Zxid, Code: code, Body: in.body, Sent: c.sent.t, Connection: l.number}
	if in.skipped > 0 {
		r.Err = fmt.Errorf("%w: it has %d bytes, and the limit is %d",
			ErrReplyTooLarge, in.skipped, s.cfg.MaxReply)
	}
	if c.Watch != nil && in.skipped > 0 {
		c.Watch.stopped = true // it is armed, but for its owner the call has failed
	}
	s.completeWatches(c, code, t)
	t.addReply(c, r)
	s.sendQueued(t)
}

// countReply counts the reply with this code, received at at, to a request sent at sent: a sign of life of the connection,
// and proof that the server has extended the session. It returns false if the session was lost before the reply.
// Session.mu is held.
func (s *Session) countReply(l *connection, sent, at clockReading, code int32, proof Proof) (inTime bool) {
	l.pulse.recordReply(at, s.calls.inFlight.first != nil)
	return l.readOnly || !extendsSession(code) || s.validity.recordReply(sent, proof)
}

// extendsSession reports whether a reply with this code proves that the server has touched the session.
func extendsSession(code int32) bool {
	switch code {
	case jute.CodeSessionExpired, jute.CodeSessionMoved, jute.CodeSessionClosedRequireSASL, jute.CodeAuthFailed:
		return false
	}
	return true
}

// expireQueued fails the calls that have waited too long for a connection, and returns the time until the next call's
// patience ends. down is false if there is a connection: then watchPatience ends.
func (s *Session) expireQueued() (wait time.Duration, down bool) {
	s.withLock(func() (t callbackList) {
		p := &s.calls.patience
		p.watched = s.connections.live == nil
		if wait, down = time.Hour, p.watched; !down {
			return t
		}
		at := time.Now()
		p.nextEnd = time.Time{}
		for _, l := range []*callList{&s.calls.urgent, &s.calls.ordinary} {
			for c := l.first; c != nil && !p.canSkipFrom(c, at); {
				following := c.next
				if ends, limited := p.waitEnd(c); limited && !ends.After(at) {
					s.failQueued(c, errNoConnection, &t)
				} else {
					p.addWaiting(c)
				}
				c = following
			}
		}
		if !p.nextEnd.IsZero() {
			wait = p.nextEnd.Sub(at)
		}
		return t
	})
	return wait, down
}

// watchPatience runs expireQueued when it is due, until there is a connection.
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

// startPatience begins the wait of the queued calls for a connection. Session.mu is held.
func (s *Session) startPatience() {
	p := &s.calls.patience
	p.waitsSince = time.Now()
	if !p.watched {
		p.watched = true
		s.wg.Go(s.watchPatience)
	} else {
		wakeReceiver(p.wake)
	}
}

// A server closes the connection on an operation that it does not have. So before the first operation of 3.6 on a server,
// the session probes whether the server is older, by a checkWatches of a path without a slash, where no watch can
// be. (whoAmI, of 3.7, still costs a 3.6 server's connection; this library does not send it.)
//
//	type of watcher                  3.5               3.6 to 3.8        3.9
//	4, which is new in 3.9           MarshallingError  MarshallingError  NoWatcher
//	3, all types                     NoWatcher         MarshallingError  NoWatcher
//
// (From 3.6 to 3.8 a server looks for recursive watches on the parents of a path, and fails when there is no slash.)
// The other calls wait for the replies, to keep their order.

// probePath is the path in these requests.
const probePath = "x"

// isBefore36 reports by a probe's reply code whether the server is older than 3.6, and whether that is certain; otherwise
// one more probe is needed. A server with any other code is not taken for older.
func isBefore36(watcherType, code int32) (older, certain bool) {
	switch {
	case code == jute.CodeUnimplemented: // before 3.5
		return true, true
	case watcherType == jute.WatcherPersistent:
		return false, code != jute.CodeMarshallingError
	}
	return code == jute.CodeNoWatcher, true
}

// mustAwaitProbe reports whether a call has to wait for the replies to probes, and sends the first probe. A probe that is
// lost with its connection is not repeated: it may be why the connection ended. Session.mu is held.
func (s *Session) mustAwaitProbe(l *connection, c *Call) bool {
	if !l.probing && operations[c.Op].since >= 6 && !s.calls.probedServers[l.server] {
		s.calls.probedServers[l.server], l.probing = true, true
		s.probeVersion(l, jute.WatcherPersistent)
	}
	return l.probing
}

// probeVersion sends a probe. Session.mu is held.
func (s *Session) probeVersion(l *connection, watcherType int32) {
	s.writeCall(l, &Call{
		Op: jute.OpCheckWatches, Body: jute.Marshal(&jute.PathIntRequest{Path: probePath, Value: watcherType}),
		Done: func(r Reply) {
			if r.Err != nil {
				return // the connection is gone
			}
			s.withLock(func() (t callbackList) {
				if s.connections.live != l {
					return t
				}
				older, certain := isBefore36(watcherType, r.Code)
				if !certain {
					s.probeVersion(l, jute.WatcherAny)
					return t
				}
				if older {
					for code, op := range operations {
						if op.since >= 6 {
							s.calls.unknownOps[serverOperation{l.server, code}] = true
						}
					}
				}
				l.probing = false
				s.sendQueued(&t)
				return t
			})
		},
	})
}

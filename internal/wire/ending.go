package wire

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/go-curator/curator/internal/jute"
)

// How a session ends. These call endSession:
//
//	guardValidity                 run.go         ErrLapsed: Validity has found, at a reading of the clock, that the
//	                                             session's time has run out
//	handleFrame, acceptGrant      connection.go  ErrLapsed: a reply came after that
//	                              handshake.go
//	handleFrame, authenticate,    connection.go  ErrExpired: a server has reported it
//	exchangeToken                 login.go
//	performHandshake              handshake.go   ErrExpired: a server does not know the session
//	recordFailedHandshake         refusals.go    ErrLapsed: only members without a quorum have confirmed the session, and
//	                                             servers have refused it for long
//	Close, Abort                  ending.go      the owner
//	Invite                        guest.go       the guest has ended
//
// Whichever is first: (1) the loss is recorded in the Validity, and is final; (2) that wakes guardValidity, which alone
// calls OnLoss, and so ends the holds; (3) endSession does the rest.

// sessionEnd has the progress of the session's end. Session.mu guards all but cancel.
type sessionEnd struct {
	cancel   context.CancelFunc // of Session.ctx
	closing  bool               // Close was called
	closed   chan struct{}      // closed when the first Close is done; nil if there was none
	closeErr error              // the error that Close returns
	err      error              // set once: why the session has ended
}

// callerError returns the error of calls that fail with the session.
func (e *sessionEnd) callerError() error {
	if errors.Is(e.err, ErrClosed) {
		return ErrClosed
	}
	return fmt.Errorf("%w: %w", ErrSessionLost, e.err)
}

// detachConnection fails the calls in flight on a connection that has ended: their outcome is unknown. It returns the
// guest, which has to be notified, and whether the session is ending, too.
func (s *Session) detachConnection(l *connection, err error) (guest Guest, ending bool) {
	var t callbackList
	s.mu.Lock()
	live := s.connections.live == l
	if live {
		s.connections.live = nil
		s.startPatience()
		var large *Call
		if (isHangUp(err) || l.end.broken.Load()) && !errors.Is(err, net.ErrClosed) {
			large = s.calls.findSuspect()
		}
		s.failInFlight(l, err, large, &t)
	}
	guest = s.connections.guest
	if ending = s.ending.closing || s.ending.err != nil; ending {
		s.calls.forEachQueued(func(c *Call) { s.failQueued(c, ErrClosed, &t) }) // there will be no other connection
	}
	s.mu.Unlock()
	if live {
		s.events.emit(Event{Kind: Disconnected, SessionID: s.ID(), Server: l.server, Err: err})
	}
	t.runAll()
	return guest, ending
}

// failInFlight fails the calls in flight; large is the one whose size may be the reason, or nil. Session.mu is held.
func (s *Session) failInFlight(l *connection, err error, large *Call, t *callbackList) {
	for c := s.calls.inFlight.first; c != nil; c = s.calls.inFlight.first {
		c.removeFromList()
		s.failWatches(c, t)
		r := c.connectionLostReply(err, l.number)
		if c == large {
			r.Suspect = len(c.Body) + 8
		}
		t.addReply(c, r)
	}
}

// endSession ends the session, and does nothing if it has ended. Calls and watches fail after Lost is emitted. It returns
// err.
func (s *Session) endSession(err error) error {
	var t, ends callbackList
	s.validity.recordLoss(err)
	s.mu.Lock()
	if s.ending.err != nil {
		s.mu.Unlock()
		return err
	}
	s.ending.err = err
	s.wg.Add(1) // Wait waits for the steps below
	cause := s.ending.callerError()
	id, l, last, guest := s.identity.id, s.connections.live, s.connections.last, s.connections.guest
	s.connections.live = nil
	s.failInFlight(l, cause, nil, &t)
	s.calls.forEachQueued(func(c *Call) { s.failQueued(c, cause, &t) })
	ends.addEvents(s.watches.endAll(cause)...)
	s.mu.Unlock()
	s.events.emit(Event{Kind: Lost, SessionID: id, Err: err})
	s.ending.cancel()
	if guest != nil {
		guest.Ended(errors.Is(err, ErrExpired))
	}
	if l != nil {
		l.closeWith(err)
	}
	s.wg.Go(func() {
		if last != nil {
			<-last.end.reported // it may be delivering an event: a watch's end is its last event
		}
		ends.runAll()
	})
	s.wg.Done()
	t.runAll()
	return err
}

// Abort ends the session without a request to the server: its ephemeral nodes stay until its timeout. The cause becomes
// the Err of the Lost event. Abort does not wait.
func (s *Session) Abort(cause error) { s.endSession(cause) }

// Close ends the session at the server, after all calls submitted before, and here in any case. It waits for the server's
// reply until ctx ends, and for every goroutine. It returns ErrUnacknowledged if a session may be left on a server:
//
//   - ctx ended first, or there is no connection to a member with a quorum, and none could be made: each server is
//     tried once, for a second in all;
//   - the session had ended before: a leader reports a session expired before a quorum has agreed, and the session
//     lives on if it does not;
//   - an earlier session could not be closed;
//   - the session has had no connection, and an earlier handshake without a reply may have opened one. Close waits for a
//     handshake in flight.
//
// A second Close waits for the first, or for its own ctx.
func (s *Session) Close(ctx context.Context) error {
	s.mu.Lock()
	first := !s.ending.closing && s.ending.err == nil
	if !s.ending.closing && s.mayLeaveSession() {
		s.ending.closeErr = ErrUnacknowledged
	}
	s.ending.closing = true
	if first {
		s.ending.closed = make(chan struct{})
		defer close(s.ending.closed)
	}
	handshake, l, earlier := s.identity.handshake, s.connections.live, s.ending.closed
	s.mu.Unlock()
	clean, unacknowledged := false, first
	switch {
	case !first && earlier != nil:
		select {
		case <-earlier:
		case <-ctx.Done():
		}
	case !first: // the session had ended before
	case l != nil && !l.readOnly: // a member without a quorum cannot close a session, whatever it replies
		reply := make(chan Reply, 1)
		s.Submit(&Call{Op: jute.OpCloseSession, Done: func(r Reply) { reply <- r }})
		select {
		case r := <-reply:
			unacknowledged = r.Err != nil
			clean = !unacknowledged && r.Code == jute.CodeOK && s.closeAbandoned(ctx, l.server)
		case <-ctx.Done():
		}
	case handshake != nil: // a session that it opens is closed immediately
		select {
		case <-handshake:
			s.mu.Lock()
			clean = !s.mayLeaveSession()
			s.mu.Unlock()
		case <-ctx.Done():
		}
	}
	s.endSession(ErrClosed)
	s.wg.Wait()
	if unacknowledged && !clean {
		clean = s.closeUnconnected(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if clean {
		s.ending.closeErr = nil
	}
	return s.ending.closeErr
}

// mayLeaveSession reports whether this session, or an earlier one, may be left on a server if it ends without a request.
// mu is held.
func (s *Session) mayLeaveSession() bool {
	return len(s.fences.listOpen()) > 0 || s.identity.mayOutlive()
}

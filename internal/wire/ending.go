package wire

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/go-curator/curator/internal/jute"
)

// How holds end. A hold lives as long as its session's Validity, and every end goes the same way:
//
//   - the clock: Validity finds, at any reading of the clock, that the time has run out;
//   - a server's reply: handleFrame (connection.go) and the handshake end the session with ErrExpired, or with
//     ErrLapsed if a reply came too late or only members without a quorum knew the session;
//   - the owner, or the guest: Close, Abort and Invite end it.
//
// All but the first call endSession, which first ends the validity. Either way the validity has lapsed, which is
// final, and guardValidity notices it: it alone calls OnLapse, and then endSession.

// sessionEnd has the progress of the session's end. Session.mu guards all but cancel.
type sessionEnd struct {
	cancel   context.CancelFunc // of Session.ctx
	closing  bool               // Close was called
	closed   chan struct{}      // closed when the first Close is done; nil if there was none
	closeErr error              // the error that Close returns
	err      error              // set once: why the session has ended
}

// callerError is the session's end as callers see it.
func (e *sessionEnd) callerError() error {
	if errors.Is(e.err, ErrClosed) {
		return ErrClosed
	}
	return fmt.Errorf("%w: %w", ErrSessionLost, e.err)
}

// detachLink ends a link: the calls in flight on it have an unknown outcome. It returns the guest, which has to be
// notified, and whether the session is ending, too.
func (s *Session) detachLink(l *link, err error) (guest Guest, ending bool) {
	var t callbackList
	s.mu.Lock()
	live := s.links.live == l
	if live {
		s.links.live = nil
		s.awaitConnection()
		var large *Call
		if (isHangUp(err) || l.end.broken.Load()) && !errors.Is(err, net.ErrClosed) {
			large = s.calls.findSuspect()
		}
		s.failInFlight(l, err, large, &t)
	}
	guest = s.links.guest
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

// failInFlight fails the calls that were in flight on a link; large is the one whose size may be the reason, or
// nil. Session.mu is held.
func (s *Session) failInFlight(l *link, err error, large *Call, t *callbackList) {
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

// endSession ends the session, once: first its validity, then the owner is notified, then the calls and the watches.
func (s *Session) endSession(err error) {
	var t, ends callbackList
	s.validity.lapseWith(err)
	s.mu.Lock()
	if s.ending.err != nil {
		s.mu.Unlock()
		return
	}
	s.ending.err = err
	s.wg.Add(1) // whatever else has ended by then, Wait waits for the steps below
	cause := s.ending.callerError()
	id, l, last, guest := s.identity.id, s.links.live, s.links.last, s.links.guest
	s.links.live = nil
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
			<-last.end.reported // it may be delivering an event at this moment: the end comes last
		}
		ends.runAll()
	})
	s.wg.Done()
	t.runAll()
}

// Abort ends the session here without a request to the server; its ephemeral nodes stay until its timeout. The cause
// becomes the Err of the Lost event.
func (s *Session) Abort(cause error) { s.endSession(cause) }

// Close ends the session on the server after everything submitted before, and here in any case, and waits for every
// goroutine. It returns ErrUnacknowledged if a session may be left on a server:
//
//   - ctx ended first, or there is no connection to a member with a quorum, and none could be made: each server is
//     tried once, for a second at most;
//   - the session had ended before: a leader reports a session expired before a quorum has agreed, and the session
//     lives on if it does not;
//   - an earlier session could not be closed;
//   - the session has had no connection, and a handshake may have opened one. Close waits for a handshake that is in
//     flight.
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
	handshake, l, earlier := s.identity.handshake, s.links.live, s.ending.closed
	s.mu.Unlock()
	clean, unheard := false, first
	switch {
	case !first && earlier != nil:
		select {
		case <-earlier:
		case <-ctx.Done():
		}
	case !first: // the session had ended before
	case l != nil && !l.readOnly: // a member without a quorum cannot close a session, whatever it answers
		answer := make(chan Reply, 1)
		s.Submit(&Call{Op: jute.OpCloseSession, Done: func(r Reply) { answer <- r }})
		select {
		case r := <-answer:
			unheard = r.Err != nil
			clean = !unheard && r.Code == jute.CodeOK && s.closeAbandoned(ctx, l.server)
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
	if unheard && !clean {
		clean = s.closeUnconnected(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if clean {
		s.ending.closeErr = nil
	}
	return s.ending.closeErr
}

// mayLeaveSession reports whether something of the session, or of those before it, may be left on a server. mu is held.
func (s *Session) mayLeaveSession() bool {
	return len(s.fences.listOpen()) > 0 || s.identity.mayOutlive()
}

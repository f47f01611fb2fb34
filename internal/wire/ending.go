package wire

import (
	"context"
	"fmt"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// detached ends a link: what was in flight on it has an unknown outcome. It returns whether the session is ending, too.
func (s *Session) detached(l *link, err error) (ending bool) {
	var t todo
	s.mu.Lock()
	live := s.link == l
	if live {
		s.link, s.down = nil, time.Now()
		up := make(chan struct{})
		s.up = up
		s.wg.Go(func() { s.watchWaiting(up) }) // those who wait begin to wait for a connection
		large := s.suspicious(l, err)
		for c := s.flight.pop(); c != nil; c = s.flight.pop() {
			delete(s.byXid, c.xid)
			s.failWatch(c, &t)
			r := Reply{Err: fmt.Errorf("%w: %w", ErrConnectionLost, err), Sent: c.sent.t, Link: l.n}
			if c == large {
				r.Suspect = len(c.Body) + 8
			}
			t.done(c, r)
		}
	}
	if ending = s.closing || s.endErr != nil; ending {
		s.queue.each(func(c *Call) { s.unqueue(c, ErrClosed, &t) }) // there will be no other connection
	}
	s.mu.Unlock()
	if live {
		s.emit(Event{Kind: Disconnected, SessionID: s.ID(), Server: l.server, Err: err})
	}
	t.run()
	return ending
}

// end ends the session, once: first nothing is valid any more, then the owner hears of it, then calls and watches.
func (s *Session) end(err error) {
	var t todo
	s.validity.end(err)
	s.mu.Lock()
	if s.endErr != nil {
		s.mu.Unlock()
		return
	}
	s.endErr = err
	s.wg.Add(1) // whatever else has ended by then, Wait waits for what follows
	seen := s.ended()
	l := s.link
	s.link = nil
	for c := s.flight.pop(); c != nil; c = s.flight.pop() {
		delete(s.byXid, c.xid)
		t.done(c, Reply{Err: fmt.Errorf("%w: %w", ErrConnectionLost, seen), Sent: c.sent.t, Link: l.n})
	}
	for c := s.queue.pop(); c != nil; c = s.queue.pop() {
		t.done(c, Reply{Err: fmt.Errorf("%w: %w", ErrNotSent, seen)})
	}
	var ends todo
	for _, w := range s.watches.end() {
		ends.fire([]delivery{{w, WatchEvent{Type: EventEnd, Path: w.Path, Err: seen}}})
	}
	id, last, guest := s.id, s.lastLink, s.guest
	s.mu.Unlock()
	s.emit(Event{Kind: Lost, SessionID: id, Err: err})
	s.cancel()
	if guest != nil {
		guest.leave(last)
	}
	if l != nil {
		l.close(err)
	}
	s.wg.Go(func() {
		if last != nil {
			<-last.gone // it may be delivering an event at this moment: the end comes last
		}
		ends.run()
	})
	s.wg.Done()
	t.run()
}

// Abort ends the session without telling the server; its ephemeral nodes stay until its timeout. The cause is what the Lost event says.
func (s *Session) Abort(cause error) { s.end(cause) }

// Close ends the session on the server behind everything submitted before, and here in any case, and waits for every goroutine. If ctx ends
// first, or there is no connection to a member with a quorum, it returns ErrUnacknowledged. So it does when the session had ended before (a leader calls
// it expired before the others have agreed, and it lives on if they do not), or has not been able to close those before it, or has had no connection, and
// a handshake of which it does not know what the server has made of it. It waits for one that is going on. A second Close waits for the first, or for its
// own ctx.
func (s *Session) Close(ctx context.Context) error {
	s.mu.Lock()
	first := !s.closing && s.endErr == nil
	if !s.closing && s.outlives() {
		s.closeErr = ErrUnacknowledged
	}
	s.closing = true
	greeting := s.birth.greeting
	connected := s.link != nil && !s.link.readOnly // a member without a quorum cannot close a session, whatever it answers
	server := ""
	if connected {
		server = s.link.server
	}
	s.mu.Unlock()
	switch {
	case !first:
		select {
		case <-s.ctx.Done():
		case <-ctx.Done():
		}
	case connected:
		answer := make(chan Reply, 1)
		s.submit(true, &Call{Op: jute.OpCloseSession, Done: func(r Reply) { answer <- r }})
		select {
		case r := <-answer:
			if r.Err == nil && r.Code == jute.CodeOK && s.closeLeft(ctx, server) {
				s.mu.Lock()
				s.closeErr = nil
				s.mu.Unlock()
			}
		case <-ctx.Done():
		}
	case greeting != nil: // what comes of it is closed at once
		select {
		case <-greeting:
			s.mu.Lock()
			if !s.outlives() {
				s.closeErr = nil
			}
			s.mu.Unlock()
		case <-ctx.Done():
		}
	}
	s.end(ErrClosed)
	s.wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closeErr
}

// outlives says whether something of the session, or of those before it, may be left on the server. mu is held.
func (s *Session) outlives() bool {
	return len(s.fences.all()) > 0 || s.birth.outlives()
}

// Wait returns when the session has ended and every goroutine of it is gone.
func (s *Session) Wait() { s.wg.Wait() }

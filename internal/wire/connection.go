package wire

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// serveConnection reads until the connection ends, and returns when all have been notified of the end, the guest last.
func (s *Session) serveConnection(l *connection) {
	l.closeWith(s.readFrames(l))
	<-l.end.ctx.Done()
	l.wg.Wait()
	guest, ending := s.detachConnection(l, l.endReason())
	close(l.end.reported)
	if guest != nil {
		guest.Disconnected(l.number, l.endReason(), ending)
	}
}

func (s *Session) readFrames(l *connection) error {
	limitOf := func(xid int32) (most int, anySize bool, err error) { return s.replyLimit(l, xid) }
	for {
		in, err := l.in.receiveFrame(s.cfg.MaxReply, limitOf)
		if err == nil && l.end.ctx.Err() != nil { // later frames do not count
			return nil
		}
		if err == nil {
			err = s.handleFrame(l, in)
		}
		if err != nil {
			return err
		}
	}
}

// handleFrame handles a frame. An error ends the connection.
func (s *Session) handleFrame(l *connection, in incomingFrame) (err error) {
	h := in.head
	if h.Err == jute.CodeSessionExpired && !l.readOnly {
		return s.endSession(ErrExpired)
	}
	loginRequired := h.Err == jute.CodeSessionClosedRequireSASL // in a reply or in a separate frame
	if loginRequired {
		s.requireLogin(l.server)
	}
	switch {
	case h.Xid == jute.XidPing:
		err = s.handlePong(l, h)
	case h.Xid == jute.XidNotification:
		err = s.handleEvent(l, in)
	case h.Xid < firstXid:
		err = s.handleReply(l, in)
	case h.Xid >= 0:
		err = s.handleGuestReply(l, in)
	}
	switch {
	case errors.Is(err, ErrLapsed):
		s.endSession(err)
	case err == nil && loginRequired:
		err = errLoginRequired
	}
	return err
}

// handleEvent delivers a watch event to its subscribers.
func (s *Session) handleEvent(l *connection, in incomingFrame) error {
	var ev jute.WatcherEvent
	if err := jute.Unmarshal(in.body, &ev); err != nil {
		return fmt.Errorf("%w: cannot decode an event: %w", ErrProtocol, err)
	}
	if err := s.cfg.checkEventPath(ev.Path); err != nil {
		return err
	}
	if guest := s.deliverEvent(l, ev); guest != nil {
		return guest.DeliverEvent(l.number, in.head, ev)
	}
	return nil
}

// handlePong handles the reply to the oldest ping in flight. It returns ErrLapsed if the session had been lost
// before.
func (s *Session) handlePong(l *connection, h jute.ReplyHeader) error {
	p, at := &l.pulse, readClock()
	s.mu.Lock()
	if len(p.pingsInFlight) == 0 {
		s.mu.Unlock()
		return nil
	}
	sent := p.pingsInFlight[0]
	p.pingsInFlight = p.pingsInFlight[1:]
	inTime := s.countReply(l, sent, at, h.Err, Local)
	if s.identity.eventsAhead && s.connections.live == l {
		s.identity.recordZxid(h.Zxid)
	}
	s.mu.Unlock()
	if f := s.cfg.OnPong; f != nil {
		f(elapsed(sent, at))
	}
	if !inTime {
		return ErrLapsed
	}
	return nil
}

func (s *Session) writeOutput(l *connection) {
	var spare []byte
	for {
		select {
		case <-l.output.wake:
		case <-l.end.ctx.Done():
			return
		}
		s.mu.Lock()
		b := l.output.buf
		l.output.buf = spare[:0]
		s.mu.Unlock()
		if len(b) > 0 { // otherwise the last round has written it
			if _, err := l.conn.Write(b); err != nil {
				l.end.broken.Store(true)
				// The server may have closed the connection. The reader reads the replies from before, and then the end.
				if l.conn.SetReadDeadline(time.Now().Add(drainTime)) != nil {
					l.closeWith(err)
				}
				return
			}
		}
		if spare = b; cap(spare) > 1<<20 {
			spare = nil // the memory of one large request is not kept
		}
	}
}

// replyLimit returns the limit of a frame with this xid, see receiveFrame.
func (s *Session) replyLimit(l *connection, xid int32) (most int, anySize bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var code int32
	switch {
	case xid == jute.XidNotification:
		return maxPlainReply + s.cfg.longestPath, false, nil
	case xid >= 0:
		known := false
		if s.connections.guest != nil {
			code, known = s.connections.guest.OperationOf(l.number, xid)
		}
		if !known {
			return 0, false, errUnrequested
		}
	case xid < firstXid:
		c := s.calls.inFlight.first
		for c != nil && c.xid != xid {
			c = c.next
		}
		switch {
		case s.connections.live != l: // the session has ended, and this connection with it
			return 0, false, ErrClosed
		case c == nil:
			return 0, false, errUnrequested
		}
		code = c.Op
	default:
		return maxPlainReply, false, nil
	}
	if operations[code].large {
		return s.cfg.MaxReply, true, nil
	}
	return min(maxPlainReply+s.cfg.longestPath, s.cfg.MaxReply), false, nil
}

// handleGuestReply handles the reply to a request of the guest's.
func (s *Session) handleGuestReply(l *connection, in incomingFrame) error {
	s.mu.Lock()
	s.identity.recordZxid(in.head.Zxid)
	l.pulse.recordReply(readClock(), s.calls.inFlight.first != nil)
	g := s.connections.guest
	code, _ := g.OperationOf(l.number, in.head.Xid)
	s.mu.Unlock()
	if err := g.DeliverReply(l.number, in.head, in.body, in.skipped > 0); err != nil {
		return fmt.Errorf("%w: cannot decode the answer to %s: %w", ErrProtocol, OpName(code), err)
	}
	return nil
}

// keepAlive pings when no other request was sent. It closes the connection if the server owes a reply and sends no byte,
// or no whole reply, for too long, or if one request has no reply for too long.
func (s *Session) keepAlive(l *connection) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	last, due := readClock(), time.Hour
	for {
		_, changed := s.validity.holdState()
		ping, silence := s.validity.pingPace(s.Timeout())
		wait := min(ping, due)
		if left, ok := s.validity.timeToLapse(); ok && left > silence/4 {
			wait = min(wait, left-silence/4)
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-changed:
		case <-l.end.ctx.Done():
			return
		}
		at := readClock()
		late := elapsed(last, at) > 2*ping // the process stood still: the frames that have come in are read first
		last = at
		var err error
		if due, err = s.checkPulse(l, at, ping, silence); err != nil && !late {
			l.closeWith(err)
			return
		}
	}
}

// checkPulse pings if a ping is due, and returns the time until the next, and an error if the connection has to be closed.
func (s *Session) checkPulse(l *connection, at clockReading, ping, silence time.Duration) (due time.Duration, err error) {
	var silent, unreplied, stuck, longest time.Duration
	often := ping
	held, _ := s.validity.holdState()
	if !held {
		often = s.validity.restInterval(s.Timeout())
	}
	s.withLock(func() (t callbackList) {
		owed := l.pulse.owedFor(at) // a server that owes no reply is not silent
		if held {
			owed += ping // so silence counts from the last reply; after a rest (see restInterval) from the first ping
		}
		silent, unreplied = min(elapsed(l.in.lastRead(), at), owed), min(elapsed(l.pulse.lastReply, at), owed)
		if first := s.calls.inFlight.first; first != nil && s.connections.live == l {
			stuck = elapsed(first.sent, at)
		}
		longest = min(s.effectiveTimeout(), s.cfg.Timeout)
		l.window.maxDelay = ping / windowShare
		if elapsed(l.pulse.lastSent, at) >= often {
			l.pulse.pingsInFlight = append(l.pulse.pingsInFlight, at)
			l.pulse.recordRequest(at)
			l.output.addFrame(jute.XidPing, jute.OpPing, nil)
		}
		due = often - elapsed(l.pulse.lastSent, at)
		s.retryRemovals(&t)
		return t
	})
	switch {
	case silent > silence:
		return due, fmt.Errorf("%w for %v", errSilent, silent.Round(time.Millisecond))
	case unreplied > silence && !s.isWorthWaiting(l, at, silence, unreplied): // however many bytes have come
		return due, fmt.Errorf("%w for %v", errTrickle, unreplied.Round(time.Millisecond))
	case stuck > longest, stuck > silence/4 && s.lapsesWithin(silence/4):
		return due, errStuck
	}
	return due, nil
}

// lapsesWithin reports whether the session lapses within d. A server may reply to pings while the writes hang that keep
// the session's holds. The connection is closed only when just enough time for another server is left: if the writes
// are slow, not hanging, they are slow at every server.
func (s *Session) lapsesWithin(d time.Duration) bool {
	left, ok := s.validity.timeToLapse()
	return ok && left <= d
}

// isWorthWaiting reports whether the connection is kept although no whole reply has come for longer than silence: the
// frame that is coming in, a large reply on a slow network, will be complete at its present pace before 9/4 of silence
// (three quarters of the usable time) have passed, and there will be time for another server.
func (s *Session) isWorthWaiting(l *connection, at clockReading, silence, unreplied time.Duration) bool {
	left := silence*9/4 - unreplied
	if lapse, ok := s.validity.timeToLapse(); ok {
		left = min(left, lapse-silence/2)
	}
	rest, known := l.in.timeToComplete(at)
	return known && rest <= left
}

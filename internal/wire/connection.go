package wire

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// serveLink reads to the end of the link, and returns when all have been notified of it, the guest last.
func (s *Session) serveLink(l *link) {
	l.closeWith(s.readFrames(l))
	<-l.end.ctx.Done()
	l.wg.Wait()
	guest, ending := s.detachLink(l, l.endReason())
	close(l.end.reported)
	if guest != nil {
		guest.Disconnected(l.number, l.endReason(), ending)
	}
}

func (s *Session) readFrames(l *link) error {
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
func (s *Session) handleFrame(l *link, in incomingFrame) (err error) {
	h := in.head
	if h.Err == jute.CodeSessionExpired && !l.readOnly {
		s.endSession(ErrExpired)
		return ErrExpired
	}
	lastWord := h.Err == jute.CodeSessionClosedRequireSASL // which may be an answer, too
	if lastWord {
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
	case err == nil && lastWord:
		err = errLoginRequired
	}
	return err
}

// handleEvent hands a watch event to its subscribers.
func (s *Session) handleEvent(l *link, in incomingFrame) error {
	var ev jute.WatcherEvent
	if err := jute.Unmarshal(in.body, &ev); err != nil {
		return fmt.Errorf("%w: cannot decode an event: %w", ErrProtocol, err)
	}
	if err := s.cfg.checkEventPath(ev.Path); err != nil {
		return err
	}
	if guest := s.deliverEvent(l, ev); guest != nil {
		return guest.Event(l.number, in.head, ev)
	}
	return nil
}

// handlePong handles a ping's answer: it belongs to the oldest ping (rule R2). It returns ErrLapsed if the session
// had lapsed before.
func (s *Session) handlePong(l *link, h jute.ReplyHeader) error {
	p, at := &l.pulse, readClock()
	s.mu.Lock()
	if len(p.unansweredPings) == 0 {
		s.mu.Unlock()
		return nil
	}
	sent := p.unansweredPings[0]
	p.unansweredPings = p.unansweredPings[1:]
	l.pulse.recordReply(at, s.calls.inFlight.first != nil)
	alive := l.readOnly || !extendsSession(h.Err) || s.validity.recordReply(sent, Local)
	if s.identity.eventsAhead && s.links.live == l {
		s.identity.recordZxid(h.Zxid)
	}
	s.mu.Unlock()
	if f := s.cfg.OnPong; f != nil {
		f(elapsed(sent, at))
	}
	if !alive {
		return ErrLapsed
	}
	return nil
}

func (s *Session) writeOutput(l *link) {
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
		if len(b) > 0 { // else the last round has written it
			if _, err := l.conn.Write(b); err != nil {
				l.end.broken.Store(true)
				// The reader reads the replies that the server sent before it closed the connection, and finds the end.
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
func (s *Session) replyLimit(l *link, xid int32) (most int, anySize bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var code int32
	switch {
	case xid == jute.XidNotification:
		return maxPlainReply + s.cfg.longestPath, false, nil
	case xid >= 0:
		known := false
		if s.links.guest != nil {
			code, known = s.links.guest.Asked(l.number, xid)
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
		case s.links.live != l: // the session has ended, and this connection with it
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
func (s *Session) handleGuestReply(l *link, in incomingFrame) error {
	s.mu.Lock()
	s.identity.recordZxid(in.head.Zxid)
	l.pulse.recordReply(readClock(), s.calls.inFlight.first != nil)
	g := s.links.guest
	code, _ := g.Asked(l.number, in.head.Xid)
	s.mu.Unlock()
	if err := g.Answer(l.number, in.head, in.body, in.skipped > 0); err != nil {
		return fmt.Errorf("%w: cannot decode the answer to %s: %w", ErrProtocol, OpName(code), err)
	}
	return nil
}

// keepAlive pings when nothing else was sent. It closes the connection when the server is silent although it
// owes an answer, sends bytes but answers nothing, or does not answer one request.
func (s *Session) keepAlive(l *link) {
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
		late := elapsed(last, at) > 2*ping // the process stood still: read the frames that have come in first
		last = at
		var err error
		if due, err = s.checkPulse(l, at, ping, silence); err != nil && !late {
			l.closeWith(err)
			return
		}
	}
}

// checkPulse pings if it is time, and returns when the next ping is due, and an error if the connection has to be
// closed.
func (s *Session) checkPulse(l *link, at clockReading, ping, silence time.Duration) (due time.Duration, err error) {
	var silent, unheard, forgotten, longest time.Duration
	often := ping
	held, _ := s.validity.holdState()
	if !held {
		often = s.validity.restInterval(s.Timeout())
	}
	s.withLock(func() (t callbackList) {
		owed := l.pulse.owedFor(at) // a server that was not asked is not silent
		if held {
			owed += ping // with pings this often, silence counts from the last answer; right after a rest, from the first ping
		}
		silent, unheard = min(elapsed(l.in.lastRead(), at), owed), min(elapsed(l.pulse.lastReply, at), owed)
		if first := s.calls.inFlight.first; first != nil && s.links.live == l {
			forgotten = elapsed(first.sent, at)
		}
		longest = min(s.effectiveTimeout(), s.cfg.Timeout)
		l.window.maxDelay = ping / windowShare
		if elapsed(l.pulse.lastSent, at) >= often {
			l.pulse.unansweredPings = append(l.pulse.unansweredPings, at)
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
	case unheard > silence && !s.isWorthWaiting(l, at, silence, unheard): // however many bytes have come
		return due, fmt.Errorf("%w for %v", errTrickle, unheard.Round(time.Millisecond))
	case forgotten > longest, forgotten > silence/4 && s.lapsesWithin(silence/4):
		return due, errStuck
	}
	return due, nil
}

// lapsesWithin reports whether the session lapses within d. A server may continue answering pings while the writes hang
// that keep the session's holds. The connection is closed as late as there is time for another server: the writes may
// only be slow, and then they are so everywhere.
func (s *Session) lapsesWithin(d time.Duration) bool {
	left, ok := s.validity.timeToLapse()
	return ok && left <= d
}

// isWorthWaiting reports whether the frame that is coming in, possibly a large answer on a slow network, deserves more
// patience than a silent server: if at its present pace it is complete before three quarters of the time have passed
// without an answer, and while there is time for another server.
func (s *Session) isWorthWaiting(l *link, at clockReading, silence, unheard time.Duration) bool {
	left := silence*9/4 - unheard
	if lapse, ok := s.validity.timeToLapse(); ok {
		left = min(left, lapse-silence/2)
	}
	rest, known := l.in.timeToComplete(at)
	return known && rest <= left
}

package zktest

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// sessionRecord is guarded by the server's lock.
type sessionRecord struct {
	id      int64
	timeout int64       // milliseconds, as of its creation: the timeout after a restart or an election
	granted int64       // milliseconds: negotiated by the last handshake at this server; 0: none
	expires int64       // milliseconds since the server's start; a multiple of the tick
	conn    *clientConn // nil without a connection to this server

	closing bool // its end is proposed

	// In an ensemble.
	owner *Server // at the leader: the member that the session was last attached to; nil: unknown
	local bool    // of a read-only member, not in the log
}

// nowMillis returns the time of the server's monotonic clock in milliseconds.
func (s *Server) nowMillis() int64 { return s.elapsedTime().Milliseconds() }

func (s *Server) elapsedTime() time.Duration { return time.Since(s.started) + s.skew }

// touchSession restarts a session's timeout. The session expires at the first tick strictly after now + timeout, as
// in Java's ExpiryQueue. That can be earlier than before: a client that re-attaches with a smaller timeout
// gets that timeout.
func (s *Server) touchSession(ses *sessionRecord, timeout int64) {
	if s.member != nil && !s.member.expiresSession(ses) {
		s.member.recordTouch(ses.id, timeout)
		return
	}
	tick := s.cfg.TickTime.Milliseconds()
	expires := ((s.nowMillis()+timeout)/tick + 1) * tick
	earlier := expires < ses.expires
	ses.expires = expires
	if earlier {
		s.wakeExpiry()
	}
}

func (s *Server) wakeExpiry() {
	select {
	case s.expiryWake <- struct{}{}:
	default:
	}
}

// expiryLoop expires sessions when their tick has come. Without sessions it waits without a timer.
func (s *Server) expiryLoop() {
	defer s.wg.Done()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		s.mu.Lock()
		wait := s.expireDue()
		s.unlock()
		timer.Stop()
		var due <-chan time.Time
		if wait >= 0 {
			timer.Reset(wait)
			due = timer.C
		}
		select {
		case <-due:
		case <-s.expiryWake:
		case <-s.quit:
			return
		}
	}
}

// expireDue expires the sessions that are due. It returns the time until the next expiry, negative if there is none.
func (s *Server) expireDue() time.Duration {
	if s.paused || s.stopped || s.closed {
		return -1
	}
	now, next := s.nowMillis(), int64(-1)
	var due []*sessionRecord
	for _, ses := range s.sessions {
		if ses.closing || s.member != nil && !s.member.expiresSession(ses) {
			continue
		}
		if ses.expires <= now {
			due = append(due, ses)
		} else if next < 0 || ses.expires < next {
			next = ses.expires
		}
	}
	slices.SortFunc(due, func(a, b *sessionRecord) int {
		return cmp.Or(cmp.Compare(a.expires, b.expires), cmp.Compare(a.id, b.id))
	})
	for _, ses := range due {
		s.trace.addEntry(traceEntry{kind: traceNote, session: ses.id, note: "session expires"})
		s.expireSession(ses)
	}
	if next < 0 {
		return -1
	}
	return max(time.Duration(next)*time.Millisecond-s.elapsedTime(), 0)
}

// expireSession ends a session whose timeout is over. One transaction deletes its nodes, then the server closes its
// connection; replies and events not written yet are lost.
func (s *Server) expireSession(ses *sessionRecord) {
	if ses.local {
		c := ses.conn
		s.removeSession(ses.id)
		if c != nil {
			c.closeConn(false)
		}
		return
	}
	s.proposeEntry(&logEntry{closes: ses.id}, func(e *logEntry) { s.prepareClose(e) })
}

// prepareClose makes the transaction that ends the session.
func (s *Server) prepareClose(e *logEntry) {
	if ses := s.sessions[e.closes]; ses != nil {
		ses.closing = true
	}
	for _, path := range s.ephemeralsOf(e) {
		e.txns = append(e.txns, &transaction{op: jute.OpDelete, path: path})
	}
}

// handshake answers the first frame of a connection, and reports whether the connection is still open.
func (s *Server) handshake(c *clientConn, frame []byte) bool {
	var req jute.ConnectRequest
	if err := jute.Unmarshal(frame, &req); err != nil {
		s.cfg.Logger.Warn("malformed connect request", "conn", c.id, "err", err)
		return false
	}
	if !s.lockWhenOpen(c) {
		return false
	}
	ahead := false
	defer func() {
		if ahead { // no logging under the lock
			s.cfg.Logger.Info("closing the connection: the client has seen a later zxid than this server",
				"conn", c.id, "seen", req.LastZxidSeen)
		}
	}()
	greeted := make(chan struct{})
	alive, waits := s.executeHandshake(c, &req, &ahead, greeted, len(frame))
	if !waits {
		return alive
	}
	select { // an ensemble has to agree first
	case <-greeted:
	case <-c.done:
		return false
	case <-s.quit:
		return false
	}
	return true
}

// executeHandshake executes a handshake. The caller has locked mu, and greet unlocks it. If the reply has to wait
// for the ensemble, waits is true, and greeted is closed when the reply is sent. greet sets ahead if the client has
// seen a later zxid.
func (s *Server) executeHandshake(
	c *clientConn, req *jute.ConnectRequest, ahead *bool, greeted chan struct{}, size int,
) (alive, waits bool) {
	defer s.unlock()
	c.received++
	s.received++
	s.bytesIn += int64(size) + 4
	s.countRequest(req.SessionID, jute.OpCreateSession)
	strike := s.injectFault(c, jute.OpCreateSession, req.SessionID, nil)
	switch {
	case strike.stop:
		return strike.alive, false
	case s.member != nil && !s.member.canServe(c, req):
		return false, false
	case req.LastZxidSeen > s.zxid:
		note := "refused: the client has seen a later zxid"
		s.trace.addEntry(traceEntry{kind: traceNote, conn: c.id, session: req.SessionID, note: note})
		*ahead = true
		return false, false
	}
	least, most := s.cfg.MinSessionTimeout.Milliseconds(), s.cfg.MaxSessionTimeout.Milliseconds()
	c.timeout = min(max(int64(req.Timeout), least), most)
	answered := false
	s.attachSession(c, req, strike.err != ok, func(ses *sessionRecord) {
		answered = true
		close(greeted)
		s.acceptHandshake(c, req, ses, strike)
	}, func() {
		answered = true
		close(greeted)
		s.refuseHandshake(c, strike)
	})
	if s.member != nil {
		s.member.e.runDue()
	}
	return !c.closed, !answered && !c.closed
}

// acceptHandshake attaches the session to the connection and sends the ConnectResponse. With a nil session it
// replies that the session has expired.
func (s *Server) acceptHandshake(c *clientConn, req *jute.ConnectRequest, ses *sessionRecord, strike injectionEffect) {
	if c.closed {
		return
	}
	strike.beforeExecution(c)
	c.old = !req.HasReadOnly
	response := &jute.ConnectResponse{
		Password: make([]byte, 16), HasReadOnly: req.HasReadOnly, ReadOnly: s.isReadOnly(),
	}
	entry := traceEntry{
		kind: traceReply, conn: c.id, session: req.SessionID, from: c.from,
		op: jute.OpCreateSession, zxid: s.zxid, err: ErrSessionExpired,
	}
	if ses != nil {
		c.session, c.sessionID, ses.conn, ses.granted = ses, ses.id, c, c.timeout
		if s.member == nil || ses.local { // else the leader has touched it, and this member has nothing to report
			s.touchSession(ses, c.timeout)
		}
		response = c.handshakeReply()
		entry.session, entry.err = ses.id, ok
		c.from.recordSession(ses.id)
	}
	s.trace.addEntry(entry)
	c.sendHandshakeReply(response, strike)
	if ses == nil {
		c.closeConn(true)
	}
	strike.afterExecution(c)
}

// refuseHandshake refuses to open a session: it answers the handshake with an error reply, as a member without a
// quorum answers other requests.
func (s *Server) refuseHandshake(c *clientConn, strike injectionEffect) {
	strike.beforeExecution(c)
	entry := traceEntry{kind: traceReply, conn: c.id, op: jute.OpCreateSession, zxid: s.zxid}
	entry.err = ErrNotReadOnly
	s.trace.addEntry(entry)
	c.sendHandshakeReply(&jute.ReplyHeader{Zxid: s.zxid, Err: int32(ErrNotReadOnly)}, strike)
	strike.afterExecution(c)
}

// sendHandshakeReply sends the reply to a handshake.
func (c *clientConn) sendHandshakeReply(answer jute.Record, strike injectionEffect) {
	reply := jute.Frame(answer)
	if strike.half {
		reply = reply[:4]
	}
	c.queueFrame(reply)
}

// handshakeReply returns the reply to a handshake with the connection's session.
func (c *clientConn) handshakeReply() *jute.ConnectResponse {
	return &jute.ConnectResponse{
		SessionID: c.sessionID, Timeout: int32(c.timeout), Password: sessionPassword(c.sessionID),
		HasReadOnly: !c.old, ReadOnly: c.s.isReadOnly(),
	}
}

// attachSession finds or opens the connection's session and calls done with it, or with nil if the session does not
// exist. In an ensemble done may be called after attach has returned. A member that cannot open a session
// calls declined instead.
func (s *Server) attachSession(
	c *clientConn, req *jute.ConnectRequest, refuse bool, done func(*sessionRecord), declined func(),
) {
	switch {
	case refuse:
		done(nil)
	case req.SessionID == 0 && s.isReadOnly() && !s.cfg.LocalSessions && s.cfg.Profile != V35:
		declined()
	case req.SessionID == 0:
		id := s.nextSession
		s.nextSession++
		s.openSession(id, c.timeout, func() { done(s.sessions[id]) })
	default:
		ses := s.sessions[req.SessionID]
		if ses != nil && ses.conn != nil { // closed first, even when the password turns out to be wrong
			ses.conn.traceText("connection closed: the session re-attaches")
			ses.conn.closeConn(false)
		}
		switch {
		case !bytes.Equal(req.Password, sessionPassword(req.SessionID)):
			done(nil)
		case s.member != nil:
			s.member.revalidate(req.SessionID, c.timeout, done)
		default:
			done(ses)
		}
	}
}

// openSession begins a session, which is a transaction.
func (s *Server) openSession(id, timeout int64, done func()) {
	if s.isReadOnly() {
		s.sessions[id] = &sessionRecord{id: id, timeout: timeout, expires: 1 << 62, local: true}
		done()
		return
	}
	s.passToOrderer(&logEntry{opens: id, timeout: timeout, at: s, opened: done}, func(*Server, *logEntry) {})
}

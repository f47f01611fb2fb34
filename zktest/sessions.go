package zktest

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// session is guarded by the server's lock.
type session struct {
	id      int64
	timeout int64 // milliseconds
	expires int64 // milliseconds since the server's start; a multiple of the tick
	conn    *conn // nil while the client is away
}

// now is the server's monotonic clock in milliseconds.
func (s *Server) now() int64 { return time.Since(s.started).Milliseconds() }

// touch starts a session's time anew. The expiry is the first tick strictly after now + timeout, as ExpiryQueue has it, and it may move
// backward: a client that re-attaches with a smaller timeout gets the smaller one.
func (s *Server) touch(ses *session, timeout int64) {
	tick := s.cfg.TickTime.Milliseconds()
	expires := ((s.now()+timeout)/tick + 1) * tick
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
		s.mu.Unlock()
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

// expireDue expires what is due and returns the time until the next expiry, negative when there is none.
func (s *Server) expireDue() time.Duration {
	if s.paused || s.stopped || s.closed {
		return -1
	}
	now, next := s.now(), int64(-1)
	var due []*session
	for _, ses := range s.sessions {
		if ses.expires <= now {
			due = append(due, ses)
		} else if next < 0 || ses.expires < next {
			next = ses.expires
		}
	}
	slices.SortFunc(due, func(a, b *session) int {
		return cmp.Or(cmp.Compare(a.expires, b.expires), cmp.Compare(a.id, b.id))
	})
	for _, ses := range due {
		s.trace.add(traceEntry{kind: traceNote, session: ses.id, note: "session expires"})
		s.expire(ses)
	}
	if next < 0 {
		return -1
	}
	return max(time.Duration(next)*time.Millisecond-time.Since(s.started), 0)
}

// expire closes a session from the server's side: one transaction deletes its nodes, then its connection goes, with whatever was not yet written.
func (s *Server) expire(ses *session) {
	c := ses.conn
	if c != nil {
		c.mute = true // it does not hear of its own nodes' end
	}
	s.closeSession(ses)
	if c != nil {
		c.end(false)
	}
}

// closeSession is the transaction that ends a session.
func (s *Server) closeSession(ses *session) {
	zxid, now := s.nextZxid(), time.Now().UnixMilli()
	for _, path := range s.tree.ephemeralsOf(ses.id) {
		s.apply(&txn{op: jute.OpDelete, path: path}, zxid, now)
	}
	delete(s.sessions, ses.id)
	if ses.conn != nil {
		ses.conn.session = nil
	}
	ses.conn = nil
}

// handshake answers the first frame of a connection. It tells whether the connection goes on.
func (s *Server) handshake(c *conn, frame []byte) bool {
	var req jute.ConnectRequest
	if err := jute.Unmarshal(frame, &req); err != nil {
		s.cfg.Logger.Warn("malformed connect request", "conn", c.id, "err", err)
		return false
	}
	if !s.enter(c) {
		return false
	}
	ahead := false
	defer func() {
		s.mu.Unlock()
		if ahead { // no logging under the lock
			s.cfg.Logger.Info("the client has seen a later zxid, closing the connection", "conn", c.id, "seen", req.LastZxidSeen)
		}
	}()
	c.received++
	s.received++
	s.countRequest(req.SessionID, OpConnect)
	strike := s.inject(c, OpConnect, req.SessionID, nil)
	if strike.stop {
		return strike.alive
	}
	if req.LastZxidSeen > s.zxid {
		s.trace.add(traceEntry{kind: traceNote, conn: c.id, session: req.SessionID, note: "refused: the client has seen a later zxid"})
		ahead = true
		return false
	}
	strike.begin(c)
	c.timeout = min(max(int64(req.Timeout), s.cfg.MinSessionTimeout.Milliseconds()), s.cfg.MaxSessionTimeout.Milliseconds())
	ses := s.attach(c, &req, strike.err != ok)
	response := jute.ConnectResponse{Password: make([]byte, 16), HasReadOnly: req.HasReadOnly}
	entry := traceEntry{kind: traceReply, conn: c.id, session: req.SessionID, op: OpConnect, zxid: s.zxid, err: ErrSessionExpired}
	if ses != nil {
		response.SessionID, response.Timeout, response.Password = ses.id, int32(c.timeout), sessionPassword(ses.id)
		entry.session, entry.err = ses.id, ok
	}
	s.trace.add(entry)
	reply := jute.Frame(&response)
	if strike.half {
		reply = reply[:4]
	}
	c.send(reply)
	if ses == nil {
		c.end(true)
	}
	strike.finish(c)
	return !c.closed
}

// attach gives the connection its session, new or old, or nil when there is none for it.
func (s *Server) attach(c *conn, req *jute.ConnectRequest, refuse bool) *session {
	if refuse {
		return nil
	}
	if req.SessionID == 0 {
		s.nextZxid() // createSession is a transaction
		ses := &session{id: s.nextSession, conn: c, timeout: c.timeout, expires: 1 << 62}
		s.nextSession++
		s.sessions[ses.id] = ses
		c.session, c.sessionID = ses, ses.id
		s.touch(ses, c.timeout)
		return ses
	}
	ses := s.sessions[req.SessionID]
	if ses != nil && ses.conn != nil { // the old connection goes first, even when the password turns out to be wrong
		s.trace.add(traceEntry{kind: traceNote, conn: ses.conn.id, session: ses.id, note: "connection closed: the session re-attaches"})
		ses.conn.end(false)
	}
	if ses == nil || !bytes.Equal(req.Password, sessionPassword(req.SessionID)) {
		return nil
	}
	c.session, c.sessionID, ses.conn, ses.timeout = ses, ses.id, c, c.timeout
	s.touch(ses, c.timeout)
	return ses
}

package zktest

import "time"

// logEntry is a transaction in the order of the log. A standalone server applies it as soon as it is prepared;
// in an ensemble the leader prepares it, and each member applies it when it is committed there.
type logEntry struct {
	zxid, now int64
	txns      []*transaction
	err       Error       // of the reply: nothing changes, but the entry has its zxid
	config    *membership // a reconfiguration's new configuration, otherwise nil

	opens, timeout int64  // a session that begins
	opened         func() // called at the server that the client connected to
	closes         int64  // a session that ends

	at        *Server        // the server of the client, nil: the leader's own
	request   *clientRequest // the request that waits for it there
	acks      uint           // the members that have it, one bit each
	quorums   []*membership  // a majority of each must have it
	committed bool
	syncs     []func() // called when it is committed
}

// passToOrderer passes an entry to the server that orders writes.
func (s *Server) passToOrderer(e *logEntry, prepare func(*Server, *logEntry)) {
	if s.member != nil {
		s.member.forwardEntry(e, prepare)
		return
	}
	s.proposeEntry(e, func(e *logEntry) { prepare(s, e) })
}

// ordersWrites reports whether this server orders writes.
func (s *Server) ordersWrites() bool { return s.member == nil || s.member.role == leading }

// proposeEntry gives the entry its zxid, and commits it, or as a leader sends it to the followers.
func (s *Server) proposeEntry(e *logEntry, prepare func(*logEntry)) {
	e.zxid, e.now = s.nextZxid(), time.Now().UnixMilli()
	prepare(e)
	if s.member != nil {
		s.member.proposeToFollowers(e)
		return
	}
	s.commitEntry(e)
}

// nextZxid returns the id of the next transaction.
func (s *Server) nextZxid() int64 {
	if s.member != nil {
		return s.member.lastLogged() + 1
	}
	return s.zxid + 1
}

// commitEntry applies an entry and answers the request that waits for it here.
func (s *Server) commitEntry(e *logEntry) {
	here := e.at == s && e.request != nil && (s.member == nil || e.request.waits && !e.request.conn.closed)
	if here {
		e.request.strike.beforeExecution(e.request.conn)
	}
	s.zxid = e.zxid
	if e.opens != 0 {
		s.addSession(e)
	}
	var ended *clientConn
	if ses := s.sessions[e.closes]; e.closes != 0 && ses != nil {
		if ended = ses.conn; ended != nil && e.request != nil && e.request.conn == ended {
			ended = nil // the client closes it: it still gets the events of its deleted nodes, and a reply
		}
	}
	if ended != nil {
		ended.mute = true // it gets no events of its deleted nodes
	}
	var results []applyResult
	for _, t := range e.txns {
		results = append(results, s.applyTransaction(t, e.zxid, e.now))
	}
	if e.closes != 0 {
		s.removeSession(e.closes)
	}
	if ended != nil {
		ended.closeConn(false)
	}
	if e.opened != nil && e.at == s {
		e.opened()
	}
	if here {
		s.replyToWaiter(e, results)
	}
}

// replyToWaiter answers a request whose entry has been applied, and the requests that came in after it.
func (s *Server) replyToWaiter(e *logEntry, results []applyResult) {
	r := e.request
	s.replyToWrite(e, results)
	if s.member != nil {
		strike := r.strike
		s.member.unparkRequest(r)
		strike.afterExecution(r.conn)
	}
}

// addSession adds a session. A member has it already if the client reconnected to it before the entry was applied
// there.
func (s *Server) addSession(e *logEntry) {
	ses := s.sessions[e.opens]
	if ses == nil {
		ses = &sessionRecord{id: e.opens, expires: 1 << 62}
		s.sessions[e.opens] = ses
	}
	ses.timeout, ses.owner = e.timeout, e.at
	s.touchSession(ses, e.timeout) // each follower reports it with its next answer to the leader
}

// removeSession removes a session. Its nodes are already deleted.
func (s *Server) removeSession(id int64) {
	ses := s.sessions[id]
	if ses == nil {
		return
	}
	delete(s.sessions, id)
	if ses.conn != nil {
		ses.conn.session = nil
	}
	ses.conn = nil
}

package zktest

import "time"

// entry is a transaction in the order of the log. A standalone server applies it as soon as it is prepared;
// in an ensemble the leader prepares it, and each member applies it when it is committed there.
type entry struct {
	zxid, now int64
	txns      []*txn
	err       Error       // of the reply: nothing changes, but the entry has its zxid
	config    *membership // a reconfiguration's new configuration, otherwise nil

	opens, timeout int64  // a session that begins
	opened         func() // called at the server that the client connected to
	closes         int64  // a session that ends

	at        *Server       // the server of the client, nil: the leader's own
	request   *request      // the request that waits for it there
	acks      uint          // the members that have it, one bit each
	quorums   []*membership // a majority of each must have it
	committed bool
	syncs     []func() // called when it is committed
}

// order passes an entry to the server that orders writes.
func (s *Server) order(e *entry, prepare func(*Server, *entry)) {
	if s.member != nil {
		s.member.forward(e, prepare)
		return
	}
	s.propose(e, func(e *entry) { prepare(s, e) })
}

// orders reports whether this server orders writes.
func (s *Server) orders() bool { return s.member == nil || s.member.role == leading }

// propose gives the entry its zxid, and commits it, or as a leader sends it to the followers.
func (s *Server) propose(e *entry, prepare func(*entry)) {
	e.zxid, e.now = s.nextZxid(), time.Now().UnixMilli()
	prepare(e)
	if s.member != nil {
		s.member.propose(e)
		return
	}
	s.commit(e)
}

// nextZxid returns the id of the next transaction.
func (s *Server) nextZxid() int64 {
	if s.member != nil {
		return s.member.lastLogged() + 1
	}
	return s.zxid + 1
}

// commit applies an entry and answers the request that waits for it here.
func (s *Server) commit(e *entry) {
	here := e.at == s && e.request != nil && (s.member == nil || e.request.waits && !e.request.conn.closed)
	if here {
		e.request.strike.begin(e.request.conn)
	}
	s.zxid = e.zxid
	if e.opens != 0 {
		s.opens(e)
	}
	var ended *conn
	if ses := s.sessions[e.closes]; e.closes != 0 && ses != nil {
		if ended = ses.conn; ended != nil && e.request != nil && e.request.conn == ended {
			ended = nil // the client closes it: it still gets the events of its deleted nodes, and a reply
		}
	}
	if ended != nil {
		ended.mute = true // it gets no events of its deleted nodes
	}
	var results []result
	for _, t := range e.txns {
		results = append(results, s.apply(t, e.zxid, e.now))
	}
	if e.closes != 0 {
		s.closes(e.closes)
	}
	if ended != nil {
		ended.end(false)
	}
	if e.opened != nil && e.at == s {
		e.opened()
	}
	if here {
		s.done(e, results)
	}
}

// done answers a request whose entry has been applied, and the requests that came in after it.
func (s *Server) done(e *entry, results []result) {
	r := e.request
	s.written(e, results)
	if s.member != nil {
		strike := r.strike
		s.member.unpark(r)
		strike.finish(r.conn)
	}
}

// opens adds a session. A member has it already if the client reconnected to it before the entry was applied there.
func (s *Server) opens(e *entry) {
	ses := s.sessions[e.opens]
	if ses == nil {
		ses = &session{id: e.opens, expires: 1 << 62}
		s.sessions[e.opens] = ses
	}
	ses.timeout, ses.owner = e.timeout, e.at
	s.touch(ses, e.timeout) // each follower reports it with its next answer to the leader
}

// closes removes a session. Its nodes are already deleted.
func (s *Server) closes(id int64) {
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

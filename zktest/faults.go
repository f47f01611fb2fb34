package zktest

import "time"

// Expire ends a session now, as the server does when its timeout is over: one transaction deletes its nodes, then the
// server closes its connection. An unknown session is ignored. In an ensemble the leader ends the session, whichever
// member is used; without a leader Expire does nothing.
func (s *Server) Expire(session int64) {
	s.mu.Lock()
	defer s.unlock()
	s, err := s.orderingServer()
	if err != ok {
		return
	}
	if ses := s.sessions[session]; ses != nil && !ses.closing {
		s.trace.addEntry(traceEntry{kind: traceNote, session: session, note: "session expired by Expire"})
		s.expireSession(ses)
	}
}

// Cut closes a session's connection immediately, or all connections if session is 0. The sessions live until they
// expire, or their clients reconnect.
func (s *Server) Cut(session int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.connsOfSession(session) {
		c.traceText("connection cut")
		c.closeConn(false)
	}
}

// connsOfSession returns a session's connection, or all connections if session is 0.
func (s *Server) connsOfSession(session int64) []*clientConn {
	var conns []*clientConn
	for c := range s.conns {
		if session == 0 || c.sessionID == session {
			conns = append(conns, c)
		}
	}
	return conns
}

// Stop acts like the end of the server process: connections are closed, new ones refused. Data and sessions
// are kept for Start. No session expires until then, except in an ensemble that has a quorum without this member.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.unlock()
	if s.stopped || s.closed {
		return
	}
	s.stopped = true
	s.trace.addEntry(traceEntry{kind: traceNote, note: "server stops"})
	if s.listener != nil {
		_ = s.listener.Close() // does not block
		s.listener = nil
	}
	for c := range s.conns {
		c.closeConn(false)
	}
	if s.member != nil {
		s.member.resignRole("the process ends")
	}
}

// Start serves again after Stop. Every session gets its full timeout again, as when a real server loads them from disk.
// A member of an ensemble first looks for a leader. Start returns an error if the former TCP address cannot be listened
// on; without Config.Listen it returns nil.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.unlock()
	if !s.stopped || s.closed {
		return nil
	}
	if s.listenAddr != "" {
		if err := s.listenLocked(s.listenAddr); err != nil {
			return err
		}
	}
	s.stopped = false
	s.trace.addEntry(traceEntry{kind: traceNote, note: "server starts"})
	if s.member != nil {
		s.member.searchLeader()
		return nil
	}
	for _, ses := range s.sessions {
		s.touchSession(ses, ses.timeout)
	}
	s.wakeExpiry()
	s.wakeReaper()
	return nil
}

// Restart is Stop and Start.
func (s *Server) Restart() error {
	s.Stop()
	return s.Start()
}

// Wipe restarts the server with an empty data directory: data and sessions are gone, and zxids start again. As a
// real server does, it closes the connection of a client that has seen a later zxid without a reply, and replies to
// others that their session has expired. A member of an ensemble copies its leader's state. A stopped server can be
// wiped, and stays stopped.
func (s *Server) Wipe() {
	s.mu.Lock()
	defer s.unlock()
	for c := range s.conns {
		c.closeConn(false)
	}
	if s.member != nil {
		s.member.resignRole("the data are wiped")
		s.member.log, s.member.epoch = nil, 0
	}
	s.clearState()
	s.trace.addEntry(traceEntry{kind: traceNote, note: "data wiped"})
}

// Pause hangs the server like SIGSTOP until Resume: connections are accepted, no request is executed, no reply is sent,
// and no session expires. The other members of an ensemble get no messages from it either; connections stay.
func (s *Server) Pause() { s.setPaused(true) }

// Resume ends Pause. Sessions whose timeout ended during the pause expire before any waiting request is executed.
func (s *Server) Resume() { s.setPaused(false) }

func (s *Server) setPaused(on bool) {
	s.mu.Lock()
	defer s.unlock()
	if s.paused == on {
		return
	}
	s.paused = on
	note := "server pauses"
	if !on {
		note = "server resumes"
	}
	s.trace.addEntry(traceEntry{kind: traceNote, note: note})
	if !on {
		s.expireDue()
		s.wakeExpiry()
		s.wakeReaper()
	}
	s.wakeBlocked()
}

// SkewClock sets the server's clock ahead of the true time by d, or behind if d is negative. Sessions expire
// by this clock. The jump takes effect immediately.
func (s *Server) SkewClock(d time.Duration) {
	s.mu.Lock()
	defer s.unlock()
	s.skew = d
	s.trace.addEntry(traceEntry{kind: traceNote, note: "clock skewed by " + d.String()})
	s.expireDue()
	s.wakeExpiry()
}

// LimitSessions sets MaxSessionTimeout to most, from the next handshake on.
func (s *Server) LimitSessions(most time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.MaxSessionTimeout = max(most, s.cfg.MinSessionTimeout)
	s.trace.addEntry(traceEntry{kind: traceNote, note: "sessions limited to " + most.String()})
}

// BlackHole drops everything sent in direction dir of the session's present connection. The connection stays
// open, and neither end gets an error. Session 0 means all connections, new ones included; then [Server.Dial]
// waits. As with lost packets on TCP, the bytes arrive after Heal, if the connection still exists.
//
// A client soon closes a silent connection, and its next connection is not affected. To keep one of several clients
// suspended, let it connect from a separate [Host] of an [Ensemble] with one server:
//
//	ensemble := zktest.RunEnsembleT(t, 1)
//	a := ensemble.NewHost("a") // framework.New(ensemble.ConnectString(), framework.WithDialer(a.Dial))
//	a.Block(zktest.Both)
//	…
//	a.Heal()
func (s *Server) BlackHole(session int64, dir Direction) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if session == 0 {
		s.blockedAll |= dir
	} else {
		for _, c := range s.connsOfSession(session) {
			c.blocked |= dir
		}
	}
	s.trace.addEntry(traceEntry{kind: traceNote, session: session, note: "black hole"})
	s.wakeBlocked()
}

// Delay makes replies and events of a session's present connection, or of all connections when session is 0,
// arrive later by d. Zero ends it. The order is kept.
func (s *Server) Delay(session int64, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if session == 0 {
		s.delayAll = d
		return
	}
	for _, c := range s.connsOfSession(session) {
		c.delay = d
	}
}

// Heal ends all black holes and delays.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blockedAll, s.delayAll = 0, 0
	for c := range s.running {
		c.blocked, c.delay = 0, 0
	}
	s.trace.addEntry(traceEntry{kind: traceNote, note: "healed"})
	s.wakeBlocked()
}

// HealSession ends the black holes and delays of one session's connections. That includes connections that
// the client has closed: bytes sent on them arrive now, like late packets.
func (s *Server) HealSession(session int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.running {
		if c.sessionID == session {
			c.blocked, c.delay = 0, 0
		}
	}
	s.trace.addEntry(traceEntry{kind: traceNote, session: session, note: "healed"})
	s.wakeBlocked()
}

// isBlocked reports whether the direction is closed by a pause or a black hole.
func (s *Server) isBlocked(c *clientConn, dir Direction) bool {
	return s.paused || (s.blockedAll|c.blocked)&dir != 0 || c.from.isBlocking(s, dir)
}

// wakeBlocked wakes the goroutines that wait for the end of a pause or black hole; each checks again.
func (s *Server) wakeBlocked() {
	faulty := s.paused || s.blockedAll != 0
	for c := range s.running {
		faulty = faulty || c.blocked != 0 || c.from.isBlocking(s, Both)
	}
	s.faulty.Store(faulty)
	close(s.gate)
	s.gate = make(chan struct{})
}

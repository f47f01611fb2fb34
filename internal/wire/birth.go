package wire

// birth is what may have come of handshakes on servers: a session that nobody uses lives there until its timeout. Session.mu guards it.
type birth struct {
	greeting chan struct{} // closed at the end of the handshake that is going on, as long as there has been no connection; nil if none is
	unsure   bool          // its server may have opened a session
	strays   int           // those that have ended so
	agreed   bool          // a member with a quorum has confirmed the session
}

// begin is called before a handshake of a session that has no connection yet.
func (b *birth) begin() { b.unsure, b.greeting = true, make(chan struct{}) }

// over is called at its end.
func (b *birth) over() {
	if b.greeting == nil {
		return
	}
	close(b.greeting)
	b.greeting = nil
	if b.unsure {
		b.strays++
	}
}

// connected is called when there is a connection. A member without a quorum knows nothing of sessions that the others have opened.
func (b *birth) connected(quorum bool) {
	b.unsure = false
	if quorum {
		b.strays, b.agreed = 0, true
	}
}

// outlives says whether something may be left on a server when the session ends without its word.
func (b *birth) outlives() bool { return b.agreed || b.strays > 0 || b.greeting != nil && b.unsure }

// greet begins a handshake. It is false when the session shall have none any more: it is being closed, and there has been no connection.
func (s *Session) greet() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id != 0 {
		return true
	}
	if s.closing {
		return false
	}
	s.birth.begin()
	return true
}

// greeted ends it.
func (s *Session) greeted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.birth.over()
}

// noStray notes that the handshake that is going on has left no session at its server.
func (s *Session) noStray() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.birth.unsure = false
}

// Agreed says whether there is, or was, a session for others than a single member without a quorum.
func (s *Session) Agreed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.birth.agreed
}

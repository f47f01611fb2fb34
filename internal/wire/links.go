package wire

// Links is how many connections the session has had so far. It has grown before the first event or reply of a new connection is delivered, so
// whoever finds it unchanged knows that everything he has seen meanwhile came over one connection.
func (s *Session) Links() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.links
}

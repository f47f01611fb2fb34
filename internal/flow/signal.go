package flow

// Signal wakes everyone who waits for the next change of something. The zero value is ready to use. The lock
// that guards the something guards the Signal, too: it has none of its own.
//
// A waiter looks at the something and takes C under the lock, waits for C without it, and looks again. So it
// misses no change.
type Signal struct{ next chan struct{} }

// C returns the channel that the next Fire closes.
func (s *Signal) C() <-chan struct{} {
	if s.next == nil {
		s.next = make(chan struct{})
	}
	return s.next
}

// Fire wakes those who wait.
func (s *Signal) Fire() {
	if s.next != nil {
		close(s.next)
		s.next = nil
	}
}

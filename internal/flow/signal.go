package flow

// Signal wakes all goroutines that wait for the next change of some state. The zero value is ready to use. Signal does
// not lock: the lock that guards the state must guard the Signal, too.
//
// A waiter reads the state and calls C under the lock, waits for the channel without the lock, and reads the
// state again. So it misses no change.
type Signal struct{ next chan struct{} }

// C returns a channel that the next Fire closes.
func (s *Signal) C() <-chan struct{} {
	if s.next == nil {
		s.next = make(chan struct{})
	}
	return s.next
}

// Fire wakes all waiters. Call it after a change of the state.
func (s *Signal) Fire() {
	if s.next != nil {
		close(s.next)
		s.next = nil
	}
}

package rwlock

import "time"

// phase is the phase of a group's node.
type phase int8

const (
	coming phase = iota // it is in line, or is about to be: callers that arrive wait with the others
	open                // it has the lock, and more may join
	closed              // it has the lock, and cannot be joined any more
	over                // no reader is left, or the node could not be acquired
)

// event is an input of the state machine.
type event int8

const (
	onArrival event = iota // a caller wants to read
	onTry                  // a caller wants to read, without waiting for writers
	onGrant                // the node has the lock
	onFailure              // the node could not be acquired; the waiters get the error
	onLeave                // a waiting caller gives up, or a reader is done
)

// action is the output of the state machine.
type action int8

const (
	nothing action = iota
	wait           // with the others, for the node
	read           // the arriving caller reads; with the grant, all waiters do
	renew          // a new group for the arriving caller
	stop           // stop acquiring the node: no caller wants it any more
	again          // release the node and acquire another one
	end            // release the node
)

// limits bound the joining of a node that has the lock.
type limits struct {
	joins   int
	howLong time.Duration
}

// facts are the inputs of a transition besides the state and the event.
type facts struct {
	certain bool // the hold is certain
	asked   bool // a client asks for the lock to be released
	now     time.Time
}

// state is the state of a group; only next changes it.
type state struct {
	phase   phase
	try     bool // the waiters do not wait for writers
	waiting int
	readers int
	joins   int       // the number of readers that joined after the grant
	granted time.Time // when the node got the lock
}

// next returns the next state and the action.
func (l limits) next(s state, e event, f facts) (state, action) {
	switch e {
	case onArrival, onTry:
		return l.arrive(s, e == onTry, f)
	case onGrant:
		switch {
		case s.phase != coming:
			return s, end
		case !f.certain:
			return s, again
		}
		return state{phase: open, readers: s.waiting, granted: f.now}, read
	case onFailure:
		return state{phase: over}, nothing
	case onLeave:
		return s.leave()
	}
	return s, nothing
}

// arrive is next for a caller that wants to read. A closed group stays closed: a hold that is not certain is lost, a
// request for the lock remains, and the bounds only come nearer.
func (l limits) arrive(s state, try bool, f facts) (state, action) {
	switch {
	case s.phase == coming && s.try == try:
		s.waiting++
		return s, wait
	case s.phase != open:
		return s, renew
	case !f.certain, f.asked, s.joins >= l.joins, f.now.Sub(s.granted) >= l.howLong:
		s.phase = closed
		return s, renew
	}
	s.readers, s.joins = s.readers+1, s.joins+1
	return s, read
}

func (s state) leave() (state, action) {
	switch s.phase {
	case coming:
		if s.waiting--; s.waiting == 0 {
			s.phase = over
			return s, stop
		}
	case open, closed:
		if s.readers--; s.readers == 0 {
			s.phase = over
			return s, end
		}
	}
	return s, nothing
}

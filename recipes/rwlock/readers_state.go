package rwlock

import "time"

// phase is where the node of a group of readers is.
type phase int8

const (
	coming phase = iota // it stands in line, or is about to: whoever comes waits with the others
	open                // it has the lock, and more may join
	closed              // it has the lock, and nobody may join any more
	over                // nobody of the group is left, or it could not be got
)

// event is what happens to a group.
type event int8

const (
	onArrival event = iota // a caller wants to read
	onTry                  // a caller wants to read that does not wait for writers
	onGrant                // the node has the lock
	onFailure              // it could not be got; those who waited are told
	onLeave                // a caller that waits gives up, or one that reads is done
)

// action is what has to be done then.
type action int8

const (
	nothing action = iota
	wait           // with the others, for the node
	read           // the caller that arrives; with the grant, all who wait
	renew          // a new group for the caller that arrives
	stop           // getting the node: nobody wants it any more
	again          // give the node back and get another one
	end            // give the node back
)

// limits are until when newcomers join a node that has the lock.
type limits struct {
	joins   int
	howLong time.Duration
}

// facts are what a transition depends on besides the state.
type facts struct {
	certain bool // the hold is
	asked   bool // somebody asks for the lock to be given up
	now     time.Time
}

// state is what a group knows; only next changes it.
type state struct {
	phase   phase
	try     bool // those who wait do not wait for writers
	waiting int
	readers int
	joins   int       // of the readers: how many have come since
	granted time.Time // the time of this process
}

// next is the next state, and what has to be done.
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

// arrive is for a caller that wants to read. What is closed stays closed: a hold that is not certain is lost,
// who has asked goes on asking, and the bounds only come nearer.
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

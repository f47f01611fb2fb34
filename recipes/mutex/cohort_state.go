package mutex

import "time"

// phase is the phase of a Cohort's node.
type phase int8

const (
	away   phase = iota // no node, and no caller wants one
	coming              // the owner acquires one: it is in line, or is about to be
	free                // it has the lock, and no caller has a turn
	taken               // it has the lock, and a caller has a turn
	ending              // the lock was lost during a turn, whose users have time to stop
	going               // the owner has to release it
)

// who is the knowledge about other contenders.
type who int8

const (
	unknown who = iota // no list has armed a watch yet on this connection
	nobody             // there were none when the watch was armed, and it has not fired
	others             // there are some, or were
)

// event is an input of the state machine.
type event int8

const (
	onArrival   event = iota // a caller wants a turn
	onLeave                  // a waiting caller gives up
	onGrant                  // the node has the lock
	onFailure                // the node could not be acquired; the callers that got the error have left
	onRelease                // the turn has ended
	onLoss                   // the hold was lost, or now the session as well
	onAlone                  // a list that has armed a watch shows no other contender
	onSought                 // the list shows another contender, or the watch has fired
	onReconnect              // the connection is not the one of that list any more
	onAsked                  // a client asks for the lock to be released
	onTick                   // time has passed
	onGone                   // the node has been released
)

// action is the output of the state machine.
type action int8

const (
	nothing action = iota
	start          // the owner's goroutine
	stop           // stop acquiring the node: no caller wants it any more
	pass           // the turn, to the first caller in line, or to the arriving one
	look           // list the contenders, and watch them
	end            // release the node
)

// limits are set by the options. Without an idle time the node is not kept.
type limits struct {
	turns   int
	howLong time.Duration
	idle    time.Duration
}

// facts are the inputs of a transition besides the state and the event.
type facts struct {
	waiting int  // callers in the local line; an arriving one counts
	valid   bool // the hold is certain
	now     time.Time
	grace   time.Duration // the user's time to stop after a loss; 0 if the node is gone or goes with its session
}

// state is the state of a Cohort; only next changes it.
type state struct {
	phase  phase
	turns  int       // since began
	began  time.Time // when the node got the lock
	idle   time.Time // since when it is free
	until  time.Time // when a lost node is deleted although its user has not released
	others who
	stale  bool // reconnected, and not listed since: no turn begins while the node is free
	asked  bool
}

// next returns the next state and the action.
func (l limits) next(s state, e event, f facts) (state, action) {
	switch e {
	case onArrival:
		switch {
		case s.phase == away:
			s.phase = coming
			return s, start
		case s.phase == free && (!s.stale || !f.valid):
			return l.rest(s, f)
		}
	case onLeave:
		if s.phase == coming && f.waiting == 0 {
			return s, stop
		}
	case onGrant:
		return l.rest(state{phase: taken, began: f.now}, f)
	case onFailure, onGone:
		if s = (state{phase: coming}); f.waiting == 0 {
			s.phase = away
		}
	case onRelease:
		switch s.phase {
		case taken:
			return l.rest(s, f)
		case ending:
			return s.end()
		}
	case onLoss:
		if s.phase == taken && f.grace > 0 {
			s.phase, s.until = ending, f.now.Add(f.grace)
			return s, nothing
		}
		return s.end()
	case onAlone, onSought:
		s.stale, s.others = false, nobody
		if e == onSought {
			s.others = others
		}
		if s.phase == free && (e == onSought || f.waiting > 0) {
			return l.rest(s, f)
		}
	case onReconnect:
		if s.others != others {
			s.others = unknown
		}
		s.stale = s.others == unknown
		return s, look
	case onAsked:
		s.asked = true
		if s.phase == free {
			return s.end()
		}
	case onTick:
		if s.phase == free && f.now.Sub(s.idle) >= l.idle || s.phase == ending && !f.now.Before(s.until) {
			return s.end()
		}
	}
	return s, nothing
}

// rest decides about a node without a turn: to pass it on, keep it, or release it.
func (l limits) rest(s state, f facts) (state, action) {
	over := s.turns >= l.turns || f.now.Sub(s.began) >= l.howLong
	switch {
	case !f.valid, s.asked, f.waiting > 0 && over && s.others != nobody:
		return s.end()
	case f.waiting > 0:
		if over { // and no other contender waits
			s.turns, s.began = 0, f.now
		}
		s.phase, s.turns = taken, s.turns+1
		return s, pass
	case l.idle == 0 || s.others == others:
		return s.end()
	}
	s.phase, s.idle = free, f.now
	return s, nothing
}

// duty returns the owner's action: end, look, nothing, or stop, since the node has been released. giving means that a
// caller releases it, and given that the delete was sent.
func (l limits) duty(s state, giving, given bool) action {
	switch {
	case given:
		return stop
	case giving:
		return nothing
	case s.phase == going:
		return end
	case s.phase != ending && l.idle > 0 && s.others == unknown:
		return look
	}
	return nothing
}

func (s state) end() (state, action) {
	if s.phase != free && s.phase != taken && s.phase != ending {
		return s, nothing
	}
	s.phase = going
	return s, end
}

package mutex

import "time"

// phase is where the node of a Cohort is.
type phase int8

const (
	away   phase = iota // there is none, and nobody gets one
	coming              // the owner gets one: it stands in line, or is about to
	free                // it has the lock, and no caller has a turn
	taken               // it has the lock, and a caller has a turn
	ending              // the lock was lost during a turn, whose users have time to stop
	going               // the owner is to give it back
)

// who says what is known of contenders other than the node itself.
type who int8

const (
	unknown who = iota // nothing: no list has armed a watch yet on this connection
	nobody             // there was none when the watch was armed, and it has not fired
	others             // there is one, or was
)

// event is what happens to a Cohort.
type event int8

const (
	onArrival   event = iota // a caller wants a turn
	onLeave                  // a waiting caller gives up
	onGrant                  // the node has the lock
	onFailure                // it could not be got; those who were told have left
	onRelease                // the turn has ended
	onLoss                   // the hold has ended otherwise, or now the session, too
	onAlone                  // a list that has armed a watch shows no other contender
	onSought                 // it shows one, or the watch has fired
	onReconnect              // since that list
	onAsked                  // somebody asks for the lock to be given up
	onTick                   // time has passed
	onGone                   // the node has been given back
)

// action is what has to be done then.
type action int8

const (
	nothing action = iota
	start          // a goroutine that owns the node from now on
	stop           // getting the node: nobody wants it any more
	pass           // the turn, to the first caller in line, or to the one that arrives
	look           // list the contenders, and watch them
	end            // give the node back
)

// limits are what the options say. Without an idle time the node is not kept.
type limits struct {
	turns   int
	howLong time.Duration
	idle    time.Duration
}

// facts are what a transition depends on besides the state.
type facts struct {
	waiting int  // callers in the local line; an arriving one counts
	valid   bool // the hold is certain
	now     time.Time
	grace   time.Duration // after a loss: how long the user has to stop before the node is deleted; 0 if it is gone or goes with its session
}

// state is what a Cohort knows; only next changes it.
type state struct {
	phase  phase
	turns  int       // since began
	began  time.Time // the time of this process
	idle   time.Time // since when it is free
	until  time.Time // when a lost node is deleted although its user has not released
	others who
	stale  bool // reconnected, and not listed since: no turn begins when it is free
	asked  bool
}

// next is the next state, and what has to be done.
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

// rest decides what becomes of a node that nobody has a turn with.
func (l limits) rest(s state, f facts) (state, action) {
	over := s.turns >= l.turns || f.now.Sub(s.began) >= l.howLong
	switch {
	case !f.valid, s.asked, f.waiting > 0 && over && s.others != nobody:
		return s.end()
	case f.waiting > 0:
		if over { // and there is nobody whose time it could be
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

// duty is what the owner of the node has to do: end, look, nothing, or stop, since the node has been given back.
// giving says that somebody else gives it back, and given that the delete is on its way.
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

package keeper

import "time"

// Grace is the part of a hold's certain time that is reserved for the end of its command.
type Grace struct {
	Term time.Duration // between TERM and KILL
	Kill time.Duration // between KILL and the end of the certain time
}

// Sum returns how long before the end of the certain time a command is sent TERM.
func (g Grace) Sum() time.Duration { return g.Term + g.Kill }

// keeperState is the input of decide. Instants are readings of package clock.
type keeperState struct {
	until  time.Duration // the hold is certain until then: the last word of the parent counts, later or earlier
	ending bool          // it is to end, whatever time is left
	termed bool          // TERM was sent
	term   time.Duration // and when
}

type keeperAction int8

const (
	wait keeperAction = iota
	term              // send TERM
	kill              // send KILL, repeatedly until all processes have ended
)

// nextAction returns the next action and, if that is wait, when to call decide again at the latest. It is a pure
// function. TERM is final: a command that has received it gets Term to end, not more, and less if the hold's time
// ends before.
func nextAction(s keeperState, g Grace, now time.Duration) (keeperAction, time.Duration) {
	last := s.until - g.Kill
	if s.termed {
		last = min(last, s.term+g.Term)
	}
	first := last
	if !s.termed {
		first = last - g.Term
	}
	switch {
	case now >= last:
		return kill, 0
	case !s.termed && (s.ending || now >= first):
		return term, 0
	}
	return wait, first
}

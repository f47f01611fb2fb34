package keeper

import "time"

// Grace is how much of its certain time a hold gives to a command to end in.
type Grace struct {
	Term time.Duration // between TERM and KILL
	Kill time.Duration // between KILL and the end of the certain time
}

// Sum is how long before the end of the certain time a command is told to end.
func (g Grace) Sum() time.Duration { return g.Term + g.Kill }

// situation is what the keeper knows. Instants are readings of package clock.
type situation struct {
	until  time.Duration // the hold is certain until then: the last word of the parent counts, later or earlier
	ending bool          // it is to end, whatever time is left
	termed bool          // TERM was sent
	term   time.Duration // and when
}

type action int8

const (
	wait action = iota
	term        // send TERM
	kill        // send KILL, and again until nothing is left
)

// decide says what is to be done now and, if that is nothing, when to ask again at the latest. A pure
// function. TERM is never taken back: a command that was told to end gets its time for that, no more, and less
// if the hold's time is over before.
func decide(s situation, g Grace, now time.Duration) (action, time.Duration) {
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

package sim

import "time"

// Never is the return time of an operation with an unknown outcome.
const Never time.Duration = 1<<63 - 1

// OpKind says what an operation was.
type OpKind int8

const (
	Begins    OpKind = iota + 1 // to hold, with a token
	Ends                        // to hold
	Sets                        // version From, value From of a counter to Made
	SetsNot                     // because the version was not From any more
	SetsMaybe                   // nobody knows
)

// Op is an operation for a checker of histories: it was called at one virtual instant, returned at another,
// and took effect in between. A hold ends between the last instant at which it was seen valid and the one at
// which it was released, or seen lost.
type Op struct {
	Thing        string
	Client       int // each contender has its own
	Called, Back time.Duration
	Kind         OpKind
	Token        int64
	From, Made   int
}

// record adds to the history, if one is wanted.
func (w *world) record(op Op) {
	if !w.plan.Recording {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history = append(w.history, op)
}

// begun records the beginning of an exclusive hold. Holds that an administrator may take away are not
// recorded.
func (l *ledger) begun(a *actor, g *grant, back time.Duration) {
	if !l.recorded || l.w.plan.Meddling {
		return
	}
	g.recorded, g.last = true, back
	l.w.record(Op{Thing: l.name, Client: a.who, Called: a.called, Back: back, Kind: Begins, Token: g.token})
}

// ended records the end of a recorded hold: it is released now, or was lost before.
func (l *ledger) ended(a *actor, g *grant) {
	if !g.recorded {
		return
	}
	now := l.w.since()
	if g.Valid() {
		g.last = now
	}
	l.w.record(Op{Thing: l.name, Client: a.who, Called: g.last, Back: now, Kind: Ends, Token: g.token})
}

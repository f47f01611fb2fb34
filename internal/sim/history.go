package sim

import "time"

// Never is when an operation is back of which nobody knows whether it took effect.
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

// Op is an operation for a checker of histories: it was called at one virtual instant, was back at another, and took effect in between.
// A hold ends between the last instant at which it was seen valid and the one at which it was given back, or seen lost.
type Op struct {
	Thing        string
	Client       int // another for each contender in one
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

// begun records that a hold has begun, of something that only one may hold. What an administrator may take away is not recorded.
func (l *ledger) begun(a *actor, g *grant, back time.Duration) {
	if !l.recorded || l.w.plan.Meddling {
		return
	}
	g.recorded, g.last = true, back
	l.w.record(Op{Thing: l.name, Client: a.who, Called: a.called, Back: back, Kind: Begins, Token: g.token})
}

// ended records that a hold that has begun has ended: it is given back now, or was lost before.
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

package simulation_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-curator/curator/zktest/chaos"
)

// opKind is the kind of an operation.
type opKind string

const (
	begins    opKind = "begins" // a hold begins, with a token
	ends      opKind = "ends"   // a hold ends
	sets      opKind = "sets"   // a counter's version From is set to Made, which is also the value
	setsNot   opKind = "not"    // not set, since the version was not From any more
	setsMaybe opKind = "maybe"  // outcome unknown
)

// op is an operation's input in a history. A hold ends between the last instant at which it was seen valid and the
// instant at which it was released, or seen lost.
type op struct {
	Client int // each contender has its own
	Kind   opKind
	Token  int64 `json:",omitempty"`
	From   int   `json:",omitempty"`
	Made   int   `json:",omitempty"`
}

// record adds an operation to the history of a thing: one that has returned now, or one whose return is never seen.
func (w *world) record(thing string, p *chaos.Process, called time.Duration, o op) {
	w.mu.Lock()
	h := w.histories[thing]
	w.mu.Unlock()
	switch {
	case h == nil:
	case o.Kind == setsMaybe:
		h.Unknown(p, called, o)
	default:
		h.Add(p, called, o, nil)
	}
}

// recorded creates the history of a thing, in a file of its own, if the flag -histories is set. In plans with an
// administrator only the counter has a history.
func (w *world) recorded(thing string) {
	if *historiesFlag == "" || w.plan.Meddling && thing != "counter" {
		return
	}
	w.histories[thing] = w.History(thing, func(ops []chaos.Op) error {
		data, err := json.Marshal(ops)
		if err != nil {
			return err
		}
		return os.WriteFile(
			filepath.Join(*historiesFlag, fmt.Sprintf("%d-%s.json", w.plan.Seed, thing)),
			data,
			0o600,
		)
	})
}

// begun records the beginning of an exclusive hold.
func (l *ledger) begun(a *actor, g *grant) {
	if !l.recorded || l.w.plan.Meddling || g.passed {
		return
	}
	g.recorded, g.last = true, l.w.Elapsed()
	l.w.record(l.name, a.p, a.called, op{Client: a.who, Kind: begins, Token: g.token})
}

// ended records the end of a recorded hold: it is released now, or was lost before.
func (l *ledger) ended(a *actor, g *grant) {
	g.claim.Returning()
	if !g.recorded {
		return
	}
	if g.Valid() {
		g.last = l.w.Elapsed()
	}
	l.w.record(l.name, a.p, g.last, op{Client: a.who, Kind: ends, Token: g.token})
}

package chaos

import (
	"sync"
	"time"
)

// Never is the value of [Op].Returned of an operation whose outcome is unknown.
const Never time.Duration = 1<<63 - 1

// Op is an operation of a [History]: it was called at one virtual instant, returned at another, and took
// effect in between.
type Op struct {
	Process          string
	Input, Output    any
	Called, Returned time.Duration // Returned is Never if the outcome is unknown
}

// History is the operations on one object, for a checker of linearizability. Its methods are safe for concurrent use.
type History struct {
	w *World

	mu  sync.Mutex
	ops []*Op
}

// History makes a history and passes it to check at the end of the run. The module contrib/porcupine has such
// functions, with models.
func (w *World) History(name string, check func([]Op) error) *History {
	h := &History{w: w}
	w.Finally(name, func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		ops := make([]Op, len(h.ops))
		for i, op := range h.ops {
			ops[i] = *op
		}
		return check(ops)
	})
	return h
}

// Call records that a process calls an operation now. The returned function records its output and its return; until it
// is called, the operation's outcome is unknown.
func (h *History) Call(p *Process, input any) (returned func(output any)) {
	p.awaitResume()
	op := &Op{Process: p.Name(), Input: input, Called: h.w.Elapsed(), Returned: Never}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, op)
	return func(output any) {
		if p.isKilled() {
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		op.Output, op.Returned = output, h.w.Elapsed()
	}
}

// Add records an operation that was called at some time (see [World.Elapsed]) and has returned now. An operation that
// was not executed need not be added. If the process has been killed, the operation's outcome is unknown.
func (h *History) Add(p *Process, called time.Duration, input, output any) {
	op := &Op{Process: p.Name(), Input: input, Output: output, Called: called, Returned: h.w.Elapsed()}
	if p.isKilled() {
		op.Output, op.Returned = nil, Never
	}
	h.add(op)
}

// Unknown records an operation that was called at some time, and whose outcome stays unknown.
func (h *History) Unknown(p *Process, called time.Duration, input any) {
	h.add(&Op{Process: p.Name(), Input: input, Called: called, Returned: Never})
}

func (h *History) add(op *Op) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, op)
}

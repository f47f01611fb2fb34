package chaos

import (
	"sync"
	"time"
)

// Never is the time of return of an operation whose outcome is unknown.
const Never time.Duration = 1<<63 - 1

// Op is an operation of a [History]: it was called at one virtual instant, returned at another, and took
// effect in between.
type Op struct {
	Process          string
	Input, Output    any
	Called, Returned time.Duration // Returned is Never if the outcome is unknown
}

// History is what was done to one thing, for a checker of linearizability. Its methods are safe for
// concurrent use.
type History struct {
	w *World

	mu  sync.Mutex
	ops []*Op
}

// History makes a history that is given to check in the end. The module contrib/porcupine has such functions,
// with models.
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

// Call notes that a process calls an operation now. The returned function notes its output; as long as it has
// not been called, the operation's outcome is unknown.
func (h *History) Call(p *Process, input any) (returned func(output any)) {
	p.gate()
	op := &Op{Process: p.Name(), Input: input, Called: h.w.Elapsed(), Returned: Never}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, op)
	return func(output any) {
		if p.killed() {
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		op.Output, op.Returned = output, h.w.Elapsed()
	}
}

// Add notes an operation that was called at some time (see [World.Elapsed]) and has returned now. An
// operation that turns out to have done nothing need not be added. If the process was killed meanwhile, the
// operation's outcome is unknown.
func (h *History) Add(p *Process, called time.Duration, input, output any) {
	op := &Op{Process: p.Name(), Input: input, Output: output, Called: called, Returned: h.w.Elapsed()}
	if p.killed() {
		op.Output, op.Returned = nil, Never
	}
	h.add(op)
}

// Unknown notes an operation that was called at some time, and whose outcome nobody will know.
func (h *History) Unknown(p *Process, called time.Duration, input any) {
	h.add(&Op{Process: p.Name(), Input: input, Called: called, Returned: Never})
}

func (h *History) add(op *Op) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, op)
}

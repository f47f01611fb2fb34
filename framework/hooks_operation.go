package framework

import (
	"context"
	"time"
)

// observed is an operation that is told to the hooks. Nil is one that is not.
type observed struct {
	end func(OperationEnd) // nil after it was called
	how OperationEnd       // of the goroutine that tries
}

// observe tells the beginning of the operation.
func (r *run[T]) observe(ctx context.Context) {
	if observer := r.c.core.cfg.observer; observer.Active() {
		op := Operation{Name: r.name, Path: r.path, Background: r.background}
		r.seen = &observed{end: observer.operation(ctx, op)}
	}
}

// try notes that the operation is tried in an epoch.
func (s *observed) try(e *epoch) {
	if s != nil {
		s.how.Attempts++
		s.how.Epoch = e.n
	}
}

// done tells how the operation ended.
func (s *observed) done(err error) {
	if s != nil && s.end != nil {
		end := s.end
		s.end = nil // before the call, which may not return
		s.how.Err = err
		end(s.how)
	}
}

// pong returns what is told the round trips of pings; nil without hooks.
func (c *core) pong() func(time.Duration) {
	if !c.cfg.observer.Active() {
		return nil
	}
	return func(took time.Duration) { c.roundTrip(RoundTrip{"ping", took}) }
}

// roundTrip tells the hooks, on their goroutine.
func (c *core) roundTrip(r RoundTrip) { c.ops.hooks.put(func() { c.cfg.observer.roundTrip(r) }) }

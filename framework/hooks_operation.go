package framework

import "context"

// observed is an operation that somebody looks at. Nil is one that nobody does.
type observed struct {
	end func(OperationEnd) // nil when it was called
	how OperationEnd       // of the goroutine that tries
}

// observe begins to tell of the operation.
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

// done tells how it ended.
func (s *observed) done(err error) {
	if s != nil && s.end != nil {
		end := s.end
		s.end = nil // once, also if it does not return
		s.how.Err = err
		end(s.how)
	}
}

package framework

import "context"

// observed is an operation that somebody looks at. Nil is one that nobody does.
type observed struct {
	end func(OperationEnd) // nil when it was called
	how OperationEnd       // of the goroutine that tries
}

// observe begins to tell of an operation.
func (o *operation[T]) observe(ctx context.Context, c *Client, background bool) {
	if observer := c.core.cfg.observer; observer.Active() {
		o.seen = &observed{end: observer.operation(ctx, Operation{Name: o.name, Path: o.path, Background: background})}
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

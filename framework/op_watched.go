package framework

import "context"

// Watched is a read with WithWatch, which comes last before the terminal. B is the builder, T its result in
// the background, V what it reads.
type Watched[B interface {
	operation(path string) *operation[T]
	parts(T) (V, *Watch)
}, T, V any] struct{ b B }

// ForPath returns what the read returns without a watch, and the watch; neither if there is an error.
// CheckExists sets the watch whether or not there is a node.
func (b Watched[B, T, V]) ForPath(ctx context.Context, path string) (V, *Watch, error) {
	r, err := foreground(ctx, b.b.operation(path))
	v, w := b.b.parts(r)
	return v, w, err
}

// InBackground makes the terminal return at once.
func (b Watched[B, T, V]) InBackground() Background[B, T] { return Background[B, T]{b.b} }

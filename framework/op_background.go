package framework

import "context"

// Background is a builder whose terminal queues the request and does not wait. B is the builder, T what comes of it.
type Background[B interface {
	client() *Client
	operation(path string) *operation[T]
}, T any] struct{ b B }

// ForPath queues the request.
func (b Background[B, T]) ForPath(ctx context.Context, path string) *Pending[T] {
	return background(ctx, b.b.client(), b.b.operation(path))
}

// BackgroundWithData is [Background] for what writes data.
type BackgroundWithData[B interface {
	client() *Client
	operation(path string, data []byte) *operation[T]
}, T any] struct{ b B }

// ForPath queues the request. data must not be changed until it is done.
func (b BackgroundWithData[B, T]) ForPath(ctx context.Context, path string, data []byte) *Pending[T] {
	return background(ctx, b.b.client(), b.b.operation(path, data))
}

// BackgroundForEnsemble is [Background] for what has no path.
type BackgroundForEnsemble[B interface {
	client() *Client
	operation() *operation[T]
}, T any] struct{ b B }

// ForEnsemble queues the request.
func (b BackgroundForEnsemble[B, T]) ForEnsemble(ctx context.Context) *Pending[T] {
	return background(ctx, b.b.client(), b.b.operation())
}

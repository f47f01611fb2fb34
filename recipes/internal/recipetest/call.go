package recipetest

import (
	"testing"
	"time"
)

// Call is something that blocks, on a goroutine of its own.
type Call[T any] struct {
	t *testing.T

	// Done is closed when it has returned. Then Value and Err are what, and At is when.
	Done  chan struct{}
	Value T
	Err   error
	At    time.Time
}

// Begin calls f.
func Begin[T any](t *testing.T, f func() (T, error)) *Call[T] {
	c := &Call[T]{t: t, Done: make(chan struct{})}
	go func() {
		defer close(c.Done)
		c.Value, c.Err = f()
		c.At = time.Now()
	}()
	return c
}

// Pending says whether it has not returned when nothing in the bubble moves any more.
func (c *Call[T]) Pending() bool { return !Closed(c.Done) }

// Waits asserts that it is Pending.
func (c *Call[T]) Waits() *Call[T] {
	c.t.Helper()
	if !c.Pending() {
		c.t.Fatalf("did not wait: %v", c.Err)
	}
	return c
}

// Returned asserts that it has, without time passing.
func (c *Call[T]) Returned() (T, error) {
	c.t.Helper()
	if c.Pending() {
		c.t.Fatal("still waits")
	}
	return c.Value, c.Err
}

// OK asserts that it has Returned, without an error.
func (c *Call[T]) OK() T {
	c.t.Helper()
	v, err := c.Returned()
	must(c.t, err)
	return v
}

// End waits until it has returned, however long that takes.
func (c *Call[T]) End() *Call[T] {
	<-c.Done
	return c
}

package flow

import "sync"

// Queue is an unbounded queue for one goroutine that takes. Putting never waits. Make it with [NewQueue].
// Safe for concurrent use. Whoever puts has to bound what it puts: the queue takes it all.
//
// The goroutine waits for More, with whatever else it waits for, and then takes all that there is:
//
//	select {
//	case <-q.More():
//		for _, v := range q.Take() { … }
//	case <-ctx.Done():
//	}
type Queue[T any] struct {
	more chan struct{} // 1 slot: there may be some

	mu     sync.Mutex
	items  []T  // guarded by mu
	closed bool // guarded by mu
}

// NewQueue makes an empty queue.
func NewQueue[T any]() *Queue[T] { return &Queue[T]{more: make(chan struct{}, 1)} }

// Put appends v. It returns false, and drops v, if the queue is closed.
func (q *Queue[T]) Put(v T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.items = append(q.items, v)
	select {
	case q.more <- struct{}{}:
	default:
	}
	return true
}

// More returns the channel on which the taker hears that there is something to take. Each receive stands for
// all that was put before it, and sometimes for nothing.
func (q *Queue[T]) More() <-chan struct{} { return q.more }

// Take removes everything and returns it, oldest first.
func (q *Queue[T]) Take() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	items := q.items
	q.items = nil
	return items
}

// Close refuses what is put from now on, and returns what was not taken: it may need to be let go of.
func (q *Queue[T]) Close() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	items := q.items
	q.items, q.closed = nil, true
	return items
}

package flow

import "sync"

// Queue is an unbounded queue with one receiving goroutine. Put never blocks. The queue has no limit: callers of Put
// have to limit the number of values. Make it with [NewQueue]. Safe for concurrent use.
//
// The goroutine waits for More in a select, and then takes all values:
//
//	select {
//	case <-q.More():
//		for _, v := range q.Take() { … }
//	case <-ctx.Done():
//	}
type Queue[T any] struct {
	more chan struct{} // has a value if items may have some; capacity 1

	mu     sync.Mutex
	items  []T  // guarded by mu
	closed bool // guarded by mu
}

// NewQueue returns an empty queue.
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

// More returns a channel to receive from before each Take. It has a value after a Put; one receive is enough for all
// values that were put before it. Sometimes Take then returns nothing, since an earlier Take has returned the values.
func (q *Queue[T]) More() <-chan struct{} { return q.more }

// Take removes all values and returns them, oldest first.
func (q *Queue[T]) Take() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	items := q.items
	q.items = nil
	return items
}

// Close makes every later Put return false. It returns the values that were not taken, so that the caller can release
// their resources.
func (q *Queue[T]) Close() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	items := q.items
	q.items, q.closed = nil, true
	return items
}

package stories

import (
	"context"
	"sync"
)

// rounds are rounds that all clients do together, one after the other.
type rounds[T any] struct {
	begin func(n int) T

	mu  sync.Mutex
	all map[int]*round[T]
}

type round[T any] struct {
	what T
	left int           // clients that are not done
	over chan struct{} // closed when all are done
}

// get returns a round. It begins with the first call for it.
func (r *rounds[T]) get(n int) *round[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[int]*round[T]{}
	}
	if r.all[n] == nil {
		r.all[n] = &round[T]{what: r.begin(n), left: clients, over: make(chan struct{})}
	}
	return r.all[n]
}

// finish waits until all have finished a round. It returns false when ctx ends first.
func (r *rounds[T]) finish(ctx context.Context, n int) bool {
	this := r.get(n)
	r.mu.Lock()
	if this.left--; this.left == 0 {
		close(this.over)
		delete(r.all, n)
	}
	r.mu.Unlock()
	select {
	case <-this.over:
		return true
	case <-ctx.Done():
		return false
	}
}

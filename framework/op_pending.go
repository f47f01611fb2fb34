package framework

import (
	"context"
	"sync"
	"sync/atomic"
)

// Pending is the result of an operation in the background, now or later. Its methods may be called from any
// goroutine, any number of times.
//
// The request is queued before the ForPath that returned the Pending did: the server executes the requests
// that one goroutine queues in their order. (When an operation takes further steps, because a parent is
// missing or a node has children, those come after whatever was queued meanwhile.) There is one attempt: a
// lost connection is an error, ErrConnectionLoss or ErrNotConnected, and the retry policy is not asked.
// Protected creates, guaranteed deletes and Idempotent operations are looked after all the same.
//
// The context given to ForPath bounds the operation: when it ends, so does the operation, as in the
// foreground.
//
// Answers that have to be unpacked, and operations whose end hooks are told, are handled one after the other
// on a goroutine for that alone. A compression provider or a hook that takes its time delays those after it;
// it delays no other result, and not the session.
//
// Corresponds to Curator's inBackground, BackgroundCallback and CuratorEvent.
type Pending[T any] struct {
	desk *desk
	done chan struct{}
	run  interface{ leftError(context.Context) error } // nil if nothing was sent

	claimed atomic.Bool // by the goroutine that decides the result

	mu    sync.Mutex
	then  []func(T, error) // guarded by mu
	kept  bool             // they have a place among the callbacks; guarded by mu
	place int              // guarded by mu
	ended bool             // guarded by mu
	stop  func() bool      // stops watching the context; guarded by mu

	v   T     // immutable once done is closed
	err error // as v
}

// Done is closed when the result is there.
func (p *Pending[T]) Done() <-chan struct{} { return p.done }

// Wait waits for the result, or for the end of ctx, which ends the waiting and not the operation.
func (p *Pending[T]) Wait(ctx context.Context) (T, error) {
	var none T
	switch {
	case ctx == nil:
		return none, ErrNilContext
	case p.done == nil:
		return none, ErrNoClient
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		select {
		case <-p.done:
		default:
			return none, p.run.leftError(ctx)
		}
	}
	return p.v, p.err
}

// Then has f called with the result, once, on the goroutine of the client's callbacks: one after the other,
// in the order in which operations are answered and watches fire, also where a result takes a while to be
// unpacked. f may use the client, but not close it. It should not block, since it delays the other callbacks
// (and nothing else). Callbacks whose operations have ended run before Close returns. A panic in f ends the
// process; runtime.Goexit (t.FailNow) ends f, and the next callback follows. A nil f is not called.
func (p *Pending[T]) Then(f func(T, error)) {
	if f == nil || p.done == nil {
		return
	}
	p.mu.Lock()
	ended := p.ended
	if !ended {
		p.then = append(p.then, f)
	}
	p.mu.Unlock()
	if ended {
		p.desk.callbacks.put(func() { f(p.v, p.err) })
	}
}

// claim is true for the first caller, which completes.
func (p *Pending[T]) claim() bool { return p.claimed.CompareAndSwap(false, true) }

func (p *Pending[T]) complete(v T, err error) {
	p.v, p.err = v, err
	p.mu.Lock()
	p.ended = true
	then, stop := p.then, p.stop
	p.then, p.stop = nil, nil
	// Under the lock, so that a later Then is called later; put and fill do not block.
	calls := make([]func(), 0, len(then))
	for _, f := range then {
		calls = append(calls, func() { f(v, err) })
	}
	if p.kept {
		p.desk.callbacks.fill(p.place, calls...)
	} else {
		p.desk.callbacks.put(calls...)
	}
	p.kept = false
	close(p.done)
	p.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// keep takes the callbacks' place in the order at the time of the answer: the result may take a while.
func (p *Pending[T]) keep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.place, p.kept = p.desk.callbacks.keep(), true
	}
}

// pass gives the place up, if there is no result yet.
func (p *Pending[T]) pass() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept {
		p.kept = false
		p.desk.callbacks.fill(p.place)
	}
}

// watch keeps the function that stops watching the context.
func (p *Pending[T]) watch(stop func() bool) {
	p.mu.Lock()
	ended := p.ended
	if !ended {
		p.stop = stop
	}
	p.mu.Unlock()
	if ended {
		stop()
	}
}

package framework

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/go-curator/curator/internal/wire"
)

// Pending is the result of an operation in the background, now or later. Its methods may be called from any goroutine, any number of times.
//
// The request is queued before the ForPath that returned the Pending did: the server executes the requests that one goroutine queues in
// their order. (When an operation takes further steps, because a parent is missing or a node has children, those come behind whatever was
// queued meanwhile.) There is one attempt: a lost connection is an error, ErrConnectionLoss or ErrNotConnected, and the retry policy is not
// asked. Protected creates and guaranteed deletes are looked after all the same.
//
// The context given to ForPath bounds the operation: when it ends, so does the operation, as in the foreground.
//
// Corresponds to Curator's inBackground, BackgroundCallback and CuratorEvent.
type Pending[T any] struct {
	ops  *ops
	done chan struct{}
	left func(context.Context) error // the error of whoever stops waiting

	claimed atomic.Bool // by whoever decides the result

	mu    sync.Mutex
	then  []func(T, error) // guarded by mu
	ended bool             // guarded by mu
	stop  func() bool      // ends the watch over the context; guarded by mu

	v   T     // immutable once done is closed
	err error // as v
}

// Done is closed when the result is there.
func (p *Pending[T]) Done() <-chan struct{} { return p.done }

// Wait waits for the result, or for the end of ctx, which ends the waiting and not the operation.
func (p *Pending[T]) Wait(ctx context.Context) (T, error) {
	var none T
	if ctx == nil {
		return none, ErrNilContext
	}
	select {
	case <-p.done:
		return p.v, p.err
	default:
	}
	select {
	case <-p.done:
		return p.v, p.err
	case <-ctx.Done():
		return none, p.left(ctx)
	}
}

// Then has f called with the result, once, on the goroutine of the client's callbacks: one after the other, in the order in which operations
// end and watches fire. f may use the client, but not close it, and it should not block, since it delays the other callbacks. Callbacks
// whose operations have ended run before Close returns.
func (p *Pending[T]) Then(f func(T, error)) {
	p.mu.Lock()
	ended := p.ended
	if !ended {
		p.then = append(p.then, f)
	}
	p.mu.Unlock()
	if ended {
		p.ops.callbacks.put(func() { f(p.v, p.err) })
	}
}

// claim is true for the first who asks: he completes.
func (p *Pending[T]) claim() bool { return p.claimed.CompareAndSwap(false, true) }

func (p *Pending[T]) complete(v T, err error) {
	p.v, p.err = v, err
	p.mu.Lock()
	p.ended = true
	then, stop := p.then, p.stop
	p.then, p.stop = nil, nil
	// Inside the lock, so that a Then that comes later stays behind; mailboxes do not block.
	for _, f := range then {
		p.ops.callbacks.put(func() { f(v, err) })
	}
	close(p.done)
	p.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// watch keeps the function that ends the watch over the context.
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

// background queues an operation's first frame and returns.
func background[T any](ctx context.Context, c *Client, o *operation[T]) *Pending[T] {
	var none T
	p := &Pending[T]{ops: c.core.ops, done: make(chan struct{})}
	p.left = func(ctx context.Context) error { return opError(o.name, o.path, c.core.explain(leftBy(ctx, true))) }
	if ctx == nil {
		o.fault = ErrNilContext
	}
	if o.fault != nil {
		p.complete(none, opError(o.name, o.path, o.fault))
		return p
	}
	o.observe(ctx, c, true)
	err := checkContext(ctx)
	var e *epoch
	if err == nil {
		e, err = c.epochOf()
	}
	if err != nil {
		o.complete(p, none, o.failed(c, err))
		return p
	}

	o.seen.try(e)
	call, late := c.expiring(o.call(e)), o.leaving(e)
	call.Done = func(r wire.Reply) {
		if !p.claim() {
			o.undone()
			late.arrived(r)
			return
		}
		if errors.Is(r.Err, wire.ErrNotSent) && ctx.Err() != nil {
			o.undone()
			o.complete(p, none, o.failed(c, leftBy(ctx, false)))
			return
		}
		v, err := o.finish(e, r)
		switch {
		case err == nil:
			o.complete(p, v, nil)
		case o.wanted(err), o.recover != nil && o.unknown != nil && e.ctx.Err() == nil:
			p.ops.workers.spawn(func() {
				if o.wanted(err) {
					v, err = o.goOn(ctx, c, e, err)
				}
				if err != nil && o.recover != nil && o.unknown != nil && ctx.Err() == nil {
					o.seen.try(e)
					v, err = o.try(ctx, c, e)
				}
				if err != nil {
					v, err = none, o.failed(c, err)
				}
				o.complete(p, v, err)
			})
		default:
			v, err = none, o.failed(c, err)
			if o.final != nil {
				v, err = o.final(v, err)
			}
			o.complete(p, v, err)
		}
	}
	e.wire.Submit(call)
	if ctx.Done() != nil {
		p.watch(context.AfterFunc(ctx, func() {
			if e.wire.Cancel(call, context.Cause(ctx)) {
				return // Done has it
			}
			late.expected()
			if !p.claim() { // Done had it
				late.unexpected()
				return
			}
			o.undone()
			o.complete(p, none, opError(o.name, o.path, c.core.explain(leftBy(ctx, true))))
		}))
	}
	return p
}

// complete ends an operation in the background.
func (o *operation[T]) complete(p *Pending[T], v T, err error) {
	o.seen.done(err)
	p.complete(v, err)
}

package framework

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/go-curator/curator/internal/apart"
	"github.com/go-curator/curator/internal/wire"
)

// Pending is the result of an operation in the background, now or later. Its methods may be called from any goroutine, any number of times.
//
// The request is queued before the ForPath that returned the Pending did: the server executes the requests that one goroutine queues in
// their order. (When an operation takes further steps, because a parent is missing or a node has children, those come behind whatever was
// queued meanwhile.) There is one attempt: a lost connection is an error, ErrConnectionLoss or ErrNotConnected, and the retry policy is not
// asked. Protected creates, guaranteed deletes and what is Idempotent are looked after all the same.
//
// The context given to ForPath bounds the operation: when it ends, so does the operation, as in the foreground.
//
// Answers that have to be unpacked, and operations whose end hooks are told, are seen to one after the other on a goroutine for that alone: a compression
// provider or a hook that takes its time delays those behind it, and no other result, let alone the session.
//
// Corresponds to Curator's inBackground, BackgroundCallback and CuratorEvent.
type Pending[T any] struct {
	desk *desk
	done chan struct{}
	left func(context.Context) error // the error of whoever stops waiting

	claimed atomic.Bool // by whoever decides the result

	mu    sync.Mutex
	then  []func(T, error) // guarded by mu
	kept  bool             // there is a place for them among the callbacks; guarded by mu
	place int              // and this is it; guarded by mu
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
	switch {
	case ctx == nil:
		return none, ErrNilContext
	case p.done == nil:
		return none, ErrNoClient
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
// are answered and watches fire, also where a result takes a while to be unpacked. f may use the client, but not close it, and it should not block, since it delays the other callbacks (and nothing else). Callbacks
// whose operations have ended run before Close returns. A panic in f ends the process; runtime.Goexit (t.FailNow) ends f, and the next callback follows.
// A nil f is not called.
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

// claim is true for the first who asks: he completes.
func (p *Pending[T]) claim() bool { return p.claimed.CompareAndSwap(false, true) }

func (p *Pending[T]) complete(v T, err error) {
	p.v, p.err = v, err
	p.mu.Lock()
	p.ended = true
	then, stop := p.then, p.stop
	p.then, p.stop = nil, nil
	// Inside the lock, so that a Then that comes later stays behind; mailboxes do not block.
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

// keep takes the place of the callbacks among those of the others, at the time of the answer: the result may take a while.
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
	p := &Pending[T]{desk: c.desk(), done: make(chan struct{})}
	p.left = func(ctx context.Context) error {
		return opError(o.name, o.path, c.core.explain(leftWaitingFor(ctx, o.write)))
	}
	if ctx == nil {
		o.fault = ErrNilContext
	}
	if c.none() {
		o.fault = ErrNoClient
	}
	if o.fault != nil {
		p.complete(none, opError(o.name, o.path, o.fault))
		return p
	}
	begun := false
	defer func() {
		if !begun { // a function of the user's has not returned
			o.undone()
			_ = o.failed(c, apart.ErrNoReturn)
		}
	}()
	o.observe(ctx, c, true)
	err := checkContext(ctx)
	var e *epoch
	if err == nil {
		e, err = c.epochOf()
	}
	if err != nil {
		begun = true
		o.complete(p, none, o.failed(c, err))
		return p
	}

	o.seen.try(e)
	call, late := c.expiring(o.call(e)), o.leaving(e)
	begun = true
	call.Done = func(r wire.Reply) {
		if o.seen == nil && !o.lengthy {
			o.arrived(ctx, c, p, e, late, r)
			return
		}
		// This is where answers and pings are read, while hooks and providers take what time they like.
		p.keep()
		p.desk.results.put(func() {
			defer p.pass()
			o.arrived(ctx, c, p, e, late, r)
		})
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
			o.complete(p, none, p.left(ctx))
		}))
	}
	return p
}

// another says whether the background has another try for an unknown outcome: the one that finds out about it.
func (o *operation[T]) another() bool { return (o.recover != nil || o.again) && o.unknown != nil }

// arrived takes the answer to the first frame, unless the context has ended before.
func (o *operation[T]) arrived(ctx context.Context, c *Client, p *Pending[T], e *epoch, late *latecomer, r wire.Reply) {
	if p.claim() {
		o.answered(ctx, c, p, e, r)
		return
	}
	o.undone()
	late.arrived(r)
}

// answered goes on with the answer to the first frame. Nobody else decides the result any more.
func (o *operation[T]) answered(ctx context.Context, c *Client, p *Pending[T], e *epoch, r wire.Reply) {
	o.settle(c, p, func() (v T, settled bool, err error) {
		if errors.Is(r.Err, wire.ErrNotSent) && ctx.Err() != nil {
			o.undone()
			return v, true, o.failed(c, leftBy(ctx, false))
		}
		v, err = o.finish(e, r)
		switch {
		case err == nil:
			return v, true, nil
		case o.wanted(err), o.another() && e.ctx.Err() == nil:
			refused := err
			c.core.ops.workers.spawn(func() { o.takeFurther(ctx, c, p, e, refused) })
			return v, false, nil
		}
		var none T
		return none, true, o.failed(c, err)
	})
}

// takeFurther does what is left to do after an error in the answer to the first frame.
func (o *operation[T]) takeFurther(ctx context.Context, c *Client, p *Pending[T], e *epoch, err error) {
	o.settle(c, p, func() (v T, settled bool, _ error) {
		if o.wanted(err) {
			v, err = o.goOn(ctx, c, e, err)
		}
		if err != nil && o.another() && ctx.Err() == nil {
			o.seen.try(e)
			v, err = o.try(ctx, c, e)
		}
		if err != nil {
			var none T
			return none, true, o.failed(c, err)
		}
		return v, true, nil
	})
}

// settle completes p as decide says, if that has settled it, and also if a function of the user's does not return from it.
func (o *operation[T]) settle(c *Client, p *Pending[T], decide func() (v T, settled bool, err error)) {
	v, settled, err, returned := *new(T), true, apart.ErrNoReturn, false
	defer func() {
		if !returned {
			o.undone()
			err = o.failed(c, err)
		}
		if settled {
			o.complete(p, v, err)
		}
	}()
	v, settled, err = decide()
	returned = true
}

// complete ends an operation in the background.
func (o *operation[T]) complete(p *Pending[T], v T, err error) {
	if o.final != nil {
		v, err = o.final(v, err)
	}
	defer p.complete(v, err) // also if the hook does not return
	o.seen.done(err)
}

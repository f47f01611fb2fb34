package framework

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/go-curator/curator/internal/apart"
	"github.com/go-curator/curator/internal/wire"
)

// Background is a builder whose ForPath queues the request and does not wait. B is the foreground builder, T
// its result.
type Background[B interface {
	operation(path string) *operation[T]
}, T any] struct {
	b    B
	most int // with Shared; else 0
}

// ForPath queues the request.
func (b Background[B, T]) ForPath(ctx context.Context, path string) *Pending[T] {
	o := b.b.operation(path)
	o.most = b.most
	return background(ctx, o)
}

// BackgroundWithData is [Background] for operations that write data.
type BackgroundWithData[B interface {
	operation(path string, data []byte) *operation[T]
}, T any] struct{ b B }

// ForPath queues the request. data must not be changed until the [Pending] is done.
func (b BackgroundWithData[B, T]) ForPath(ctx context.Context, path string, data []byte) *Pending[T] {
	return background(ctx, b.b.operation(path, data))
}

// background queues an operation's first request and returns.
func background[T any](ctx context.Context, o *operation[T]) *Pending[T] {
	var none T
	q := &queued[T]{ctx: ctx}
	r, p := &q.run, &q.Pending
	p.desk = o.c.desk()
	err := r.begin(ctx, o, true)
	if err != nil {
		p.complete(none, err)
		return p
	}
	p.run = r
	if o.most > 0 && q.rides(ctx) {
		return p
	}
	begun := false
	defer func() {
		if !begun { // a user function did not return
			r.abort()
		}
	}()
	if err = r.observe(ctx); err == nil && !r.entered {
		err = r.enter()
	}
	if err == nil {
		err = q.admit()
	}
	if err != nil {
		err, begun = r.fail(err), true
		r.complete(p, none, err)
		return p
	}

	call := r.prepare()
	begun = true
	call.Done = q.answered
	e := r.e
	e.wire.Submit(call)
	if ctx.Done() != nil {
		p.watch(context.AfterFunc(ctx, func() {
			if !e.wire.Cancel(call, context.Cause(ctx)) { // else Done gets the answer
				r.leave(ctx, p)
			}
		}))
	}
	return p
}

// queued is an operation in the background. It is one object, since there may be many.
type queued[T any] struct {
	Pending[T]
	run run[T]
	ctx context.Context // as given to ForPath
}

// answered is the first request's Done function.
func (q *queued[T]) answered(reply wire.Reply) {
	r, p := &q.run, &q.Pending
	if r.counted {
		r.c.core.ops.queued.Add(-1)
	}
	if r.end == nil && !r.lengthy {
		r.arrived(q.ctx, p, reply)
		return
	}
	// This goroutine reads answers and pings, while hooks and providers may take long.
	p.keep()
	p.desk.results.put(func() {
		defer p.pass()
		r.arrived(q.ctx, p, reply)
	})
}

// leave ends an operation whose context has ended while its first request was in flight.
func (r *run[T]) leave(ctx context.Context, p *Pending[T]) {
	r.expect(1)
	if p.claimed.CompareAndSwap(false, true) {
		r.disarm()
		r.complete(p, *new(T), r.leftError(ctx))
	} else { // the reply has come
		r.expect(-1)
	}
}

// leftError is the error of a caller that stops waiting for an operation in the background.
func (r *run[T]) leftError(ctx context.Context) error {
	return opError(r.name, r.path, r.c.core.explain(leftWaitingFor(ctx, r.write)))
}

// arrived continues with the answer to the first request, unless the context has ended before.
func (r *run[T]) arrived(ctx context.Context, p *Pending[T], reply wire.Reply) {
	if !p.claimed.CompareAndSwap(false, true) {
		r.disarm()
		r.late(reply)
		return
	}
	r.settle(p, func() (_ T, _ error, settled bool) {
		if errors.Is(reply.Err, wire.ErrNotSent) && ctx.Err() != nil {
			r.disarm()
			return *new(T), r.fail(leftBy(ctx)), true
		}
		v, err := r.judge(reply)
		if err == nil {
			return v, nil, true
		}
		what := r.decide(err, r.stepAfter(err), 1)
		if what == giveUp || what == tryAgain && r.e.ctx.Err() != nil {
			return v, r.fail(err), true
		}
		r.c.core.ops.workers.spawn(func() { r.carryOn(ctx, p, v, err) })
		return v, nil, false
	})
}

// carryOn takes the steps after the first reply. It runs on a separate goroutine.
func (r *run[T]) carryOn(ctx context.Context, p *Pending[T], v T, err error) {
	r.settle(p, func() (T, error, bool) {
		v, err := r.goOn(ctx, v, err)
		if err != nil && r.decide(err, nil, 0) == tryAgain && ctx.Err() == nil {
			r.tries++
			v, err = r.try(ctx)
		}
		if err != nil {
			err = r.fail(err)
		}
		return v, err, true
	})
}

// settle completes p with the result of decide if that is settled. If decide does not return, because a user function
// does not, it completes p with apart.ErrNoReturn.
func (r *run[T]) settle(p *Pending[T], decide func() (v T, err error, settled bool)) {
	v, err, settled, returned := *new(T), error(nil), true, false
	defer func() {
		if !returned {
			r.disarm()
			err = r.fail(apart.ErrNoReturn)
		}
		if settled {
			r.complete(p, v, err)
		}
	}()
	v, err, settled = decide()
	returned = true
}

func (r *run[T]) complete(p *Pending[T], v T, err error) {
	if r.entered {
		r.leaveLane()
	}
	defer p.complete(v, err) // also if the hook does not return
	if r.end != nil {
		r.done(err)
	}
}

// Pending is the future result of a background operation. Its methods may be called from any goroutine, any number of
// times.
//
// The request is queued before ForPath returns the Pending: the server executes the requests that one goroutine queues
// in their order. (If an operation takes further steps, because a parent is missing or a node has children, those come
// after the requests queued in the meantime.) There is one attempt: a lost connection is an error, ErrConnectionLoss or
// ErrNotConnected, and the request is not retried. Protected creates, guaranteed deletes and Idempotent operations keep
// their promises all the same. How many there can be at a time is limited: see [ErrBackgroundFull].
//
// The context given to ForPath bounds the operation: when it ends, so does the operation, as in the
// foreground.
//
// Two kinds of answers are handled one after the other, on a separate goroutine: compressed data, and the ends of
// operations that are reported to [Hooks]. A slow compression provider or hook delays the next of them, but no other
// result and not the session. Corresponds to Curator's inBackground, BackgroundCallback and CuratorEvent.
type Pending[T any] struct {
	desk *desk                                         // nil in the zero value
	run  interface{ leftError(context.Context) error } // nil if nothing was sent

	claimed atomic.Bool // set by the goroutine that decides the result

	mu    sync.Mutex
	then  []follower[T] // guarded by mu
	place int           // guarded by mu
	kept  bool          // the functions in then have a place among the callbacks; guarded by mu
	ended bool          // guarded by mu
	done  chan struct{} // closed when the operation has ended; nil until a goroutine waits; guarded by mu
	stop  func() bool   // stops watching the context; guarded by mu

	v   T     // immutable once ended is set
	err error // like v
}

// follower is a function that is called with a result.
type follower[T any] struct {
	call   func(T, error)
	failed bool // only if it is an error
}

// Done returns a channel that is closed when the operation has ended.
func (p *Pending[T]) Done() <-chan struct{} {
	if p.desk == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.done != nil:
	case p.ended:
		return closedChannel
	default:
		p.done = make(chan struct{})
	}
	return p.done
}

// Ended reports whether the operation has ended, so that Wait returns immediately.
func (p *Pending[T]) Ended() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// Wait waits for the result. The end of ctx ends the wait, not the operation.
func (p *Pending[T]) Wait(ctx context.Context) (T, error) {
	var none T
	switch {
	case ctx == nil:
		return none, ErrNilContext
	case p.desk == nil:
		return none, ErrNoClient
	}
	done := p.Done()
	select {
	case <-done:
	case <-ctx.Done():
		select {
		case <-done:
		default:
			return none, p.run.leftError(ctx)
		}
	}
	return p.v, p.err
}

// Then makes the client call f with the result, once, on the client's callback goroutine. Callbacks run one after the
// other, in the order in which operations are answered and watches fire, even if a result takes a while to decompress.
//
// f may use the client, but must not close it. f should not block, since it delays the other callbacks (and
// nothing else). Callbacks of operations that have ended run before Close returns. A panic in f ends the
// process; runtime.Goexit (t.FailNow) ends f, and the next callback follows. A nil f is not called.
func (p *Pending[T]) Then(f func(T, error)) {
	if f != nil {
		p.follow(follower[T]{call: f})
	}
}

// IfFailed is Then for a function that is called only if the operation fails. A success costs no callback.
func (p *Pending[T]) IfFailed(f func(error)) {
	if f != nil {
		p.follow(follower[T]{func(_ T, err error) { f(err) }, true})
	}
}

func (p *Pending[T]) follow(f follower[T]) {
	if p.desk == nil {
		return
	}
	p.mu.Lock()
	ended := p.ended
	if !ended {
		p.then = append(p.then, f)
	}
	p.mu.Unlock()
	if ended && f.wants(p.err) {
		p.desk.callbacks.put(func() { f.call(p.v, p.err) })
	}
}

func (f follower[T]) wants(err error) bool { return !f.failed || err != nil }

func (p *Pending[T]) complete(v T, err error) {
	p.v, p.err = v, err
	p.mu.Lock()
	p.ended = true
	then, stop := p.then, p.stop
	p.then, p.stop = nil, nil
	// Under the lock, so that the f of a later Then is called later; put and fill do not block.
	calls := make([]func(), 0, len(then))
	for _, f := range then {
		if f.wants(err) {
			calls = append(calls, func() { f.call(v, err) })
		}
	}
	switch {
	case p.kept:
		p.desk.callbacks.fill(p.place, calls...)
	case len(calls) > 0:
		p.desk.callbacks.put(calls...)
	}
	p.kept = false
	if p.done != nil {
		close(p.done)
	}
	p.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// keep reserves the callbacks' place in the order when the answer arrives: the result may take a while.
func (p *Pending[T]) keep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.place, p.kept = p.desk.callbacks.keep(), true
	}
}

// pass frees the reserved place if there is no result yet.
func (p *Pending[T]) pass() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept {
		p.kept = false
		p.desk.callbacks.fill(p.place)
	}
}

// watch stores the function that stops watching the context.
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

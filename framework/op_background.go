package framework

import (
	"context"
	"errors"

	"github.com/go-curator/curator/internal/apart"
	"github.com/go-curator/curator/internal/wire"
)

// Background is a builder whose terminal queues the request and does not wait. B is the builder, T its
// result.
type Background[B interface {
	client() *Client
	operation(path string) *operation[T]
}, T any] struct{ b B }

// ForPath queues the request.
func (b Background[B, T]) ForPath(ctx context.Context, path string) *Pending[T] {
	return background(ctx, b.b.client(), b.b.operation(path))
}

// BackgroundWithData is [Background] for operations that write data.
type BackgroundWithData[B interface {
	client() *Client
	operation(path string, data []byte) *operation[T]
}, T any] struct{ b B }

// ForPath queues the request. data must not be changed until it is done.
func (b BackgroundWithData[B, T]) ForPath(ctx context.Context, path string, data []byte) *Pending[T] {
	return background(ctx, b.b.client(), b.b.operation(path, data))
}

// BackgroundForEnsemble is [Background] for operations without a path.
type BackgroundForEnsemble[B interface {
	client() *Client
	operation() *operation[T]
}, T any] struct{ b B }

// ForEnsemble queues the request.
func (b BackgroundForEnsemble[B, T]) ForEnsemble(ctx context.Context) *Pending[T] {
	return background(ctx, b.b.client(), b.b.operation())
}

// background queues an operation's first request and returns.
func background[T any](ctx context.Context, c *Client, o *operation[T]) *Pending[T] {
	var none T
	p := &Pending[T]{desk: c.desk(), done: make(chan struct{})}
	r, err := begin(ctx, c, o, true)
	if err != nil {
		p.complete(none, err)
		return p
	}
	p.run = r
	begun := false
	defer func() {
		if !begun { // a function of the user's did not return
			r.abort()
		}
	}()
	r.observe(ctx)
	if err = checkContext(ctx); err == nil {
		err = r.enter()
	}
	if err != nil {
		err, begun = r.fail(err), true
		r.complete(p, none, err)
		return p
	}

	r.tries++
	r.seen.try(r.e)
	call := r.prepare()
	begun = true
	call.Done = func(reply wire.Reply) {
		if r.seen == nil && !r.lengthy {
			r.arrived(ctx, p, reply)
			return
		}
		// This is where answers and pings are read, while hooks and providers take what time they like.
		p.keep()
		p.desk.results.put(func() {
			defer p.pass()
			r.arrived(ctx, p, reply)
		})
	}
	e := r.e
	e.wire.Submit(call)
	if ctx.Done() != nil {
		p.watch(context.AfterFunc(ctx, func() {
			if !e.wire.Cancel(call, context.Cause(ctx)) { // else Done has the answer
				r.leave(ctx, p)
			}
		}))
	}
	return p
}

// leave ends an operation whose context has ended while its first request was under way.
func (r *run[T]) leave(ctx context.Context, p *Pending[T]) {
	r.expect(1)
	if p.claim() {
		r.watch.disarm()
		r.complete(p, *new(T), r.leftError(ctx))
	} else { // the answer is there
		r.expect(-1)
	}
}

// leftError is the error of a caller that stops waiting for an operation in the background.
func (r *run[T]) leftError(ctx context.Context) error {
	return opError(r.name, r.path, r.c.core.explain(leftWaitingFor(ctx, r.write)))
}

// arrived takes the answer to the first request, unless the context has ended before.
func (r *run[T]) arrived(ctx context.Context, p *Pending[T], reply wire.Reply) {
	if p.claim() {
		r.settle(p, func() (T, error, bool) { return r.answered(ctx, p, reply) })
		return
	}
	r.watch.disarm()
	r.late(reply)
}

// answered goes on with the answer to the first request. settled is false if a goroutine carries on.
func (r *run[T]) answered(ctx context.Context, p *Pending[T], reply wire.Reply) (_ T, _ error, settled bool) {
	if errors.Is(reply.Err, wire.ErrNotSent) && ctx.Err() != nil {
		r.watch.disarm()
		return *new(T), r.fail(leftBy(ctx, false)), true
	}
	v, err := r.judge(reply)
	if err == nil {
		return v, nil, true
	}
	what := r.decide(err, r.stepAfter(err), 1)
	if what == giveUp || what == tryAgain && r.e.ctx.Err() != nil {
		return v, r.fail(err), true
	}
	r.c.core.ops.workers.spawn(func() {
		r.settle(p, func() (T, error, bool) {
			v, err := r.goOn(ctx, v, err)
			if err != nil && r.decide(err, nil, 0) == tryAgain && ctx.Err() == nil {
				v, err = r.try(ctx)
			}
			if err != nil {
				err = r.fail(err)
			}
			return v, err, true
		})
	})
	return v, nil, false
}

// settle completes p as decide says, if it is settled then, and also if a function of the user's does not
// return.
func (r *run[T]) settle(p *Pending[T], decide func() (v T, err error, settled bool)) {
	v, err, settled, returned := *new(T), error(nil), true, false
	defer func() {
		if !returned {
			r.watch.disarm()
			err = r.fail(apart.ErrNoReturn)
		}
		if settled {
			r.complete(p, v, err)
		}
	}()
	v, err, settled = decide()
	returned = true
}

// complete ends an operation in the background.
func (r *run[T]) complete(p *Pending[T], v T, err error) {
	defer p.complete(v, err) // also if the hook does not return
	r.seen.done(err)
}

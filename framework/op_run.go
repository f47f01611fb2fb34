package framework

import (
	"context"
	"errors"
	"fmt"

	"github.com/cenkalti/backoff/v4"

	"github.com/go-curator/curator/internal/apart"
	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/retry"
)

// run is the execution of an operation. The foreground executes it on the caller's goroutine and repeats it as the
// retry policy says. The background queues the first request and returns. If the reply does not settle the operation, a
// goroutine of the client continues it.
type run[T any] struct {
	*operation[T]
	end     func(OperationEnd) // reports the end to the hooks; nil if there are none
	e       *epoch             // the epoch of the current try
	unknown *epoch             // the epoch in which a try had an unknown outcome, or nil
	before  int64              // the highest zxid known before the first request of a write; -1 until set
	first   *epoch             // the epoch of that request
	tries   int
	v       T // the result of the last try in the foreground

	background bool
	told       bool // end has been called, and may not have returned
	cut        bool // the server has closed the connection because of the request
	left       bool // the caller left while the request was in flight: the debt gets the answer
	counted    bool // for the limit of those in the background
	entered    bool // its request is in a lane
	decoded    *any // its answer, decoded for all who share it; nil if none do
}

// begin makes r the run of an operation. If nothing can be sent, it returns an error.
func (r *run[T]) begin(ctx context.Context, o *operation[T], background bool) error {
	if ctx == nil {
		o.fault = ErrNilContext
	}
	if o.c.none() {
		o.fault = ErrNoClient
	}
	if o.fault != nil {
		return opError(o.name, o.path, o.fault)
	}
	r.operation, r.background, r.before = o, background, -1
	return nil
}

// foreground runs an operation until it has a result or ctx ends.
func foreground[T any](ctx context.Context, o *operation[T]) (v T, err error) {
	r := &run[T]{}
	if err = r.begin(ctx, o, false); err != nil {
		return v, err
	}
	ended := false
	defer func() {
		if !ended { // a user function did not return
			r.abort()
		}
	}()
	if err = r.observe(ctx); err == nil {
		err = retry.Do(ctx, r.c.policy(), r.attempt, r.c.core.retries...)
	}
	if err != nil {
		err = r.fail(err)
	}
	r.done(err)
	ended = true
	return r.v, err
}

// attempt makes a try in the foreground. It marks an error that ends the tries, unless it is marked already: only one
// mark is removed.
func (r *run[T]) attempt(ctx context.Context) (err error) {
	if err = r.enter(); err == nil {
		r.v, err = r.try(ctx)
	}
	var marked *backoff.PermanentError
	if err == nil || errors.As(err, &marked) || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return err // if ctx has ended, the loop adds that and the cause
	}
	if r.decide(err, nil, 0) != tryAgain {
		return retry.Permanent(err)
	}
	return err
}

// observe reports the beginning of the operation to the hooks. It returns an error if ctx has ended.
func (r *run[T]) observe(ctx context.Context) error {
	if observer := r.c.core.cfg.observer; len(observer) > 0 {
		op := Operation{Name: r.name, Path: r.path, Background: r.background}
		r.end = observer.operation(ctx, op)
	}
	return checkContext(ctx)
}

// enter begins another try, in the now current session.
func (r *run[T]) enter() error {
	e, err := r.c.epochOf()
	if err == nil {
		r.e = e
		r.tries++
	}
	return err
}

func (r *run[T]) try(ctx context.Context) (v T, err error) {
	if r.unknown != nil && r.doubt == doubtSearches {
		v, done, err := r.debt.recover(ctx, r)
		if err != nil || done {
			return v, err
		}
		r.unknown = nil
	}
	v, err = r.send(ctx)
	return r.goOn(ctx, v, err)
}

// goOn takes the steps that follow from the answer to the first request of a try.
func (r *run[T]) goOn(ctx context.Context, v T, err error) (T, error) {
	for steps := 1; err != nil; steps++ {
		step := r.stepAfter(err)
		if r.decide(err, step, steps) != takeStep {
			break
		}
		next, again, failed := step(ctx, r)
		switch {
		case failed != nil && errors.Is(failed, err): // the step did not help
			return v, failed
		case failed != nil || !again:
			return next, failed
		}
		v, err = r.send(ctx)
	}
	return v, err
}

// send sends the request once, waits for the answer and judges it.
func (r *run[T]) send(ctx context.Context) (v T, err error) {
	reply, left, err := await(ctx, r.e, r.prepare(), r)
	if err != nil {
		r.left = left
		r.disarm()
		return v, err
	}
	return r.judge(reply)
}

func (r *run[T]) prepare() *wire.Call {
	if r.write && r.before < 0 {
		r.before, r.first = r.e.wire.MaxZxid(), r.e
	}
	call := r.request(r.e)
	call.Patience = r.c.core.cfg.connectTimeout
	if r.watch != nil {
		r.watch.arm(r.e, call)
	}
	return call
}

func (r *run[T]) disarm() {
	if r.watch != nil {
		r.watch.disarm()
	}
}

func (r *run[T]) judge(reply wire.Reply) (v T, err error) {
	switch {
	case reply.Err == nil && reply.Code == jute.CodeOK:
		if r.decoded != nil {
			v, err = r.decodeOnce(reply)
		} else {
			v, err = r.decode(reply.Zxid, reply.Body)
		}
	case r.write:
		err = replyError(reply)
	default:
		err = readError(reply)
	}
	if r.empty != nil && errors.Is(err, ErrNoNode) && r.stepAfter(err) == nil {
		v, err = *r.empty, nil
	}
	if err != nil {
		r.disarm()
		v, err = r.doubted(v, err)
	}
	if r.debt != nil {
		r.debt.answered(err)
	}
	return v, err
}

// doubted records that an outcome is unknown, and marks an error that may be due to the success of an earlier try.
func (r *run[T]) doubted(v T, err error) (T, error) {
	var cut *cutOffError
	if errors.As(err, &cut) {
		cut.final = cut.final || r.cut
		r.cut = true
	}
	if errors.Is(err, ErrOutcomeUnknown) {
		if r.write {
			r.unknown = r.e
		}
	} else if r.unknown != nil && r.doubt != doubtSearches {
		for _, a := range r.ambiguous {
			if errors.Is(err, a) {
				return *new(T), &ambiguousError{a, err}
			}
		}
	}
	return v, err
}

// older reports whether a transaction that was read after the refusal of a repeat precedes every try of this call. If
// it created a node, the node existed throughout the call; if it changed it last, no try has changed it. So no try was
// executed, and none will be:
//
//  1. Every try has a larger zxid than all that was known before the first.
//  2. The servers ignore requests of a session from its earlier connections, so the fate of each try is final before
//     the repeat is refused.
//  3. The refusal is a transaction, too, and the read shows the tree after it, at whatever member.
//
// In a later session it reports false: a try of an earlier session that could not be closed may still be executed.
func (r *run[T]) older(zxid int64) bool { return zxid <= r.before && r.e == r.first }

// anew resets the doubt after proof that no try was executed, so that the request is sent again and the server's own
// reply counts.
func (r *run[T]) anew() (v T, again bool, _ error) {
	r.unknown = nil
	return v, true, nil
}

// stepAfter returns the step that may help after an error, or nil.
func (r *run[T]) stepAfter(err error) step[T] {
	switch {
	case r.root && r.path == "/" && r.c.view.namespace != "" && errors.Is(err, ErrNoNode):
		return func(ctx context.Context, r *run[T]) (v T, again bool, _ error) {
			_, err := r.c.root(ctx, r.e)
			return v, err == nil, err
		}
	}
	return r.after(err)
}

// decide returns the reaction to err; step is the step for it, or nil.
func (r *run[T]) decide(err error, step step[T], steps int) decision {
	return situation{
		class: classOf(err), helps: step != nil, steps: steps, policy: r.doubt,
		unknown: r.unknown != nil, pinned: r.c.view.epoch != nil, background: r.background, tries: r.tries,
	}.decide()
}

// fail makes the final error of an operation that ends with err.
func (r *run[T]) fail(err error) error {
	err = r.c.core.explain(err)
	if r.parent != "" {
		err = r.c.absent(err, r.parent)
	} else {
		err = r.c.absentAt(err, r.path)
	}
	if r.name == "create" && errors.Is(err, ErrNoNode) && !errors.Is(err, ErrNoChroot) {
		err = missingParent(r.path, err)
	}
	if r.unknown != nil && !errors.Is(err, ErrOutcomeUnknown) && unfinished(err) {
		err = fmt.Errorf("%w; an earlier try ended with: %w", err, ErrConnectionLoss)
	}
	if r.debt != nil {
		err = r.debt.failed(err, r.left)
	}
	return opError(r.name, r.path, err)
}

// abort ends an operation after a user function has ended its goroutine. It does not report the end if the end was just
// being reported.
func (r *run[T]) abort() {
	if r.entered {
		r.leaveLane()
	}
	r.disarm()
	if !r.told {
		r.done(r.fail(apart.ErrNoReturn))
	}
}

// done reports the end of the operation to the hooks.
func (r *run[T]) done(err error) {
	if r.end == nil {
		return
	}
	how := OperationEnd{Err: err, Attempts: r.tries}
	if r.e != nil {
		how.Epoch = r.e.n
	}
	r.told = true
	r.end(how)
}

func (r *run[T]) expect(more int) {
	if r.debt != nil {
		r.c.core.ops.cleanups.expect(more)
	}
}

func (r *run[T]) late(reply wire.Reply) {
	if r.debt != nil {
		r.debt.late(reply)
		r.expect(-1)
	}
}

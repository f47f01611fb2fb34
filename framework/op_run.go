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

// initialize makes r the run of an operation. If nothing can be sent, it returns an error.
func (r *operationRun[T]) initialize(ctx context.Context, o *operation[T], background bool) error {
	if ctx == nil {
		o.fault = ErrNilContext
	}
	if o.c.isZeroValue() {
		o.fault = ErrNoClient
	}
	if o.fault != nil {
		return wrapOpError(o.name, o.path, o.fault)
	}
	r.operation, r.background, r.before = o, background, -1
	return nil
}

// runForeground runs an operation until it has a result or ctx ends.
func runForeground[T any](ctx context.Context, o *operation[T]) (v T, err error) {
	r := &operationRun[T]{}
	if err = r.initialize(ctx, o, false); err != nil {
		return v, err
	}
	ended := false
	defer func() {
		if !ended { // a user function did not return
			r.abortRun()
		}
	}()
	if err = r.reportBegin(ctx); err == nil {
		err = retry.Do(ctx, r.c.retryPolicy(), r.foregroundAttempt, r.c.core.retries...)
	}
	if err != nil {
		err = r.finalError(err)
	}
	r.reportResult(err)
	ended = true
	return r.v, err
}

// foregroundAttempt makes a try in the foreground. It marks an error that ends the tries, unless it is marked
// already: only one mark is removed.
func (r *operationRun[T]) foregroundAttempt(ctx context.Context) (err error) {
	if err = r.beginTry(); err == nil {
		r.v, err = r.tryOnce(ctx)
	}
	var marked *backoff.PermanentError
	if err == nil || errors.As(err, &marked) || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return err // if ctx has ended, the loop adds that and the cause
	}
	if r.decideRetry(err, nil, 0) != tryAgain {
		return retry.Permanent(err)
	}
	return err
}

// reportBegin reports the beginning of the operation to the hooks. It returns an error if ctx has ended.
func (r *operationRun[T]) reportBegin(ctx context.Context) error {
	if observer := r.c.core.cfg.observer; len(observer) > 0 {
		op := Operation{Name: r.name, Path: r.path, Background: r.background}
		r.reportEnd = observer.reportOperation(ctx, op)
	}
	return checkContext(ctx)
}

// beginTry begins another try, in the now current session.
func (r *operationRun[T]) beginTry() error {
	e, err := r.c.operationEpoch()
	if err == nil {
		r.e = e
		r.tries++
	}
	return err
}

func (r *operationRun[T]) tryOnce(ctx context.Context) (v T, err error) {
	if r.unknown != nil && r.doubt == doubtSearches {
		v, done, err := r.leftovers.recoverOutcome(ctx, r)
		if err != nil || done {
			return v, err
		}
		r.unknown = nil
	}
	v, err = r.sendOnce(ctx)
	return r.takeSteps(ctx, v, err)
}

// takeSteps takes the steps that follow from the answer to the first request of a try.
func (r *operationRun[T]) takeSteps(ctx context.Context, v T, err error) (T, error) {
	for steps := 1; err != nil; steps++ {
		step := r.stepAfter(err)
		if r.decideRetry(err, step, steps) != takeStep {
			break
		}
		next, again, failed := step(ctx, r)
		switch {
		case failed != nil && errors.Is(failed, err): // the step did not help
			return v, failed
		case failed != nil || !again:
			return next, failed
		}
		v, err = r.sendOnce(ctx)
	}
	return v, err
}

// sendOnce sends the request once, waits for the answer and judges it.
func (r *operationRun[T]) sendOnce(ctx context.Context) (v T, err error) {
	reply, left, err := awaitReply(ctx, r.e, r.prepareCall(), r)
	if err != nil {
		r.abandoned = left
		r.disarmWatches()
		return v, err
	}
	return r.judgeReply(reply)
}

func (r *operationRun[T]) prepareCall() *wire.Call {
	if r.write && r.before < 0 {
		r.before, r.first = r.e.wire.MaxZxid(), r.e
	}
	call := r.newRequest(r.e)
	call.Patience = r.c.core.cfg.connectTimeout
	if r.watch != nil {
		r.watch.armWatches(r.e, call)
	}
	return call
}

func (r *operationRun[T]) disarmWatches() {
	if r.watch != nil {
		r.watch.disarmWatches()
	}
}

func (r *operationRun[T]) judgeReply(reply wire.Reply) (v T, err error) {
	switch {
	case reply.Err == nil && reply.Code == jute.CodeOK:
		if r.decoded != nil {
			v, err = r.decodeShared(reply)
		} else {
			v, err = r.decodeReply(reply.Zxid, reply.Body)
		}
	case r.write:
		err = replyError(reply)
	default:
		err = readReplyError(reply)
	}
	if r.empty != nil && errors.Is(err, ErrNoNode) && r.stepAfter(err) == nil {
		v, err = *r.empty, nil
	}
	if err != nil {
		r.disarmWatches()
		v, err = r.recordDoubt(v, err)
	}
	if r.leftovers != nil {
		r.leftovers.recordOutcome(err)
	}
	return v, err
}

// recordDoubt records that an outcome is unknown, and marks an error that may be due to the success of an earlier
// try.
func (r *operationRun[T]) recordDoubt(v T, err error) (T, error) {
	var cut *cutOffError
	if errors.As(err, &cut) {
		cut.final = cut.final || r.wasCutOff
		r.wasCutOff = true
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

// precedesTries reports whether a transaction that was read after the refusal of a repeat precedes every try of
// this call. If it created a node, the node existed throughout the call; if it changed it last, no try has changed
// it. So no try was executed, and none will be:
//
//  1. Every try has a larger zxid than all that was known before the first.
//  2. The servers ignore requests of a session from its earlier connections, so the fate of each try is final before
//     the repeat is refused.
//  3. The refusal is a transaction, too, and the read shows the tree after it, at whatever member.
//
// In a later session it reports false: a try of an earlier session that could not be closed may still be executed.
func (r *operationRun[T]) precedesTries(zxid int64) bool { return zxid <= r.before && r.e == r.first }

// resetDoubt resets the doubt after proof that no try was executed, so that the request is sent again and the
// server's own reply counts.
func (r *operationRun[T]) resetDoubt() (v T, again bool, _ error) {
	r.unknown = nil
	return v, true, nil
}

// stepAfter returns the step that may help after an error, or nil.
func (r *operationRun[T]) stepAfter(err error) recoveryStep[T] {
	if r.root && r.path == "/" && r.c.view.namespace != "" && errors.Is(err, ErrNoNode) {
		return func(ctx context.Context, r *operationRun[T]) (v T, again bool, _ error) {
			_, err := r.c.createRoot(ctx, r.e)
			return v, err == nil, err
		}
	}
	return r.recoveryAfter(err)
}

// decideRetry returns the reaction to err; step is the step for it, or nil.
func (r *operationRun[T]) decideRetry(err error, step recoveryStep[T], steps int) retryDecision {
	return retrySituation{
		class: classifyError(err), helps: step != nil, steps: steps, policy: r.doubt,
		unknown: r.unknown != nil, pinned: r.c.view.epoch != nil, background: r.background, tries: r.tries,
	}.decideRetry()
}

// finalError makes the final error of an operation that ends with err.
func (r *operationRun[T]) finalError(err error) error {
	err = r.c.core.explainWait(err)
	if r.parent != "" {
		err = r.c.addChrootHint(err, r.parent)
	} else {
		err = r.c.addChrootHintAt(err, r.path)
	}
	if r.name == "create" && errors.Is(err, ErrNoNode) && !errors.Is(err, ErrNoChroot) {
		err = missingParentError(r.path, err)
	}
	if r.unknown != nil && !errors.Is(err, ErrOutcomeUnknown) && isUnfinished(err) {
		err = fmt.Errorf("%w; an earlier try ended with: %w", err, ErrConnectionLoss)
	}
	if r.leftovers != nil {
		err = r.leftovers.settleFailure(err, r.abandoned)
	}
	return wrapOpError(r.name, r.path, err)
}

// abortRun ends an operation after a user function has ended its goroutine. It does not report the end if the end
// was just being reported.
func (r *operationRun[T]) abortRun() {
	if r.inSharedRead {
		r.leaveSharedRead()
	}
	r.disarmWatches()
	if !r.endReported {
		r.reportResult(r.finalError(apart.ErrNoReturn))
	}
}

// reportResult reports the end of the operation to the hooks.
func (r *operationRun[T]) reportResult(err error) {
	if r.reportEnd == nil {
		return
	}
	how := OperationEnd{Err: err, Attempts: r.tries}
	if r.e != nil {
		how.Epoch = r.e.number
	}
	r.endReported = true
	r.reportEnd(how)
}

func (r *operationRun[T]) expectLateReplies(more int) {
	if r.leftovers != nil {
		r.c.core.ops.cleanups.expectLateReplies(more)
	}
}

func (r *operationRun[T]) takeLateReply(reply wire.Reply) {
	if r.leftovers != nil {
		r.leftovers.takeLateReply(reply)
		r.expectLateReplies(-1)
	}
}

func (r *operationRun[T]) sharedReadKey() sharedReadKey {
	return sharedReadKey{r.name, r.c.view.prefix, r.path}
}

// leaveSharedRead is called when the operation's own request has ended, or is not sent after all.
func (r *operationRun[T]) leaveSharedRead() {
	r.inSharedRead = false
	r.e.sharedReads.finishRequest(r.e.wire, r.sharedReadKey())
}

// decodeShared decodes a shared answer for all sharers: a list of n names is not decoded n times.
func (r *operationRun[T]) decodeShared(reply wire.Reply) (v T, err error) {
	decoded := r.decoded
	r.decoded = nil
	v, known := (*decoded).(T)
	if !known {
		if v, err = r.decodeReply(reply.Zxid, reply.Body); err == nil {
			*decoded = v
		}
	}
	return v, err
}

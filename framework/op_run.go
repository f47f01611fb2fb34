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

// initialize makes r the run of an operation. It returns the error of invalid arguments.
func (r *operationRun[T]) initialize(ctx context.Context, o *operation[T], background bool) error {
	if ctx == nil {
		o.argumentError = ErrNilContext
	}
	if o.c.isZeroValue() {
		o.argumentError = ErrNoClient
	}
	if o.argumentError != nil {
		return wrapOpError(o.name, o.path, o.argumentError)
	}
	r.operation, r.background, r.zxidBefore = o, background, -1
	return nil
}

// runForeground executes an operation and returns its result. The end of ctx ends it.
func runForeground[T any](ctx context.Context, o *operation[T]) (v T, err error) {
	r := &operationRun[T]{}
	if err = r.initialize(ctx, o, false); err != nil {
		return v, err
	}
	ended := false
	defer func() {
		if !ended { // a user function has ended the goroutine
			r.abortRun()
		}
	}()
	if err = r.reportBegin(ctx); err == nil {
		err = retry.Do(ctx, r.c.retryPolicy(), r.foregroundAttempt, r.c.core.operationRetry...)
	}
	if err != nil {
		err = r.finalError(err)
	}
	r.reportResult(err)
	ended = true
	return r.result, err
}

// foregroundAttempt makes one try in the foreground, for retry.Do. An error that ends the tries gets the mark
// retry.Permanent, but not a second one, since retry.Do removes only one.
func (r *operationRun[T]) foregroundAttempt(ctx context.Context) (err error) {
	if err = r.beginTry(); err == nil {
		r.result, err = r.tryOnce(ctx)
	}
	var marked *backoff.PermanentError
	if err == nil || errors.As(err, &marked) || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return err // if ctx has ended, retry.Do adds that and the cause
	}
	if r.decideNext(err, nil, 0) != tryAgain {
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

// beginTry begins another try, in the session that is current now.
func (r *operationRun[T]) beginTry() error {
	e, err := r.c.operationEpoch()
	if err == nil {
		r.epoch = e
		r.tries++
	}
	return err
}

// tryOnce makes one try: it determines the outcome of an earlier try if necessary, sends the request, and takes the
// recovery steps.
func (r *operationRun[T]) tryOnce(ctx context.Context) (v T, err error) {
	if r.unknownIn != nil && r.unknownPolicy == unknownSearch {
		v, done, err := r.leftovers.recoverOutcome(ctx, r)
		if err != nil || done {
			return v, err
		}
		r.unknownIn = nil
	}
	v, err = r.sendOnce(ctx)
	return r.takeSteps(ctx, v, err)
}

// takeSteps takes the recovery steps after the first request of a try, which had the result v and err.
func (r *operationRun[T]) takeSteps(ctx context.Context, v T, err error) (T, error) {
	for stepNumber := 1; err != nil; stepNumber++ {
		step := r.stepAfter(err)
		if r.decideNext(err, step, stepNumber) != takeStep {
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

// sendOnce sends the request once, waits for the reply and judges it.
func (r *operationRun[T]) sendOnce(ctx context.Context) (v T, err error) {
	reply, abandoned, err := awaitReply(ctx, r.epoch, r.prepareCall(), r)
	if err != nil {
		r.abandoned = abandoned
		r.disarmWatches()
		return v, err
	}
	return r.judgeReply(reply)
}

// prepareCall makes the request of a try, and arms its watches.
func (r *operationRun[T]) prepareCall() *wire.Call {
	if r.mutates && r.zxidBefore < 0 {
		r.zxidBefore, r.firstEpoch = r.epoch.wire.MaxZxid(), r.epoch
	}
	call := r.newRequest(r.epoch)
	call.Patience = r.c.core.cfg.connectTimeout
	if r.watch != nil {
		r.watch.armWatches(r.epoch, call)
	}
	return call
}

func (r *operationRun[T]) disarmWatches() {
	if r.watch != nil {
		r.watch.disarmWatches()
	}
}

// judgeReply returns the result or the error of a reply, and records the outcome.
func (r *operationRun[T]) judgeReply(reply wire.Reply) (v T, err error) {
	switch {
	case reply.Err == nil && reply.Code == jute.CodeOK:
		if r.sharedResult != nil {
			v, err = r.decodeShared(reply)
		} else {
			v, err = r.decodeReply(reply.Zxid, reply.Body)
		}
	case r.mutates:
		err = replyError(reply)
	default:
		err = readReplyError(reply)
	}
	if r.resultIfAbsent != nil && errors.Is(err, ErrNoNode) && r.stepAfter(err) == nil {
		v, err = *r.resultIfAbsent, nil
	}
	if err != nil {
		r.disarmWatches()
		v, err = r.recordUnknownOutcome(v, err)
	}
	if r.leftovers != nil {
		r.leftovers.recordOutcome(err)
	}
	return v, err
}

// recordUnknownOutcome records whether the outcome of a try is unknown. A refusal that may be due to the success of an
// earlier try becomes an ambiguousError.
func (r *operationRun[T]) recordUnknownOutcome(v T, err error) (T, error) {
	var cut *cutOffError
	if errors.As(err, &cut) {
		cut.final = cut.final || r.wasCutOff // the second time is final: see cutOffError
		r.wasCutOff = true
	}
	if errors.Is(err, ErrOutcomeUnknown) {
		if r.mutates {
			r.unknownIn = r.epoch
		}
	} else if r.unknownIn != nil && r.unknownPolicy != unknownSearch {
		for _, a := range r.ambiguousErrors {
			if errors.Is(err, a) {
				return *new(T), &ambiguousError{a, err}
			}
		}
	}
	return v, err
}

// precedesTries reports whether a transaction precedes every try of this operation. zxid is from a Stat that was read
// after the refusal of a repeat. If the transaction created the node, the node has existed since before the first try;
// if it was the node's last change, no try has changed the node. So no try was executed, and none will be:
//
//  1. A try that is executed gets a larger zxid than every transaction known before the first try.
//  2. Servers ignore a session's requests from its earlier connections. So when the repeat is refused, each earlier try
//     was executed or will never be.
//  3. A refusal is a transaction, too. So the read, sent after it, shows a tree that includes every executed try.
//
// In a later session precedesTries is false: a try in an earlier session that could not be closed may still be executed.
func (r *operationRun[T]) precedesTries(zxid int64) bool {
	return zxid <= r.zxidBefore && r.epoch == r.firstEpoch
}

// clearUnknownOutcome is the end of a recovery step that has proved that no try was executed: the request is sent again,
// and a refusal of it is not ambiguous.
func (r *operationRun[T]) clearUnknownOutcome() (v T, again bool, _ error) {
	r.unknownIn = nil
	return v, true, nil
}

// stepAfter returns the recovery step for an error, or nil.
func (r *operationRun[T]) stepAfter(err error) recoveryStep[T] {
	if r.createsRoot && r.path == "/" && r.c.view.namespace != "" && errors.Is(err, ErrNoNode) {
		return func(ctx context.Context, r *operationRun[T]) (v T, again bool, _ error) {
			_, err := r.c.createRoot(ctx, r.epoch)
			return v, err == nil, err
		}
	}
	return r.recoveryAfter(err)
}

// finalError returns the error for the caller of an operation that ends with err, and settles its leftovers.
func (r *operationRun[T]) finalError(err error) error {
	err = r.c.core.explainWait(err)
	if r.requiredParent != "" {
		err = r.c.addChrootHint(err, r.requiredParent)
	} else {
		err = r.c.addChrootHintAt(err, r.path)
	}
	if r.name == "create" && errors.Is(err, ErrNoNode) && !errors.Is(err, ErrNoChroot) {
		err = missingParentError(r.path, err)
	}
	if r.unknownIn != nil && !errors.Is(err, ErrOutcomeUnknown) && isUnfinished(err) {
		err = fmt.Errorf("%w; an earlier try ended with: %w", err, ErrConnectionLoss)
	}
	if r.leftovers != nil {
		err = r.leftovers.settleFailure(err, r.abandoned)
	}
	return wrapOpError(r.name, r.path, err)
}

// abortRun ends an operation after a user function has ended the goroutine. It does not report the end if the function
// was the hook that receives that report.
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
	end := OperationEnd{Err: err, Attempts: r.tries}
	if r.epoch != nil {
		end.Epoch = r.epoch.number
	}
	r.endReported = true
	r.reportEnd(end)
}

// expectLateReplies and takeLateReply make r a lateReceiver.
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

// leaveSharedRead is called when the operation's own request has its reply, or will not be sent.
func (r *operationRun[T]) leaveSharedRead() {
	r.inSharedRead = false
	r.epoch.sharedReads.finishRequest(r.epoch.wire, r.sharedReadKey())
}

// decodeShared decodes a shared reply, or returns the result that an earlier sharer has decoded.
func (r *operationRun[T]) decodeShared(reply wire.Reply) (v T, err error) {
	decoded := r.sharedResult
	r.sharedResult = nil
	v, known := (*decoded).(T)
	if !known {
		if v, err = r.decodeReply(reply.Zxid, reply.Body); err == nil {
			*decoded = v
		}
	}
	return v, err
}

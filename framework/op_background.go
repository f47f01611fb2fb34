package framework

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/go-curator/curator/internal/apart"
	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// Background is a builder whose ForPath queues the request and does not wait. B is the builder that it was made from,
// T the type of the result. It is a value.
type Background[B interface {
	operation(path string) *operation[T]
}, T any] struct {
	builder     B
	maxInFlight int // with Shared: how many requests for one read may be in flight; otherwise 0
}

// ForPath queues the request and returns immediately. All errors are in the Pending.
func (b Background[B, T]) ForPath(ctx context.Context, path string) *Pending[T] {
	o := b.builder.operation(path)
	o.maxInFlight = b.maxInFlight
	return startBackground(ctx, o)
}

// Shared lets goroutines share one request, for a read that many goroutines of a session need at the same time: n
// goroutines need not send n requests and keep n replies in memory. While maxInFlight requests for the same read are in
// flight, ForPath sends none. As soon as one of them has its reply, the client sends one request for all callers that
// have come until then. It is sent after every request that these callers have queued before, and a server executes a
// session's requests in order, so its result is as recent as that of a separate request.
//
// An operation that uses another operation's request is not reported to [Hooks]. Writes, reads with a watch, with
// StoringStatIn or that decompress data share nothing. The others have one result together, so do not change it. For
// authors of recipes.
func (b Background[B, T]) Shared(maxInFlight int) Background[B, T] {
	b.maxInFlight = maxInFlight
	return b
}

// BackgroundWithData is [Background] for operations that write data.
type BackgroundWithData[B interface {
	operation(path string, data []byte) *operation[T]
}, T any] struct{ builder B }

// ForPath queues the request and returns immediately. All errors are in the Pending. data must not be changed until the
// operation has ended.
func (b BackgroundWithData[B, T]) ForPath(ctx context.Context, path string, data []byte) *Pending[T] {
	return startBackground(ctx, b.builder.operation(path, data))
}

// startBackground queues an operation's first request and returns.
func startBackground[T any](ctx context.Context, o *operation[T]) *Pending[T] {
	var none T
	b := &backgroundRun[T]{ctx: ctx}
	r, p := &b.run, &b.Pending
	p.executors = o.c.executors()
	err := r.initialize(ctx, o, true)
	if err != nil {
		p.completeWith(none, err)
		return p
	}
	p.operation = r
	if o.maxInFlight > 0 && b.joinSharedRead(ctx) {
		return p
	}
	returned := false
	defer func() {
		if !returned { // a user function has ended the goroutine
			r.abortRun()
		}
	}()
	if err = r.reportBegin(ctx); err == nil && !r.inSharedRead {
		err = r.beginTry()
	}
	if err == nil {
		err = b.admitToBackground()
	}
	if err != nil {
		err, returned = r.finalError(err), true
		r.completePending(p, none, err)
		return p
	}

	call := r.prepareCall()
	returned = true
	call.Done = b.onFirstReply
	e := r.epoch
	e.wire.Submit(call)
	if ctx.Done() != nil {
		p.watchContext(context.AfterFunc(ctx, func() {
			if !e.wire.Cancel(call, context.Cause(ctx)) { // otherwise Done is called with the end of ctx
				r.abandonWait(ctx, p)
			}
		}))
	}
	return p
}

// backgroundRun is an operation in the background. All its parts are one allocation, since there may be many.
type backgroundRun[T any] struct {
	Pending[T]
	run operationRun[T]
	ctx context.Context // as given to ForPath
}

// ErrBackgroundFull means that 262144 operations of this client are in the background without a reply, so this one was
// not sent: each needs memory while it waits, and delays the requests queued after it. Wait for some of them and try
// again. Operations through the view of a session do not count, nor do guaranteed deletes and the reads of caches. So
// the limit never costs a recipe its hold, and a lock can always be released.
var ErrBackgroundFull = newSentinel("too many operations in the background")

// admitToBackground counts an operation that is about to be queued, or returns ErrBackgroundFull.
func (b *backgroundRun[T]) admitToBackground() error {
	c := b.run.c
	if b.run.exemptFromLimit || c.view.forRecipes || c.view.epoch != nil {
		return nil
	}
	n, limit := c.core.ops.backgroundCount.Add(1), int64(c.core.cfg.background)
	if b.run.countsForLimit = n <= limit; !b.run.countsForLimit {
		c.core.ops.backgroundCount.Add(-1)
		return fmt.Errorf("%w: the limit is %d", ErrBackgroundFull, limit)
	}
	return nil
}

// joinSharedRead reports whether the operation will get its reply from the request of another operation. Otherwise the
// caller must send the operation's own request, which the sharedRead may have counted (inSharedRead).
func (b *backgroundRun[T]) joinSharedRead(ctx context.Context) bool {
	r, p := &b.run, &b.Pending
	if r.mutates || r.watch != nil || r.slowToDecode || r.storesStat || checkContext(ctx) != nil || r.beginTry() != nil {
		return false
	}
	if r.epoch.sharedReads.joinOrSend(r.sharedReadKey(), r.maxInFlight, b) {
		r.inSharedRead = true
		return false
	}
	if ctx.Done() != nil {
		p.watchContext(context.AfterFunc(ctx, func() {
			r.epoch.sharedReads.removeSharer(r.sharedReadKey(), b)
			r.abandonWait(ctx, p)
		}))
	}
	return true
}

func (b *backgroundRun[T]) prepareRequest() *wire.Call { return b.run.prepareCall() }

func (b *backgroundRun[T]) takeSharedReply(reply wire.Reply, decoded *any) {
	if reply.Err == nil && reply.Code == jute.CodeOK {
		b.run.sharedResult = decoded
	}
	b.run.processFirstReply(b.ctx, &b.Pending, reply)
}

// onFirstReply is the Done function of the first request.
func (b *backgroundRun[T]) onFirstReply(reply wire.Reply) {
	r, p := &b.run, &b.Pending
	if r.countsForLimit {
		r.c.core.ops.backgroundCount.Add(-1)
	}
	if r.reportEnd == nil && !r.slowToDecode {
		r.processFirstReply(b.ctx, p, reply)
		return
	}
	// Hooks and compression providers may take long, and this goroutine must read the session's connection.
	p.reservePlace()
	p.executors.results.enqueue(func() {
		defer p.releasePlace()
		r.processFirstReply(b.ctx, p, reply)
	})
}

// abandonWait ends an operation whose context has ended while its first request was in flight or shared.
func (r *operationRun[T]) abandonWait(ctx context.Context, p *Pending[T]) {
	r.expectLateReplies(1) // first, since a reply that finds the result claimed is subtracted
	if p.claimed.CompareAndSwap(false, true) {
		r.disarmWatches()
		r.completePending(p, *new(T), r.abandonError(ctx))
	} else { // the reply came at the same moment, and processFirstReply has claimed the result
		r.expectLateReplies(-1)
	}
}

// abandonError returns the error for a caller that stops waiting for an operation in the background.
func (r *operationRun[T]) abandonError(ctx context.Context) error {
	return wrapOpError(r.name, r.path, r.c.core.explainWait(unansweredError(ctx, r.mutates)))
}

// processFirstReply continues with the reply to the first request, unless the end of the context has come first.
func (r *operationRun[T]) processFirstReply(ctx context.Context, p *Pending[T], reply wire.Reply) {
	if !p.claimed.CompareAndSwap(false, true) {
		r.disarmWatches()
		r.takeLateReply(reply)
		return
	}
	r.settleResult(p, func() (_ T, _ error, settled bool) {
		if errors.Is(reply.Err, wire.ErrNotSent) && ctx.Err() != nil {
			r.disarmWatches()
			return *new(T), r.finalError(unsentError(ctx)), true
		}
		v, err := r.judgeReply(reply)
		if err == nil {
			return v, nil, true
		}
		decision := r.decideNext(err, r.stepAfter(err), 1)
		if decision == giveUp || decision == tryAgain && r.epoch.ctx.Err() != nil {
			return v, r.finalError(err), true
		}
		r.c.core.ops.workers.spawn(func() { r.continueSteps(ctx, p, v, err) })
		return v, nil, false
	})
}

// continueSteps takes the recovery steps after the first reply, which failed with err, and makes the second try if
// there may be one. It blocks, and runs on a goroutine of its own.
func (r *operationRun[T]) continueSteps(ctx context.Context, p *Pending[T], v T, err error) {
	r.settleResult(p, func() (T, error, bool) {
		v, err := r.takeSteps(ctx, v, err)
		if err != nil && r.decideNext(err, nil, 0) == tryAgain && ctx.Err() == nil {
			r.tries++
			v, err = r.tryOnce(ctx)
		}
		if err != nil {
			err = r.finalError(err)
		}
		return v, err, true
	})
}

// settleResult completes p with the result of decide, unless settled is false: then continueSteps will complete it. If
// decide does not return, because a user function has ended the goroutine, p is completed with apart.ErrNoReturn.
func (r *operationRun[T]) settleResult(p *Pending[T], decide func() (v T, err error, settled bool)) {
	v, err, settled, returned := *new(T), error(nil), true, false
	defer func() {
		if !returned {
			r.disarmWatches()
			err = r.finalError(apart.ErrNoReturn)
		}
		if settled {
			r.completePending(p, v, err)
		}
	}()
	v, err, settled = decide()
	returned = true
}

func (r *operationRun[T]) completePending(p *Pending[T], v T, err error) {
	if r.inSharedRead {
		r.leaveSharedRead()
	}
	defer p.completeWith(v, err) // deferred for a hook that ends the goroutine
	if r.reportEnd != nil {
		r.reportResult(err)
	}
}

// Pending is the future result of an operation in the background. Its methods are safe for concurrent use.
//
// The request is queued before ForPath returns the Pending, so the server executes the requests that one goroutine
// queues in their order. (If an operation sends further requests, because a parent is missing or a node has children,
// those come after the requests queued in the meantime.) There is one attempt: a lost connection is an error,
// ErrConnectionLoss or ErrNotConnected, and the request is not retried. Protected creates, guaranteed deletes and
// Idempotent operations keep their promises all the same. The number of operations in the background is limited: see
// [ErrBackgroundFull].
//
// The end of the context given to ForPath ends the operation, as in the foreground.
//
// Two kinds of replies are handled one after the other, on a separate goroutine: data to decompress, and the results
// of operations that are reported to [Hooks]. A slow compression provider or hook delays the next of them, but no other
// result and not the session. Corresponds to Curator's inBackground, BackgroundCallback and CuratorEvent.
type Pending[T any] struct {
	executors *backgroundExecutors                             // nil in the zero value
	operation interface{ abandonError(context.Context) error } // nil if the arguments were refused

	claimed atomic.Bool // set by the reply or the end of the context, whichever comes first: it decides the result

	mu            sync.Mutex
	callbacks     []resultCallback[T] // guarded by mu
	reservedPlace int                 // the place in executors.callbacks, if hasPlace; guarded by mu
	hasPlace      bool                // guarded by mu
	ended         bool                // guarded by mu
	done          chan struct{}       // closed when the operation has ended; nil until a goroutine waits; guarded by mu
	stopWatching  func() bool         // see watchContext; guarded by mu

	value T     // immutable once ended is set
	err   error // immutable once ended is set
}

// resultCallback is a function given to Then or IfFailed.
type resultCallback[T any] struct {
	call         func(T, error)
	onlyFailures bool // given to IfFailed
}

// Done returns a channel that is closed when the operation has ended; nil for a zero Pending.
func (p *Pending[T]) Done() <-chan struct{} {
	if p.executors == nil {
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

// Wait blocks until the operation has ended, and returns its result. The end of ctx ends the wait, not the operation;
// the error then matches that of ctx.
func (p *Pending[T]) Wait(ctx context.Context) (T, error) {
	var none T
	switch {
	case ctx == nil:
		return none, ErrNilContext
	case p.executors == nil:
		return none, ErrNoClient
	}
	done := p.Done()
	select {
	case <-done:
	case <-ctx.Done():
		select {
		case <-done:
		default:
			return none, p.operation.abandonError(ctx)
		}
	}
	return p.value, p.err
}

// Then makes the client call f with the result, once, on the client's callback goroutine. Callbacks run one after the
// other, in the order in which replies come and watches fire, even if a result takes a while to decompress.
//
// f may use the client, but must not close it. f should not block, since it delays the other callbacks (and nothing
// else). Callbacks of operations that have ended run before Close returns. A panic in f ends the process;
// runtime.Goexit (t.FailNow) ends f, and the next callback follows. A nil f is not called.
func (p *Pending[T]) Then(f func(T, error)) {
	if f != nil {
		p.addCallback(resultCallback[T]{call: f})
	}
}

// IfFailed is Then for a function that is called only if the operation fails. A success queues no callback.
func (p *Pending[T]) IfFailed(f func(error)) {
	if f != nil {
		p.addCallback(resultCallback[T]{func(_ T, err error) { f(err) }, true})
	}
}

func (p *Pending[T]) addCallback(f resultCallback[T]) {
	if p.executors == nil {
		return
	}
	p.mu.Lock()
	ended := p.ended
	if !ended {
		p.callbacks = append(p.callbacks, f)
	}
	p.mu.Unlock()
	if ended && f.wantsResult(p.err) {
		p.executors.callbacks.enqueue(func() { f.call(p.value, p.err) })
	}
}

func (f resultCallback[T]) wantsResult(err error) bool { return !f.onlyFailures || err != nil }

func (p *Pending[T]) completeWith(v T, err error) {
	p.value, p.err = v, err
	p.mu.Lock()
	p.ended = true
	callbacks, stop := p.callbacks, p.stopWatching
	p.callbacks, p.stopWatching = nil, nil
	// The callbacks are queued under the lock, so that the callback of a later Then is queued after them. enqueue and
	// fillPlace do not block.
	calls := make([]func(), 0, len(callbacks))
	for _, f := range callbacks {
		if f.wantsResult(err) {
			calls = append(calls, func() { f.call(v, err) })
		}
	}
	switch {
	case p.hasPlace:
		p.executors.callbacks.fillPlace(p.reservedPlace, calls...)
	case len(calls) > 0:
		p.executors.callbacks.enqueue(calls...)
	}
	p.hasPlace = false
	if p.done != nil {
		close(p.done)
	}
	p.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// reservePlace reserves a place in the order of the callbacks when the reply comes, since the result may take a while.
func (p *Pending[T]) reservePlace() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.reservedPlace, p.hasPlace = p.executors.callbacks.reservePlace(), true
	}
}

// releasePlace frees the reserved place if completeWith has not filled it: further steps decide the result.
func (p *Pending[T]) releasePlace() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hasPlace {
		p.hasPlace = false
		p.executors.callbacks.fillPlace(p.reservedPlace)
	}
}

// watchContext stores stop, which is called when the operation has ended: it removes the function that the end of the
// context would run.
func (p *Pending[T]) watchContext(stop func() bool) {
	p.mu.Lock()
	ended := p.ended
	if !ended {
		p.stopWatching = stop
	}
	p.mu.Unlock()
	if ended {
		stop()
	}
}

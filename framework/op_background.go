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
	o.shareAfter = b.most
	return startBackground(ctx, o)
}

// Shared makes ForPath share the request with other goroutines of the same session, for a read that many goroutines need
// at the same time, each after a request of its own. While most requests for the same read are in flight, sent too early
// for this caller, the callers that come until one of them ends share the next one: n goroutines need not send n requests
// and have n answers in memory. The client sends it after what they have queued before, and a server executes a session's
// requests in order, so its answer is as recent as a separate one. An operation that shares a request is not reported to
// [Hooks]. A write, a read with a watch, and one that decompresses data share nothing. For authors of recipes.
func (b Background[B, T]) Shared(most int) Background[B, T] { b.most = most; return b }

// BackgroundWithData is [Background] for operations that write data.
type BackgroundWithData[B interface {
	operation(path string, data []byte) *operation[T]
}, T any] struct{ b B }

// ForPath queues the request. data must not be changed until the [Pending] is done.
func (b BackgroundWithData[B, T]) ForPath(ctx context.Context, path string, data []byte) *Pending[T] {
	return startBackground(ctx, b.b.operation(path, data))
}

// startBackground queues an operation's first request and returns.
func startBackground[T any](ctx context.Context, o *operation[T]) *Pending[T] {
	var none T
	q := &backgroundRun[T]{ctx: ctx}
	r, p := &q.run, &q.Pending
	p.executors = o.c.executors()
	err := r.initialize(ctx, o, true)
	if err != nil {
		p.completeWith(none, err)
		return p
	}
	p.run = r
	if o.shareAfter > 0 && q.joinSharedRead(ctx) {
		return p
	}
	begun := false
	defer func() {
		if !begun { // a user function did not return
			r.abortRun()
		}
	}()
	if err = r.reportBegin(ctx); err == nil && !r.inSharedRead {
		err = r.beginTry()
	}
	if err == nil {
		err = q.admitToBackground()
	}
	if err != nil {
		err, begun = r.finalError(err), true
		r.completePending(p, none, err)
		return p
	}

	call := r.prepareCall()
	begun = true
	call.Done = q.onFirstReply
	e := r.e
	e.wire.Submit(call)
	if ctx.Done() != nil {
		p.watchContext(context.AfterFunc(ctx, func() {
			if !e.wire.Cancel(call, context.Cause(ctx)) { // else Done gets the answer
				r.abandonWait(ctx, p)
			}
		}))
	}
	return p
}

// backgroundRun is an operation in the background. It is one object, since there may be many.
type backgroundRun[T any] struct {
	Pending[T]
	run operationRun[T]
	ctx context.Context // as given to ForPath
}

// ErrBackgroundFull means that 262144 operations of this client are in the background without an answer, so this one
// was not sent: each needs memory while it waits, and delays the requests queued after it. Wait for some of them and
// try again. Operations through the view of a session do not count, nor do guaranteed deletes and the reads of caches:
// so recipes do not lose their holds, and a lock can always be released.
var ErrBackgroundFull = newSentinel("too many operations in the background")

// admitToBackground counts an operation that is about to be queued, or refuses it.
func (q *backgroundRun[T]) admitToBackground() error {
	c := q.run.c
	if q.run.unlimited || c.view.forRecipes || c.view.epoch != nil {
		return nil
	}
	n, most := c.core.ops.backgroundCount.Add(1), int64(c.core.cfg.background)
	if q.run.countsForLimit = n <= most; !q.run.countsForLimit {
		c.core.ops.backgroundCount.Add(-1)
		return fmt.Errorf("%w: the limit is %d", ErrBackgroundFull, most)
	}
	return nil
}

// joinSharedRead reports whether the operation shares a request. If not, it has to send its own.
func (q *backgroundRun[T]) joinSharedRead(ctx context.Context) bool {
	r, p := &q.run, &q.Pending
	if r.write || r.watch != nil || r.slowToDecode || checkContext(ctx) != nil || r.beginTry() != nil {
		return false
	}
	if r.e.sharedReads.joinOrSend(r.sharedReadKey(), r.shareAfter, q) {
		r.inSharedRead = true
		return false
	}
	if ctx.Done() != nil {
		p.watchContext(context.AfterFunc(ctx, func() {
			r.e.sharedReads.removeSharer(r.sharedReadKey(), q)
			r.abandonWait(ctx, p)
		}))
	}
	return true
}

func (q *backgroundRun[T]) prepareRequest() *wire.Call { return q.run.prepareCall() }

func (q *backgroundRun[T]) takeSharedReply(reply wire.Reply, decoded *any) {
	if reply.Err == nil && reply.Code == jute.CodeOK {
		q.run.decoded = decoded
	}
	q.run.processFirstReply(q.ctx, &q.Pending, reply)
}

// onFirstReply is the first request's Done function.
func (q *backgroundRun[T]) onFirstReply(reply wire.Reply) {
	r, p := &q.run, &q.Pending
	if r.countsForLimit {
		r.c.core.ops.backgroundCount.Add(-1)
	}
	if r.reportEnd == nil && !r.slowToDecode {
		r.processFirstReply(q.ctx, p, reply)
		return
	}
	// This goroutine reads answers and pings, while hooks and providers may take long.
	p.reservePlace()
	p.executors.results.enqueue(func() {
		defer p.releasePlace()
		r.processFirstReply(q.ctx, p, reply)
	})
}

// abandonWait ends an operation whose context has ended while its first request was in flight.
func (r *operationRun[T]) abandonWait(ctx context.Context, p *Pending[T]) {
	r.expectLateReplies(1)
	if p.claimed.CompareAndSwap(false, true) {
		r.disarmWatches()
		r.completePending(p, *new(T), r.leftError(ctx))
	} else { // the reply has come
		r.expectLateReplies(-1)
	}
}

// leftError is the error of a caller that stops waiting for an operation in the background.
func (r *operationRun[T]) leftError(ctx context.Context) error {
	return wrapOpError(r.name, r.path, r.c.core.explainWait(unansweredError(ctx, r.write)))
}

// processFirstReply continues with the answer to the first request, unless the context has ended before.
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
		what := r.decideRetry(err, r.stepAfter(err), 1)
		if what == giveUp || what == tryAgain && r.e.ctx.Err() != nil {
			return v, r.finalError(err), true
		}
		r.c.core.ops.workers.spawn(func() { r.continueSteps(ctx, p, v, err) })
		return v, nil, false
	})
}

// continueSteps takes the steps after the first reply. It runs on a separate goroutine.
func (r *operationRun[T]) continueSteps(ctx context.Context, p *Pending[T], v T, err error) {
	r.settleResult(p, func() (T, error, bool) {
		v, err := r.takeSteps(ctx, v, err)
		if err != nil && r.decideRetry(err, nil, 0) == tryAgain && ctx.Err() == nil {
			r.tries++
			v, err = r.tryOnce(ctx)
		}
		if err != nil {
			err = r.finalError(err)
		}
		return v, err, true
	})
}

// settleResult completes p with the result of decide if that is settled. If decide does not return, because a user
// function does not, it completes p with apart.ErrNoReturn.
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
	defer p.completeWith(v, err) // also if the hook does not return
	if r.reportEnd != nil {
		r.reportResult(err)
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
	executors *backgroundExecutors                          // nil in the zero value
	run       interface{ leftError(context.Context) error } // nil if nothing was sent

	claimed atomic.Bool // set by the goroutine that decides the result

	mu            sync.Mutex
	followers     []resultFollower[T] // guarded by mu
	place         int                 // guarded by mu
	placeReserved bool                // the followers have a place among the callbacks; guarded by mu
	ended         bool                // guarded by mu
	done          chan struct{}       // closed when the operation has ended; nil until a goroutine waits; guarded by mu
	stop          func() bool         // stops watching the context; guarded by mu

	v   T     // immutable once ended is set
	err error // like v
}

// resultFollower is a function that is called with a result.
type resultFollower[T any] struct {
	call         func(T, error)
	onlyFailures bool // only if it is an error
}

// Done returns a channel that is closed when the operation has ended.
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

// Wait waits for the result. The end of ctx ends the wait, not the operation.
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
		p.addFollower(resultFollower[T]{call: f})
	}
}

// IfFailed is Then for a function that is called only if the operation fails. A success costs no callback.
func (p *Pending[T]) IfFailed(f func(error)) {
	if f != nil {
		p.addFollower(resultFollower[T]{func(_ T, err error) { f(err) }, true})
	}
}

func (p *Pending[T]) addFollower(f resultFollower[T]) {
	if p.executors == nil {
		return
	}
	p.mu.Lock()
	ended := p.ended
	if !ended {
		p.followers = append(p.followers, f)
	}
	p.mu.Unlock()
	if ended && f.wantsResult(p.err) {
		p.executors.callbacks.enqueue(func() { f.call(p.v, p.err) })
	}
}

func (f resultFollower[T]) wantsResult(err error) bool { return !f.onlyFailures || err != nil }

func (p *Pending[T]) completeWith(v T, err error) {
	p.v, p.err = v, err
	p.mu.Lock()
	p.ended = true
	then, stop := p.followers, p.stop
	p.followers, p.stop = nil, nil
	// Under the lock, so that the f of a later Then is called later; enqueue and fillPlace do not block.
	calls := make([]func(), 0, len(then))
	for _, f := range then {
		if f.wantsResult(err) {
			calls = append(calls, func() { f.call(v, err) })
		}
	}
	switch {
	case p.placeReserved:
		p.executors.callbacks.fillPlace(p.place, calls...)
	case len(calls) > 0:
		p.executors.callbacks.enqueue(calls...)
	}
	p.placeReserved = false
	if p.done != nil {
		close(p.done)
	}
	p.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// reservePlace reserves the callbacks' place in the order when the answer arrives: the result may take a while.
func (p *Pending[T]) reservePlace() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.place, p.placeReserved = p.executors.callbacks.reservePlace(), true
	}
}

// releasePlace frees the reserved place if there is no result yet.
func (p *Pending[T]) releasePlace() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.placeReserved {
		p.placeReserved = false
		p.executors.callbacks.fillPlace(p.place)
	}
}

// watchContext stores the function that stops watching the context.
func (p *Pending[T]) watchContext(stop func() bool) {
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

package framework

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-curator/curator/internal/apart"
	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/retry"
)

// operation is one operation of a caller, made anew for every ForPath. The foreground runs it on the caller's goroutine and repeats it
// as the retry policy says. The background queues its first frame and returns; only when that is not the end of it does a goroutine of the
// client's carry on.
//
// A try is: recover if an earlier try has left the outcome unknown, then the frame, then next, which may ask for the frame again.
type operation[T any] struct {
	name, path string // for OpError
	fault      error  // found in the input: nothing is sent
	parent     string // of a create: full path of the node that must be there
	write      bool   // it changes the tree: an unknown outcome matters

	// call makes the frame of a try; each needs a new one.
	call func(e *epoch) *wire.Call
	// read decodes the answer to the frame, of that zxid. In the background it runs where answers and pings are read: it must not block, nor take much time
	// for each byte, unless it is lengthy: then what follows upon the answer runs elsewhere.
	read    func(zxid int64, body []byte) (T, error)
	lengthy bool
	// absent, if set, makes a result of ErrNoNode.
	absent func() T
	// undo, if set, is called when the frame did not succeed: it takes back the watch. It must not block.
	undo func()

	// next goes on after an error of the server for which wants is true. It may block. again sends the frame once more.
	wants func(error) bool
	next  func(ctx context.Context, e *epoch, err error) (v T, again bool, err2 error)

	// once: never repeated after an unknown outcome, since a repeat could take effect beside the first.
	once bool
	// ambiguous are the errors which, in a repeat after an unknown outcome, may come from the success of the try before.
	ambiguous []error
	// again: in the background, too, a try with an unknown outcome is followed by another one. before is the highest zxid that was known when the first began:
	// what has that or a lower one is older than this operation. See remember.
	again  bool
	before int64
	// recover finds out what became of a try with an unknown outcome, in a later try. done: it was executed, here is the result.
	recover func(ctx context.Context, e *epoch) (v T, done bool, err error)

	// late, if set, gets the answer that came after the caller had left. It must not block.
	late func(e *epoch, r wire.Reply)
	// gaveUp, if set, is called when the operation ends with an error and no late answer is to come. It returns the error to report and must not block.
	gaveUp func(err error) error

	// final, if set, has the last word about the result in the background.
	final func(v T, err error) (T, error)

	unknown *epoch    // where a try with an unknown outcome has run, nil if there is none
	cut     bool      // the server has closed the connection on it
	flying  bool      // the caller left while the frame was under way
	seen    *observed // nil if nobody looks
}

// rounds bounds how often an operation of several steps begins again because others undo its steps.
const rounds = 16

// foreground runs an operation to its end, or until ctx ends.
func foreground[T any](ctx context.Context, c *Client, o *operation[T]) (T, error) {
	var v T
	if ctx == nil {
		o.fault = ErrNilContext
	}
	if c.none() {
		o.fault = ErrNoClient
	}
	if o.fault != nil {
		return v, opError(o.name, o.path, o.fault)
	}
	decided, returned := false, false
	defer func() { // a function of the user's may not return
		if !returned {
			o.undone()
		}
		if !decided {
			o.seen.done(o.failed(c, apart.ErrNoReturn))
		}
	}()
	o.observe(ctx, c, false)
	err := checkContext(ctx)
	if err == nil {
		err = c.Retry(ctx, func(ctx context.Context) error {
			e, err := c.epochOf()
			if err == nil {
				o.seen.try(e)
				v, err = o.try(ctx, c, e)
			}
			return err
		}, retry.WithRetryable(func(err error) bool { return o.retryable(c, err) }))
	}
	if err != nil {
		var none T
		err = o.failed(c, err)
		decided = true
		o.seen.done(err)
		returned = true
		return none, err
	}
	decided = true
	o.seen.done(nil)
	returned = true
	return v, nil
}

// remember makes an operation one that can tell what it may have done from what was there before it.
func (o *operation[T]) remember() {
	frame, first := o.call, true
	o.again = true
	o.call = func(e *epoch) *wire.Call {
		if first {
			first, o.before = false, e.wire.MaxZxid()
		}
		return frame(e)
	}
}

// failed is the last step of an operation that ends with an error.
func (o *operation[T]) failed(c *Client, err error) error {
	err = c.core.explain(err)
	if o.parent != "" {
		err = c.view.absent(err, o.parent)
	} else {
		err = c.view.absentAt(err, o.path)
	}
	if o.name == "create" && errors.Is(err, ErrNoNode) && !errors.Is(err, ErrNoChroot) {
		err = missingParent(o.path, err)
	}
	if o.unknown != nil && !errors.Is(err, ErrOutcomeUnknown) && unfinished(err) {
		err = fmt.Errorf("%w; an earlier try: %w", err, ErrConnectionLoss)
	}
	if o.gaveUp != nil && !o.flying {
		err = o.gaveUp(err)
	}
	return opError(o.name, o.path, err)
}

// retryable says which errors the policy is asked about.
func (o *operation[T]) retryable(c *Client, err error) bool {
	switch {
	case errors.Is(err, errAmbiguous), errors.Is(err, ErrClosed):
		return false
	case o.once && o.unknown != nil:
		return false
	case errors.Is(err, ErrSessionLost):
		return c.pinned() == nil
	}
	return transient(err)
}

// transient says that an error is about the way to the server and not about the operation.
func transient(err error) bool {
	if errors.Is(err, errUnwelcome) || errors.Is(err, errCutOff) {
		return false
	}
	for _, e := range []error{ErrConnectionLoss, ErrNotConnected, ErrSessionMoved, ErrOperationTimeout, ErrThrottled} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// unfinished says that an operation has failed without having been refused.
func unfinished(err error) bool {
	if err == nil || errors.Is(err, errAmbiguous) {
		return false
	}
	for _, e := range []error{ErrSessionLost, ErrClosed, ErrOutcomeUnknown, ErrNotReadOnly, errUnwelcome, apart.ErrNoReturn, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, e) {
			return true
		}
	}
	return transient(err)
}

// errAmbiguous marks an error that a repeat met after an unknown outcome. It comes with ErrConnectionLoss.
var errAmbiguous = named("ambiguous")

type ambiguousError struct{ met error }

func (e *ambiguousError) Error() string {
	return fmt.Sprintf("connection lost before the reply came, and the repeat met %q: the first try may have been executed", e.met)
}

func (e *ambiguousError) Is(target error) bool { return target == errAmbiguous }
func (e *ambiguousError) Unwrap() error        { return ErrConnectionLoss }

// met says whether a repeat after an unknown outcome has met an error.
func met(err, target error) bool {
	var a *ambiguousError
	return errors.As(err, &a) && errors.Is(a.met, target)
}

// try runs the operation once in an epoch.
func (o *operation[T]) try(ctx context.Context, c *Client, e *epoch) (T, error) {
	var none T
	if o.unknown != nil && o.recover != nil {
		if v, done, err := o.recover(ctx, e); err != nil || done {
			return v, err
		}
		o.unknown = nil
	}
	r, left, err := await(ctx, e, c.expiring(o.call(e)), o.leaving(e))
	if err != nil {
		o.flying = left && o.late != nil
		o.undone()
		return none, err
	}
	v, err := o.finish(e, r)
	if err == nil {
		return v, nil
	}
	return o.goOn(ctx, c, e, err)
}

// goOn takes a try further whose frame was answered by an error.
func (o *operation[T]) goOn(ctx context.Context, c *Client, e *epoch, err error) (T, error) {
	var none T
	for n := 1; o.wanted(err); n++ {
		v, again, err2 := o.next(ctx, e, err)
		if err2 != nil || !again {
			return v, err2
		}
		if n == rounds {
			break
		}
		r, left, err2 := await(ctx, e, c.expiring(o.call(e)), o.leaving(e))
		if err2 != nil {
			o.flying = left && o.late != nil
			o.undone()
			return none, err2
		}
		if v, err = o.finish(e, r); err == nil {
			return v, nil
		}
	}
	return none, err
}

// finish reads the answer to the frame.
func (o *operation[T]) finish(e *epoch, r wire.Reply) (v T, err error) {
	if o.write {
		err = replyError(r)
	} else {
		err = readError(r)
	}
	if err == nil {
		if v, err = o.read(r.Zxid, r.Body); err == nil {
			return v, nil
		}
	}
	if o.absent != nil && errors.Is(err, ErrNoNode) && !o.wanted(err) {
		return o.absent(), nil
	}
	o.undone()
	var cut *cutOffError
	if errors.As(err, &cut) {
		cut.final = cut.final || o.cut
		o.cut = true
	}
	if errors.Is(err, ErrOutcomeUnknown) {
		if o.write {
			o.unknown = e
		}
	} else if o.unknown != nil && o.recover == nil {
		for _, a := range o.ambiguous {
			if errors.Is(err, a) {
				return v, &ambiguousError{a}
			}
		}
	}
	return v, err
}

func (o *operation[T]) wanted(err error) bool { return o.next != nil && o.wants(err) }

func (o *operation[T]) undone() {
	if o.undo != nil {
		o.undo()
	}
}

func (o *operation[T]) leaving(e *epoch) *latecomer {
	if o.late == nil {
		return nil
	}
	return &latecomer{&e.core.ops.janitor, func(r wire.Reply) { o.late(e, r) }}
}

// latecomer is the answer to a frame whose caller has left: until it is there, the client may owe a clean-up. Nil, nobody wants it.
type latecomer struct {
	janitor *janitor
	take    func(wire.Reply)
}

// expected says that the caller leaves.
func (l *latecomer) expected() {
	if l != nil {
		l.janitor.expect(1)
	}
}

// unexpected says that he does not, after all.
func (l *latecomer) unexpected() {
	if l != nil {
		l.janitor.expect(-1)
	}
}

// arrived says that the answer has come.
func (l *latecomer) arrived(r wire.Reply) {
	if l != nil {
		l.take(r)
		l.janitor.expect(-1)
	}
}

// expiring bounds how long a frame waits for a connection.
func (c *Client) expiring(call *wire.Call) *wire.Call {
	call.Patience = c.core.cfg.connectTimeout
	return call
}

// flight is a frame that somebody waits for, until he leaves.
type flight struct {
	answer chan wire.Reply

	mu   sync.Mutex
	done bool       // guarded by mu
	left bool       // guarded by mu
	late *latecomer // guarded by mu
}

// arrived is the frame's Done.
func (f *flight) arrived(r wire.Reply) {
	f.mu.Lock()
	f.done = true
	left, late := f.left, f.late
	f.mu.Unlock()
	if left {
		late.arrived(r)
	} else {
		f.answer <- r
	}
}

// leave is false when the answer has come already.
func (f *flight) leave(late *latecomer) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.done {
		return false
	}
	f.left, f.late = true, late
	late.expected()
	return true
}

// await sends a frame and waits for the answer. When ctx ends first, late (which may be nil) gets the answer, if left is true; else the frame
// was never sent.
func await(ctx context.Context, e *epoch, call *wire.Call, late *latecomer) (r wire.Reply, left bool, err error) {
	f := flight{answer: make(chan wire.Reply, 1)}
	call.Done = f.arrived
	e.wire.Submit(call)
	return f.wait(ctx, e, call, late)
}

func (f *flight) wait(ctx context.Context, e *epoch, call *wire.Call, late *latecomer) (r wire.Reply, left bool, err error) {
	select {
	case r = <-f.answer:
		return r, false, nil
	case <-ctx.Done():
	}
	if e.wire.Cancel(call, context.Cause(ctx)) {
		return r, false, leftBy(ctx, false)
	}
	if !f.leave(late) {
		return <-f.answer, false, nil
	}
	return r, true, leftWaitingFor(ctx, changesTree(call))
}

// changesTree says whether a request may change the tree.
func changesTree(call *wire.Call) bool {
	switch call.Op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL, jute.OpDelete, jute.OpSetData, jute.OpSetACL, jute.OpMulti, jute.OpReconfig:
		return true
	}
	return false
}

// awaitAll sends frames in one flight, on one connection if that lives, and waits for all the answers.
func awaitAll(ctx context.Context, e *epoch, calls ...*wire.Call) ([]wire.Reply, error) {
	flights := make([]flight, len(calls))
	for i, call := range calls {
		flights[i].answer = make(chan wire.Reply, 1)
		call.Done = flights[i].arrived
	}
	e.wire.Submit(calls...)
	replies := make([]wire.Reply, len(calls))
	var failed error
	for i, call := range calls {
		r, _, err := flights[i].wait(ctx, e, call, nil)
		if err != nil && failed == nil {
			failed = err // and on to the others, to cancel them
		}
		replies[i] = r
	}
	return replies, failed
}

// decode reads a reply's record.
func decode(body []byte, record jute.Decodable) error {
	if err := jute.Unmarshal(body, record); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformedReply, err)
	}
	return nil
}

// rootIfMissing lets operations on the root of a namespace make it when it is not there.
func rootIfMissing[T any](o *operation[T], c *Client) *operation[T] {
	if !c.none() && o.path == "/" && c.view.namespace != "" {
		wants, next := o.wants, o.next
		o.wants = func(err error) bool { return errors.Is(err, ErrNoNode) || wants != nil && wants(err) }
		o.next = func(ctx context.Context, e *epoch, err error) (v T, again bool, _ error) {
			if !errors.Is(err, ErrNoNode) {
				return next(ctx, e, err)
			}
			_, err = c.root(ctx, e)
			return v, err == nil, err
		}
	}
	return o
}

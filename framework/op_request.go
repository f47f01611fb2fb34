package framework

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// latecomer gets the answer to a request whose caller has left.
type latecomer interface {
	// expect adds to the number of awaited answers that may become clean-ups.
	expect(more int)
	// late takes an answer that expect has counted. It must not block.
	late(reply wire.Reply)
}

// waiting is a request whose caller waits for the answer, until the caller leaves.
type waiting struct {
	answer chan wire.Reply
	done   func(wire.Reply) // is arrived, made once

	mu   sync.Mutex
	here bool      // the answer; guarded by mu
	left bool      // guarded by mu
	late latecomer // gets the answer after left; may be nil; guarded by mu
}

// arrived is the request's Done function.
func (w *waiting) arrived(r wire.Reply) {
	w.mu.Lock()
	w.here = true
	left, late := w.left, w.late
	w.mu.Unlock()
	switch {
	case !left:
		w.answer <- r
	case late != nil:
		late.late(r)
	}
}

// leave gives up waiting; late, unless nil, will get the answer. It returns false if the answer has come
// already.
func (w *waiting) leave(late latecomer) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.here {
		return false
	}
	w.left, w.late = true, late
	if late != nil {
		late.expect(1)
	}
	return true
}

// await sends a request and waits for the answer. If ctx ends first, it returns an error, and whether the
// request was sent: if so, late gets the answer, unless late is nil.
func await(ctx context.Context, e *epoch, call *wire.Call, late latecomer) (wire.Reply, bool, error) {
	w := e.core.waitings.Get().(*waiting)
	call.Done = w.done
	e.wire.Submit(call)
	r, left, err := w.wait(ctx, e, call, late)
	if err == nil { // else the answer, or the end, may still come
		w.here = false
		e.core.waitings.Put(w)
	}
	return r, left, err
}

// newWaiting makes one for [core.waitings]. It is used again once its answer was taken.
func newWaiting() any {
	w := &waiting{answer: make(chan wire.Reply, 1)}
	w.done = w.arrived
	return w
}

func (w *waiting) wait(ctx context.Context, e *epoch, call *wire.Call, late latecomer) (
	r wire.Reply, left bool, err error) {
	select {
	case r = <-w.answer:
		return r, false, nil
	case <-ctx.Done():
	}
	if e.wire.Cancel(call, context.Cause(ctx)) {
		return r, false, leftBy(ctx)
	}
	if !w.leave(late) {
		return <-w.answer, false, nil
	}
	return r, true, leftWaitingFor(ctx, wire.Mutates(call.Op))
}

// awaitAll sends requests together, over one connection if that lives long enough, and waits for all the
// answers.
func awaitAll(ctx context.Context, e *epoch, calls ...*wire.Call) ([]wire.Reply, error) {
	all := make([]waiting, len(calls))
	for i, call := range calls {
		all[i].answer = make(chan wire.Reply, 1)
		call.Done = all[i].arrived
	}
	e.wire.Submit(calls...)
	replies := make([]wire.Reply, len(calls))
	var failed error
	for i, call := range calls {
		r, _, err := all[i].wait(ctx, e, call, nil)
		if err != nil && failed == nil {
			failed = err // continue with the other calls, to cancel them
		}
		replies[i] = r
	}
	return replies, failed
}

// send sends a request and waits for its outcome.
func send(ctx context.Context, e *epoch, call *wire.Call) error { return ask(ctx, e, call, nil) }

// ask sends a request, waits for the answer and decodes it into record, unless that is nil.
func ask(ctx context.Context, e *epoch, call *wire.Call, record jute.Decodable) error {
	r, _, err := await(ctx, e, call, nil)
	if err != nil {
		return err
	}
	return replied(r, record)
}

// replied decodes a reply into record, unless that is nil, or returns its error.
func replied(r wire.Reply, record jute.Decodable) error {
	if err := replyError(r); err != nil || record == nil {
		return err
	}
	return decode(r.Body, record.Fields)
}

// decode reads a record; fields is its method Fields.
func decode(body []byte, fields func(*jute.Coder)) error {
	if err := jute.Decode(body, fields); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformedReply, err)
	}
	return nil
}

func nothing(int64, []byte) (struct{}, error) { return struct{}{}, nil }

// expiry is a function that sets how long a request waits for a connection: expiring or patient.
type expiry = func(*wire.Call) *wire.Call

// expiring limits the wait for a connection to the connection timeout.
func (c *Client) expiring(call *wire.Call) *wire.Call {
	call.Patience = c.core.cfg.connectTimeout
	return call
}

// patient leaves a request in the session's queue for as long as the session lives.
func patient(call *wire.Call) *wire.Call { return call }

func newCall(op int32, request jute.Record) *wire.Call {
	return &wire.Call{Op: op, Body: jute.Marshal(request)}
}

// readCall makes an exists, getData or getChildren2 request.
func readCall(op int32, full string) *wire.Call {
	req := jute.PathWatchRequest{Path: full}
	return &wire.Call{Op: op, Body: jute.Encode(req.Fields)}
}

func setDataCall(full string, data []byte, version int32) *wire.Call {
	req := jute.SetDataRequest{Path: full, Data: data, Version: version}
	return &wire.Call{Op: jute.OpSetData, Body: jute.Encode(req.Fields)}
}

func deleteCall(full string, version int32) *wire.Call {
	req := jute.PathVersionRequest{Path: full, Version: version}
	return &wire.Call{Op: jute.OpDelete, Body: jute.Encode(req.Fields)}
}

package framework

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// lateReceiver gets the answer to a request whose caller has left.
type lateReceiver interface {
	// expectLateReplies adds to the number of awaited answers that may become clean-ups.
	expectLateReplies(more int)
	// takeLateReply takes an answer that expectLateReplies has counted. It must not block.
	takeLateReply(reply wire.Reply)
}

// awaitedRequest is a request whose caller waits for the answer, until the caller leaves.
type awaitedRequest struct {
	reply       chan wire.Reply
	onReplyFunc func(wire.Reply) // is onReply, made once

	mu           sync.Mutex
	hasReply     bool         // the answer; guarded by mu
	abandoned    bool         // guarded by mu
	lateReceiver lateReceiver // gets the answer once abandoned is set; may be nil; guarded by mu
}

// onReply is the request's Done function.
func (w *awaitedRequest) onReply(r wire.Reply) {
	w.mu.Lock()
	w.hasReply = true
	abandoned, late := w.abandoned, w.lateReceiver
	w.mu.Unlock()
	switch {
	case !abandoned:
		w.reply <- r
	case late != nil:
		late.takeLateReply(r)
	}
}

// abandon gives up waiting; late, unless nil, will get the answer. It returns false if the answer has come
// already.
func (w *awaitedRequest) abandon(late lateReceiver) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hasReply {
		return false
	}
	w.abandoned, w.lateReceiver = true, late
	if late != nil {
		late.expectLateReplies(1)
	}
	return true
}

// awaitReply sends a request and waits for the answer. If ctx ends first, it returns an error, and whether the
// request was sent: if so, late gets the answer, unless late is nil.
func awaitReply(ctx context.Context, e *sessionEpoch, call *wire.Call, late lateReceiver) (wire.Reply, bool, error) {
	w := e.core.awaitedRequests.Get().(*awaitedRequest)
	call.Done = w.onReplyFunc
	e.wire.Submit(call)
	r, abandoned, err := w.wait(ctx, e, call, late)
	if err == nil { // else the answer, or the end, may still come
		w.hasReply = false
		e.core.awaitedRequests.Put(w)
	}
	return r, abandoned, err
}

// newAwaitedRequest makes one for [clientCore.awaitedRequests]. It is used again once its answer was taken.
func newAwaitedRequest() any {
	w := &awaitedRequest{reply: make(chan wire.Reply, 1)}
	w.onReplyFunc = w.onReply
	return w
}

func (w *awaitedRequest) wait(ctx context.Context, e *sessionEpoch, call *wire.Call, late lateReceiver) (
	r wire.Reply, abandoned bool, err error) {
	select {
	case r = <-w.reply:
		return r, false, nil
	case <-ctx.Done():
	}
	if e.wire.Cancel(call, context.Cause(ctx)) {
		return r, false, unsentError(ctx)
	}
	if !w.abandon(late) {
		return <-w.reply, false, nil
	}
	return r, true, unansweredError(ctx, wire.Mutates(call.Op))
}

// awaitReplies sends requests together, over one connection if that lives long enough, and waits for all the
// answers.
func awaitReplies(ctx context.Context, e *sessionEpoch, calls ...*wire.Call) ([]wire.Reply, error) {
	all := make([]awaitedRequest, len(calls))
	for i, call := range calls {
		all[i].reply = make(chan wire.Reply, 1)
		call.Done = all[i].onReply
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

// sendRequest sends a request and waits for its outcome.
func sendRequest(ctx context.Context, e *sessionEpoch, call *wire.Call) error {
	return sendAndDecode(ctx, e, call, nil)
}

// sendAndDecode sends a request, waits for the answer and decodes it into record, unless that is nil.
func sendAndDecode(ctx context.Context, e *sessionEpoch, call *wire.Call, record jute.Decodable) error {
	r, _, err := awaitReply(ctx, e, call, nil)
	if err != nil {
		return err
	}
	return decodeOutcome(r, record)
}

// decodeOutcome decodes a reply into record, unless that is nil, or returns its error.
func decodeOutcome(r wire.Reply, record jute.Decodable) error {
	if err := replyError(r); err != nil || record == nil {
		return err
	}
	return decodeRecord(r.Body, record.Fields)
}

// decodeRecord reads a record; fields is its method Fields.
func decodeRecord(body []byte, fields func(*jute.Coder)) error {
	if err := jute.Decode(body, fields); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformedReply, err)
	}
	return nil
}

func decodeNothing(int64, []byte) (struct{}, error) { return struct{}{}, nil }

// patienceSetter is a function that sets how long a request waits for a connection: limitPatience or
// waitIndefinitely.
type patienceSetter = func(*wire.Call) *wire.Call

// limitPatience limits the wait for a connection to the connection timeout.
func (e *sessionEpoch) limitPatience(call *wire.Call) *wire.Call {
	call.Patience = e.core.cfg.connectTimeout
	return call
}

// waitIndefinitely leaves a request in the session's queue for as long as the session lives.
func waitIndefinitely(call *wire.Call) *wire.Call { return call }

// maxRounds limits how often an operation of several steps starts again because others undo its steps.
const maxRounds = 16

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

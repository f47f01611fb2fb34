package framework

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// lateReceiver gets the reply to a request whose caller has stopped waiting: the reply may require a clean-up.
type lateReceiver interface {
	// expectLateReplies adds to the number of late replies still to come.
	expectLateReplies(more int)
	// takeLateReply handles a late reply, and subtracts it from that number. It must not block.
	takeLateReply(reply wire.Reply)
}

// awaitedRequest is a request whose caller waits for the reply, until the end of its context.
type awaitedRequest struct {
	reply       chan wire.Reply
	onReplyFunc func(wire.Reply) // the method value onReply, kept because each use would allocate one

	mu           sync.Mutex
	hasReply     bool         // guarded by mu
	abandoned    bool         // the caller has stopped waiting; guarded by mu
	lateReceiver lateReceiver // gets the reply if abandoned is set; may be nil; guarded by mu
}

// onReply is the Done function of the request.
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

// abandon ends the wait: late, unless nil, will get the reply. It returns false if the reply has come already.
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

// awaitReply sends a request and waits for the reply. err is only about the end of ctx. abandoned then reports whether
// the request is in flight: late, unless nil, will get its reply.
func awaitReply(ctx context.Context, e *sessionEpoch, call *wire.Call, late lateReceiver) (
	r wire.Reply, abandoned bool, err error) {
	w := e.core.awaitedRequests.Get().(*awaitedRequest)
	call.Done = w.onReplyFunc
	e.wire.Submit(call)
	r, abandoned, err = w.wait(ctx, e, call, late)
	if err == nil { // otherwise onReply may still be called
		w.hasReply = false
		e.core.awaitedRequests.Put(w)
	}
	return r, abandoned, err
}

// newAwaitedRequest is the New function of the pool awaitedRequests. A request returns to the pool after its reply.
func newAwaitedRequest() any {
	w := &awaitedRequest{reply: make(chan wire.Reply, 1)}
	w.onReplyFunc = w.onReply
	return w
}

// wait is the part of awaitReply after the request was queued.
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

// awaitReplies sends requests together and waits for all replies. The replies come over one connection, unless that is
// lost in between. The error is only about the end of ctx.
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

// sendRequest sends a request, waits for the reply, and returns its error.
func sendRequest(ctx context.Context, e *sessionEpoch, call *wire.Call) error {
	return sendAndDecode(ctx, e, call, nil)
}

// sendAndDecode sends a request, waits for the reply, and decodes it into record, unless record is nil.
func sendAndDecode(ctx context.Context, e *sessionEpoch, call *wire.Call, record jute.Decodable) error {
	r, _, err := awaitReply(ctx, e, call, nil)
	if err != nil {
		return err
	}
	return decodeOutcome(r, record)
}

// decodeOutcome returns the error of a reply. If there is none, it decodes the reply into record, unless record is nil.
func decodeOutcome(r wire.Reply, record jute.Decodable) error {
	if err := replyError(r); err != nil || record == nil {
		return err
	}
	return decodeRecord(r.Body, record.Fields)
}

// decodeRecord decodes a record; fields is its method Fields.
func decodeRecord(body []byte, fields func(*jute.Coder)) error {
	if err := jute.Decode(body, fields); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformedReply, err)
	}
	return nil
}

func decodeNothing(int64, []byte) (struct{}, error) { return struct{}{}, nil }

// patienceSetter sets how long a request may wait for a connection, and returns it: limitPatience or waitIndefinitely.
type patienceSetter = func(*wire.Call) *wire.Call

// limitPatience limits the wait for a connection to the connection timeout.
func (e *sessionEpoch) limitPatience(call *wire.Call) *wire.Call {
	call.Patience = e.core.cfg.connectTimeout
	return call
}

// waitIndefinitely lets a request wait for a connection as long as the session lives.
func waitIndefinitely(call *wire.Call) *wire.Call { return call }

// maxRounds limits how often an operation of several steps starts again because other clients undo its steps.
const maxRounds = 16

func newCall(op int32, request jute.Record) *wire.Call {
	return &wire.Call{Op: op, Body: jute.Marshal(request)}
}

// readCall returns an exists, getData or getChildren2 request.
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

package framework

import (
	"context"
	"time"
)

// Hooks are functions that a client calls to report operations, acquisitions, holds and states, for traces and metrics.
// A nil function is not called and costs nothing. Install them with [WithHooks]. The modules contrib/otel and
// contrib/prometheus are ready-made adapters. Values that can be read at any time have no hook: see [Client.Health].
//
// State, RoundTrip and the loss of a hold are reported one after the other, on one goroutine that only runs hooks. All
// other hooks run synchronously, on the caller's goroutine or on one of the client's goroutines. The client holds no
// lock during a call, and several hooks may run concurrently.
//
// Hooks should neither block nor wait for the client. A hook that blocks delays the caller, the hooks after
// it, and the background operations that end after the reported operation. It delays neither a session nor the end of a
// hold.
//
// A function that a hook returns is called exactly once, possibly on another goroutine. The hook may return
// nil instead.
//
// A panic in a hook ends the process, unless it happens on the goroutine of a caller that recovers. Then the
// client undoes the operation that had begun, or completes the release. A call of runtime.Goexit (t.FailNow)
// on a caller's goroutine has the same effect; on the client's own goroutines it ends only that hook.
type Hooks struct {
	// Operation is called when a builder's operation begins, in the foreground or in the background. The
	// function that it returns is called when the operation has ended. All tries count as one operation.
	// Operations that are refused for their arguments are not reported, and neither are operations that share another
	// operation's request, such as the recipes' lists of a line.
	Operation func(ctx context.Context, op Operation) func(OperationEnd)
	// Acquire is called when a recipe begins to acquire a lock, a lease or leadership. The function that it
	// returns is called with nil when the recipe has succeeded, or with the error when the recipe gives up.
	// The context that it returns must be ctx or derived from ctx: the acquisition continues in that context,
	// and the hold's context has its values. A nil context means ctx.
	Acquire func(ctx context.Context, a Acquisition) (context.Context, func(error))
	// Queue is called each time a recipe has listed the line in which its node waits: when it has joined the line, and
	// again whenever an event alone does not show which contender holds.
	Queue func(q Queue)
	// Wait is called when a recipe begins to wait for its predecessor. The function that it returns is called with nil
	// when a node ahead was deleted, or with the error that ended the wait. ctx is the context that Acquire returned.
	Wait func(ctx context.Context, q Queue) func(error)
	// Hold is called when a [Hold] begins. The function that it returns is called after the hold's context
	// has ended, with the cause. The context that Hold returns must be ctx or derived from ctx: the hold's
	// context has its values, and does not end with it. A nil context means ctx. A hold may end, with
	// ErrSuspended for example, before the recipe has returned it.
	Hold func(ctx context.Context, h HoldInfo) (context.Context, func(cause error))
	// State is called with each state change, in order, after the function given to [OnStateChange].
	State func(s StateReport)
	// RoundTrip is called with the time between each ping or heartbeat and its reply.
	RoundTrip func(r RoundTrip)
	// NodeData returns the data of the node with which a recipe joins the line. If it returns nil, the client's
	// default data are used. It is called only where neither the recipe itself nor an option sets data: never for a
	// semaphore's lease, nor for a read lock that is acquired under the client's own write lock. Every client that may
	// read the node can read the data.
	NodeData func(ctx context.Context, a Acquisition) []byte
}

// Operation describes an operation that begins.
type Operation struct {
	// Name is the operation's name, as in [OpError].
	Name string
	// Path is the path as the caller gave it; of several paths, the first.
	Path string
	// Background reports whether the operation was begun by InBackground.
	Background bool
}

// OperationEnd describes how an operation ended.
type OperationEnd struct {
	// Err is the error that the caller gets.
	Err error
	// Attempts is the number of tries; 0 if the client was closed or the context had ended.
	Attempts int
	// Epoch is the session of the last try.
	Epoch int64
}

// Acquisition describes the acquisition that a recipe begins.
type Acquisition struct {
	// Recipe is "mutex", "read-lock", "write-lock", "semaphore", "latch", "selector", …
	Recipe string
	// Path is the path of the lock, the election, …
	Path string
}

// Queue is the state of a recipe's line, as a contender with a node in it has read it.
type Queue struct {
	// Recipe is the contender's recipe, Path the parent of the line's nodes, Node the name of the contender's node.
	Recipe, Path, Node string
	// Length is the number of contenders in the line. Ahead is the number of contenders that this one waits for; 0 if
	// it may hold. (The first waiter of a semaphore may wait for a lease with 0 ahead.)
	Length, Ahead int
	// Predecessor is the name of the predecessor's node, "" if there is none. The next three fields are set only for
	// Wait, and only if the waiter watches that node, for which it needs READ on the node (otherwise it watches the
	// directory). PredecessorSession is the session that owns the node. PredecessorToken is the node's czxid: the
	// predecessor's fencing token, if it holds. PredecessorData are the node's data, nil if they are larger than
	// [ContenderDataLimit] before or after decompression. The data prove nothing, since their owner chose them.
	Predecessor        string
	PredecessorSession int64
	PredecessorToken   int64
	PredecessorData    []byte
	// Foreign counts the children of Path that do not belong to the line.
	Foreign int
	// SequenceLeft is the number of sequential nodes that can still be made below Path before Path has to be deleted.
	SequenceLeft int64
}

// HoldInfo describes a [Hold].
type HoldInfo struct {
	// Recipe is the Recipe of [HoldOptions], Path the path of the hold's node.
	Recipe, Path string
	// Token is the fencing token, which is the node's czxid; 0 if not known yet.
	Token int64
	// Epoch and SessionID identify the node's session.
	Epoch, SessionID int64
}

// StateReport is a state change and its reason.
type StateReport struct {
	StateChange
	// Server is the address of the connected server; for Suspended of the last one, for Lost it is empty.
	Server string
	// Reason is one word for the cause of the loss of the connection or the session: "expired" (reported by the
	// server), "lapsed" (no reply in time), "silent" (the server sent nothing), "stuck" (the server did not reply to a
	// request), "protocol" (the server broke the protocol), "unlisted" (the server was removed from the list), "quorum"
	// (the client changes to a server that has a quorum), "unauthenticated", "closed" (by the server), "network". It is
	// empty when nothing was lost.
	Reason string
	// Err is the error that Reason summarizes; nil when nothing was lost.
	Err error
}

// RoundTrip is the time between a ping or a heartbeat and its reply.
type RoundTrip struct {
	// Kind is "ping" or "heartbeat". The client pings the connected server when it has not sent another request for a
	// while. A heartbeat is the small write that a quorum commits for the holds, see [Rule].
	Kind string
	Took time.Duration
}

// clientHooks calls the functions of all the client's [Hooks]. If there are none, the client does not even compute the
// arguments of the calls.
type clientHooks []Hooks

// combineHooks returns the hooks that recipes call as one value, see [Client.Hooks].
func (o clientHooks) combineHooks() Hooks {
	if len(o) == 0 {
		return noHooks
	}
	return Hooks{Acquire: o.reportAcquire, Queue: o.reportQueue, Wait: o.reportWait, NodeData: o.contenderData}
}

// noHooks is the value of combineHooks for a client without hooks.
var noHooks = Hooks{
	Acquire:  func(ctx context.Context, _ Acquisition) (context.Context, func(error)) { return ctx, ignoreError },
	Wait:     func(context.Context, Queue) func(error) { return ignoreError },
	NodeData: func(context.Context, Acquisition) []byte { return nil },
}

func (o clientHooks) reportAcquire(ctx context.Context, a Acquisition) (context.Context, func(error)) {
	return callNested(ctx, o, a, func(h Hooks) beginHook[Acquisition] { return h.Acquire })
}

func (o clientHooks) reportQueue(q Queue) {
	for _, h := range o {
		if h.Queue != nil {
			h.Queue(q)
		}
	}
}

func (o clientHooks) reportWait(ctx context.Context, q Queue) func(error) {
	var ends []func(error)
	for _, h := range o {
		if h.Wait != nil {
			ends = appendEnd(ends, h.Wait(ctx, q))
		}
	}
	return combineEnds(ends, ignoreError)
}

// contenderData returns the data of the first NodeData that returns any.
func (o clientHooks) contenderData(ctx context.Context, a Acquisition) []byte {
	for _, h := range o {
		if h.NodeData != nil {
			if data := h.NodeData(ctx, a); data != nil {
				return data
			}
		}
	}
	return nil
}

func (o clientHooks) reportOperation(ctx context.Context, op Operation) func(OperationEnd) {
	var ends []func(OperationEnd)
	for _, h := range o {
		if h.Operation != nil {
			ends = appendEnd(ends, h.Operation(ctx, op))
		}
	}
	return combineEnds(ends, ignoreOperationEnd)
}

func (o clientHooks) reportHold(ctx context.Context, info HoldInfo) (context.Context, func(error)) {
	return callNested(ctx, o, info, func(h Hooks) beginHook[HoldInfo] { return h.Hold })
}

// beginHook is the type of the hooks Acquire and Hold, for an event of type T.
type beginHook[T any] = func(context.Context, T) (context.Context, func(error))

// callNested calls one hook of each of the client's [Hooks], with the context that the previous call returned. It
// returns the last context, and a function that calls all the returned functions.
func callNested[T any](ctx context.Context, o clientHooks, event T, hookOf func(Hooks) beginHook[T]) (
	context.Context, func(error)) {
	var ends []func(error)
	for _, h := range o {
		if begin := hookOf(h); begin != nil {
			inner, end := begin(ctx, event)
			if ends = appendEnd(ends, end); inner != nil {
				ctx = inner
			}
		}
	}
	return ctx, combineEnds(ends, ignoreError)
}

func (o clientHooks) reportState(s StateReport) {
	for _, h := range o {
		if h.State != nil {
			h.State(s)
		}
	}
}

func (o clientHooks) reportRoundTrip(r RoundTrip) {
	for _, h := range o {
		if h.RoundTrip != nil {
			h.RoundTrip(r)
		}
	}
}

func appendEnd[T any](ends []func(T), end func(T)) []func(T) {
	if end == nil {
		return ends
	}
	return append(ends, end)
}

func ignoreError(error) {}

func ignoreOperationEnd(OperationEnd) {}

// combineEnds returns one function that calls all of ends, the last one first. If ends is empty, it returns ignore, which
// does nothing. (A generic function in place of the parameter would be allocated.)
func combineEnds[T any](ends []func(T), ignore func(T)) func(T) {
	switch len(ends) {
	case 0:
		return ignore
	case 1:
		return ends[0]
	}
	return func(end T) {
		for i := len(ends) - 1; i >= 0; i-- {
			ends[i](end)
		}
	}
}

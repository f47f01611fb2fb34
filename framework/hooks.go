package framework

import (
	"context"
	"time"
)

// Hooks tell an observer what a client does, for traces and metrics. Any of them may be nil, and costs
// nothing then. Give them to [WithHooks]. The modules contrib/otel and contrib/prometheus are adapters.
// What can be asked at any time has no hook: see [Client.Health].
//
// State, RoundTrip and the loss of a hold are told one after the other, on a goroutine for that alone. All
// others are called synchronously, on the caller's goroutine or on one of the client's own. No lock is
// held, and several may be called at once.
//
// Hooks should not block, nor wait for the client. A hook that blocks delays the caller, the hooks after
// it, and the operations in the background that end after the one it is told of. It delays neither a
// session nor what is held.
//
// A function that a hook returns is called exactly once, possibly on another goroutine. It may be nil.
//
// A panic in a hook ends the process, unless a caller recovers on whose goroutine it is; then what was
// begun is undone, and what was to be released is released. The same goes for runtime.Goexit (t.FailNow),
// which on the client's own goroutines ends only that call.
type Hooks struct {
	// Operation is called when an operation of a builder begins, in the foreground or in the background, and
	// what it returns when the operation has ended. All tries are one operation. Not told are operations that
	// are refused for their arguments, and the many requests of helpers over whole subtrees.
	Operation func(ctx context.Context, op Operation) func(OperationEnd)
	// Acquire is called when a recipe begins to acquire something. What it returns is called with nil when the
	// recipe has acquired it, or with the error when it gives up. The context returned is ctx or derived from
	// it; the acquisition goes on in it, and the hold's context has its values. Nil means ctx.
	Acquire func(ctx context.Context, a Acquisition) (context.Context, func(error))
	// Queue is called each time a recipe has listed the line that it stands in: once, and again whenever an
	// event alone does not tell whose turn it is.
	Queue func(q Queue)
	// Wait is called when a recipe begins to wait for a predecessor. What it returns is called with nil when a
	// predecessor has left, or with the error that ended the wait. ctx is that of Acquire.
	Wait func(ctx context.Context, q Queue) func(error)
	// Hold is called when a hold begins. What it returns is called after the hold's context has ended, with
	// its cause. The context returned is ctx or derived from it; the hold's context has its values. Nil means
	// ctx. A hold may end, with ErrSuspended for example, before anybody has seen it.
	Hold func(ctx context.Context, h HoldInfo) (context.Context, func(cause error))
	// State is called with each state change, in order, after the function of [OnStateChange].
	State func(s StateReport)
	// RoundTrip is called with the time that a ping or a heartbeat took.
	RoundTrip func(r RoundTrip)
	// NodeData, if it does not return nil, is the data of the node with which a recipe stands in line, instead
	// of the client's default data. It is asked only where the recipe has no use for the data itself and no
	// option gives any; never for a semaphore's lease, nor for a read lock under its own write lock. Everybody
	// who may read the node can read it.
	NodeData func(ctx context.Context, a Acquisition) []byte
}

// Operation is an operation that begins.
type Operation struct {
	// Name is the operation's name, as in [OpError].
	Name string
	// Path is as the caller gave it. Of several paths it is the first.
	Path string
	// Background says that no caller waits for it.
	Background bool
}

// OperationEnd is how an operation ended.
type OperationEnd struct {
	// Err is what the caller gets.
	Err error
	// Attempts is how often it was tried; 0 if the client was closed or the context had ended.
	Attempts int
	// Epoch is the session of the last try.
	Epoch int64
}

// Acquisition is what a recipe begins to acquire.
type Acquisition struct {
	// Recipe is "mutex", "read-lock", "write-lock", "semaphore", "latch", "selector", …
	Recipe string
	// Path is that of the lock, the election, …
	Path string
}

// Queue is a line as one who stands in it has seen it.
type Queue struct {
	// Recipe is the recipe of the one in line, Path the line's directory, Node the name of the own node.
	Recipe, Path, Node string
	// Length is how many stand in line or hold, Ahead how many of them go first; 0 when it is this one's turn.
	// A semaphore's first in line waits for leases with 0 ahead.
	Length, Ahead int
	// Behind is the name of the predecessor's node, "" if there is none. The others are known to Wait, if the
	// waiter watches that node (of a mutex with long holds it may be the one before), and may read it: its
	// session, its czxid, which is its fencing token when it holds, and its data, unless they are larger than
	// [ContenderDataLimit]. The data are a claim: their owner chose them.
	Behind        string
	BehindSession int64
	BehindToken   int64
	BehindData    []byte
	// Foreign counts the children of the directory that are no contenders.
	Foreign int
	// SequenceLeft is how many more nodes can be made in the directory before it has to be deleted.
	SequenceLeft int64
}

// HoldInfo is what is held.
type HoldInfo struct {
	// Recipe is that of [HoldOptions], Path that of the node.
	Recipe, Path string
	// Token is the fencing token, which is the node's czxid; 0 if it is not known yet.
	Token int64
	// Epoch and SessionID are those of the session to which the node belongs.
	Epoch, SessionID int64
}

// StateReport is a state change and its reason.
type StateReport struct {
	StateChange
	// Server is the server that it is about.
	Server string
	// Reason is one word for why the connection or the session was lost: "expired" (the server says so),
	// "lapsed" (no answer in time), "silent" (the server sent nothing), "stuck" (it forgot a request),
	// "protocol" (it broke the protocol), "unlisted" (it is no longer on the list), "quorum" (another server
	// has it), "unauthenticated", "closed" (by the server), "network". Otherwise it is empty.
	Reason string
	// Err is the reason in full.
	Err error
}

// RoundTrip is the time between a ping or a heartbeat and its answer.
type RoundTrip struct {
	// Kind is "ping", which goes to the connected server when no request does, or "heartbeat", which goes
	// through the quorum while something is held under [RuleHeartbeat].
	Kind string
	Took time.Duration
}

// observer tells every one of the client's hooks. The zero value tells nobody: then what would only be told
// need not be found out.
type observer []Hooks

// asOne returns what recipes tell, see [Client.Hooks].
func (o observer) asOne() Hooks {
	if len(o) == 0 {
		return noHooks
	}
	return Hooks{Acquire: o.acquire, Queue: o.queue, Wait: o.wait, NodeData: o.nodeData}
}

// noHooks are those of a client that has none, see [Client.Hooks].
var noHooks = Hooks{
	Acquire:  func(ctx context.Context, _ Acquisition) (context.Context, func(error)) { return ctx, unheard },
	Wait:     func(context.Context, Queue) func(error) { return unheard },
	NodeData: func(context.Context, Acquisition) []byte { return nil },
}

func (o observer) acquire(ctx context.Context, a Acquisition) (context.Context, func(error)) {
	return nested(ctx, o, a, func(h Hooks) begins[Acquisition] { return h.Acquire })
}

func (o observer) queue(q Queue) {
	for _, h := range o {
		if h.Queue != nil {
			h.Queue(q)
		}
	}
}

func (o observer) wait(ctx context.Context, q Queue) func(error) {
	var ends []func(error)
	for _, h := range o {
		if h.Wait != nil {
			ends = also(ends, h.Wait(ctx, q))
		}
	}
	return allOf(ends, unheard)
}

func (o observer) nodeData(ctx context.Context, a Acquisition) []byte {
	for _, h := range o {
		if h.NodeData != nil {
			if data := h.NodeData(ctx, a); data != nil {
				return data
			}
		}
	}
	return nil
}

func (o observer) operation(ctx context.Context, op Operation) func(OperationEnd) {
	var ends []func(OperationEnd)
	for _, h := range o {
		if h.Operation != nil {
			ends = also(ends, h.Operation(ctx, op))
		}
	}
	return allOf(ends, unseen)
}

func (o observer) hold(ctx context.Context, info HoldInfo) (context.Context, func(error)) {
	return nested(ctx, o, info, func(h Hooks) begins[HoldInfo] { return h.Hold })
}

// begins is a hook of something that has a context and an end.
type begins[T any] = func(context.Context, T) (context.Context, func(error))

// nested tells the hooks that something begins, each in the context of the one before.
func nested[T any](ctx context.Context, o observer, what T, hook func(Hooks) begins[T]) (
	context.Context, func(error)) {
	var ends []func(error)
	for _, h := range o {
		if begin := hook(h); begin != nil {
			inner, end := begin(ctx, what)
			if ends = also(ends, end); inner != nil {
				ctx = inner
			}
		}
	}
	return ctx, allOf(ends, unheard)
}

func (o observer) state(s StateReport) {
	for _, h := range o {
		if h.State != nil {
			h.State(s)
		}
	}
}

func (o observer) roundTrip(r RoundTrip) {
	for _, h := range o {
		if h.RoundTrip != nil {
			h.RoundTrip(r)
		}
	}
}

func also[T any](ends []func(T), end func(T)) []func(T) {
	if end == nil {
		return ends
	}
	return append(ends, end)
}

func unheard(error) {}

func unseen(OperationEnd) {}

// allOf makes one function that calls several, the last one first, or returns none. (none is a parameter
// because a generic function in its place would be allocated.)
func allOf[T any](ends []func(T), none func(T)) func(T) {
	switch len(ends) {
	case 0:
		return none
	case 1:
		return ends[0]
	}
	return func(how T) {
		for i := len(ends) - 1; i >= 0; i-- {
			ends[i](how)
		}
	}
}

// pong returns what is told the round trips of pings; nil without hooks.
func (c *core) pong() func(time.Duration) {
	if len(c.cfg.observer) == 0 {
		return nil
	}
	return func(took time.Duration) { c.roundTrip(RoundTrip{"ping", took}) }
}

func (c *core) roundTrip(r RoundTrip) { c.ops.hooks.put(func() { c.cfg.observer.roundTrip(r) }) }

package framework

import "context"

// Hooks tell an observer what a client does, for traces and metrics. Any of them may be nil. Give them to [WithHooks]; adapters for OpenTelemetry and
// Prometheus are modules of their own below contrib/.
//
// They are called at the moment, on the goroutine of the caller whose doing it is, or on one of the client's own. What the client finds out by itself
// (State, RoundTrip, the loss of a hold) they are told one after the other on a goroutine for that alone. No lock is held, and several may be called at once.
// They should not block, nor wait for the client: callers, the other hooks, and with the end of an operation in the background the ends of those behind it
// wait for them (no session, and nothing that is held).
// A function that a hook returns is called exactly once, possibly on another goroutine; it may be nil. What has no hook costs nothing.
//
// A panic in a hook ends the process, unless it is on the goroutine of a caller who recovers: then nothing is left behind of what was begun, and what was
// to be released is. The same goes for runtime.Goexit (t.FailNow), which on the client's own goroutines ends no more than that call.
//
// There is no hook for what can be asked at any time: see [Client.Health].
type Hooks struct {
	// Operation is called when an operation of a builder begins, in the foreground or in the background, and what it returns when the operation has ended. Its
	// tries are one operation. What is refused for its arguments is not told, and neither are the requests that helpers over whole subtrees
	// send many at a time.
	Operation func(ctx context.Context, op Operation) func(OperationEnd)
	// Acquire is called when a recipe begins to acquire something that others may have, and what it returns when it has it (nil), or gives up. The context, which
	// is ctx or derived from it, is the one in which it goes on, and whose values the hold's context will have; nil means ctx.
	Acquire func(ctx context.Context, a Acquisition) (context.Context, func(error))
	// Queue is called each time a recipe has looked at the line that it stands in: once, and again whenever it cannot tell its turn without.
	Queue func(q Queue)
	// Wait is called when a recipe begins to wait for somebody in front, and what it returns when that is over: with nil because somebody has left, or with why it
	// waits no longer. ctx is that of Acquire.
	Wait func(ctx context.Context, q Queue) func(error)
	// Hold is called when something comes to be held, and what it returns when it ends, behind the end of the hold's context, with its cause. The
	// context, which is ctx or derived from it, is where the hold's own has its values from; nil means ctx. A hold may end with ErrSuspended and the like
	// before anybody has seen it.
	Hold func(ctx context.Context, h HoldInfo) (context.Context, func(cause error))
	// State is called with each state change, in order, behind the function of [OnStateChange].
	State func(s StateReport)
	// RoundTrip is called with the time between a sign of life and its answer.
	RoundTrip func(r RoundTrip)
	// NodeData, if it does not return nil, says what the node contains with which an acquisition stands in line (not a semaphore's lease, nor a read lock
	// beside its write lock), where the recipe has no use for that and no option says
	// otherwise: instead of the client's default data. Everybody who may read the node can read it.
	NodeData func(ctx context.Context, a Acquisition) []byte
}

// Operation is an operation that begins.
type Operation struct {
	// Name is the operation as it is called here, as in [OpError].
	Name string
	// Path is as the caller gave it; of several paths it is the first.
	Path string
	// Background says that nobody waits in the call.
	Background bool
}

// OperationEnd is how it ended.
type OperationEnd struct {
	// Err is what the caller gets.
	Err error
	// Attempts is how often it was tried, 0 if the client was closed or the context had ended.
	Attempts int
	// Epoch is the session of the last try.
	Epoch int64
}

// Acquisition is what a recipe begins to acquire.
type Acquisition struct {
	// Recipe is "mutex", "read-lock", "write-lock", "semaphore", "latch", "selector", …
	Recipe string
	// Path is that of the lock, election, ….
	Path string
}

// Queue is a line as somebody in it has seen it.
type Queue struct {
	// Recipe is that of the one who stands in it, Path the line's directory, Node the name of the own node.
	Recipe, Path, Node string
	// Length is how many stand in line or hold, Ahead how many of them have to go first; 0 with the turn. A semaphore's first in line
	// waits with 0 ahead, for leases.
	Length, Ahead int
	// Behind is the name of the node that has to go next, "" if there is none. With Wait, and where it may be read: its session, its
	// czxid, which is its fencing token when it holds, and its data, unless they are larger than ContenderDataLimit. The data are somebody else's:
	// what they say is a claim.
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
	// Recipe is that of HoldOptions, Path that of the node.
	Recipe, Path string
	// Token is the fencing token, the node's czxid; 0 where that is not known yet.
	Token int64
	// Epoch and SessionID are those of the session to which the node belongs.
	Epoch, SessionID int64
}

// StateReport is a state change and why it came.
type StateReport struct {
	StateChange
	// Server is the one that it is about.
	Server string
	// Reason is, in a word, why the connection or the session was lost: "expired" (the server says so), "lapsed" (no answer in time), "silent" (the server gave
	// no sign), "stuck" (it forgot a request), "protocol" (it said what no server says), "unlisted" (it is not on the list any more), "quorum" (another one has it),
	// "unauthenticated", "closed" (by the server), "network". Empty otherwise.
	Reason string
	// Err is the same at length.
	Err error
}

// Observer hands to [Hooks] what recipes have to say. The zero value has none to hand it to.
type Observer struct{ hooks []Hooks }

// Observer returns the client's, for recipes.
func (c *Client) Observer() Observer {
	if c.none() {
		return Observer{}
	}
	return c.core.cfg.observer
}

// Active says whether there is anybody to tell: what is only there to be told need not be found out otherwise.
func (o Observer) Active() bool { return len(o.hooks) > 0 }

// Acquire says that an acquisition begins. It returns the context to go on in, and what to call at its end, never nil.
func (o Observer) Acquire(ctx context.Context, a Acquisition) (context.Context, func(error)) {
	var ends []func(error)
	for _, h := range o.hooks {
		if h.Acquire != nil {
			inner, end := h.Acquire(ctx, a)
			ctx, ends = inside(ctx, inner), also(ends, end)
		}
	}
	return ctx, allOf(ends, unheard)
}

// Queue says what was seen of a line.
func (o Observer) Queue(q Queue) {
	for _, h := range o.hooks {
		if h.Queue != nil {
			h.Queue(q)
		}
	}
}

// Wait says that a wait begins. What it returns, never nil, is to be called at its end.
func (o Observer) Wait(ctx context.Context, q Queue) func(error) {
	var ends []func(error)
	for _, h := range o.hooks {
		if h.Wait != nil {
			ends = also(ends, h.Wait(ctx, q))
		}
	}
	return allOf(ends, unheard)
}

// NodeData returns what a hook wants to have in a node, or nil.
func (o Observer) NodeData(ctx context.Context, a Acquisition) []byte {
	for _, h := range o.hooks {
		if h.NodeData != nil {
			if data := h.NodeData(ctx, a); data != nil {
				return data
			}
		}
	}
	return nil
}

func (o Observer) operation(ctx context.Context, op Operation) func(OperationEnd) {
	var ends []func(OperationEnd)
	for _, h := range o.hooks {
		if h.Operation != nil {
			ends = also(ends, h.Operation(ctx, op))
		}
	}
	return allOf(ends, unseen)
}

func (o Observer) hold(ctx context.Context, info HoldInfo) (context.Context, func(error)) {
	var ends []func(error)
	for _, h := range o.hooks {
		if h.Hold != nil {
			inner, end := h.Hold(ctx, info)
			ctx, ends = inside(ctx, inner), also(ends, end)
		}
	}
	return ctx, allOf(ends, unheard)
}

func (o Observer) state(s StateReport) {
	for _, h := range o.hooks {
		if h.State != nil {
			h.State(s)
		}
	}
}

func (o Observer) roundTrip(r RoundTrip) {
	for _, h := range o.hooks {
		if h.RoundTrip != nil {
			h.RoundTrip(r)
		}
	}
}

func inside(ctx, inner context.Context) context.Context {
	if inner == nil {
		return ctx
	}
	return inner
}

func also[T any](ends []func(T), end func(T)) []func(T) {
	if end == nil {
		return ends
	}
	return append(ends, end)
}

func unheard(error) {}

func unseen(OperationEnd) {}

// allOf makes one function of several, the last of which is called first, or returns none. (A generic function in its place would be allocated.)
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

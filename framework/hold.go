package framework

import (
	"context"
	"sync"
	"time"

	"github.com/go-curator/curator/internal/fencing"
	"github.com/go-curator/curator/internal/wire"
)

// LossPolicy reports whether a [Hold] outlives a suspended connection. Corresponds to Curator's
// ConnectionStateErrorPolicy.
type LossPolicy int8

const (
	// SuspendedIsLoss ends the hold as soon as the connection is lost (Curator's
	// StandardConnectionStateErrorPolicy).
	SuspendedIsLoss LossPolicy = iota
	// SessionOnly keeps the hold as long as the session certainly lives (Curator's SessionConnectionStateErrorPolicy).
	// That is safe here: the client's own clock ends the hold before the servers can give the lock to another client.
	SessionOnly
)

func (p LossPolicy) String() string {
	return enumName("LossPolicy", p, "SuspendedIsLoss", "SessionOnly")
}

// Hold is a lock, a lease or a term of leadership that one session has. It ends once, for one reason, and
// never comes back. Safe for concurrent use.
//
// It ends, at the latest, before the servers can expire the session: see [Rule]. Two cases are not covered:
// an administrator deletes the node, or closes the session. Then the hold ends when the event arrives, or on
// the next connection.
type Hold struct {
	e             *sessionEpoch
	path          string // full
	name          string // the path as the client sees it
	loss          LossPolicy
	alone         bool // no other hold on the same lock is valid at the same time
	ctx           holdContext
	cancelContext context.CancelCauseFunc
	reportEnd     func(error)    // reports the end to the hooks; nil if there are none; set once
	youngEntry    youngHoldEntry // guarded by e.youngHolds.mu

	mu          sync.Mutex
	cause       error // set once
	czxid       int64
	watch       *wire.Watch // the own-node watch that is armed or on its way
	uncheckable bool        // the session has no permission to check the node in a heartbeat
	eventless   bool        // no events come of the node, since the session may not read it
	watchArmed  bool        // the watch was armed, as far as the session may
	timer       *time.Timer // for what onTimer does, once the hold is not young any more; nil until it is needed
}

// Context returns a context that ends with the hold. context.Cause returns the reason: ErrSuspended, ErrSessionLost,
// ErrNodeDeleted, ErrReleased, ErrClosed, ErrTimeoutTooShort, or the cause given to End. It has the values of
// HoldOptions.Values, and no deadline.
//
// Its Err also looks at the clock: after a pause of the process, or of the machine, Err is not nil even if
// Done has not been closed yet. (Contexts derived with context.WithCancel and the like do not look at the
// clock; their Err follows Done.)
func (h *Hold) Context() context.Context {
	if h.e == nil {
		return endedContext // the zero value
	}
	return &h.ctx
}

// Valid reports whether the hold is certain now. It computes that from the clock and does not block. When it returns
// false, the hold's context has ended.
func (h *Hold) Valid() bool {
	if h.e == nil {
		return false
	}
	h.mu.Lock()
	cause := h.cause
	h.mu.Unlock()
	if cause != nil {
		h.cancelContext(cause) // the goroutine that set the cause may not have called cancelContext yet
		return false
	}
	v := h.e.wire.Validity()
	if v.Valid() {
		return true
	}
	endHoldsByClient(h.e.endCause(), h)
	return false
}

// Remaining returns how long the hold stays valid if no further answer arrives; 0 when the hold has ended.
// While the connection works, answers renew this time continuously.
func (h *Hold) Remaining() time.Duration {
	if !h.Valid() {
		return 0
	}
	return max(h.e.wire.Validity().Remaining(), 0)
}

func (h *Hold) endCause() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cause
}

// A hold ends once, by the first of these causes that reaches endOnce or endHoldsByClient:
//
//   - The session ends (endCause). The session layer makes the end of the session's time final before it reports it.
//     Next, in any order: Valid sees it (Remaining, the context's Err and every other cause ask Valid first), and
//     endLostHolds is called, which takes only locks that are held briefly. Only then come the manager's
//     endAllHolds, the end of the watch on the own node, and Lost.
//   - The connection is lost and the policy is SuspendedIsLoss (suspendHolds): ErrSuspended, before Suspended is
//     announced.
//   - The own node is gone, or another node has its name; an event, a read of the node or a heartbeat shows
//     that (loseHold): ErrNodeDeleted.
//   - The rule in force allows no holds (enforceRule, registerHold): ErrTimeoutTooShort.
//   - The client closes (endAllHolds): ErrClosed, before the session is closed.
//   - The holder ends it (End).

// End ends the hold. Only the first call has an effect, and its cause becomes the context's cause; nil means
// ErrReleased. End returns immediately. The watch on the node is used up when the node is deleted; if the node stays,
// the client removes the watch. Call End before the node is deleted: another client may get the lock as soon as the
// node is gone.
func (h *Hold) End(cause error) {
	if h.e == nil {
		return
	}
	if cause == nil {
		cause = ErrReleased
	}
	if h.endOnce(cause) {
		h.cleanUpWatch()
		if h.reportEnd != nil {
			h.reportEnd(cause)
		}
	}
}

// loseHold ends the hold for cause, unless the hold has ended with its session already. After a pause of the
// process, the client may read consequences of the session's end, such as a deleted node, before it has checked the
// clock.
func (h *Hold) loseHold(cause error) {
	if h.Valid() {
		endHoldsByClient(cause, h)
	}
}

// endAllHolds ends all holds of the epoch and refuses new ones.
func (e *sessionEpoch) endAllHolds(why error) {
	e.changeState(func() { e.endedBy = why })
	endHoldsByClient(why, e.currentHolds()...)
}

// endLostHolds ends all holds of the epoch as soon as no hold is certain any more. It waits for none of the
// others that have to be notified of the session's end.
func (e *sessionEpoch) endLostHolds() {
	if holds := e.currentHolds(); len(holds) > 0 { // else the epoch may have no session yet
		endHoldsByClient(e.endCause(), holds...)
	}
}

// suspendHolds ends the holds that do not outlive the connection.
func (e *sessionEpoch) suspendHolds() {
	e.changeState(func() { e.suspended = true })
	var lost []*Hold
	for _, h := range e.currentHolds() {
		if h.loss == SuspendedIsLoss && h.Valid() { // an invalid hold has ended with the session
			lost = append(lost, h)
		}
	}
	endHoldsByClient(ErrSuspended, lost...)
}

// endHoldsByClient is End for the client itself: the hooks run on their own goroutine. It ends all the holds before
// it does anything that may wait, or that takes time for each.
func endHoldsByClient(cause error, holds ...*Hold) {
	var ended []*Hold
	for _, h := range holds {
		if h.cancelOnce(cause) {
			ended = append(ended, h)
		}
	}
	for _, h := range ended {
		h.unregister()
	}
	for _, h := range ended {
		if h.reportEnd != nil {
			h.e.core.hooks.enqueue(func() { h.reportEnd(cause) })
		}
		h.cleanUpWatch()
	}
}

// endOnce returns true to the first caller. It takes only locks that are held briefly, to read the holds and the
// clock, and in particular not the lock of the session's state.
func (h *Hold) endOnce(cause error) bool {
	first := h.cancelOnce(cause)
	if first {
		h.unregister()
	}
	return first
}

// cancelOnce ends the hold's context. It returns true to the first caller, who then calls unregister.
func (h *Hold) cancelOnce(cause error) bool {
	h.mu.Lock()
	if first := h.cause; first != nil {
		h.mu.Unlock()
		h.cancelContext(first) // the goroutine that set the cause may not have called cancelContext yet
		return false
	}
	h.cause = cause
	h.mu.Unlock()
	h.cancelContext(cause)
	return true
}

// unregister takes a hold that has ended off the session's lists.
func (h *Hold) unregister() {
	h.mu.Lock()
	timer := h.timer
	h.mu.Unlock()
	h.e.youngHolds.removeHold(h)
	if timer != nil {
		timer.Stop()
	}
	h.e.mu.Lock()
	_, registered := h.e.holds[h]
	delete(h.e.holds, h)
	h.e.mu.Unlock()
	if registered {
		h.e.wire.Validity().EndHold()
	}
}

// holdContext is a cancelable context whose Err also looks at the clock.
type holdContext struct {
	context.Context
	values context.Context // whose values it has besides; nil if there are none
	h      *Hold
}

// Value implements [context.Context]. It lets contrib/fence find the hold.
func (c *holdContext) Value(key any) any {
	if list, ok := key.(*fencing.List); ok {
		h := c.h
		h.mu.Lock()
		token := h.czxid
		h.mu.Unlock()
		list.Add(fencing.Hold{Path: h.name, Token: token, Shared: !h.alone, Context: c})
	}
	if v := c.Context.Value(key); v != nil || c.values == nil {
		return v
	}
	return c.values.Value(key)
}

// Err implements [context.Context].
func (c *holdContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	c.h.Valid()
	return c.Context.Err()
}

package framework

import (
	"context"
	"sync"
	"time"

	"github.com/go-curator/curator/internal/fencing"
	"github.com/go-curator/curator/internal/wire"
)

// LossPolicy determines whether a [Hold] outlives the loss of the connection. Corresponds to Curator's
// ConnectionStateErrorPolicy.
type LossPolicy int8

const (
	// SuspendedIsLoss ends the hold as soon as the connection is lost (Curator's
	// StandardConnectionStateErrorPolicy).
	SuspendedIsLoss LossPolicy = iota
	// SessionOnly keeps the hold, with or without a connection, while the session is certain not to have expired
	// (Curator's SessionConnectionStateErrorPolicy). Unlike in Curator that is safe: the client's own clock ends the hold
	// before another client can get the lock.
	SessionOnly
)

func (p LossPolicy) String() string {
	return enumName("LossPolicy", p, "SuspendedIsLoss", "SessionOnly")
}

// Hold is a lock, a lease or a term of leadership that one session has. It ends once, for one reason, and is not
// valid again later. Safe for concurrent use.
//
// It ends, at the latest, before the servers can expire the session: see [Rule]. Two cases are not covered:
// an administrator deletes the node, or closes the session. Then the hold ends when the event arrives, or on
// the next connection.
type Hold struct {
	e             *sessionEpoch
	fullPath      string // of the hold's node in the whole tree
	userPath      string // the same in the client's view, without chroot and namespace
	loss          LossPolicy
	exclusive     bool // no other hold on the same lock is valid at the same time
	ctx           holdContext
	cancelContext context.CancelCauseFunc
	reportEnd     func(error)    // reports the end to the hooks; nil if there are none; set once
	youngEntry    youngHoldEntry // guarded by e.youngHolds.mu

	mu          sync.Mutex  // guards the fields below
	cause       error       // why the hold has ended; set once
	czxid       int64       // of the node; 0 until it is known
	watch       *wire.Watch // on the own node, armed or requested; nil if there is none
	uncheckable bool        // the session has no permission to check the node in a heartbeat
	unreadable  bool        // the session may not read the node, so servers send no events for a watch on it
	watchArmed  bool        // the request for the watch was executed, or refused because the node is unreadable
	timer       *time.Timer // calls onTimer; nil until the first setTimer (young holds share the timer of youngHolds)
}

// Context returns a context that ends with the hold. context.Cause returns the reason: ErrSuspended, ErrSessionLost,
// ErrNodeDeleted, ErrReleased, ErrClosed, ErrTimeoutTooShort, or the cause given to End. It has the values of
// HoldOptions.Values, and no deadline.
//
// Its Err also reads the clock: when a process or a machine continues after a long pause, Err returns the error even
// before Done is closed. (The Err of a derived context, such as one of context.WithCancel, does not read the clock, and
// changes when Done is closed.)
func (h *Hold) Context() context.Context {
	if h.e == nil {
		return endedContext // the zero value
	}
	return &h.ctx
}

// Valid reports whether the hold is certain now, by the clock. It sends nothing and does not block. When it returns
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

// Remaining returns how long the hold stays valid if no further reply arrives; 0 when the hold has ended.
// While the connection works, replies renew this time continuously.
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

// A hold ends once, with the first of these causes:
//
//   - The session is lost: the cause is sessionEpoch.endCause. (1) The session layer records the loss, which is final
//     from then on. (2) Valid, which Remaining and the context's Err call, returns false; at the same time the session
//     layer calls endLostHolds, which takes only locks that are held briefly. (3) The session layer ends the watches and
//     reports Lost to the manager, which calls endAllHolds.
//   - The connection is lost and the policy is SuspendedIsLoss (endHoldsOnSuspension): ErrSuspended, before Suspended is
//     announced.
//   - The own node has been deleted, or another node has its name, as an event, a read of the node or a heartbeat shows
//     (loseHold): ErrNodeDeleted.
//   - The rule in force allows no holds (enforceRule, registerHold): ErrTimeoutTooShort.
//   - The client closes (endAllHolds): ErrClosed, before the session is closed.
//   - The holder ends it (End).

// End ends the hold. Only the first call has an effect: its cause becomes the context's cause; nil means ErrReleased.
// End waits for no reply; it calls the functions that [Hooks] returned for this hold. Call End before the node is
// deleted: another client may get the lock as soon as the node is deleted.
func (h *Hold) End(cause error) {
	if h.e == nil {
		return
	}
	if cause == nil {
		cause = ErrReleased
	}
	if h.endOnce(cause) {
		h.unregister()
		h.cleanUpWatch()
		if h.reportEnd != nil {
			h.reportEnd(cause)
		}
	}
}

// loseHold ends the hold for cause, unless the session is lost by the clock: then that is the cause. The order matters
// after a pause of the process: the client may read a consequence of the session's end, such as the deletion of the
// node, before it has read the clock.
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

// endLostHolds ends all holds of the epoch. The session layer calls it first when the session is lost, so that the end
// of the holds waits for no queue.
func (e *sessionEpoch) endLostHolds() {
	if holds := e.currentHolds(); len(holds) > 0 { // else e.wire may not be set yet, which endCause reads
		endHoldsByClient(e.endCause(), holds...)
	}
}

// endHoldsOnSuspension records that the epoch has no connection to a member with a quorum, and ends the holds with the
// policy SuspendedIsLoss.
func (e *sessionEpoch) endHoldsOnSuspension() {
	e.changeState(func() { e.suspended = true })
	var lost []*Hold
	for _, h := range e.currentHolds() {
		if h.loss == SuspendedIsLoss && h.Valid() { // Valid has ended the holds of a lost session
			lost = append(lost, h)
		}
	}
	endHoldsByClient(ErrSuspended, lost...)
}

// endHoldsByClient is End for the client itself: the hooks run on a separate goroutine. It ends the contexts of all the
// holds before it does anything else: the other steps may wait for locks, and take time for each hold.
func endHoldsByClient(cause error, holds ...*Hold) {
	var ended []*Hold
	for _, h := range holds {
		if h.endOnce(cause) {
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

// endOnce ends the hold's context. It returns true to the first caller, which then calls unregister and cleanUpWatch.
// endOnce and unregister take only locks that are held briefly, and in particular not the mutex of the wire session,
// which may be held for long.
func (h *Hold) endOnce(cause error) bool {
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

// unregister removes a hold that has ended from the lists of its epoch.
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

// holdContext is the context of a hold. Its Err also reads the clock.
type holdContext struct {
	context.Context                 // ends with the hold
	values          context.Context // of HoldOptions.Values, or of the hook; nil if there are none
	h               *Hold
}

// Value implements [context.Context]. To the key of package fencing it adds this hold to the list that the key is: so
// contrib/fence finds the holds of a context.
func (c *holdContext) Value(key any) any {
	if list, ok := key.(*fencing.List); ok {
		h := c.h
		h.mu.Lock()
		token := h.czxid
		h.mu.Unlock()
		list.Add(fencing.Hold{Path: h.userPath, Token: token, Shared: !h.exclusive, Context: c})
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

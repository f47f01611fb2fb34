package framework

import (
	"context"
	"sync"
	"time"

	"github.com/go-curator/curator/internal/wire"
)

// LossPolicy says whether a hold outlives a suspended connection. Corresponds to Curator's
// ConnectionStateErrorPolicy.
type LossPolicy int8

const (
	// SuspendedIsLoss ends the hold as soon as the connection is lost (Curator's
	// StandardConnectionStateErrorPolicy).
	SuspendedIsLoss LossPolicy = iota
	// SessionOnly lets it live as long as the session certainly does (Curator's
	// SessionConnectionStateErrorPolicy). That is safe here: the client's own clock ends the hold before the
	// servers can give it to somebody else.
	SessionOnly
)

func (p LossPolicy) String() string { return nameOf("LossPolicy", p, "SuspendedIsLoss", "SessionOnly") }

// HoldOptions says what is held.
type HoldOptions struct {
	// Path is the ephemeral node of this session that stands for the right. Without it there is no hold.
	Path string
	// Recipe is the kind of right, for [Hooks]. Default none.
	Recipe string
	// Czxid is the zxid of the node's creation: another node of the same name is not it. Default 0: that of the
	// first look at it.
	Czxid int64
	// Loss is the policy. Default SuspendedIsLoss.
	Loss LossPolicy
	// Values gives the hold's context its values. Its end does not end the hold. Default none.
	Values context.Context
	// OwnWatchAfter is after how long the hold begins to watch its node. Default 0: 50 ms, so that short holds
	// cost nothing. Negative: at once, and without a request if this session has a watch on the node already.
	// Only if the node was read since that watch was set.
	OwnWatchAfter time.Duration
}

// Hold is a right that one session has: a lock, a lease, a term of leadership. It ends once, for one reason,
// and never comes back. Safe for concurrent use.
//
// It ends, at the latest, before the servers can expire the session: see [Rule]. That does not cover an
// administrator who deletes the node, or closes the session: this is known when the event arrives, or on the
// next connection.
type Hold struct {
	e     *epoch
	path  string // full
	loss  LossPolicy
	ctx   *holdContext
	fail  context.CancelCauseFunc
	told  func(error) // the hook's word of its end, nil if there is none; set once, as timer
	timer *time.Timer // of the next look at the own node; set once, before the hold is known to anybody

	mu       sync.Mutex
	cause    error // set once
	czxid    int64
	watch    *wire.Watch // the own-node watch that is armed or on its way
	unlisted bool        // the heartbeat may not check the node
}

// Context ends with the hold; context.Cause says why: ErrSuspended, ErrSessionLost, ErrNodeDeleted,
// ErrReleased, ErrClosed, ErrTimeoutTooShort, or what End was given. Its values are those of
// HoldOptions.Values, and it has no deadline.
//
// Its Err looks at the clock, too: after a pause of the process, or of the machine, it is not nil even if
// Done has not been closed yet. (The Err of contexts derived with context.WithCancel and the like does not
// look; it follows Done.)
func (h *Hold) Context() context.Context {
	if h.e == nil {
		return overContext // nobody has made it
	}
	return h.ctx
}

// Valid says whether the right is certain now. It computes that from the clock and does not block. When it is
// false, the context has ended.
func (h *Hold) Valid() bool {
	if h.e == nil {
		return false
	}
	if cause := h.why(); cause != nil {
		h.fail(cause) // whoever ended it may not have come to that yet
		return false
	}
	v := h.e.wire.Validity()
	if v.Valid() {
		return true
	}
	endAll(h.e.endCause(), h)
	return false
}

// Remaining returns how long the hold stays valid if no answer comes any more; 0 when it has ended. While the
// connection works it is renewed all the time.
func (h *Hold) Remaining() time.Duration {
	if !h.Valid() {
		return 0
	}
	return max(h.e.wire.Validity().Remaining(), 0)
}

// why returns the cause, nil while the hold has not ended.
func (h *Hold) why() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cause
}

// holdContext is a cancelable context whose Err looks at the clock.
type holdContext struct {
	context.Context
	h *Hold
}

// Err implements [context.Context].
func (c *holdContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	c.h.Valid()
	return c.Context.Err()
}

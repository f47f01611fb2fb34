package framework

import (
	"context"
	"errors"
	"fmt"
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

// HoldOptions describes a [Hold].
type HoldOptions struct {
	// Path is the ephemeral node of this session that stands for the lock, lease or leadership. The hold ends
	// when this node is gone.
	Path string
	// Recipe is the kind of lock, for [Hooks]. Default: empty.
	Recipe string
	// Czxid is the zxid of the node's creation. A node with the same name and another czxid is another node.
	// Default 0: the czxid found when the client first reads the node.
	Czxid int64
	// Loss reports whether the hold outlives a suspended connection. Default SuspendedIsLoss.
	Loss LossPolicy
	// Values gives the hold's context its values. The end of Values does not end the hold. Default: no
	// values.
	Values context.Context
	// OwnWatchAfter is the age at which the hold begins to watch its node. Default 0 means 50 ms, so that short holds
	// cost nothing. A negative value means immediately; no request is sent if this session has a watch on the node
	// already. Use a negative value only if the node was read since that watch was set.
	OwnWatchAfter time.Duration
	// Shared means that other holds on the same lock may be valid at the same time, as with readers, so that the node's
	// czxid cannot serve as a fencing token. Default false.
	Shared bool
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

// Hold returns a [Hold] on the lock, lease or leadership that the node at opt.Path stands for. The caller must have
// read the grant from the tree in this session.
//
// Hold waits, as long as ctx allows, for the proof that the rule in force needs: the answer whether the server is
// standalone, and a committed write if the hold would otherwise begin with too little time left, as after a reconnect
// or a stalled link, and under [RuleHeartbeat] after a long wait. The write is repeated after lost connections and
// passing refusals, and while the servers commit so slowly that no hold could begin. If the proof is complete, Hold
// returns immediately and sends nothing. If that, or a hook, has taken longer than 50 ms, the caller's read is
// outdated: Hold makes certain that the node still exists, by a read unless a write has shown it. The end of ctx does
// not end the hold.
//
// Errors: ErrSessionLost, ErrClosed, ErrSuspended (policy SuspendedIsLoss and no connection), ErrNodeDeleted,
// ErrTimeoutTooShort, ErrInvalidPath, ErrNilContext, and ctx's.
func (s *Session) Hold(ctx context.Context, opt HoldOptions) (*Hold, error) {
	if s.isZeroValue() {
		return nil, wrapOpError("hold", opt.Path, ErrNoClient)
	}
	full, err := s.c.fullPath(opt.Path)
	if left := checkContext(ctx); left != nil {
		err = left
	}
	if err != nil {
		return nil, wrapOpError("hold", opt.Path, err)
	}
	var h *Hold
	shown := time.Now() // the last proof that the node exists; the first is the caller's
	err = repeatUncertain(ctx, func() error {
		written, err := s.e.awaitCertainty(ctx, full, opt.Loss)
		if !written.IsZero() {
			shown = written
		}
		if err == nil && time.Since(shown) >= ownWatchAfter {
			err = s.e.checkNodePresent(ctx, full, opt)
			shown = time.Now()
		}
		if err != nil {
			return err
		}
		if h == nil {
			h = newHold(s.e, full, opt)
			h.eventless = !s.c.ReadsItsOwn(opt.Path)
			if time.Since(shown) >= ownWatchAfter { // the hook took long
				return errUncertain
			}
		}
		return s.e.registerHold(h)
	})
	switch {
	case err != nil:
		if h != nil {
			h.End(err)
		}
		return nil, wrapOpError("hold", opt.Path, s.e.core.explainWait(err))
	case opt.OwnWatchAfter < 0:
		h.watchOwnNode(true)
	case opt.OwnWatchAfter > 0:
		h.setTimer(opt.OwnWatchAfter)
	default:
		s.e.youngHolds.addHold(h)
	}
	return h, nil
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

// awaitCertainty returns nil if a hold made now would be certain, and errUncertain if it has to be called again.
// shown is the time at which a write has shown that the node exists; zero if no write was needed.
func (e *sessionEpoch) awaitCertainty(ctx context.Context, full string, loss LossPolicy) (shown time.Time, err error) {
	if err = e.awaitRule(ctx, loss); err == nil {
		shown, err = e.proveByWrites(ctx, full, loss)
	}
	if err != nil {
		return shown, err
	}
	switch v := e.wire.Validity(); {
	case v.Valid():
		return shown, nil
	case v.Lost():
		return shown, e.endCause()
	}
	return shown, errUncertain // the rule or the connection has changed, or the certainty ended immediately
}

// errUncertain means that a hold is not certain any more although the session lives: call awaitCertainty again.
var errUncertain = errors.New("before the grant was complete, the client was no longer certain of its session")

// repeatUncertain repeats try while it returns errUncertain, until ctx ends. Each round but the first makes a
// write, or waits.
func repeatUncertain(ctx context.Context, try func() error) (err error) {
	for {
		switch err = try(); {
		case err != errUncertain:
			return err
		case ctx.Err() != nil:
			return fmt.Errorf("%w: %w", unsentError(ctx), err)
		}
	}
}

// awaitRule waits until the rule in force is known. It returns nil if that allows a hold.
func (e *sessionEpoch) awaitRule(ctx context.Context, loss LossPolicy) error {
	for {
		e.mu.Lock()
		over, changed := e.endedBy, e.changed.C()
		suspended := e.suspended && loss == SuspendedIsLoss
		e.mu.Unlock()
		switch {
		case over != nil:
			return over
		case suspended:
			return ErrSuspended
		}
		if p, known := e.currentPlan(); known {
			return p.refused
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return unsentError(ctx)
		}
	}
}

// registerHold adds the hold to the epoch's holds, unless the hold is not certain any more. It looks at the clock
// last: the hook may have taken long since awaitCertainty returned.
func (e *sessionEpoch) registerHold(h *Hold) error {
	v := e.wire.Validity()
	counted, late := v.BeginHold(), errUncertain
	if v.Lost() {
		late = e.endCause()
	}
	e.mu.Lock()
	err, first := e.endedBy, len(e.holds) == 0
	switch {
	case err != nil:
	case e.suspended && h.loss == SuspendedIsLoss:
		err = ErrSuspended
	case !counted:
		err = late
	default:
		e.holds[h] = struct{}{}
	}
	e.mu.Unlock()
	if err != nil {
		if counted {
			v.EndHold()
		}
		return err
	}
	switch p, known := e.currentPlan(); { // a later change of the rule finds h in e.holds
	case p.refused != nil && known:
		endHoldsByClient(p.refused, h)
	case first && !p.servers.Standalone:
		e.core.manager.inbox.Put(e.core.manager.scheduleHeartbeat)
	}
	if !h.Valid() {
		return h.endCause()
	}
	return nil
}

func newHold(e *sessionEpoch, full string, opt HoldOptions) *Hold {
	h := &Hold{
		e: e, path: full, name: opt.Path, loss: opt.Loss, alone: !opt.Shared, czxid: opt.Czxid,
	}
	h.ctx.h, h.ctx.values = h, opt.Values
	if observer := e.core.cfg.observer; len(observer) > 0 {
		values := context.Background()
		if opt.Values != nil {
			values = context.WithoutCancel(opt.Values)
		}
		info := HoldInfo{
			Recipe: opt.Recipe, Path: opt.Path, Token: opt.Czxid, Epoch: e.n, SessionID: e.wire.ID(),
		}
		h.ctx.values, h.reportEnd = observer.reportHold(values, info)
	}
	// Not derived from the hook's context: when a derived context ends, it calls its parent, and the goroutine that
	// ends a hold may have locked a mutex.
	h.ctx.Context, h.cancelContext = context.WithCancelCause(context.Background())
	return h
}

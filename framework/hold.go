package framework

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-curator/curator/internal/jute"
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

// Hold makes a hold of a right that the node at opt.Path stands for. The caller has found out, in this
// session, that the right is its own.
//
// It waits, as long as ctx allows, for what the rule in force needs: once per session for the answer whether
// the server stands alone, and under [RuleHeartbeat] for up to three committed writes, over lost connections
// and refusals that pass. Otherwise it returns at once and sends nothing. The end of ctx does not end the
// hold.
//
// Errors: ErrSessionLost, ErrClosed, ErrSuspended (policy SuspendedIsLoss and no connection), ErrNodeDeleted,
// ErrTimeoutTooShort, ErrInvalidPath, ErrNilContext, and ctx's.
func (s *Session) Hold(ctx context.Context, opt HoldOptions) (*Hold, error) {
	if s.none() {
		return nil, opError("hold", opt.Path, ErrNoClient)
	}
	full, err := s.c.fullPath(opt.Path)
	if left := checkContext(ctx); left != nil {
		err = left
	}
	if err != nil {
		return nil, opError("hold", opt.Path, err)
	}
	var h *Hold
	err = inRounds(func() error {
		if err := s.e.certain(ctx, full, opt.Loss); err != nil {
			return err
		}
		if h == nil {
			h = newHold(s.e, full, opt)
		}
		return s.e.register(h) // the hook may have taken its time
	})
	switch {
	case err != nil:
		if h != nil {
			h.End(err)
		}
		return nil, opError("hold", opt.Path, s.e.core.explain(err))
	case opt.OwnWatchAfter < 0:
		h.watchNode(true)
	default:
		h.timer.Reset(cmp.Or(opt.OwnWatchAfter, ownWatchAfter))
	}
	return h, nil
}

// Valid says whether the right is certain now. It computes that from the clock and does not block. When it is
// false, the context has ended.
func (h *Hold) Valid() bool {
	if h.e == nil {
		return false
	}
	h.mu.Lock()
	cause := h.cause
	h.mu.Unlock()
	if cause != nil {
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

// certain returns nil if a hold would be certain now, and errUncertain if it has to be called again.
func (e *epoch) certain(ctx context.Context, full string, loss LossPolicy) error {
	p, err := e.ready(ctx, loss)
	if err == nil && p.every > 0 {
		err = e.committed(ctx, full)
	}
	if err != nil {
		return err
	}
	switch v := e.wire.Validity(); {
	case v.Valid():
		return nil
	case v.Lapsed():
		return e.endCause()
	}
	return errUncertain // the rule or the connection has changed, or it was certain for a moment only
}

// errUncertain says that a hold is not certain any more, in a session that goes on.
var errUncertain = fmt.Errorf("%w: by the time a hold is made it is not certain any more", ErrTimeoutTooShort)

// certainRounds bounds how often a hold is made certain: one that never stays certain until it is made would
// keep its caller, and the servers, busy for ever.
const certainRounds = 8

// inRounds calls try again while it returns errUncertain.
func inRounds(try func() error) (err error) {
	for n := 0; n == 0 || n < certainRounds && err == errUncertain; n++ {
		err = try()
	}
	return err
}

// ready waits until the rule is known, and returns it if it allows a hold.
func (e *epoch) ready(ctx context.Context, loss LossPolicy) (p plan, err error) {
	for {
		e.mu.Lock()
		over, changed := e.over, e.changed.C()
		suspended := e.suspended && loss == SuspendedIsLoss
		e.mu.Unlock()
		switch {
		case over != nil:
			return p, over
		case suspended:
			return p, ErrSuspended
		}
		if p, known := e.plan(); known {
			return p, p.refused
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return p, leftBy(ctx)
		}
	}
}

// register makes the hold the epoch's, unless it is too late. It looks at the clock last: a hook may have
// taken its time since the hold was certain.
func (e *epoch) register(h *Hold) error {
	v := e.wire.Validity()
	counted, late := v.Hold(), errUncertain
	if v.Lapsed() {
		late = e.endCause()
	}
	e.mu.Lock()
	err := e.over
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
			v.Unhold()
		}
		return err
	}
	switch p, known := e.plan(); { // a later change of the rule finds the hold
	case p.refused != nil && known:
		endAll(p.refused, h)
	case p.every > 0:
		e.core.manager.inbox.Put(e.core.manager.startBeating)
	}
	if !h.Valid() {
		return h.why()
	}
	return nil
}

func newHold(e *epoch, full string, opt HoldOptions) *Hold {
	h := &Hold{e: e, path: full, loss: opt.Loss, czxid: opt.Czxid}
	values := context.Background()
	if opt.Values != nil {
		values = context.WithoutCancel(opt.Values)
	}
	if observer := e.core.cfg.observer; len(observer) > 0 {
		info := HoldInfo{Recipe: opt.Recipe, Path: opt.Path, Token: opt.Czxid, Epoch: e.n, SessionID: e.wire.ID()}
		values, h.told = observer.hold(values, info)
	}
	inner, cancel := context.WithCancelCause(values)
	h.ctx, h.fail = &holdContext{inner, h}, cancel
	h.timer = time.AfterFunc(time.Hour, h.due)
	h.timer.Stop()
	return h
}

// committed returns when the session lives by the rule in force. Under the heartbeat rule that takes two
// committed writes, recent enough to last until the heartbeats have begun. Those that are missing are made,
// one after the other. One whose reply was lost is made again on the next connection: it changes nothing. As
// with the heartbeats, a server that refuses for a passing reason is asked again, and if the node may not be
// checked the root is.
func (e *epoch) committed(ctx context.Context, path string) error {
	for made, refused := 0, 0; made < settleWrites; made++ {
		e.mu.Lock()
		beating, over := len(e.holds) > 0, e.over
		e.mu.Unlock()
		p, _ := e.plan()
		if over != nil {
			return over // the session has ended, or the client is closing, and pauses with it
		}
		left := e.wire.Validity().Remaining()
		if p.every == 0 || left > 0 && beating || left >= p.covers-p.every {
			return nil
		}
		call := &wire.Call{Op: jute.OpMulti, Body: checks(path), Urgent: true, Patience: e.core.cfg.connectTimeout}
		r, _, err := await(ctx, e, call, nil)
		if err == nil && r.Err != nil && e.isOver(r.Err) {
			err = e.endCause()
		}
		if err != nil {
			return err
		}
		if err = replyError(r); r.Err == nil {
			_, code := failure(r)
			err = codeError(code)
		}
		switch {
		case err == nil:
		case errors.Is(err, ErrNoNode):
			return ErrNodeDeleted
		case errors.Is(err, ErrNoAuth) && path != "/":
			path = "/"
			made--
		case transient(err):
			if made--; r.Err == nil {
				refused++
				e.core.pause(ctx, e.core.refusalPause(refused))
			}
		default:
			return err
		}
	}
	if v := e.wire.Validity(); !v.Valid() && !v.Lapsed() {
		return fmt.Errorf("%w: the servers take too long to commit a write", ErrTimeoutTooShort)
	}
	return nil
}

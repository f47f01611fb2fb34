package framework

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

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
	h, err := s.e.hold(ctx, full, opt)
	return h, opError("hold", opt.Path, s.e.core.explain(err))
}

func (e *epoch) hold(ctx context.Context, full string, opt HoldOptions) (*Hold, error) {
	var h *Hold
	err := inRounds(func() error {
		if err := e.certain(ctx, full, opt.Loss); err != nil {
			return err
		}
		if h == nil {
			h = newHold(e, full, opt)
		}
		return e.register(h) // the hook may have taken its time
	})
	switch {
	case err != nil:
		if h != nil {
			h.End(err)
		}
		return nil, err
	case opt.OwnWatchAfter < 0:
		h.watchNode(true)
	case opt.OwnWatchAfter == 0:
		h.timer.Reset(ownWatchAfter)
	default:
		h.timer.Reset(opt.OwnWatchAfter)
	}
	return h, nil
}

// certain returns nil if a hold would be certain now, and errUncertain if it has to be called again.
func (e *epoch) certain(ctx context.Context, full string, loss LossPolicy) error {
	if err := e.ready(ctx, loss); err != nil {
		return err
	}
	if err := e.committed(ctx, full); err != nil {
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

// ready waits until the rule is known and checks that it allows a hold.
func (e *epoch) ready(ctx context.Context, loss LossPolicy) error {
	for {
		e.mu.Lock()
		over, changed := e.over, e.changed.C()
		suspended := e.suspended && loss == SuspendedIsLoss
		e.mu.Unlock()
		switch {
		case over != nil:
			return over
		case suspended:
			return ErrSuspended
		}
		if p, asked := e.settled(); asked {
			return p.refused
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return leftBy(ctx, false)
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
	switch p, asked := e.settled(); { // a later change of the rule finds the hold
	case p.refused != nil && asked:
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
	if observer := e.core.cfg.observer; observer.Active() {
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
		p := e.plan()
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

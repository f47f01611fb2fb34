package framework

import (
	"context"
	"fmt"
	"time"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// Hold makes a hold of a right that the node at opt.Path stands for. The caller has found out, in this session, that the right is its own;
// Hold sees to it that it notices when that ends.
//
// It waits, as long as ctx allows, for what the rule in force needs: once per session for the answer whether the server stands alone, and
// under [RuleHeartbeat] for up to three committed writes, over lost connections and refusals that pass. Otherwise it returns at once and sends nothing. ctx is not the hold's.
//
// Errors: ErrSessionLost, ErrClosed, ErrSuspended (policy SuspendedIsLoss and no connection), ErrNodeDeleted, ErrTimeoutTooShort,
// ErrInvalidPath, ErrNilContext, and ctx's.
func (s *Session) Hold(ctx context.Context, opt HoldOptions) (*Hold, error) {
	if s.none() {
		return nil, opError("hold", opt.Path, ErrNoClient)
	}
	if err := checkContext(ctx); err != nil {
		return nil, opError("hold", opt.Path, err)
	}
	full, err := s.c.fullPath(opt.Path)
	if err != nil {
		return nil, opError("hold", opt.Path, err)
	}
	certain := func() error { return s.e.certain(ctx, full, opt.Loss) }
	if err := inRounds(certain); err != nil {
		return nil, opError("hold", opt.Path, s.e.core.explain(err))
	}
	h := newHold(s.e, full, opt)
	if err = s.e.register(h); err == errUncertain { // the hook has taken its time
		err = inRounds(func() error {
			if err := certain(); err != nil {
				return err
			}
			return s.e.register(h)
		})
	}
	if err != nil {
		h.End(err)
		return nil, opError("hold", opt.Path, s.e.core.explain(err))
	}
	switch {
	case opt.OwnWatchAfter < 0:
		h.watchNode(true)
	case opt.OwnWatchAfter == 0:
		h.timer.Reset(ownWatchAfter)
	default:
		h.timer.Reset(opt.OwnWatchAfter)
	}
	return h, nil
}

// certain returns nil when a hold would be certain, and errUncertain when it is to be asked again.
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
	return errUncertain // the rule has changed meanwhile, or the connection, or it was certain for a moment only
}

// errUncertain says that a hold is not certain any more, in a session that goes on.
var errUncertain = fmt.Errorf("%w: by the time a hold is made it is not certain any more", ErrTimeoutTooShort)

// certainRounds is how often a hold is made certain. One that never is for long enough to be had would keep its caller, and the servers, busy for ever.
const certainRounds = 8

// inRounds tries again what is uncertain.
func inRounds(try func() error) (err error) {
	for range certainRounds {
		if err = try(); err != errUncertain {
			break
		}
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

// register makes the hold the epoch's, unless it is too late. It looks at the clock last: a hook may have taken its time since the hold was certain.
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
	switch p, asked := e.settled(); { // whoever changes it from now on finds the hold
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
		values, h.told = observer.hold(values, HoldInfo{Recipe: opt.Recipe, Path: opt.Path, Token: opt.Czxid, Epoch: e.n, SessionID: e.wire.ID()})
	}
	inner, cancel := context.WithCancelCause(values)
	h.ctx, h.fail = &holdContext{inner, h}, cancel
	h.timer = time.AfterFunc(time.Hour, h.due)
	h.timer.Stop()
	return h
}

// committed returns when the session lives by the rule in force. Under the heartbeat rule that takes two committed writes, recent enough to
// last until the heartbeats have begun: those that are missing are made, one after the other. One that was lost with its connection is made again
// on the next: it changes nothing. As with the heartbeats, a server that does not do it right now is asked again, and where the node may not be
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
		switch r, err := e.write(ctx, checks(path)); {
		case err != nil:
			return err
		case r.Err != nil && e.isOver(r.Err):
			return e.endCause()
		case r.Err != nil && transient(replyError(r)):
			made--
		case r.Err != nil:
			return replyError(r)
		default:
			switch _, code := failure(r); {
			case code == jute.CodeOK:
			case code == jute.CodeNoNode:
				return ErrNodeDeleted
			case code == jute.CodeNoAuth && path != "/":
				path = "/"
				made--
			case transient(codeError(code)):
				made--
				refused++
				e.core.pause(ctx, e.core.chance.UpTo(min(10*time.Millisecond<<min(refused, 10), time.Second)))
			default:
				return codeError(code)
			}
		}
	}
	if v := e.wire.Validity(); !v.Valid() && !v.Lapsed() {
		return fmt.Errorf("%w: the servers take too long to commit a write", ErrTimeoutTooShort)
	}
	return nil
}

// write submits a transaction and waits for its reply.
func (e *epoch) write(ctx context.Context, body []byte) (wire.Reply, error) {
	reply := make(chan wire.Reply, 1)
	call := &wire.Call{Op: jute.OpMulti, Body: body, Urgent: true, Patience: e.core.cfg.connectTimeout, Done: func(r wire.Reply) { reply <- r }}
	e.wire.Submit(call)
	select {
	case r := <-reply:
		return r, nil
	case <-ctx.Done():
		unsent := e.wire.Cancel(call, ctx.Err())
		return wire.Reply{}, leftBy(ctx, !unsent)
	}
}

package framework

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

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
	full, err := s.client.fullPath(opt.Path)
	if left := checkContext(ctx); left != nil {
		err = left
	}
	if err != nil {
		return nil, wrapOpError("hold", opt.Path, err)
	}
	var h *Hold
	shown := time.Now() // the last proof that the node exists; the first is the caller's
	err = repeatUncertain(ctx, func() error {
		written, err := s.epoch.awaitCertainty(ctx, full, opt.Loss)
		if !written.IsZero() {
			shown = written
		}
		if err == nil && time.Since(shown) >= ownWatchAfter {
			err = s.epoch.checkNodePresent(ctx, full, opt)
			shown = time.Now()
		}
		if err != nil {
			return err
		}
		if h == nil {
			h = newHold(s.epoch, full, opt)
			h.eventless = !s.client.ReadsItsOwn(opt.Path)
			if time.Since(shown) >= ownWatchAfter { // the hook took long
				return errUncertain
			}
		}
		return s.epoch.registerHold(h)
	})
	switch {
	case err != nil:
		if h != nil {
			h.End(err)
		}
		return nil, wrapOpError("hold", opt.Path, s.epoch.core.explainWait(err))
	case opt.OwnWatchAfter < 0:
		h.watchOwnNode(true)
	case opt.OwnWatchAfter > 0:
		h.setTimer(opt.OwnWatchAfter)
	default:
		s.epoch.youngHolds.addHold(h)
	}
	return h, nil
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
			Recipe: opt.Recipe, Path: opt.Path, Token: opt.Czxid, Epoch: e.number, SessionID: e.wire.ID(),
		}
		h.ctx.values, h.reportEnd = observer.reportHold(values, info)
	}
	// Not derived from the hook's context: when a derived context ends, it calls its parent, and the goroutine that
	// ends a hold may have locked a mutex.
	h.ctx.Context, h.cancelContext = context.WithCancelCause(context.Background())
	return h
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
		e.onFirstHold()
	}
	if !h.Valid() {
		return h.endCause()
	}
	return nil
}

// provingWrites is after how many writes a hold may begin with less time left: until the next heartbeat is answered.
const provingWrites = 4

// proveByWrites returns nil when a hold would begin with enough time left (see [wire.Liveness]). If there is less,
// it makes committed writes: one is enough if little was sent lately, and after a stalled link a second one half a
// tick and a pause later. After provingWrites less is enough: that the next heartbeat, due rule.heartbeat after the
// last write was sent, is answered before the hold would end, see mayHoldBegin. While commits take longer than
// that, it repeats the write until ctx ends. It also repeats a write whose reply was lost, on the next connection:
// the write changes nothing. Like the heartbeats, it asks again after a passing refusal, and checks the root if the
// session has no permission to check the node. shown is the time at which the last write has shown that the node
// exists.
func (e *sessionEpoch) proveByWrites(ctx context.Context, path string, loss LossPolicy) (shown time.Time, err error) {
	v, made, took, began := e.wire.Validity(), 0, time.Duration(0), time.Now()
	defer func() {
		if err != nil && ctx.Err() != nil && made > 0 {
			err = fmt.Errorf("%w; the servers take too long to commit a write", err)
		}
	}()
	for refused := 0; ; {
		e.mu.Lock()
		over, suspended, changed := e.endedBy, e.suspended && loss == SuspendedIsLoss, e.changed.C()
		e.mu.Unlock()
		wait, short := v.Short()
		rule, _ := e.currentPlan()
		switch {
		case over != nil:
			return shown, over // the session has ended; or the client is closing, and pauseFor does not wait any more
		case suspended:
			return shown, ErrSuspended
		case !short, made >= provingWrites &&
			mayHoldBegin(v.Remaining(), rule.heartbeat, took, time.Since(began) > v.Standing().Timeout):
			return shown, nil
		case made > 0 && wait > 0:
			if err := waitForChange(ctx, wait, changed); err != nil {
				return shown, err
			}
			continue
		}
		asked := time.Now()
		r, err := e.awaitUrgentReply(ctx, loss, jute.OpMulti, jute.Checks(path))
		if err != nil {
			return shown, err
		}
		before := took
		if took = time.Since(asked); took < before/2 {
			began = time.Now() // the servers have become faster
		}
		if err = replyError(r); r.Err == nil {
			_, code := failedCheck(r)
			err = codeError(code)
		}
		made++
		switch {
		case err == nil && path == "/":
		case err == nil:
			shown = time.Now()
		case errors.Is(err, ErrNoNode):
			return shown, ErrNodeDeleted
		case errors.Is(err, ErrNoAuth) && path != "/":
			path = "/"
			made--
		case isTransient(err):
			if made--; r.Err == nil {
				refused++
				e.core.pauseFor(ctx, e.core.refusalPause(refused))
			}
		default:
			return shown, err
		}
	}
}

// mayHoldBegin reports whether a hold may begin. left is its remaining time when the reply to a write arrives, took
// after the write was sent. The hold must outlast the reply to the next heartbeat if that takes as long; the
// heartbeat is sent every after the write was, or immediately if that time has passed. late means that the servers
// have been as slow as this for a session timeout. They may always be, so it is enough if the reply to a write sent
// now would come in time.
func mayHoldBegin(left, every, took time.Duration, late bool) bool {
	return left > max(every, took) || late && left > 0 && left >= took
}

// waitForChange waits for d, for the end of ctx, whose error it returns, or for changed.
func waitForChange(ctx context.Context, d time.Duration, changed <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-ctx.Done():
		return unsentError(ctx)
	}
	return nil
}

// checkNodePresent returns nil if the node is still there. Any time may pass between the caller's read and the
// grant, for example while the server delays its reply to the standalone question. If the node was deleted in that
// time, another client may hold the lock, and a hold that begins now would get no event for the deletion.
//
// The read is repeated as the writes of proveByWrites are. A session that may not read the node asks for its ACL,
// which ADMIN allows, too; without either it cannot find out.
func (e *sessionEpoch) checkNodePresent(ctx context.Context, path string, opt HoldOptions) error {
	op, body := jute.OpExists, jute.Marshal(&jute.PathWatchRequest{Path: path})
	for refused := 0; ; {
		e.mu.Lock()
		over, suspended := e.endedBy, e.suspended && opt.Loss == SuspendedIsLoss
		e.mu.Unlock()
		switch {
		case over != nil:
			return over
		case suspended:
			return ErrSuspended
		}
		r, err := e.awaitUrgentReply(ctx, opt.Loss, op, body)
		if err != nil {
			return err
		}
		var node jute.StatResponse
		if op == jute.OpGetACL {
			var acl jute.GetACLResponse
			err = decodeOutcome(r, &acl)
			node.Stat = acl.Stat
		} else {
			err = decodeOutcome(r, &node)
		}
		same := opt.Czxid == 0 || node.Stat.Czxid == opt.Czxid
		switch {
		case errors.Is(err, ErrNoAuth) && op == jute.OpExists:
			op, body = jute.OpGetACL, jute.Marshal(&jute.PathRequest{Path: path})
			continue
		case err == nil && same && node.Stat.EphemeralOwner == e.wire.ID(), errors.Is(err, ErrNoAuth):
			return nil
		case err == nil, errors.Is(err, ErrNoNode):
			return ErrNodeDeleted
		case !isTransient(err):
			return err
		}
		if r.Err == nil {
			refused++
			e.core.pauseFor(ctx, e.core.refusalPause(refused))
		}
	}
}

// awaitUrgentReply sends a request that changes nothing ahead of all that waits, and waits for its answer. The
// error is ctx's, or why the session has ended. The reply fails immediately without a connection if that ends the
// hold.
func (e *sessionEpoch) awaitUrgentReply(ctx context.Context, loss LossPolicy, op int32, body []byte) (wire.Reply, error) {
	call := &wire.Call{Op: op, Body: body, Urgent: true, Patience: e.core.cfg.connectTimeout}
	if loss == SuspendedIsLoss {
		call.Patience = 1
	}
	r, _, err := awaitReply(ctx, e, call, nil)
	if err != nil {
		return r, unansweredError(ctx, false)
	}
	if r.Err != nil && e.isEndError(r.Err) {
		err = e.endCause()
	}
	return r, err
}

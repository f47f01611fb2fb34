package framework

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// The proofs that a hold needs before it is granted, besides the clock: enough time remaining, and an existing node.

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

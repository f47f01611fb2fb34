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
	// Path is the path of an ephemeral node of this session: the contender's node that has been granted the lock, lease
	// or leadership. The hold ends when this node is deleted.
	Path string
	// Recipe is the kind of lock, for [Hooks]. Default: empty.
	Recipe string
	// Czxid is the node's czxid. A node with the same name and another czxid is another node, and does not count as the
	// hold's. Default 0: the czxid that the node has when the client first reads it.
	Czxid int64
	// Loss determines whether the hold outlives the loss of the connection. Default SuspendedIsLoss.
	Loss LossPolicy
	// Values is the context whose values the hold's context has. The end of Values does not end the hold. Default: no
	// values.
	Values context.Context
	// OwnWatchAfter is the age at which the hold begins to watch its node. Default 0 means 50 ms, so that short holds
	// cost no request. A negative value means immediately; then no request is sent if this session has a watch on the
	// node already. Use a negative value only if the node was read since that watch was set, or [Session.Arm] has set it.
	OwnWatchAfter time.Duration
	// Shared means that other holds on the same lock may be valid at the same time, as with readers, so that the node's
	// czxid cannot serve as a fencing token. Default false.
	Shared bool
}

// Hold returns a [Hold] on the lock, lease or leadership of the contender's node at opt.Path. The caller must have read
// from the tree, in this session, that this contender holds.
//
// Hold blocks until it has the proof that the rule in force needs, or ctx ends: a reply that shows whether the server is
// standalone, and a committed write if the hold would otherwise begin with too little time left, as after a reconnect
// or a stalled connection, and under [RuleHeartbeat] after a long wait. The write changes nothing. Hold repeats it after
// lost connections and passing refusals, and while the servers commit so slowly that no hold could begin. If the proof
// is complete already, Hold returns immediately and sends nothing. If the proof, or a hook, has taken longer than 50 ms,
// the caller's read is outdated: then Hold reads the node again, unless the write has shown that the node exists. The
// end of ctx does not end the hold.
//
// Errors: ErrSessionLost, ErrClosed, ErrSuspended (policy SuspendedIsLoss and no connection), ErrNodeDeleted,
// ErrTimeoutTooShort, ErrInvalidPath, ErrNilContext, ErrNoClient, and ctx's.
func (s *Session) Hold(ctx context.Context, opt HoldOptions) (*Hold, error) {
	if s.isZeroValue() {
		return nil, wrapOpError("hold", opt.Path, ErrNoClient)
	}
	full, err := s.client.fullPath(opt.Path)
	if ctxErr := checkContext(ctx); ctxErr != nil {
		err = ctxErr
	}
	if err != nil {
		return nil, wrapOpError("hold", opt.Path, err)
	}
	var h *Hold
	nodeSeen := time.Now() // when the node was last known to exist; at first by the caller's read
	err = repeatWhileUncertain(ctx, func() error {
		seen, err := s.epoch.awaitCertainty(ctx, full, opt.Loss)
		if !seen.IsZero() {
			nodeSeen = seen
		}
		if err == nil && time.Since(nodeSeen) >= ownWatchAfter {
			err = s.epoch.checkNodePresent(ctx, full, opt)
			nodeSeen = time.Now()
		}
		if err != nil {
			return err
		}
		if h == nil {
			h = newHold(s.epoch, full, opt)
			h.unreadable = !s.client.ReadsItsOwn(opt.Path)
			if time.Since(nodeSeen) >= ownWatchAfter { // the hook took long: read the node again
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
		e: e, fullPath: full, userPath: opt.Path, loss: opt.Loss, exclusive: !opt.Shared, czxid: opt.Czxid,
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
	// The hook's context is not the parent: package context would call it when the hold ends, and so run the user's code
	// on the goroutine that ends the hold, which may have locked a mutex.
	h.ctx.Context, h.cancelContext = context.WithCancelCause(context.Background())
	return h
}

// awaitCertainty waits until a hold that begins now would be certain, with enough time left. It returns errUncertain if
// that has changed again, so that it has to be called again. nodeSeen is the time at which a write has shown that the
// node exists; zero if no write was needed.
func (e *sessionEpoch) awaitCertainty(ctx context.Context, full string, loss LossPolicy) (nodeSeen time.Time, err error) {
	if err = e.awaitRule(ctx, loss); err == nil {
		nodeSeen, err = e.proveByWrites(ctx, full, loss)
	}
	if err != nil {
		return nodeSeen, err
	}
	switch v := e.wire.Validity(); {
	case v.Valid():
		return nodeSeen, nil
	case v.Lost():
		return nodeSeen, e.endCause()
	}
	return nodeSeen, errUncertain // the rule or the connection has changed since
}

// errUncertain means that a new hold would not be certain although the session is not lost: call awaitCertainty again.
var errUncertain = errors.New("before the grant was complete, the client was no longer certain of its session")

// repeatWhileUncertain repeats try while it returns errUncertain, until ctx ends. It does not pause: each try but the
// first waits for a reply.
func repeatWhileUncertain(ctx context.Context, try func() error) (err error) {
	for {
		switch err = try(); {
		case err != errUncertain:
			return err
		case ctx.Err() != nil:
			return fmt.Errorf("%w: %w", unsentError(ctx), err)
		}
	}
}

// awaitRule waits until the rule in force is known, and returns nil if that rule allows a hold.
func (e *sessionEpoch) awaitRule(ctx context.Context, loss LossPolicy) error {
	for {
		e.mu.Lock()
		ended, changed := e.endedBy, e.changed.C()
		suspended := e.suspended && loss == SuspendedIsLoss
		e.mu.Unlock()
		switch {
		case ended != nil:
			return ended
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

// registerHold adds the hold to the epoch's holds, unless the hold is not certain any more: a hook may have taken long
// since awaitCertainty returned.
func (e *sessionEpoch) registerHold(h *Hold) error {
	v := e.wire.Validity()
	counted, refusal := v.BeginHold(), errUncertain
	if v.Lost() {
		refusal = e.endCause()
	}
	e.mu.Lock()
	err, first := e.endedBy, len(e.holds) == 0
	switch {
	case err != nil:
	case e.suspended && h.loss == SuspendedIsLoss:
		err = ErrSuspended
	case !counted:
		err = refusal
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
	switch p, known := e.currentPlan(); { // read after h was added to e.holds: enforceRule handles later changes
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

// strictWrites is the number of writes for which proveByWrites demands the full time left for a hold. If that many were
// not enough, the servers are slow, and mayHoldBegin decides.
const strictWrites = 4

// proveByWrites returns nil when a hold would begin with enough time left (see [wire.Liveness]). While there is less,
// it makes committed writes. Each is a transaction that checks the node and changes nothing. One is enough if little was
// sent lately; after a stalled connection it takes a second one, half a tick and a pause later. After strictWrites it is
// enough if the next heartbeat can have its reply before the hold would end, see mayHoldBegin. While commits are slower
// than that, proveByWrites continues until ctx ends. It makes the write again after a lost connection, after a passing
// refusal, and, if the session has no permission to check the node, with the root in place of the node. nodeSeen is the
// time at which a write has last shown that the node exists.
func (e *sessionEpoch) proveByWrites(ctx context.Context, path string, loss LossPolicy) (nodeSeen time.Time, err error) {
	v, committed, roundTrip, slowSince := e.wire.Validity(), 0, time.Duration(0), time.Now()
	defer func() {
		if err != nil && ctx.Err() != nil && committed > 0 {
			err = fmt.Errorf("%w; the servers take too long to commit a write", err)
		}
	}()
	for refused := 0; ; {
		e.mu.Lock()
		ended, suspended, changed := e.endedBy, e.suspended && loss == SuspendedIsLoss, e.changed.C()
		e.mu.Unlock()
		wait, short := v.Short()
		plan, _ := e.currentPlan()
		switch {
		case ended != nil:
			return nodeSeen, ended // checked in each round: while the client closes, pauseFor does not wait
		case suspended:
			return nodeSeen, ErrSuspended
		case !short, committed >= strictWrites &&
			mayHoldBegin(v.Remaining(), plan.heartbeat, roundTrip, time.Since(slowSince) > v.Standing().Timeout):
			return nodeSeen, nil
		case committed > 0 && wait > 0:
			if err := waitForChange(ctx, wait, changed); err != nil {
				return nodeSeen, err
			}
			continue
		}
		sent := time.Now()
		r, err := e.awaitUrgentReply(ctx, loss, jute.OpMulti, jute.Checks(path))
		if err != nil {
			return nodeSeen, err
		}
		previous := roundTrip
		if roundTrip = time.Since(sent); roundTrip < previous/2 {
			slowSince = time.Now() // the servers have become faster
		}
		if err = replyError(r); r.Err == nil {
			_, code := failedCheck(r)
			err = codeError(code)
		}
		switch {
		case err == nil:
			committed++
			if path != "/" {
				nodeSeen = time.Now()
			}
		case errors.Is(err, ErrNoNode):
			return nodeSeen, ErrNodeDeleted
		case errors.Is(err, ErrNoAuth) && path != "/":
			path = "/"
		case Retryable(err):
			if r.Err == nil {
				refused++
				e.core.pauseFor(ctx, e.core.refusalPause(refused))
			}
		default:
			return nodeSeen, err
		}
	}
}

// mayHoldBegin reports whether a hold may begin although it has less than the full time: left is its remaining time now,
// when the reply to a write has arrived. The hold must last until the reply to the next heartbeat, which is sent at the
// interval after that write, or now if the interval has passed, and takes as long as the write: roundTrip. If the
// servers have been that slow for a session timeout (slow), they may stay so; then it is enough if the reply to a write
// sent now would come in time.
func mayHoldBegin(left, interval, roundTrip time.Duration, slow bool) bool {
	return left > max(interval, roundTrip) || slow && left > 0 && left >= roundTrip
}

// waitForChange returns nil after d or when changed is closed, and an error when ctx ends.
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

// checkNodePresent returns nil if the node still exists, and ErrNodeDeleted if not. Between the caller's read and the
// grant any time may pass, for example while the server delays its reply to probeStandalone. If the node was deleted in
// that time, another client may hold the lock, and a hold that begins now would get no event for the deletion.
//
// The read is repeated as the writes of proveByWrites are. If the session may not read the node, checkNodePresent reads
// the ACL, for which READ or ADMIN is enough; its reply has the Stat, too. Without both permissions the session cannot
// find out, and the result is nil.
func (e *sessionEpoch) checkNodePresent(ctx context.Context, path string, opt HoldOptions) error {
	op, body := jute.OpExists, jute.Marshal(&jute.PathWatchRequest{Path: path})
	for refused := 0; ; {
		e.mu.Lock()
		ended, suspended := e.endedBy, e.suspended && opt.Loss == SuspendedIsLoss
		e.mu.Unlock()
		switch {
		case ended != nil:
			return ended
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
		case !Retryable(err):
			return err
		}
		if r.Err == nil {
			refused++
			e.core.pauseFor(ctx, e.core.refusalPause(refused))
		}
	}
}

// awaitUrgentReply sends a request that changes nothing ahead of all queued requests, and waits for its reply. The error
// is ctx's, or the reason why the session has ended. Without a connection the request fails immediately if the policy is
// SuspendedIsLoss, since no hold can begin then.
func (e *sessionEpoch) awaitUrgentReply(ctx context.Context, loss LossPolicy, op int32, body []byte) (wire.Reply, error) {
	call := &wire.Call{Op: op, Body: body, Urgent: true, Patience: e.core.cfg.connectTimeout}
	if loss == SuspendedIsLoss {
		call.Patience = 1 // a nanosecond
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

package framework

import (
	"time"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// A hold ends once, by the first of these causes that reaches endOnce or endHoldsByClient:
//
//   - The session ends (endCause). The session layer makes the end of the session's time final before it reports it.
//     Next, in any order: Valid sees it (Remaining, the context's Err and every other cause ask Valid first), and
//     endLapsedHolds is called, which takes only locks that are held briefly. Only then come the manager's
//     endAllHolds, the end of the watch on the own node, and Lost.
//   - The connection is lost and the policy is SuspendedIsLoss (suspendHolds): ErrSuspended, before Suspended is
//     announced.
//   - The own node is gone, or another node has its name; an event, a read of the node or a heartbeat shows
//     that (loseHold): ErrNodeDeleted.
//   - The rule in force allows no holds (enforceRule, registerHold): ErrTimeoutTooShort.
//   - The client closes (endAllHolds): ErrClosed, before the session is closed.
//   - The holder ends it (End).

// endAllHolds ends all holds of the epoch and refuses new ones.
func (e *sessionEpoch) endAllHolds(why error) {
	e.changeState(func() { e.endedBy = why })
	endHoldsByClient(why, e.currentHolds()...)
}

// endLapsedHolds ends all holds of the epoch as soon as no hold is certain any more. It waits for none of the
// others that have to be notified of the session's end.
func (e *sessionEpoch) endLapsedHolds() {
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
			h.e.core.ops.hooks.enqueue(func() { h.reportEnd(cause) })
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

// cleanUpWatch removes the watch after endOnce. In a session that has ended it does nothing: the watch ends with
// the session.
func (h *Hold) cleanUpWatch() {
	h.mu.Lock()
	watch := h.watch
	h.mu.Unlock()
	if watch != nil && !h.e.wire.Validity().Lost() {
		h.removeWatch(watch)
	}
}

// removeWatch removes the watch of a hold that has ended. After a release it waits a while, because the node is
// usually deleted next, which uses up the watch.
func (h *Hold) removeWatch(watch *wire.Watch) {
	if h.endCause() == ErrReleased {
		h.setTimer(unwatchDelay)
	} else {
		h.e.wire.Unwatch(watch)
	}
}

const (
	ownWatchAfter = 50 * time.Millisecond
	// rereadPause is the pause before the own node is read again after a refusal for a passing reason.
	rereadPause = time.Second
	// unwatchDelay is the time for which the watch stays on the node after a release: the deletion, which usually follows,
	// uses the watch up without a request.
	unwatchDelay = time.Second
)

// setTimer has onTimer called after d.
func (h *Hold) setTimer(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.timer == nil {
		h.timer = time.AfterFunc(d, h.onTimer)
	} else {
		h.timer.Reset(d)
	}
}

// onTimer is called by the timers. It looks at the own node, or, after the hold's end, removes the watch.
func (h *Hold) onTimer() {
	h.mu.Lock()
	ended, watch, look := h.cause != nil, h.watch, h.eventless && h.watchArmed
	h.mu.Unlock()
	switch {
	case !ended && look:
		h.pollOwnNode()
	case !ended:
		h.watchOwnNode(false)
	case watch != nil:
		h.e.wire.Unwatch(watch)
	}
}

// watchOwnNode reads the own node and arms a watch on it. With join, it sends nothing if this session has a
// watch on the node already.
func (h *Hold) watchOwnNode(join bool) {
	w := &wire.Watch{Kind: wire.Data, Path: h.path}
	w.Fn = func(ev wire.WatchEvent) { h.onWatchEvent(w, ev) }
	h.mu.Lock()
	if h.cause != nil {
		h.mu.Unlock()
		return
	}
	h.watch = w
	h.mu.Unlock()
	if !join || !h.e.wire.Join(w) {
		h.e.wire.Submit(&wire.Call{
			Op: jute.OpExists, Watch: w,
			Body: jute.Marshal(&jute.PathWatchRequest{Path: h.path, Watch: true}),
			Done: func(r wire.Reply) { h.onExistsReply(w, r) },
		})
	}
	if h.endCause() != nil {
		h.removeWatch(w) // the hold ended before there was a watch to remove
	}
}

// onWatchEvent handles an event of the watch on the own node. After a change the node is read again: another node
// may have its name.
func (h *Hold) onWatchEvent(w *wire.Watch, ev wire.WatchEvent) {
	if !h.forgetWatch(w) {
		return
	}
	switch ev.Type {
	case jute.EventNodeDeleted:
		h.loseHold(ErrNodeDeleted)
	case wire.EventEnd:
		h.loseHold(h.e.endCause())
	default:
		h.watchOwnNode(false)
	}
}

// onExistsReply handles the answer to watchOwnNode's read.
func (h *Hold) onExistsReply(w *wire.Watch, r wire.Reply) {
	var node jute.StatResponse
	switch err := replyError(r); {
	case r.Err != nil && h.e.isEndError(r.Err):
		h.loseHold(h.e.endCause())
	case r.Err != nil:
		h.watchOwnNode(false) // is sent on the next connection
	case r.Code == jute.CodeNoNode:
		h.loseHold(ErrNodeDeleted)
		h.e.wire.Unwatch(w) // armed for the next node of this name
	case r.Code == jute.CodeOK && jute.Unmarshal(r.Body, &node) == nil:
		if !h.ownsNode(node.Stat) {
			h.loseHold(ErrNodeDeleted)
		} else if h.markWatchArmed() {
			h.setTimer(h.e.wire.Validity().Standing().Timeout)
		}
	case r.Code == jute.CodeNoAuth: // since 3.8.4 and 3.9.2 exists needs READ
		h.forgetWatch(w)
		h.mu.Lock()
		h.eventless, h.watchArmed = true, true
		h.mu.Unlock()
		h.pollOwnNode()
	default:
		h.e.core.log.Warn("cannot read our own hold's node; retrying",
			"epoch", h.e.n, "path", h.path, "err", err)
		h.forgetWatch(w)
		h.setTimer(rereadPause) // no effect if the hold has ended since
	}
}

// ownsNode reports whether a node with this Stat is the hold's. The first Stat is, if the caller of [Session.Hold]
// gave none.
func (h *Hold) ownsNode(stat jute.Stat) bool {
	id := h.e.wire.ID() // not while mu is held: see endOnce
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.czxid == 0 {
		h.czxid = stat.Czxid
	}
	return stat.Czxid == h.czxid && stat.EphemeralOwner == id
}

// markWatchArmed records that the watch on the own node is armed. It reports whether the watch may be without
// effect, since servers send no events of a node that may not be read.
func (h *Hold) markWatchArmed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watchArmed = true
	return h.eventless
}

// pollOwnNode reads the own node's Stat with getACL, which READ or ADMIN allows, and once in a session timeout
// again: instead of a watch, where the session may not read the node.
func (h *Hold) pollOwnNode() {
	h.e.wire.Submit(&wire.Call{
		Op: jute.OpGetACL, Body: jute.Marshal(&jute.PathRequest{Path: h.path}), Done: h.onPollReply,
	})
}

// onPollReply handles the answer to pollOwnNode's read.
func (h *Hold) onPollReply(r wire.Reply) {
	var node jute.GetACLResponse
	switch err := replyError(r); {
	case h.endCause() != nil:
	case r.Err != nil && h.e.isEndError(r.Err):
		h.loseHold(h.e.endCause())
	case r.Err != nil:
		h.pollOwnNode() // is sent on the next connection
	case r.Code == jute.CodeNoNode:
		h.loseHold(ErrNodeDeleted)
	case r.Code == jute.CodeOK && jute.Unmarshal(r.Body, &node) == nil:
		if !h.ownsNode(node.Stat) {
			h.loseHold(ErrNodeDeleted)
			return
		}
		h.setTimer(h.e.wire.Validity().Standing().Timeout)
	case r.Code == jute.CodeNoAuth:
		h.e.core.log.Warn("no permission to read our own hold's node: its deletion will not be noticed",
			"epoch", h.e.n, "path", h.path, "needs", "READ, or ADMIN, on its own nodes")
	default:
		h.e.core.log.Warn("cannot read our own hold's node; retrying",
			"epoch", h.e.n, "path", h.path, "err", err)
		h.setTimer(rereadPause) // no effect if the hold has ended since
	}
}

// forgetWatch records that w is not on the node any more; false if w is not the hold's current watch.
func (h *Hold) forgetWatch(w *wire.Watch) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watch != w {
		return false
	}
	h.watch = nil
	return true
}

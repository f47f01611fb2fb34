package framework

import (
	"time"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// A hold ends once, by the first of these causes that reaches end:
//
//   - The session ends (endCause). The session layer makes the end of the session's time final before it reports it.
//     Next, in any order: Valid sees it (Remaining, the context's Err and every other cause ask Valid first), and
//     lapsed is called, which takes only locks that are held briefly. Only then come the manager's endHolds, the end of
//     the watch on the own node, and Lost.
//   - The connection is lost and the policy is SuspendedIsLoss (suspend): ErrSuspended, before Suspended is
//     announced.
//   - The own node is gone, or another node has its name; an event, a read of the node or a heartbeat shows
//     that (lose): ErrNodeDeleted.
//   - The rule in force allows no holds (tell, register): ErrTimeoutTooShort.
//   - The client closes (endHolds): ErrClosed, before the session is closed.
//   - The holder ends it (End).

// endHolds ends all holds of the epoch and refuses new ones.
func (e *epoch) endHolds(why error) {
	e.change(func() { e.over = why })
	endAll(why, e.held()...)
}

// lapsed ends all holds of the epoch as soon as no hold is certain any more. It waits for none of the others that have
// to be notified of the session's end.
func (e *epoch) lapsed() {
	if holds := e.held(); len(holds) > 0 { // else the epoch may have no session yet
		endAll(e.endCause(), holds...)
	}
}

// suspend ends the holds that do not outlive the connection.
func (e *epoch) suspend() {
	e.change(func() { e.suspended = true })
	var lost []*Hold
	for _, h := range e.held() {
		if h.loss == SuspendedIsLoss && h.Valid() { // an invalid hold has ended with the session
			lost = append(lost, h)
		}
	}
	endAll(ErrSuspended, lost...)
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
	if h.end(cause) {
		h.tidy()
		if h.told != nil {
			h.told(cause)
		}
	}
}

// lose ends the hold for cause, unless the hold has ended with its session already. After a pause of the process, the
// client may read consequences of the session's end, such as a deleted node, before it has checked the clock.
func (h *Hold) lose(cause error) {
	if h.Valid() {
		endAll(cause, h)
	}
}

// endAll is End for the client itself: the hooks run on their own goroutine. It ends all the holds before it
// does anything that may wait, or that takes time for each.
func endAll(cause error, holds ...*Hold) {
	var ended []*Hold
	for _, h := range holds {
		if h.stop(cause) {
			ended = append(ended, h)
		}
	}
	for _, h := range ended {
		h.leave()
	}
	for _, h := range ended {
		if h.told != nil {
			h.e.core.ops.hooks.put(func() { h.told(cause) })
		}
		h.tidy()
	}
}

// end returns true to the first caller. It takes only locks that are held briefly, to read the holds and the clock, and
// in particular not the lock of the session's state.
func (h *Hold) end(cause error) bool {
	first := h.stop(cause)
	if first {
		h.leave()
	}
	return first
}

// stop ends the hold's context. It returns true to the first caller, who then calls leave.
func (h *Hold) stop(cause error) bool {
	h.mu.Lock()
	if first := h.cause; first != nil {
		h.mu.Unlock()
		h.fail(first) // the goroutine that set the cause may not have called fail yet
		return false
	}
	h.cause = cause
	h.mu.Unlock()
	h.fail(cause)
	return true
}

// leave takes a hold that has ended off the session's lists.
func (h *Hold) leave() {
	h.mu.Lock()
	timer := h.timer
	h.mu.Unlock()
	h.e.young.remove(h)
	if timer != nil {
		timer.Stop()
	}
	h.e.mu.Lock()
	_, registered := h.e.holds[h]
	delete(h.e.holds, h)
	h.e.mu.Unlock()
	if registered {
		h.e.wire.Validity().Unhold()
	}
}

// tidy removes the watch after end. In a session that has ended it does nothing: the watch ends with the session.
func (h *Hold) tidy() {
	h.mu.Lock()
	watch := h.watch
	h.mu.Unlock()
	if watch != nil && !h.e.wire.Validity().Lapsed() {
		h.unwatch(watch)
	}
}

// unwatch removes the watch of a hold that has ended. After a release it waits a while, because the node is
// usually deleted next, which uses up the watch.
func (h *Hold) unwatch(watch *wire.Watch) {
	if h.why() == ErrReleased {
		h.dueIn(watchLeft)
	} else {
		h.e.wire.Unwatch(watch)
	}
}

const (
	ownWatchAfter = 50 * time.Millisecond
	// lookAgain is the pause before the own node is read again after a refusal for a passing reason.
	lookAgain = time.Second
	// watchLeft is the time for which the watch stays on the node after a release: the deletion, which usually follows,
	// uses the watch up without a request.
	watchLeft = time.Second
)

// dueIn has due called after d.
func (h *Hold) dueIn(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.timer == nil {
		h.timer = time.AfterFunc(d, h.due)
	} else {
		h.timer.Reset(d)
	}
}

// due is called by the timers. It looks at the own node, or, after the hold's end, removes the watch.
func (h *Hold) due() {
	h.mu.Lock()
	ended, watch, look := h.cause != nil, h.watch, h.blind && h.watched
	h.mu.Unlock()
	switch {
	case !ended && look:
		h.lookAtNode()
	case !ended:
		h.watchNode(false)
	case watch != nil:
		h.e.wire.Unwatch(watch)
	}
}

// watchNode reads the own node and arms a watch on it. With join, it sends nothing if this session has a
// watch on the node already.
func (h *Hold) watchNode(join bool) {
	w := &wire.Watch{Kind: wire.Data, Path: h.path}
	w.Fn = func(ev wire.WatchEvent) { h.fired(w, ev) }
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
			Done: func(r wire.Reply) { h.seen(w, r) },
		})
	}
	if h.why() != nil {
		h.unwatch(w) // the hold ended before there was a watch to remove
	}
}

// fired handles an event of the watch on the own node. After a change the node is read again: another node
// may have its name.
func (h *Hold) fired(w *wire.Watch, ev wire.WatchEvent) {
	if !h.disarmed(w) {
		return
	}
	switch ev.Type {
	case jute.EventNodeDeleted:
		h.lose(ErrNodeDeleted)
	case wire.EventEnd:
		h.lose(h.e.endCause())
	default:
		h.watchNode(false)
	}
}

// seen handles the answer to watchNode's read.
func (h *Hold) seen(w *wire.Watch, r wire.Reply) {
	var node jute.StatResponse
	switch err := replyError(r); {
	case r.Err != nil && h.e.isOver(r.Err):
		h.lose(h.e.endCause())
	case r.Err != nil:
		h.watchNode(false) // is sent on the next connection
	case r.Code == jute.CodeNoNode:
		h.lose(ErrNodeDeleted)
		h.e.wire.Unwatch(w) // armed for the next node of this name
	case r.Code == jute.CodeOK && jute.Unmarshal(r.Body, &node) == nil:
		if !h.owns(node.Stat) {
			h.lose(ErrNodeDeleted)
		} else if h.watchesBlindly() {
			h.dueIn(h.e.wire.Validity().Standing().Timeout)
		}
	case r.Code == jute.CodeNoAuth: // since 3.8.4 and 3.9.2 exists needs READ
		h.disarmed(w)
		h.mu.Lock()
		h.blind, h.watched = true, true
		h.mu.Unlock()
		h.lookAtNode()
	default:
		h.e.core.log.Warn("cannot read our own hold's node; retrying",
			"epoch", h.e.n, "path", h.path, "err", err)
		h.disarmed(w)
		h.dueIn(lookAgain) // no effect if the hold has ended since
	}
}

// owns reports whether a node with this Stat is the hold's. The first Stat is, if the caller of [Session.Hold] gave none.
func (h *Hold) owns(stat jute.Stat) bool {
	id := h.e.wire.ID() // not while mu is held: see end
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.czxid == 0 {
		h.czxid = stat.Czxid
	}
	return stat.Czxid == h.czxid && stat.EphemeralOwner == id
}

// watchesBlindly reports whether the watch on the own node may be without effect, since servers send no events of a node
// that may not be read.
func (h *Hold) watchesBlindly() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watched = true
	return h.blind
}

// lookAtNode reads the own node's Stat with getACL, which READ or ADMIN allows, and once in a session timeout again:
// instead of a watch, where the session may not read the node.
func (h *Hold) lookAtNode() {
	h.e.wire.Submit(&wire.Call{
		Op: jute.OpGetACL, Body: jute.Marshal(&jute.PathRequest{Path: h.path}), Done: h.looked,
	})
}

// looked handles the answer to lookAtNode's read.
func (h *Hold) looked(r wire.Reply) {
	var node jute.GetACLResponse
	switch err := replyError(r); {
	case h.why() != nil:
	case r.Err != nil && h.e.isOver(r.Err):
		h.lose(h.e.endCause())
	case r.Err != nil:
		h.lookAtNode() // is sent on the next connection
	case r.Code == jute.CodeNoNode:
		h.lose(ErrNodeDeleted)
	case r.Code == jute.CodeOK && jute.Unmarshal(r.Body, &node) == nil:
		if !h.owns(node.Stat) {
			h.lose(ErrNodeDeleted)
			return
		}
		h.dueIn(h.e.wire.Validity().Standing().Timeout)
	case r.Code == jute.CodeNoAuth:
		h.e.core.log.Warn("no permission to read our own hold's node: its deletion will not be noticed",
			"epoch", h.e.n, "path", h.path, "needs", "READ, or ADMIN, on its own nodes")
	default:
		h.e.core.log.Warn("cannot read our own hold's node; retrying",
			"epoch", h.e.n, "path", h.path, "err", err)
		h.dueIn(lookAgain) // no effect if the hold has ended since
	}
}

// disarmed records that w is not on the node any more; false if w is not the hold's current watch.
func (h *Hold) disarmed(w *wire.Watch) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watch != w {
		return false
	}
	h.watch = nil
	return true
}

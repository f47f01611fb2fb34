package framework

import (
	"time"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// A hold ends once, by the first of these causes that reaches end:
//
//   - The session ends (endCause). Its time comes first: the session layer makes it final before anything
//     else hears of the end. Then, in whatever order, Valid sees it (and so do Remaining, the context's Err,
//     and every other cause, which first asks Valid), and lapsed is called, which takes no lock that others
//     hold for long. Only then come the manager's endHolds, the end of the watch on the own node, and Lost.
//   - The connection is lost, with SuspendedIsLoss (suspend): ErrSuspended, before Suspended is announced.
//   - The own node is gone, or another one has its name, by an event, by a look at it, or by a heartbeat
//     (lose): ErrNodeDeleted.
//   - The rule in force allows no holds (tell, register): ErrTimeoutTooShort.
//   - The client closes (endHolds): ErrClosed, before the session is closed.
//   - The holder ends it (End).

// endHolds ends what is held and refuses new holds.
func (e *epoch) endHolds(why error) {
	e.change(func() { e.over = why })
	endAll(why, e.held()...)
}

// lapsed ends what is held as soon as nothing is certain any more, whoever else has to hear of it first. It
// waits for nobody.
func (e *epoch) lapsed() {
	if holds := e.held(); len(holds) > 0 { // else it may have no session yet
		endAll(e.endCause(), holds...)
	}
}

// suspend ends what does not outlive the connection.
func (e *epoch) suspend() {
	e.change(func() { e.suspended = true })
	var lost []*Hold
	for _, h := range e.held() {
		if h.loss == SuspendedIsLoss && h.Valid() { // else it has ended with the session
			lost = append(lost, h)
		}
	}
	endAll(ErrSuspended, lost...)
}

// End ends the hold. Only the first call has an effect, and its cause is that of the context; nil means
// ErrReleased. It returns at once. The watch on the node goes with the node, or, where that stays, a second
// later. End it before its node is deleted: somebody else may have the right as soon as the node is gone.
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

// lose ends the hold for a reason of its own, unless it has ended with its session before. After a pause of
// the process the consequences of the session's end, such as a deleted node, may be read before anybody has
// looked at the clock.
func (h *Hold) lose(cause error) {
	if h.Valid() {
		endAll(cause, h)
	}
}

// endAll is End for the client itself: hooks are told on their own goroutine. All the holds end before it
// does what may have to wait.
func endAll(cause error, holds ...*Hold) {
	var ended []*Hold
	for _, h := range holds {
		if h.end(cause) {
			ended = append(ended, h)
		}
	}
	for _, h := range ended {
		if h.told != nil {
			h.e.core.ops.hooks.put(func() { h.told(cause) })
		}
		h.tidy()
	}
}

// end is true for the first caller. It waits for no lock that is held for longer than it takes to look at the
// holds and at the clock; above all not for that of the session's state.
func (h *Hold) end(cause error) bool {
	h.mu.Lock()
	if first := h.cause; first != nil {
		h.mu.Unlock()
		h.fail(first) // the goroutine that has set it may not have come to that yet
		return false
	}
	h.cause = cause
	h.mu.Unlock()
	h.fail(cause)
	h.timer.Stop()
	h.e.mu.Lock()
	_, registered := h.e.holds[h]
	delete(h.e.holds, h)
	h.e.mu.Unlock()
	if registered {
		h.e.wire.Validity().Unhold()
	}
	return true
}

// tidy is what is left to do after end. In a session that is over it waits for nothing: the watch goes with
// that.
func (h *Hold) tidy() {
	h.mu.Lock()
	watch := h.watch
	h.mu.Unlock()
	if watch != nil && !h.e.wire.Validity().Lapsed() {
		h.unwatch(watch)
	}
}

// unwatch takes the watch of a hold that has ended off the node. After a release the node is usually deleted
// next, which uses the watch up.
func (h *Hold) unwatch(watch *wire.Watch) {
	if h.why() == ErrReleased {
		h.timer.Reset(watchLeft)
	} else {
		h.e.wire.Unwatch(watch)
	}
}

const (
	ownWatchAfter = 50 * time.Millisecond
	// lookAgain is the pause before the own node is read again after a refusal for a passing reason.
	lookAgain = time.Second
	// watchLeft is how long the watch stays on the node after a release: the deletion, which usually follows,
	// uses the watch up without a request.
	watchLeft = time.Second
)

// due is called by the timer: to look at the own node, or, after the end, to remove the watch.
func (h *Hold) due() {
	h.mu.Lock()
	ended, watch := h.cause != nil, h.watch
	h.mu.Unlock()
	switch {
	case !ended:
		h.watchNode(false)
	case watch != nil:
		h.e.wire.Unwatch(watch)
	}
}

// watchNode looks at the own node and arms a watch on it; with join, an existing watch of this session is
// enough.
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
			Op: jute.OpExists, Body: jute.Marshal(&jute.PathWatchRequest{Path: h.path, Watch: true}), Watch: w,
			Done: func(r wire.Reply) { h.seen(w, r) },
		})
	}
	if h.why() != nil {
		h.unwatch(w) // it ended before there was anything to remove
	}
}

// fired handles an event of the own node. Whatever it is, the node has to be looked at again: another one may
// be in its place.
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

// seen handles what the own node looks like.
func (h *Hold) seen(w *wire.Watch, r wire.Reply) {
	var node jute.StatResponse
	switch err := replyError(r); {
	case r.Err != nil && h.e.isOver(r.Err):
		h.lose(h.e.endCause())
	case r.Err != nil:
		h.watchNode(false) // waits for the next connection
	case r.Code == jute.CodeNoNode:
		h.lose(ErrNodeDeleted)
		h.e.wire.Unwatch(w) // armed for the next node of this name
	case r.Code == jute.CodeOK && jute.Unmarshal(r.Body, &node) == nil:
		id := h.e.wire.ID() // not inside: see end
		h.mu.Lock()
		if h.czxid == 0 {
			h.czxid = node.Stat.Czxid
		}
		same := node.Stat.Czxid == h.czxid && node.Stat.EphemeralOwner == id
		h.mu.Unlock()
		if !same {
			h.lose(ErrNodeDeleted)
		}
	case r.Code == jute.CodeNoAuth:
		h.e.core.log.Warn("a hold may not look at its own node: its deletion will not be noticed",
			"epoch", h.e.n, "path", h.path)
		h.disarmed(w)
	default:
		h.e.core.log.Warn("cannot look at the node of a hold; trying again",
			"epoch", h.e.n, "path", h.path, "err", err)
		h.disarmed(w)
		h.timer.Reset(lookAgain)
		if h.why() != nil {
			h.timer.Stop()
		}
	}
}

// disarmed notes that a watch is not on the node any more; false if it is not the hold's.
func (h *Hold) disarmed(w *wire.Watch) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watch != w {
		return false
	}
	h.watch = nil
	return true
}

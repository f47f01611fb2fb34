package framework

import (
	"time"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

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

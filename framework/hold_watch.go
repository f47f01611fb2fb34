package framework

import (
	"sync"
	"time"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

const (
	ownWatchAfter = 50 * time.Millisecond
	// rereadPause is the pause before the own node is read again after a refusal for a passing reason.
	rereadPause = time.Second
	// unwatchDelay is the time for which the watch stays on the node after a release: the deletion, which usually follows,
	// uses the watch up without a request.
	unwatchDelay = time.Second
)

// youngHolds are the holds of a session that do not watch their node yet, the oldest first. One timer serves them
// all, and is left alone while they come and go: most holds end before it has anything to do for them.
type youngHolds struct {
	mu          sync.Mutex
	first, last *Hold       // guarded by mu
	timer       *time.Timer // guarded by mu; made with the first hold
	timerSet    bool        // it will fire; guarded by mu
}

// youngHoldEntry is a hold's place among the young. youngHolds.mu guards it.
type youngHoldEntry struct {
	older, newer *Hold
	oldAt        time.Time
	isListed     bool
}

// addHold has the hold's onTimer called when it is old enough.
func (y *youngHolds) addHold(h *Hold) {
	y.mu.Lock()
	defer y.mu.Unlock()
	h.youngEntry = youngHoldEntry{older: y.last, oldAt: time.Now().Add(ownWatchAfter), isListed: true}
	if y.last == nil {
		y.first = h
	} else {
		y.last.youngEntry.newer = h
	}
	y.last = h
	if !y.timerSet {
		y.setTimer(ownWatchAfter)
	}
}

// removeHold removes a hold, if present.
func (y *youngHolds) removeHold(h *Hold) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.unlinkHold(h)
}

// unlinkHold is removeHold; mu is held.
func (y *youngHolds) unlinkHold(h *Hold) {
	if !h.youngEntry.isListed {
		return
	}
	if h.youngEntry.older == nil {
		y.first = h.youngEntry.newer
	} else {
		h.youngEntry.older.youngEntry.newer = h.youngEntry.newer
	}
	if h.youngEntry.newer == nil {
		y.last = h.youngEntry.older
	} else {
		h.youngEntry.newer.youngEntry.older = h.youngEntry.older
	}
	h.youngEntry = youngHoldEntry{}
}

// setTimer sets the timer. mu is held.
func (y *youngHolds) setTimer(d time.Duration) {
	y.timerSet = true
	if y.timer == nil {
		y.timer = time.AfterFunc(d, y.onTimer)
	} else {
		y.timer.Reset(d)
	}
}

// onTimer is called by the timer.
func (y *youngHolds) onTimer() {
	var old []*Hold
	y.mu.Lock()
	now := time.Now()
	for y.first != nil && !y.first.youngEntry.oldAt.After(now) {
		old = append(old, y.first)
		y.unlinkHold(y.first)
	}
	if y.timerSet = y.first != nil; y.timerSet {
		y.setTimer(y.first.youngEntry.oldAt.Sub(now))
	}
	y.mu.Unlock()
	for _, h := range old {
		h.onTimer()
	}
}

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
			"epoch", h.e.number, "path", h.path, "err", err)
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
			"epoch", h.e.number, "path", h.path, "needs", "READ, or ADMIN, on its own nodes")
	default:
		h.e.core.log.Warn("cannot read our own hold's node; retrying",
			"epoch", h.e.number, "path", h.path, "err", err)
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

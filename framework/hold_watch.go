package framework

import (
	"sync"
	"time"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

const (
	// ownWatchAfter is the age at which a hold begins to watch its node, and the age at which a read of the node is
	// outdated when a hold begins.
	ownWatchAfter = 50 * time.Millisecond
	// rereadPause is the pause before the own node is read again after an error that is not about the node.
	rereadPause = time.Second
	// unwatchDelay is the time for which the watch stays on the node after a release: the deletion, which usually follows,
	// uses the watch up without a request.
	unwatchDelay = time.Second
)

// youngHolds is a linked list of a session's holds that are younger than ownWatchAfter, the oldest first. All share one
// timer. The timer is not changed when a hold is added to others or removed, because most holds end before they are old:
// so they cost no timer.
type youngHolds struct {
	mu          sync.Mutex  // guards the fields below
	first, last *Hold       // the oldest and the youngest
	timer       *time.Timer // made for the first hold
	timerSet    bool        // the timer will fire
}

// youngHoldEntry is a hold's entry in the list youngHolds, whose mu guards it.
type youngHoldEntry struct {
	older, newer *Hold
	oldAt        time.Time // when the hold is as old as ownWatchAfter
	isListed     bool
}

// addHold adds a hold, so that its onTimer is called at the age ownWatchAfter.
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

// unlinkHold is removeHold, but its caller holds mu.
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

// setTimer makes the timer fire after d. The caller holds mu.
func (y *youngHolds) setTimer(d time.Duration) {
	y.timerSet = true
	if y.timer == nil {
		y.timer = time.AfterFunc(d, y.onTimer)
	} else {
		y.timer.Reset(d)
	}
}

// onTimer removes the holds that are old enough and calls their onTimer.
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

// setTimer makes the hold's timer call onTimer after d.
func (h *Hold) setTimer(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.timer == nil {
		h.timer = time.AfterFunc(d, h.onTimer)
	} else {
		h.timer.Reset(d)
	}
}

// onTimer begins to watch the own node or, if the node is unreadable, reads its Stat again. After the hold's end it
// removes the watch.
func (h *Hold) onTimer() {
	h.mu.Lock()
	ended, watch, poll := h.cause != nil, h.watch, h.unreadable && h.watchArmed
	h.mu.Unlock()
	switch {
	case !ended && poll:
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
	w := &wire.Watch{Kind: wire.Data, Path: h.fullPath}
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
			Body: jute.Marshal(&jute.PathWatchRequest{Path: h.fullPath, Watch: true}),
			Done: func(r wire.Reply) { h.onExistsReply(w, r) },
		})
	}
	if h.endCause() != nil {
		h.removeWatch(w) // the hold ended before there was a watch to remove
	}
}

// onWatchEvent handles an event of the watch on the own node. An event other than the deletion may be about a later node
// of the same name, so the node is read again.
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

// onExistsReply handles the reply to watchOwnNode's read.
func (h *Hold) onExistsReply(w *wire.Watch, r wire.Reply) {
	var node jute.StatResponse
	switch err := replyError(r); {
	case r.Err != nil && h.e.isEndError(r.Err):
		h.loseHold(h.e.endCause())
	case r.Err != nil:
		h.watchOwnNode(false) // is sent on the next connection
	case r.Code == jute.CodeNoNode:
		h.loseHold(ErrNodeDeleted)
		h.e.wire.Unwatch(w) // the read has armed a watch for the creation of another node with this name
	case r.Code == jute.CodeOK && jute.Unmarshal(r.Body, &node) == nil:
		if !h.ownsNode(node.Stat) {
			h.loseHold(ErrNodeDeleted)
		} else if h.markWatchArmed() {
			h.setTimer(h.e.wire.Validity().Standing().Timeout)
		}
	case r.Code == jute.CodeNoAuth: // since ZooKeeper 3.8.4 and 3.9.2 exists needs READ
		h.forgetWatch(w)
		h.mu.Lock()
		h.unreadable, h.watchArmed = true, true
		h.mu.Unlock()
		h.pollOwnNode()
	default:
		h.e.core.log.Warn("cannot read our own hold's node; retrying",
			"epoch", h.e.number, "path", h.fullPath, "err", err)
		h.forgetWatch(w)
		h.setTimer(rereadPause) // no effect if the hold has ended since
	}
}

// ownsNode reports whether a node with this Stat is the hold's node. If [HoldOptions].Czxid was 0, the first Stat
// determines the node's czxid.
func (h *Hold) ownsNode(stat jute.Stat) bool {
	id := h.e.wire.ID() // before mu is locked: ID locks the wire session's mutex, see endOnce
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.czxid == 0 {
		h.czxid = stat.Czxid
	}
	return stat.Czxid == h.czxid && stat.EphemeralOwner == id
}

// markWatchArmed records that the watch on the own node is armed. It reports whether the node has to be polled as well,
// because it is unreadable: the server may have armed the watch, but will not send its events.
func (h *Hold) markWatchArmed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watchArmed = true
	return h.unreadable
}

// pollOwnNode reads the Stat of an unreadable own node, in place of a watch, and again after each session timeout. It
// uses getACL, whose reply has the Stat and for which READ or ADMIN is enough.
func (h *Hold) pollOwnNode() {
	h.e.wire.Submit(&wire.Call{
		Op: jute.OpGetACL, Body: jute.Marshal(&jute.PathRequest{Path: h.fullPath}), Done: h.onPollReply,
	})
}

// onPollReply handles the reply to pollOwnNode's read.
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
			"epoch", h.e.number, "path", h.fullPath, "needs", "READ, or ADMIN, on its own nodes")
	default:
		h.e.core.log.Warn("cannot read our own hold's node; retrying",
			"epoch", h.e.number, "path", h.fullPath, "err", err)
		h.setTimer(rereadPause) // no effect if the hold has ended since
	}
}

// forgetWatch records that w is not armed any more. It returns false if w is not the hold's current watch.
func (h *Hold) forgetWatch(w *wire.Watch) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watch != w {
		return false
	}
	h.watch = nil
	return true
}

// cleanUpWatch removes the watch of a hold that has ended. If the session is lost it does nothing, because the watch ends
// with the session.
func (h *Hold) cleanUpWatch() {
	h.mu.Lock()
	watch := h.watch
	h.mu.Unlock()
	if watch != nil && !h.e.wire.Validity().Lost() {
		h.removeWatch(watch)
	}
}

// removeWatch removes the watch of a hold that has ended; after a release with a delay, see unwatchDelay.
func (h *Hold) removeWatch(watch *wire.Watch) {
	if h.endCause() == ErrReleased {
		h.setTimer(unwatchDelay)
	} else {
		h.e.wire.Unwatch(watch)
	}
}

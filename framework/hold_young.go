package framework

import (
	"sync"
	"time"
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

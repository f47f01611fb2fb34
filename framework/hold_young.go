package framework

import (
	"sync"
	"time"
)

// young are the holds of a session that do not watch their node yet, the oldest first. One timer serves them
// all, and is left alone while they come and go: most holds end before it has anything to do for them.
type young struct {
	mu          sync.Mutex
	first, last *Hold       // guarded by mu
	timer       *time.Timer // guarded by mu; made with the first hold
	set         bool        // it will fire; guarded by mu
}

// youth is a hold's place among the young. young.mu guards it.
type youth struct {
	older, newer *Hold
	ends         time.Time
	in           bool
}

// add has the hold's due called when it is old enough.
func (y *young) add(h *Hold) {
	y.mu.Lock()
	defer y.mu.Unlock()
	h.youth = youth{older: y.last, ends: time.Now().Add(ownWatchAfter), in: true}
	if y.last == nil {
		y.first = h
	} else {
		y.last.youth.newer = h
	}
	y.last = h
	if !y.set {
		y.wait(ownWatchAfter)
	}
}

// remove removes a hold, if present.
func (y *young) remove(h *Hold) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.unlink(h)
}

// unlink is remove; mu is held.
func (y *young) unlink(h *Hold) {
	if !h.youth.in {
		return
	}
	if h.youth.older == nil {
		y.first = h.youth.newer
	} else {
		h.youth.older.youth.newer = h.youth.newer
	}
	if h.youth.newer == nil {
		y.last = h.youth.older
	} else {
		h.youth.newer.youth.older = h.youth.older
	}
	h.youth = youth{}
}

// wait sets the timer. mu is held.
func (y *young) wait(d time.Duration) {
	y.set = true
	if y.timer == nil {
		y.timer = time.AfterFunc(d, y.grown)
	} else {
		y.timer.Reset(d)
	}
}

// grown is called by the timer.
func (y *young) grown() {
	var old []*Hold
	y.mu.Lock()
	now := time.Now()
	for y.first != nil && !y.first.youth.ends.After(now) {
		old = append(old, y.first)
		y.unlink(y.first)
	}
	if y.set = y.first != nil; y.set {
		y.wait(y.first.youth.ends.Sub(now))
	}
	y.mu.Unlock()
	for _, h := range old {
		h.due()
	}
}

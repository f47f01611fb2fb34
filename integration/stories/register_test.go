package stories

import (
	"fmt"
	"slices"
	"sync"
)

// hold is a hold of a client.
type hold struct {
	who    int
	shared bool  // a reader's
	token  int64 // 0 if there is none
	weight int   // leases; 1 for all else
	// valid reports from the clock whether it is certainly held. Once false it stays false.
	valid func() bool
}

// register has the current holders of a thing, and finds out when there are too many.
type register struct {
	capacity int // leases; 1 for all else

	mu        sync.Mutex
	held      []*hold
	largest   *hold // of all so far, by token
	exclusive *hold // the last hold that was not shared
}

// enter records a hold that was granted, and reports whether it is still valid. The error describes a violation. If two
// holds exist at the same time for a while, enter is called for one of them during that time, so no violation is
// missed.
func (r *register) enter(h *hold) (valid bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !h.valid() {
		return false, nil
	}
	var beside []*hold
	for _, other := range r.held {
		if other.valid() && !(h.shared && other.shared) {
			beside = append(beside, other)
		}
	}
	// The holds that are still valid now were all valid at one and the same instant, right here.
	beside = slices.DeleteFunc(beside, func(other *hold) bool { return !other.valid() })
	if !h.valid() {
		return false, nil
	}
	weight := h.weight
	for _, other := range beside {
		weight += other.weight
	}
	if weight > r.capacity {
		one := beside[0]
		err = fmt.Errorf("%d holds (token %#x) at the same instant as %d others, of whom one is %d (token %#x)",
			h.who, h.token, len(beside), one.who, one.token)
	}
	before := r.largest
	if h.shared {
		before = r.exclusive
	}
	// A client that holds the same node again has the same token.
	if before != nil && h.token != 0 && h.token <= before.token &&
		(h.token != before.token || h.who != before.who) {
		err = fmt.Errorf("%d has token %#x, after %d had %#x", h.who, h.token, before.who, before.token)
	}
	if r.largest == nil || h.token > r.largest.token {
		r.largest = h
	}
	if !h.shared {
		r.exclusive = h
	}
	r.held = append(r.held, h)
	return true, err
}

// leave is called before a hold is released, or when its end was seen.
func (r *register) leave(h *hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = slices.DeleteFunc(r.held, func(other *hold) bool { return other == h })
}

package stories

import (
	"fmt"
	"slices"
	"sync"
)

// hold is something that a client has.
type hold struct {
	who    int
	shared bool  // as that of readers
	token  int64 // 0 if there is none
	weight int   // leases; 1 for all else
	// valid says from the clock whether it is certainly held. Once false it stays so.
	valid func() bool
}

// register knows the present holders of something, and finds out when there are more than there may be.
type register struct {
	capacity int // leases; 1 for all else

	mu        sync.Mutex
	held      []*hold
	largest   *hold // of all so far, by token
	exclusive *hold // the last one that was not shared
}

// enter takes down a hold that was granted, and says whether it is still valid. The error is what must not
// be.
//
// If two are registered for some time together, then this is called for one of them in that time: nothing is
// missed in between.
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
	// Those that are valid now as well were so at one and the same instant, right here.
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

// leave is called before a hold is given back, or when its end was seen.
func (r *register) leave(h *hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = slices.DeleteFunc(r.held, func(other *hold) bool { return other == h })
}

package semaphore

import (
	"context"
	"sync/atomic"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// heldLeases is what a lease's context carries of it: not the Lease, which would never be collected then.
type heldLeases struct {
	holds atomic.Pointer[[]*framework.Hold] // nil until they are leases: hooks see the context before
}

// Live says whether the leases are held.
func (h *heldLeases) Live() bool {
	holds := h.holds.Load()
	if holds == nil {
		return false
	}
	for _, hold := range *holds {
		if !hold.Valid() {
			return false
		}
	}
	return true
}

// owner is whose leases a context carries: those of any Semaphore of the same client, in whatever view of it,
// at the same node.
type owner struct{ place any }

func (s *Semaphore) owner() owner { return owner{s.client.Place(s.path)} }

// waitsForItself says whether there cannot be n leases before those that ctx carries are released. With a
// shared count that is not known, since it may grow.
func (s *Semaphore) waitsForItself(ctx context.Context, n int) bool {
	left := s.max
	for held := range queue.AllCarried[*heldLeases](ctx, s.owner()) {
		left -= len(*held.holds.Load())
	}
	return s.count == nil && n > left
}

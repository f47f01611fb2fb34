package semaphore

import (
	"context"
	"sync/atomic"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// own is what a lease's context carries of it: not the Lease, which would never be collected then.
type own struct {
	holds atomic.Pointer[[]*framework.Hold] // nil until they are leases: hooks see the context before
}

// Live says whether the leases are held.
func (o *own) Live() bool {
	holds := o.holds.Load()
	if holds == nil {
		return false
	}
	for _, h := range *holds {
		if !h.Valid() {
			return false
		}
	}
	return true
}

// owner is whose leases a context carries: those of any Semaphore of the same client, in whatever view of it, at the same node.
type owner struct{ place any }

func (s *Semaphore) owner() owner { return owner{s.client.Place(s.path)} }

// waitsForItself says whether n leases cannot be had before the owner of ctx has given back some that it has. With a shared count nobody knows: that may grow.
func (s *Semaphore) waitsForItself(ctx context.Context, n int) bool {
	left := s.max
	for o := range queue.AllCarried[*own](ctx, s.owner()) {
		left -= len(*o.holds.Load())
	}
	return s.count == nil && n > left
}

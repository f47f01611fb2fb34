package queue

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/go-curator/curator/framework"
)

// ErrSelfWait refuses to wait for what the caller itself holds.
var ErrSelfWait = errors.New("it would wait for itself, since the context is that of what has to be " +
	"released first: release that before, or acquire with a context that is not of it")

// heldPlace is carried by the context of every hold in a line, so that a caller is not made to wait for
// itself. A [Share], by which a lock is entered again, does not do: not every line is that of such a lock.
type heldPlace struct {
	hold atomic.Pointer[framework.Hold] // nil until there is one: hooks see the context before
}

// Live implements [Carriable].
func (h *heldPlace) Live() bool {
	hold := h.hold.Load()
	return hold != nil && hold.Valid()
}

// owner is whose places and shares a context carries: those of any Line of the same client, in whatever view
// of it, at the same node and with the same name.
type owner struct {
	place any
	name  string
}

func (l *Line) owner() owner { return owner{l.Client.Place(l.Dir), l.Name} }

// holdsAhead says whether ctx carries a place that has to be given up first.
func (l *Line) holdsAhead(ctx context.Context) bool {
	if !l.Order.blocks(l.Name) || l.Client.Err() != nil { // without a client there is no waiting
		return false
	}
	_, own := Carried[*heldPlace](ctx, l.owner())
	return own
}

package queue

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-curator/curator/framework"
)

// ErrSelfWait refuses to wait to who would wait for itself.
var ErrSelfWait = errors.New("it would wait for itself, since the context is that of what has to be released first: release that before, or acquire with a " +
	"context that is not of it")

// mark is carried by the context of every hold in a line, for who is about to stand in line behind it. It is not the one by which a lock is entered again: not
// every line is that of such a lock.
type mark struct {
	held atomic.Pointer[framework.Hold] // nil until there is one: hooks see the context before
}

// Live says whether the place is held.
func (m *mark) Live() bool {
	held := m.held.Load()
	return held != nil && held.Valid()
}

// owner is whose places, and shares, a context carries: those of any Line of the same client, in whatever view of it, at the same node and with the same name.
type owner struct {
	place any
	name  string
}

func (l *Line) owner() owner { return owner{l.Client.Place(l.Dir), l.Name} }

// ownAhead says whether the owner of ctx holds a place that has to be given up first.
func (l *Line) ownAhead(ctx context.Context) bool {
	if !l.Order.blocks(l.Name) || l.Client.Over() != nil { // with the latter there is no waiting
		return false
	}
	_, own := Carried[*mark](ctx, l.owner())
	return own
}

// saying adds to the error of one who has left, if it has waited for itself, that it has.
func (l *Line) saying(ctx context.Context, err error) error {
	if ctx.Err() != nil && l.ownAhead(ctx) {
		return fmt.Errorf("%w: %w", err, ErrSelfWait)
	}
	return err
}

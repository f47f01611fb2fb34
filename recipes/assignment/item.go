package assignment

import (
	"context"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Item is an item that this member holds, for as long as the context passed to the function lasts. Safe for
// concurrent use. The zero value is an item without an owner.
type Item struct {
	name  string
	share *line.Share
}

// Name returns the item's name.
func (i Item) Name() string { return i.name }

// Context returns a context that lasts as long as the item is certainly this member's. The function's own context
// ends earlier when the item is planned for another member, or when Run's context ends: until the function returns,
// work that must be finished while the item is held can still use this one. context.Cause returns the reason of its
// end: framework.ErrSessionLost, ErrNodeDeleted, ErrReleased or ErrClosed. It has no deadline. The zero value's has
// ended.
func (i Item) Context() context.Context {
	if i.share == nil {
		return endedContext
	}
	return i.share.Context()
}

// FencingToken returns a number that grows from owner to owner of the item: the czxid of its lock's node. A
// store that remembers the largest token of each item and refuses smaller ones is safe from a former owner.
func (i Item) FencingToken() int64 {
	if i.share == nil {
		return 0
	}
	return line.GrantOf(i.share).Czxid
}

// Valid reports whether this member certainly holds the item now, computed from the clock. Call it right before an
// action that must not happen without it, above all after anything that may have taken a long time.
func (i Item) Valid() bool { return i.share != nil && i.share.Valid() }

// Remaining returns for how long this member certainly holds the item if no server answers from now on; 0 if it is
// lost or released.
func (i Item) Remaining() time.Duration {
	if i.share == nil {
		return 0
	}
	return i.share.Remaining()
}

// Guard returns an operation for [framework.Client.Transaction], of any client of the same ensemble. With it the
// server executes the transaction only if this lock's node still exists at the commit; otherwise the transaction
// fails with framework.ErrNotHeld. No clock is involved.
func (i Item) Guard() framework.TransactionOp {
	if i.share == nil {
		return (&framework.Client{}).TransactionOp().Check().ForPath("/")
	}
	return line.Guard(i.share)
}

// Path returns the path of the lock's node.
func (i Item) Path() string {
	if i.share == nil {
		return ""
	}
	return i.share.Path()
}

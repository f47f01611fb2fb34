package line

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
)

// Grant is the hold of a contender, with its node. Several callers can share it, each with a [Share]. Its context
// carries it: a caller that acquires with that context shares the grant, or gets ErrSelfWait, instead of waiting for
// itself. The ways in which a waiter gets one are listed in arm.go.
type Grant struct {
	Session *framework.Session
	Hold    *framework.Hold
	// Path and Name are the node's. Czxid is the hold's fencing token: the czxid of the node; after a downgrade, of
	// the writer's node.
	Path, Name string
	Czxid      int64
	Waited     bool // there was a contender ahead
	// Owner is what [OwnerFromContext] returns for the grant's context. It is set before that context is given away.
	Owner any

	line         *Line           // nil if the node was not in a line
	dir          Directory       // as listed last by the waiter
	ctx          grantContext    // set with Hold
	carriedEntry carriedGrant    // of the grant, in the list that ctx carries; set with Hold
	turn         *Turn           // whose part this is; nil if it is not a turn
	revoked      <-chan struct{} // set before it is joinable
	leavesMark   bool            // a release leaves a mark for the next waiter

	mu           sync.Mutex
	joinable     bool // callers may join; guarded by mu
	lastReleased bool // the last Share was released: no caller joins, and the hold is about to end; guarded by mu
	shareCount   int  // Shares that were not released; guarded by mu
}

// Context ends with the hold, and carries the grant.
func (g *Grant) Context() context.Context { return &g.ctx }

// Directory returns the state of the line's directory in the last list before the grant.
func (g *Grant) Directory() Directory { return g.dir }

// Lost returns how the grant was lost, nil if it is still held or was released.
func (g *Grant) Lost() error {
	g.Hold.Valid() // ends the hold, if its time has run out
	return IgnoreError(context.Cause(g.ctx.Context), framework.ErrReleased)
}

func (g *Grant) isHeld() bool {
	g.mu.Lock()
	ended := g.lastReleased
	g.mu.Unlock()
	return !ended && g.Hold.Valid()
}

// Release ends the hold, deletes the node and waits until the server has confirmed that. When ctx ends first, or the
// connection is lost, the client continues. A node that is known to be gone is not deleted: another client's may have
// its name. If the grant was lost, the error is the cause of the loss.
func (g *Grant) Release(ctx context.Context) (err error) {
	lost := g.Lost()
	if lost == framework.ErrNodeDeleted {
		return lost
	}
	defer func() { // also if a hook does not return
		err = g.Deletion(g.Session.Client()).ForPath(ctx, g.Path)
		err = cmp.Or(lost, err)
	}()
	g.Hold.End(framework.ErrReleased)
	return nil
}

// isNodeDeleted reports whether the hold has ended because the node was deleted. An error that only matches ErrNodeDeleted may
// be about another node, such as the node of a lock whose context ends the hold.
func (g *Grant) isNodeDeleted() bool { return HoldLoss(g.Hold) == framework.ErrNodeDeleted }

// Deletion returns the delete of the node, with its mark if it leaves one. Only a holder may leave a mark, so the hold
// must have begun; it must have ended before the delete is sent.
func (g *Grant) Deletion(view *framework.Client) framework.DeleteBuilder {
	b := view.Delete().Quietly().Guaranteed()
	if g.leavesMark {
		b = b.LeavingMark(releaseMarkSuffix)
	}
	return b
}

// ReleaseNoWait ends the hold and has the node deleted, without waiting for that.
func (g *Grant) ReleaseNoWait() {
	if !g.isNodeDeleted() {
		g.queueRelease()
	}
}

// queueRelease ends the hold and queues the delete. The client continues with it until it is done.
func (g *Grant) queueRelease() (deleted *framework.Pending[struct{}]) {
	defer func() { // also if a hook does not return
		deleted = g.Deletion(g.Session.Client()).InBackground().ForPath(context.Background(), g.Path)
	}()
	g.Hold.End(framework.ErrReleased)
	return nil
}

// HoldLoss returns how a hold was lost, nil if it is still held or was released.
func HoldLoss(hold *framework.Hold) error {
	if hold.Valid() {
		return nil
	}
	return IgnoreError(context.Cause(hold.Context()), framework.ErrReleased)
}

// HoldGrants begins the holds of grants: of all, or on an error of none. Their contexts have the values of ctx, and carry
// the grants. ownWatchAfter is framework.HoldOptions.OwnWatchAfter.
func (l *Line) HoldGrants(ctx context.Context, ownWatchAfter time.Duration, grants ...*Grant) error {
	key, list, all := l.lineKey(), carriedGrants(ctx), false
	defer func() { // also when a hook panics
		if !all {
			EndHolds(grants, framework.ErrReleased)
		}
	}()
	for _, g := range grants {
		hold, err := g.Session.Hold(ctx, framework.HoldOptions{
			Path: g.Path, Recipe: l.Recipe, Czxid: g.Czxid, Loss: l.Loss, Values: ctx,
			OwnWatchAfter: ownWatchAfter, Shared: l.Shared,
		})
		if err != nil {
			return err
		}
		g.Hold, g.carriedEntry = hold, carriedGrant{key, g, list}
		list = &g.carriedEntry
	}
	for _, g := range grants {
		g.ctx = grantContext{g.Hold.Context(), g, list}
	}
	all = true
	return nil
}

// HoldWithTimeout calls hold, which begins holds of n nodes one after the other. With wait its context is ctx. Without,
// that context ends after n session timeouts, and the error is then ErrNotAcquired: the servers commit too slowly for a
// hold to begin.
func HoldWithTimeout(
	ctx context.Context, session *framework.Session, n int, wait bool, hold func(context.Context) error,
) error {
	if wait {
		return hold(ctx)
	}
	soon, cancel := context.WithTimeout(ctx, time.Duration(n)*session.Timeout())
	defer cancel()
	err := hold(soon)
	if err != nil && soon.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: no other client holds it, but the servers take too long to commit a write: no hold can begin",
			ErrNotAcquired)
	}
	return err
}

// HoldAgain returns a grant with the same node and a new hold. The hold of g has ended.
func (g *Grant) HoldAgain(ctx context.Context, ownWatchAfter time.Duration) (*Grant, error) {
	again := &Grant{Session: g.Session, Path: g.Path, Name: g.Name, Czxid: g.Czxid, line: g.line, leavesMark: g.leavesMark}
	return again, g.line.HoldGrants(ctx, ownWatchAfter, again)
}

// EndHolds ends the holds of those grants that have one, also if a hook for one of them does not return.
func EndHolds(grants []*Grant, why error) {
	if len(grants) > 0 {
		defer EndHolds(grants[1:], why)
		if hold := grants[0].Hold; hold != nil {
			hold.End(why)
		}
	}
}

// ReleaseThen ends the hold and has the node deleted, without waiting for that. then gets the result, on the
// goroutine of the recipes' callbacks.
func (g *Grant) ReleaseThen(then func(error)) {
	view := g.Session.Client().ForRecipes()
	if g.isNodeDeleted() {
		view.Later(func() { then(nil) })
		return
	}
	defer func() { // also if a hook does not return
		g.Deletion(view).InBackground().ForPath(context.Background(), g.Path).
			Then(func(_ struct{}, err error) { then(err) })
	}()
	g.Hold.End(framework.ErrReleased)
}

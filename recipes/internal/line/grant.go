package line

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
)

// Grant is a place in line whose turn has come. Its node stays until Release or Abandon, or the end of the
// session. Callers can have it together, each with a [Share].
//
// Its context carries it: a caller that acquires with that context joins, instead of standing in line, or is at least
// not made to wait for itself.
type Grant struct {
	Session *framework.Session
	Hold    *framework.Hold
	// Path and Name are the node's; Czxid is the transaction that created it, or, for a grant in the place of
	// another, that one's node.
	Path, Name string
	Czxid      int64
	// Owner is found from a context of the grant, see [Owner]. It is set before any is given away.
	Owner any

	line    *Line           // nil for a grant without a place in a line
	ctx     grantContext    // set with Hold
	entry   carried         // of the grant, in the list that ctx carries; set with Hold
	turn    *Turn           // which it is of; nil for others
	revoked <-chan struct{} // set before shared
	Waited  bool            // there was a contender ahead
	marks   bool            // the deletion of its node leaves a mark for the next waiter

	shared bool // callers may join; guarded by mu
	ended  bool // the last one was released: nobody joins, and the hold is about to end; guarded by mu
	mu     sync.Mutex
	count  int // Shares that were not released; guarded by mu
}

// Context ends with the hold, and carries the grant.
func (g *Grant) Context() context.Context { return &g.ctx }

// Lost returns how the grant was lost, nil if it is still held or was released.
func (g *Grant) Lost() error {
	g.Hold.Valid() // ends it, if its time has run out
	return Unless(context.Cause(g.ctx.Context), framework.ErrReleased)
}

func (g *Grant) live() bool {
	g.mu.Lock()
	ended := g.ended
	g.mu.Unlock()
	return !ended && g.Hold.Valid()
}

// Release ends the hold, deletes the node and waits until the server has confirmed that. When ctx ends first, or the
// connection is lost, the client continues. A node that is known to be gone is not deleted: another client's may have
// its name.
func (g *Grant) Release(ctx context.Context) (err error) {
	if g.gone() {
		return nil
	}
	defer func() { // also if a hook does not return
		err = g.Deletion(g.Session.Client()).ForPath(ctx, g.Path)
	}()
	g.Hold.End(framework.ErrReleased)
	return nil
}

// gone reports whether the hold has ended because the node was deleted. An error that only matches ErrNodeDeleted may
// be about another node, such as the node of a lock whose context ends the hold.
func (g *Grant) gone() bool { return Lost(g.Hold) == framework.ErrNodeDeleted }

// Deletion returns the delete of the node, in its session, for use once the hold has ended: its mark shows the next
// waiter that the node was the first in line.
func (g *Grant) Deletion(view *framework.Client) framework.DeleteBuilder {
	b := view.Delete().Quietly().Guaranteed()
	if g.marks {
		b = b.LeavingMark(markSuffix)
	}
	return b
}

// Abandon ends the hold and has the node deleted, without waiting for that.
func (g *Grant) Abandon() {
	if !g.gone() {
		g.giveBack()
	}
}

// Leave ends the hold of a place whose node the caller deletes itself, in a transaction with something else.
func (g *Grant) Leave() { g.Hold.End(framework.ErrReleased) }

// giveBack ends the hold and queues the delete. The client continues with it until it is done.
func (g *Grant) giveBack() (deleted *framework.Pending[struct{}]) {
	defer func() { // also if a hook does not return
		deleted = g.Deletion(g.Session.Client()).InBackground().ForPath(context.Background(), g.Path)
	}()
	g.Hold.End(framework.ErrReleased)
	return nil
}

// Lost returns how a hold was lost, nil if it is still held or was released.
func Lost(hold *framework.Hold) error {
	if hold.Valid() {
		return nil
	}
	return Unless(context.Cause(hold.Context()), framework.ErrReleased)
}

// Holds returns a grant of this Line, or one like it, that ctx carries and that is still held; nil if there
// is none.
func (l *Line) Holds(ctx context.Context) *Grant {
	for g := range l.Carried(ctx) {
		return g
	}
	return nil
}

// Hold makes holds of grants whose turn has come, of all or none. Their contexts have the values of ctx, and
// carry the grants. ownWatchAfter is as in framework.HoldOptions.
func (l *Line) Hold(ctx context.Context, ownWatchAfter time.Duration, grants ...*Grant) error {
	own, list, all := l.owner(), carriedBy(ctx), false
	defer func() { // also when a hook panics
		if !all {
			EndAll(grants, framework.ErrReleased)
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
		g.Hold, g.entry = hold, carried{own, g, list}
		list = &g.entry
	}
	for _, g := range grants {
		g.ctx = grantContext{g.Hold.Context(), g, list}
	}
	all = true
	return nil
}

// Holding calls hold, which makes holds of n nodes in a session, one after the other, with ctx. If the caller does not
// wait, ctx ends no later than n session timeouts from now: servers that commit so slowly that no hold can begin are a
// reason for ErrNotAcquired.
func Holding(
	ctx context.Context, session *framework.Session, n int, wait bool, hold func(context.Context) error,
) error {
	if wait {
		return hold(ctx)
	}
	soon, cancel := context.WithTimeout(ctx, time.Duration(n)*session.Timeout())
	defer cancel()
	err := hold(soon)
	if err != nil && soon.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: nobody else has it, but the servers take too long to commit a write: no hold can begin",
			ErrNotAcquired)
	}
	return err
}

// Again returns the grant of the same place, whose hold has ended, with a new hold.
func (g *Grant) Again(ctx context.Context, ownWatchAfter time.Duration) (*Grant, error) {
	again := &Grant{Session: g.Session, Path: g.Path, Name: g.Name, Czxid: g.Czxid, line: g.line, marks: g.marks}
	return again, g.line.Hold(ctx, ownWatchAfter, again)
}

// EndAll ends the holds that grants have, also if a hook for one of them does not return.
func EndAll(grants []*Grant, why error) {
	if len(grants) > 0 {
		defer EndAll(grants[1:], why)
		if hold := grants[0].Hold; hold != nil {
			hold.End(why)
		}
	}
}

package queue

import (
	"context"

	"github.com/go-curator/curator/framework"
)

// Grant is a place in line whose turn has come. Its node stays until Release or Abandon, or the end of the
// session.
type Grant struct {
	Session *framework.Session
	Hold    *framework.Hold
	// Path and Name are the node's; Czxid is the transaction that created it, or, for a grant in the place of
	// another, that one's node.
	Path, Name string
	Czxid      int64
}

// Release ends the hold, deletes the node and waits until the server has confirmed that. When ctx ends first,
// or the connection is lost, the client goes on.
func (g *Grant) Release(ctx context.Context) (err error) {
	defer func() { // also if a hook does not return
		err = g.Session.Client().Delete().Quietly().Guaranteed().ForPath(ctx, g.Path)
	}()
	g.Hold.End(framework.ErrReleased)
	return nil
}

// Abandon ends the hold and has the node deleted, without waiting for that.
func (g *Grant) Abandon() {
	defer Remove(g.Session.Client(), g.Path) // also if a hook does not return
	g.Hold.End(framework.ErrReleased)
}

// Lost returns how a hold was lost, nil if it is still held or was released.
func Lost(hold *framework.Hold) error {
	if hold.Valid() {
		return nil
	}
	return Unless(context.Cause(hold.Context()), framework.ErrReleased)
}

package queue

import (
	"cmp"
	"context"
	"errors"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
)

// How a waiter is granted by an event, without a list (ADR 0061). An event says that the node ahead is gone. The turn
// has come if that node was the first in line when it went, and the own node was there. The first holds
//
//   - if the list has shown that there is nobody else ahead; or
//   - if the holder has said so: the transaction that deletes its node also creates and deletes a mark, a node whose
//     name only the two know, and the waiter has a watch for its creation. A waiter that gives up, and the end of a
//     session, leave no mark.
//
// The second is so if a watch on the own node, armed before the event, has not fired. All of it must have happened in
// the connection of the list: after a reconnect there is a list.

// passes says that the line is one in which a holder tells the next one.
func (p *place) passes() bool { return p.Order.exclusive() && p.wasFirst == nil }

// markSuffix makes the path of a mark from that of its node.
const markSuffix = "-released"

// arm begins to arm the watches that make a list unnecessary when the node ahead goes. They need no read, since the
// list has just shown what is there; but the own node is read if somebody has written to it, and perhaps replaced it,
// and if its ACL does not say that its events can be had.
func (p *place) arm(ctx context.Context, d Decision) (a arming) {
	if !p.passes() || !d.Sole && !(d.Usual && zkpath.IsOurs(d.Predecessor)) {
		return a
	}
	var own, marks []string
	switch {
	case p.own != nil:
	case p.ownChanged || !p.view.ReadsItsOwn(p.path):
		a.read = p.view.GetData().Undecompressed().WithWatch().InBackground().ForPath(ctx, p.path)
	default:
		own = []string{p.path}
	}
	if !d.Sole {
		marks = []string{zkpath.Join(p.Dir, d.Predecessor) + markSuffix}
	}
	if a.own = len(own) > 0; a.own || len(marks) > 0 {
		a.watches = p.session.Arm(ctx, p.czxid, own, marks)
	}
	return a
}

// arming is watches that are being armed.
type arming struct {
	read    *framework.Pending[framework.DataResult] // of the own node, with a watch
	watches *framework.Pending[[]*framework.Watch]
	own     bool // the first of watches is on the own node
}

// armed waits for the answers. mark, unless it is nil, hears of the holder ahead. It says whether to try again, after
// a list: a request was lost, for example with its connection. For what the server refuses there is a list.
func (p *place) armed(ctx context.Context, a arming) (mark *framework.Watch, again bool, err error) {
	if a.read != nil {
		node, failed := Result(a.read)
		switch {
		case failed == nil && !p.isOwn(node.Stat):
			node.Watch.Stop()
			err = errNodeLost
		case failed == nil:
			p.own = node.Watch
		case errors.Is(failed, framework.ErrNoNode):
			err = errNodeLost
		default:
			err = failed
		}
	}
	if a.watches != nil {
		watches, failed := Result(a.watches)
		if failed == nil && a.own {
			p.own, watches = watches[0], watches[1:]
		}
		if failed == nil && len(watches) > 0 {
			mark = watches[0]
		}
		err = cmp.Or(err, failed)
	}
	switch {
	case framework.Retryable(err):
		return mark, true, nil
	case PlaceLost(err), errors.Is(err, framework.ErrClosed), ctx.Err() != nil:
		return mark, false, err
	}
	return mark, false, nil
}

// left says whether the holder has told that it was the first.
func left(mark *framework.Watch) bool {
	select {
	case ev, ok := <-Events(mark):
		return ok && ev.Type == framework.EventNodeCreated
	default:
		return false
	}
}

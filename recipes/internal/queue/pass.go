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
// list has just shown what is there.
func (p *place) arm(ctx context.Context, d Decision) *arming {
	if !p.passes() || !d.Sole && !(d.Usual && zkpath.IsOurs(d.Predecessor)) {
		return nil
	}
	var a arming
	var own, marks []string
	if p.own == nil {
		own = []string{p.path}
		if !p.view.ReadsItsOwn(p.path) {
			a.readable = p.view.GetData().Undecompressed().InBackground().ForPath(ctx, p.path)
		}
	}
	if a.own = len(own); !d.Sole {
		marks = []string{zkpath.Join(p.Dir, d.Predecessor) + markSuffix}
	}
	if a.own+len(marks) == 0 {
		return nil
	}
	since := max(p.czxid, p.listed.zxid) // the list may have been asked for with the create
	a.watches = p.session.Arm(ctx, since, own, marks)
	return &a
}

// arming is under way.
type arming struct {
	own      int // how many of the watches are on the own node
	watches  *framework.Pending[[]*framework.Watch]
	readable *framework.Pending[framework.DataResult] // without permission to read it, there are no events of it
}

// armed waits for the answers. mark, unless it is nil, hears of the holder ahead. It says whether to try again, after
// a list: a request was lost, for example with its connection. What the server refuses there is a list for.
func (p *place) armed(ctx context.Context, a *arming) (mark *framework.Watch, again bool, err error) {
	if a == nil {
		return nil, false, nil
	}
	watches, err := Result(a.watches)
	if err == nil && a.own > 0 {
		p.own, watches = watches[0], watches[1:]
	}
	if len(watches) > 0 {
		mark = watches[0]
	}
	if a.readable != nil {
		_, failed := Result(a.readable)
		switch {
		case failed == nil, errors.Is(failed, framework.ErrReplyTooLarge):
		case errors.Is(failed, framework.ErrNoNode):
			return mark, false, errNodeLost
		default:
			p.own.Stop()
			p.own, err = nil, cmp.Or(err, failed)
		}
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

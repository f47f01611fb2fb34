package line

import (
	"cmp"
	"context"
	"errors"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
)

// How a waiter is granted by events, without a list (ADR 0061). The event that the node ahead is gone is not enough.
// It must be certain that
//
//   - the node ahead was the first in line when it went: the list has shown nobody else ahead, or its holder has said
//     so. The transaction that deletes a holder's node also creates and deletes a mark, a node with a name that only
//     the two know, and the waiter has a watch for its creation. A waiter that gives up leaves none, and the end of a
//     session does not either. A mark tells what its holder knows, which may not know contenders of another kind.
//   - the own node was there: a watch on it, armed before, has not fired.
//
// All of it must have happened in the connection of the list: after a reconnect there is a list.

// armTries is how often in a row a waiter tries to arm those watches again. Then it waits without them: perhaps
// something between the client and the servers cannot bear setWatches.
const armTries = 4

// passes says that the line is one in which a holder tells the next one.
func (p *place) passes() bool { return p.Order.exclusive() && p.wasFirst == nil }

// marks reports whether the deletion of a holder's node leaves a mark. If the holder has not waited, its follower rarely
// depends on a mark.
func (p *place) marks() bool { return p.waited && p.passes() }

// markSuffix makes the path of a mark from that of its node.
const markSuffix = "-released"

// arm begins to arm the watches that make a list unnecessary when the node ahead goes. They need no read, since the
// list has just shown what is there; but the own node is read if somebody has written to it, and perhaps replaced it,
// and if its ACL does not say that its events can be had.
func (p *place) arm(ctx context.Context, d Decision) (a arming) {
	w := beginning{
		Decision: d, passes: p.passes(), failures: p.armFailures, watched: p.own != nil, changed: p.ownChanged,
		readable: func() bool { return p.view.ReadsItsOwn(p.path) },
	}.arms()
	var own, marks []string
	switch w.own {
	case armedByRead:
		a.read = p.view.GetData().Undecompressed().WithWatch().InBackground().ForPath(ctx, p.path)
	case armedUnread:
		own = []string{p.path}
	}
	if w.mark {
		marks = []string{zkpath.Join(p.Dir, d.Predecessor) + markSuffix}
	}
	if a.own = len(own) > 0; a.own || len(marks) > 0 {
		a.watches = p.session.Arm(ctx, p.czxid, own, marks)
	}
	return a
}

// beginning is on what it depends which watches a waiter arms besides that of the node ahead.
type beginning struct {
	Decision
	passes   bool        // holders in this line leave marks
	failures int         // in a row, to arm the watches
	watched  bool        // the own node has a watch already
	changed  bool        // the own node was written to, and perhaps replaced
	readable func() bool // reports whether the client may read the own node; called only if that matters
}

// watches are those that a waiter arms besides that of the node ahead. Without any, a list follows each event.
type watches struct {
	own  ownWatch
	mark bool
}

// ownWatch is how a waiter arms the watch of its own node.
type ownWatch int8

const (
	notArmed    ownWatch = iota // it is armed already, or not needed
	armedByRead                 // by a read, which shows whose node it is
	armedUnread                 // by setWatches
)

// arms returns the watches to arm. It is a pure function, but for readable.
func (b beginning) arms() (w watches) {
	if !b.passes || !b.Sole && !(b.Usual && zkpath.IsOurs(b.Predecessor)) || b.failures > armTries {
		return w
	}
	switch {
	case b.watched:
	case b.changed || !b.readable():
		w.own = armedByRead
	default:
		w.own = armedUnread
	}
	w.mark = !b.Sole
	return w
}

// evidence is what shows, after something has happened ahead of a waiter, whether its turn has come.
type evidence struct {
	marked bool // the mark of the node ahead was created: it was the first in line
	gone   bool // the event of its deletion has come
	sole   bool // the list has shown nobody else ahead
	there  bool // the own node has been there since the list: it has a watch, which has not fired
	same   bool // the connection is that of the list
}

// turn reports whether the turn has come. If not, the waiter reads a list.
func (e evidence) turn() bool { return (e.marked || e.gone && e.sole) && e.there && e.same }

// arming is watches that are being armed.
type arming struct {
	read    *framework.Pending[framework.DataResult] // of the own node, with a watch
	watches *framework.Pending[[]*framework.Watch]
	own     bool // the first of watches is on the own node
}

// forget has the watches stopped that nobody waits for.
func (a arming) forget() {
	if a.read != nil {
		a.read.Then(func(node framework.DataResult, _ error) { node.Watch.Stop() })
	}
	if a.watches != nil {
		a.watches.Then(func(watches []*framework.Watch, _ error) {
			for _, w := range watches {
				w.Stop()
			}
		})
	}
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

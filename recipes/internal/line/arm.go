package line

import (
	"cmp"
	"context"
	"errors"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
)

// A waiter is granted by events, without a list (ADR 0061). The event that the predecessor is gone is not enough. It must be
// certain that
//
//   - the predecessor was the first in line when it went: the list has shown no other contender ahead, or its holder has
//     reported that. The transaction that deletes a holder's node also creates and deletes a mark, a node with a name that
//     only the two know, and the waiter has a watch for its creation. A waiter that gives up leaves none, and the end of a
//     session does not either. A mark shows what its holder knows, which may not know contenders of another kind.
//   - the own node was there: a watch on it, armed before, has not fired.
//
// All of it must have happened in the connection of the list: after a reconnect there is a list.

// maxArmFailures limits the failures in a row to arm those watches. After that the waiter waits without them: possibly a
// proxy breaks connections at setWatches.
const maxArmFailures = 4

// releaseMarkSuffix follows the path of a node in the path of its mark.
const releaseMarkSuffix = "-released"

// usesReleaseMarks reports whether holders in this line leave marks for their waiters.
func (w *waiter) usesReleaseMarks() bool { return w.Order.isExclusive() && w.wasFirst == nil }

// leavesReleaseMark reports whether the deletion of the node leaves a mark after a grant. If the holder has not waited, the
// waiter behind it rarely needs a mark.
func (w *waiter) leavesReleaseMark() bool { return w.waited && w.usesReleaseMarks() }

// watchedPredecessor has the watches on a waiter's predecessor: on its node, or on the directory if that node cannot be
// watched.
type watchedPredecessor struct {
	events      <-chan framework.Event
	isDirectory bool
	isDeleted   bool                 // the node does not exist
	node        framework.DataResult // as it was read
	mark        *framework.Watch     // of its mark; may be nil
}

func (p watchedPredecessor) stopWatches() {
	if !p.isDirectory {
		p.node.Watch.Stop()
	}
	p.mark.Stop()
}

// armWatches requests the watches of a waiter together, first the watches that make a list unnecessary. armed is false when
// the directory has to be listed again. The predecessor's data do not matter: any client may have written anything,
// packed or not.
func (w *waiter) armWatches(ctx context.Context) (p watchedPredecessor, armed bool, err error) {
	if w.unreadablePredecessor == w.decision.Predecessor {
		p.events, p.isDirectory = WatchEvents(w.dirWatch), true
		return p, w.dirWatch != nil, nil
	}
	w.unreadablePredecessor = ""
	own := w.requestOwnWatches(ctx)
	requested := false
	defer func() {
		if !requested { // a hook did not return
			own.stopWhenReplied()
		}
	}()
	full := zkpath.Join(w.Dir, w.decision.Predecessor)
	read := w.view.GetData().Undecompressed().WithWatch().InBackground().ForPath(ctx, full)
	requested = true
	mark, again, err := w.awaitOwnWatches(ctx, own)
	node, failed := AwaitResult(read)
	p.mark, p.node, p.events = mark, node, WatchEvents(node.Watch)
	switch {
	case err != nil:
	case failed == nil && !again:
		w.armFailures = 0
		return p, true, nil
	case errors.Is(failed, framework.ErrNoAuth), errors.Is(failed, framework.ErrReplyTooLarge):
		// The list that follows arms a watch on the directory, whose event shows that the node is gone.
		w.Client.Logger().Warn("cannot read the predecessor's node; watching the parent's children instead",
			"path", full, "err", failed)
		w.unreadablePredecessor = w.decision.Predecessor
	case errors.Is(failed, framework.ErrNoNode):
		p.isDeleted = true
	case (again || framework.Retryable(failed)) && ctx.Err() == nil:
		// The list waits for the connection. But this may have been an overloaded server, which answers the list.
		w.armFailures++
		err = Backoff(ctx, w.Client, int(w.armFailures)-1)
	default:
		err = failed
	}
	return p, false, err
}

// ownWatchRequests is the watches in flight that make a list unnecessary when the predecessor goes.
type ownWatchRequests struct {
	read    *framework.Pending[framework.DataResult] // of the own node, with a watch
	watches *framework.Pending[[]*framework.Watch]
	hasOwn  bool // the first of watches is on the own node
}

// requestOwnWatches requests those watches. They need no read, since the list has just shown the nodes; but the own node is read
// if another client has written to it, and possibly replaced it, or if by its ACL the client may lack READ on it,
// without which no events are sent.
func (w *waiter) requestOwnWatches(ctx context.Context) (a ownWatchRequests) {
	arms := armInput{
		Decision: *w.decision, usesMarks: w.usesReleaseMarks(), failures: int(w.armFailures), isWatched: w.ownWatch != nil, isChanged: w.ownChanged,
		mayRead: func() bool { return w.view.ReadsItsOwn(w.path) },
	}.watchesToArm()
	var own, marks []string
	switch arms.own {
	case armedByRead:
		a.read = w.view.GetData().Undecompressed().WithWatch().InBackground().ForPath(ctx, w.path)
	case armedUnread:
		own = []string{w.path}
	}
	if arms.mark {
		marks = []string{zkpath.Join(w.Dir, w.decision.Predecessor) + releaseMarkSuffix}
	}
	if a.hasOwn = len(own) > 0; a.hasOwn || len(marks) > 0 {
		a.watches = w.session.Arm(ctx, w.czxid, own, marks)
	}
	return a
}

// stopWhenReplied has the watches stopped when their requests are answered.
func (a ownWatchRequests) stopWhenReplied() {
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

// awaitOwnWatches waits for the replies. mark, unless it is nil, fires when the predecessor's mark is created. again reports
// whether a request was lost, for example with its connection, and has to be repeated after a list. If the server
// refuses, every event ahead is followed by a list.
func (w *waiter) awaitOwnWatches(ctx context.Context, a ownWatchRequests) (mark *framework.Watch, again bool, err error) {
	if a.read != nil {
		node, failed := AwaitResult(a.read)
		switch {
		case failed == nil && !w.isOwnNode(node.Stat):
			node.Watch.Stop()
			err = errNodeLost
		case failed == nil:
			w.ownWatch = node.Watch
		case errors.Is(failed, framework.ErrNoNode):
			err = errNodeLost
		default:
			err = failed
		}
	}
	if a.watches != nil {
		watches, failed := AwaitResult(a.watches)
		if failed == nil && a.hasOwn {
			w.ownWatch, watches = watches[0], watches[1:]
		}
		if failed == nil && len(watches) > 0 {
			mark = watches[0]
		}
		err = cmp.Or(err, failed)
	}
	switch {
	case framework.Retryable(err):
		return mark, true, nil
	case IsPlaceLost(err), errors.Is(err, framework.ErrClosed), ctx.Err() != nil:
		return mark, false, err
	}
	return mark, false, nil
}

// armInput has the inputs of the decision which watches a waiter arms besides the predecessor's.
type armInput struct {
	Decision
	usesMarks bool        // holders in this line leave marks
	failures  int         // in a row, to arm the watches
	isWatched bool        // the own node has a watch already
	isChanged bool        // the own node was written to, and possibly replaced
	mayRead   func() bool // reports whether the client may read the own node; called only if that matters
}

// armedWatches are the watches that a waiter arms besides the predecessor's. Without any, a list follows each event.
type armedWatches struct {
	own  ownWatchMethod
	mark bool
}

// ownWatchMethod is the way in which a waiter arms the watch of its own node.
type ownWatchMethod int8

const (
	notArmed    ownWatchMethod = iota // it is armed already, or not needed
	armedByRead                       // by a read, which shows whose node it is
	armedUnread                       // by setWatches
)

// watchesToArm returns the watches to arm. It is a pure function, but for readable.
func (a armInput) watchesToArm() (w armedWatches) {
	if !a.usesMarks || !a.OnlyAhead && !(a.MarkProves && zkpath.IsOurs(a.Predecessor)) || a.failures > maxArmFailures {
		return w
	}
	switch {
	case a.isWatched:
	case a.isChanged || !a.mayRead():
		w.own = armedByRead
	default:
		w.own = armedUnread
	}
	w.mark = !a.OnlyAhead
	return w
}

// grantEvidence has the facts that show, after an event ahead, whether a waiter is the first in line.
type grantEvidence struct {
	markCreated    bool // the predecessor's mark was created: it was the first in line
	deleted        bool // the event of the predecessor's deletion has come
	onlyAhead      bool // the list has shown no other contender ahead
	ownWatched     bool // the own node has been there since the list: its watch has not fired
	sameConnection bool // the connection has not changed since the list
}

// provesFirst reports whether the waiter is the first in line. If not, it lists the directory.
func (e grantEvidence) provesFirst() bool {
	return (e.markCreated || e.deleted && e.onlyAhead) && e.ownWatched && e.sameConnection
}

// isMarkCreated reports whether the event of a mark's creation has come.
func isMarkCreated(mark *framework.Watch) bool {
	select {
	case ev, ok := <-WatchEvents(mark):
		return ok && ev.Type == framework.EventNodeCreated
	default:
		return false
	}
}

// predecessorRecheck is two reads by which a waiter notices changes without events. Events can get lost, since servers drop the
// events of nodes that the client may not read. The safety costs two reads per waiter and session timeout.
type predecessorRecheck struct {
	w                *waiter
	path             string // of the predecessor
	own, predecessor *framework.Pending[framework.ExistsResult]
}

func (w *waiter) startRecheck(ctx context.Context) *predecessorRecheck {
	r := &predecessorRecheck{w: w, path: zkpath.Join(w.Dir, w.decision.Predecessor)}
	exists := w.view.CheckExists().InBackground()
	r.own, r.predecessor = exists.ForPath(ctx, w.path), exists.ForPath(ctx, r.path)
	return r
}

func (r *predecessorRecheck) repliesDone() <-chan struct{} {
	if r == nil {
		return nil
	}
	return r.predecessor.Done()
}

// result reports whether the predecessor is gone. The error is errNodeLost if the own node is.
func (r *predecessorRecheck) result() (gone bool, err error) {
	own, failed := AwaitResult(r.own)
	lost := failed == nil && (own.Stat == nil || !r.w.isOwnNode(*own.Stat))
	predecessor, failed := AwaitResult(r.predecessor)
	if gone, err = decideRecheck(lost, failed == nil && predecessor.Stat == nil); gone {
		r.w.Client.Logger().Warn("the predecessor's node is deleted, but no watch event came; continuing without the event", "path", r.path)
	}
	return gone, err
}

// decideRecheck returns the next step after a recheck: lost means that the own node is gone or belongs to another
// session, gone that the predecessor's node is gone.
func decideRecheck(lost, gone bool) (relist bool, err error) {
	if lost {
		return false, errNodeLost
	}
	return gone, nil
}

// handleOwnEvent handles an event of the own node. After anything but its deletion there is a list before the grant.
func (w *waiter) handleOwnEvent(ev framework.Event) error {
	w.ownWatch, w.ownChanged = nil, true
	switch ev.Type {
	case framework.EventNodeDeleted:
		return errNodeLost
	case framework.EventEnd:
		return sessionEndCause(ev.Err)
	}
	return nil
}

func (w *waiter) isOwnNode(node framework.Stat) bool {
	return node.Czxid == w.czxid && node.EphemeralOwner == w.session.ID()
}

// sessionEndCause returns why a session has ended.
func sessionEndCause(cause error) error {
	if cause == nil {
		return framework.ErrSessionLost
	}
	return cause
}

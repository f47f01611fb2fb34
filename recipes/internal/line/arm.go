package line

import (
	"cmp"
	"context"
	"errors"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
)

// A waiter becomes a holder (becomeHolder) in one of these ways:
//
//  1. Its first list shows no contender ahead that blocks (decideByList).
//  2. Another list shows that (listAgain). It follows whatever else ends a wait.
//  3. The event of the predecessor's mark: its holder has released (ADR 0061). The transaction that deletes the node
//     also creates and deletes the mark, a node whose name only the two use, and the waiter has a watch for its creation.
//     So the node is gone, without a read (framework.DeleteBuilder.LeavingMark).
//     A waiter that gives up leaves no mark, a session that ends neither.
//  4. The event of the predecessor's deletion, if the list has shown no other child ahead (Decision.OnlyAhead).
//  5. The reply that the predecessor's node is missing, to the read that was to watch it, if the mark's event has come.
//  6. With AcquireWith: the predecessor is gone, and the recipe's SuccessionFunc returns WasFirst.
//
// Order.Decide decides 1 and 2, afterEvent the others.
//
// 3 to 5 are for lines of one kind of contender: a reader holds while other readers are ahead, so its release proves
// nothing to a writer. They need that the watch on the own node, armed before, has not fired, and that the connection
// has not changed since the list (grantEvidence). 6 needs neither.
//
// Holds that begin otherwise: a re-entry ([Line.Reenter]), a turn on a held node ([Front]), a downgrade (package
// rwlock), a new hold for a held node ([Grant.HoldAgain]), and the leases of a semaphore.

// maxArmFailures limits the failures in a row to arm the watches of the own node and the mark. After that the waiter
// waits without them: possibly a proxy breaks connections at setWatches.
const maxArmFailures = 4

// releaseMarkSuffix follows the path of a node in the path of its mark.
const releaseMarkSuffix = "-released"

// usesReleaseMarks reports whether holders in this line leave marks for their waiters.
func (w *waiter) usesReleaseMarks() bool { return w.Order.hasOneKind() && w.succeed == nil }

// leavesReleaseMark reports whether the holder's release leaves a mark. If the holder has not waited, the waiter behind
// it rarely needs one.
func (w *waiter) leavesReleaseMark() bool { return w.decision != nil && w.usesReleaseMarks() }

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

// armWatches arms the watches of a waiter. All requests are in flight together, that for the predecessor last. armed is
// false if the directory has to be listed again.
func (w *waiter) armWatches(ctx context.Context) (p watchedPredecessor, armed bool, err error) {
	if w.unreadablePredecessor == w.decision.Predecessor {
		p.events, p.isDirectory = WatchEvents(w.dirWatch), true
		return p, w.dirWatch != nil, nil
	}
	w.unreadablePredecessor = ""
	requests := w.requestGrantWatches(ctx)
	requested := false
	defer func() {
		if !requested { // a hook has panicked, or ended the goroutine
			requests.stopWhenReplied()
		}
	}()
	full := zkpath.Join(w.Dir, w.decision.Predecessor)
	read := w.view.GetData().Undecompressed().WithWatch().InBackground().ForPath(ctx, full) // of any client, packed or not
	requested = true
	mark, again, err := w.awaitGrantWatches(ctx, requests)
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
		// The list that follows waits for the connection. But an overloaded server may reply to a list and not to this.
		w.armFailures++
		err = Backoff(ctx, w.Client, int(w.armFailures)-1)
	default:
		err = failed
	}
	return p, false, err
}

// grantWatchRequests are the requests in flight for the watches of the own node and of the predecessor's mark, with
// which an event can grant without a list.
type grantWatchRequests struct {
	read    *framework.Pending[framework.DataResult] // of the own node, with a watch
	watches *framework.Pending[[]*framework.Watch]
	hasOwn  bool // the first of watches is on the own node
}

// requestGrantWatches requests those watches. setWatches arms them without a read, since the list has just shown the
// nodes. But the own node is read if another client has written to it, and possibly replaced it, or if by its ACL the
// client may lack READ on it: then no events are sent.
func (w *waiter) requestGrantWatches(ctx context.Context) (a grantWatchRequests) {
	arms := armInput{
		Decision: *w.decision, usesMarks: w.usesReleaseMarks(), failures: int(w.armFailures), ownWatched: w.ownWatch != nil, ownChanged: w.ownChanged,
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
		a.watches = w.session.Arm(ctx, w.czxid, own, marks) // the create is older than the list, and is the own node's last change
	}
	return a
}

// stopWhenReplied has each watch stopped after the reply to its request.
func (a grantWatchRequests) stopWhenReplied() {
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

// awaitGrantWatches waits for the replies. mark fires when the predecessor's mark is created; nil if it is not watched.
// again reports whether a request was lost, for example with its connection, and has to be repeated after a list. If the
// server refuses, the error is nil: then a list follows each event ahead.
func (w *waiter) awaitGrantWatches(ctx context.Context, a grantWatchRequests) (mark *framework.Watch, again bool, err error) {
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

// armInput has the inputs of watchesToArm.
type armInput struct {
	Decision
	usesMarks  bool        // holders in this line leave marks
	failures   int         // in a row, to arm the watches
	ownWatched bool        // the own node has a watch already
	ownChanged bool        // the own node was written to, and possibly replaced
	mayRead    func() bool // reports whether the client may read the own node; called only if that matters
}

// armDecision is which watches a waiter arms besides the predecessor's. Without any, a list follows each event.
type armDecision struct {
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

// watchesToArm returns the watches to arm. It is a pure function, except for mayRead.
func (a armInput) watchesToArm() (w armDecision) {
	if !a.usesMarks || !a.OnlyAhead && !(a.OrderAgreed && zkpath.IsOurs(a.Predecessor)) || a.failures > maxArmFailures {
		return w
	}
	switch {
	case a.ownWatched:
	case a.ownChanged || !a.mayRead():
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
	deletionEvent  bool // the event of the predecessor's deletion has come
	onlyAhead      bool // the list has shown no other contender ahead
	ownWatched     bool // the own node has been there since the list: its watch has not fired
	sameConnection bool // the connection has not changed since the list
}

// provesFirst reports whether the waiter is the first in line. If not, it lists the directory.
func (e grantEvidence) provesFirst() bool {
	return (e.markCreated || e.deletionEvent && e.onlyAhead) && e.ownWatched && e.sameConnection
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

// predecessorRecheck is two reads, of the own node and the predecessor's, about once per session timeout. They find
// changes whose events were lost: servers drop the events of nodes that the client may not read. After a failed read the
// next recheck follows a session timeout later. The other ways to miss an event need no recheck:
//
//   - The connection is lost: on the next one all watches are armed again, with a zxid from before. Missed events follow.
//   - The predecessor is deleted before its watch is armed: the read that arms it finds no node.
//   - The path has a persistent watch as well: the client serves the one-shot watch from that one.
//
// [AwaitEvent] is the same for a single watch.
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

// decideRecheck decides after a recheck: lost means that the own node is gone or was replaced, gone that the
// predecessor's node is gone.
func decideRecheck(lost, gone bool) (relist bool, err error) {
	if lost {
		return false, errNodeLost
	}
	return gone, nil
}

// handleOwnEvent handles an event of the own node. Unless that is its deletion, a list follows before the grant.
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

package line

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/plain"
	"github.com/go-curator/curator/internal/zkpath"
)

// waiter is a contender that does not hold yet: one node in the line, in one session.
type waiter struct {
	*Line
	session *framework.Session
	view    *framework.Client // pinned to session
	succeed SuccessionFunc    // of AcquireWith; otherwise nil

	creating *framework.Pending[framework.CreateResult] // the create, until its result is read
	path     string
	czxid    int64

	children    []string         // of the last list, until decideByList
	dir         Directory        // as listed last
	connections uint64           // Session.Connections when the list was requested
	decision    *Decision        // of decideByList: to wait; nil if it has not waited
	queue       *framework.Queue // the decision in the form of the hooks; nil without hooks

	ownWatch              *framework.Watch // armed on the own node; nil if it is not
	unreadablePredecessor string           // the predecessor that cannot be watched
	dirWatch              *framework.Watch // instead: armed on the directory by the last list

	mayWait         bool  // else ErrNotAcquired if a contender is ahead
	createConfirmed bool  // the list was requested after the reply to the create
	ownChanged      bool  // another client has written to the own node
	armFailures     int32 // failures in a row to arm the watches

	grant   *Grant // the result
	hasLeft bool   // or: LeftLine
}

// waiterState is a state of a waiter: a function, which returns the next state; nil ends the wait.
//
//	joinLine → decideByList → becomeHolder → nil
//	decideByList → awaitPredecessor → becomeHolder, or listAgain → decideByList
type waiterState func(*waiter, context.Context) (waiterState, error)

// contendInSession joins the line in one session, and waits until it holds. placed reports whether it had a node in the
// line. On an error the client deletes that node, also if OnWait or a hook panics or ends the goroutine.
func (l *Line) contendInSession(
	ctx context.Context, session *framework.Session, waits bool, succeed SuccessionFunc,
) (grant *Grant, placed bool, err error) {
	w := &waiter{Line: l, session: session, view: session.Client().ForRecipes(), mayWait: waits, succeed: succeed}
	defer func() {
		if w.grant == nil && !w.hasLeft && !errors.Is(err, errNodeLost) { // else another client's node may have its name
			w.removeNode()
		}
		w.dirWatch.Stop()
	}()
	for next := waiterState((*waiter).joinLine); next != nil && err == nil; {
		next, err = next(w, ctx)
	}
	return w.grant, w.path != "", err
}

// name returns the name of the own node.
func (w *waiter) name() string { return zkpath.Base(w.path) }

// joinLine creates the node and lists the directory, in one round trip. Goroutines of the client that join this line at
// the same time share a list, and may need another round trip.
func (w *waiter) joinLine(ctx context.Context) (waiterState, error) {
	data := w.Data
	if data == nil {
		data = w.Client.Hooks().NodeData(ctx, framework.Acquisition{Recipe: w.Recipe, Path: w.Dir})
	}
	create := w.view.Create().WithMode(framework.EphemeralSequential).WithProtection().
		CreatingParentContainersIfNeeded().InBackground()
	return (*waiter).decideByList, w.Client.Retry(ctx, func(ctx context.Context) error {
		w.creating = create.ForPath(ctx, zkpath.Join(w.Dir, w.Name), data)
		w.connections = w.session.Connections()
		listed := w.requestList(ctx, 1)
		node, err := AwaitResult(w.creating)
		w.creating = nil
		if err != nil {
			return err
		}
		w.path, w.czxid = node.Path, node.Stat.Czxid
		// The list may have failed or be too old, since the directory was missing or the connection was lost in between.
		// Then it does not have the own node, and decideByList returns listAgain.
		list, _ := AwaitResult(listed)
		w.recordList(list)
		return nil
	})
}

// recordList records a list; without names if that has failed.
func (w *waiter) recordList(list framework.ChildrenResult) {
	w.children = list.Names
	w.dir = Directory{list.Stat.Czxid, list.Stat.Version, list.Stat.DataLength}
}

// requestList requests a list. The client's waiters share it if most lists are in flight already.
func (w *waiter) requestList(ctx context.Context, most int) *framework.Pending[framework.ChildrenResult] {
	return w.view.GetChildren().InBackground().Shared(most).ForPath(ctx, w.Dir)
}

// decideByList decides by the last list.
func (w *waiter) decideByList(context.Context) (waiterState, error) {
	d := w.Order.Decide(w.name(), w.children)
	if d.Verdict != Missing {
		w.warnUnusualNames(w.name(), d)
		if hooks := w.Client.Hooks(); hooks.Queue != nil {
			w.queue = w.queueReport(w.children, d)
			hooks.Queue(*w.queue)
		}
	}
	w.children = nil // a waiter keeps no names
	switch d.Verdict {
	case Granted:
		return (*waiter).becomeHolder, nil
	case Wait:
	case Missing:
		if d.isNodeLost(w.createConfirmed) {
			return nil, errNodeLost
		}
		return (*waiter).listAgain, nil
	default:
		return nil, fmt.Errorf("%w (%s)", ErrSequenceExhausted, plain.Text(w.name()))
	}
	if !w.mayWait {
		return nil, notAcquiredBehind(d.Predecessor)
	}
	if w.OnWait != nil {
		w.OnWait(Position{Node: w.name(), Predecessor: d.Predecessor, Ahead: d.Ahead})
	}
	waiting := d // so that d needs no memory when it does not wait
	w.decision = &waiting
	return (*waiter).awaitPredecessor, nil
}

// awaitPredecessor waits for an event ahead, and decides by it whether the waiter is the first or has to list again.
func (w *waiter) awaitPredecessor(ctx context.Context) (next waiterState, err error) {
	var ahead watchedPredecessor
	defer func() { err = w.addPredecessor(ctx, ahead.node.Stat.EphemeralOwner, err) }()
	var reportEnd func(error) // of the hook Wait; nil if it was not called
	defer func() {
		if reportEnd != nil {
			reportEnd(err)
		}
	}()
	var armed bool
	ahead, armed, err = w.armWatches(ctx)
	defer func() { ahead.stopWatches() }()
	switch {
	case err != nil:
		return nil, err
	case ahead.isDeleted:
		return w.afterEvent(ctx, true, grantEvidence{markCreated: isMarkCreated(ahead.mark)})
	case !armed:
		return (*waiter).listAgain, nil
	}
	w.warnSessionless(ahead)
	reportEnd = w.reportWait(ctx, ahead.node)
	timer := time.NewTimer(Jittered(w.session.Timeout()))
	defer timer.Stop()
	var check *predecessorRecheck
	for {
		select {
		case ev := <-WatchEvents(w.ownWatch):
			if err := w.handleOwnEvent(ev); err != nil {
				return nil, err
			}
			if check == nil { // another client has written to the node, or replaced it
				check = w.startRecheck(ctx)
			}
		case ev := <-WatchEvents(ahead.mark):
			ahead.mark = nil
			if ev.Type == framework.EventNodeCreated {
				ahead.node.Watch = nil // its event follows: to stop it now might take a request
				return w.afterEvent(ctx, false, grantEvidence{markCreated: true})
			}
		case ev := <-ahead.events:
			if ev.Type == framework.EventEnd {
				return nil, sessionEndCause(ev.Err)
			}
			gone := !ahead.isDirectory && ev.Type == framework.EventNodeDeleted
			return w.afterEvent(ctx, gone, grantEvidence{
				deletionEvent: gone, markCreated: gone && isMarkCreated(ahead.mark),
			})
		case <-timer.C:
			check = w.startRecheck(ctx)
		case <-check.repliesDone():
			if gone, err := check.result(); gone || err != nil {
				return (*waiter).listAgain, err
			}
			check = nil
			timer.Reset(Jittered(w.session.Timeout()))
		case <-w.session.Done():
			return nil, sessionEndCause(context.Cause(w.session.Context()))
		case <-ctx.Done():
			return nil, w.Client.WaitError(ctx, nil)
		}
	}
}

// afterEvent returns the next state after an event ahead. gone reports whether the event, or a reply, has shown that the
// predecessor is gone. An event of the own node that has also come is handled first.
func (w *waiter) afterEvent(ctx context.Context, gone bool, e grantEvidence) (waiterState, error) {
	select {
	case own := <-WatchEvents(w.ownWatch):
		return (*waiter).listAgain, w.handleOwnEvent(own)
	default:
	}
	if w.succeed != nil {
		return w.decideBySuccession(ctx, gone)
	}
	e.onlyAhead, e.ownWatched, e.sameConnection = w.decision.OnlyAhead, w.ownWatch != nil, w.connections == w.session.Connections()
	if e.provesFirst() {
		return (*waiter).becomeHolder, nil
	}
	return (*waiter).listAgain, nil
}

// decideBySuccession returns the next state after an event ahead, for a recipe with a SuccessionFunc.
func (w *waiter) decideBySuccession(ctx context.Context, gone bool) (waiterState, error) {
	d := w.decision
	if !gone || !d.OrderAgreed {
		return (*waiter).listAgain, nil
	}
	at := Position{Node: w.name(), Predecessor: d.Predecessor, Ahead: d.Ahead}
	switch conclusion, err := w.succeed(ctx, w.session, at, w.dir); {
	case ctx.Err() == nil && errors.Is(err, framework.ErrNodeDeleted): // else it may be why ctx has ended
		return nil, errNodeLost
	case err != nil:
		return nil, err
	case conclusion == WasFirst:
		return (*waiter).becomeHolder, nil
	case conclusion == LeftLine:
		w.hasLeft = true
		return nil, nil
	}
	return (*waiter).listAgain, nil
}

// listAgain lists the directory, however long the client is suspended: the place in line lasts as long as the session. Of
// many waiters of one client that need a list at the same time (the readers behind a writer, or all after a reconnect)
// most share one.
func (w *waiter) listAgain(ctx context.Context) (_ waiterState, err error) {
	w.dirWatch.Stop()
	w.dirWatch, w.createConfirmed = nil, true
	err = RetryThrough(ctx, w.view, Outages, func(ctx context.Context) (err error) {
		w.connections = w.session.Connections()
		if w.unreadablePredecessor != "" {
			w.children, w.dirWatch, err = w.view.GetChildren().WithWatch().ForPath(ctx, w.Dir)
			return err
		}
		list, err := AwaitResult(w.requestList(ctx, MaxInFlight))
		w.recordList(list)
		return err
	})
	if errors.Is(err, framework.ErrNoNode) {
		err = errNodeLost // the directory is gone, and the own node with it
	}
	return (*waiter).decideByList, err
}

// becomeHolder makes the first in line a holder.
func (w *waiter) becomeHolder(ctx context.Context) (waiterState, error) {
	grant := &Grant{
		Session: w.session, Path: w.path, Name: w.name(), Czxid: w.czxid, Waited: w.decision != nil,
		line: w.Line, dir: w.dir, leavesMark: w.leavesReleaseMark(),
	}
	var ownWatchAfter time.Duration
	if w.ownWatch != nil {
		ownWatchAfter = -1 // immediately: it joins ours
	}
	err := HoldWithTimeout(ctx, w.session, 1, w.mayWait, func(ctx context.Context) error { return w.HoldGrants(ctx, ownWatchAfter, grant) })
	switch {
	case err == nil:
		w.grant = grant
		w.ownWatch.Stop()
		return nil, nil
	case ctx.Err() == nil && errors.Is(err, framework.ErrNodeDeleted): // else it may be why ctx has ended
		return nil, errNodeLost
	case !errors.Is(err, framework.ErrSuspended):
		return nil, err
	}
	// It is the first, but with the policy SuspendedIsLoss no hold begins without a connection.
	return (*waiter).listAgain, w.session.WaitQuorum(ctx)
}

// removeNode has the client delete the node, if it may exist; a node that may have been replaced is read first. The
// event of the deletion ends the watch on the own node, so it need not be stopped. A create whose ctx has ended deletes
// its node itself (nodeCleanup in framework); creating is set here only if a hook has ended joinLine.
func (w *waiter) removeNode() {
	switch {
	case w.path == "":
	case w.ownChanged:
		w.view.CheckExists().InBackground().ForPath(context.Background(), w.path).
			Then(func(node framework.ExistsResult, err error) {
				if err != nil || node.Stat != nil && w.isOwnNode(*node.Stat) {
					QueueDelete(w.view, w.path)
				}
			})
	default:
		QueueDelete(w.view, w.path)
	}
	if w.creating != nil {
		w.creating.Then(func(node framework.CreateResult, err error) {
			if err == nil {
				QueueDelete(w.view, node.Path)
			}
		})
	}
}

// addPredecessor adds the predecessor to an error, if ctx has ended; owner is the predecessor's session, 0 if unknown. If
// that is the own session, the caller may have waited for itself.
func (w *waiter) addPredecessor(ctx context.Context, owner int64, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	whose := ""
	if owner == w.session.ID() {
		whose = ", which is of this client"
		if !w.NoReentry {
			whose += " (to re-enter a lock, acquire with its Context)"
		}
	}
	return fmt.Errorf("%w; waiting behind node %s%s, with %d ahead in line",
		err, plain.Text(w.decision.Predecessor), whose, w.decision.Ahead)
}

// reportWait reports the wait to the hooks, and returns the function that reports its end; nil without hooks.
func (w *waiter) reportWait(ctx context.Context, predecessor framework.DataResult) func(error) {
	hooks := w.Client.Hooks()
	if hooks.Queue == nil {
		return nil
	}
	q := *w.queue
	q.PredecessorSession, q.PredecessorToken = predecessor.Stat.EphemeralOwner, predecessor.Stat.Czxid
	q.PredecessorData, _ = w.view.Unpacked(zkpath.Join(w.Dir, q.Predecessor), predecessor.Data)
	return hooks.Wait(ctx, q)
}

// warnSessionless logs, once for a node, that the predecessor's node is not ephemeral.
func (w *waiter) warnSessionless(p watchedPredecessor) {
	node := p.node.Stat
	if !p.isDirectory && node.EphemeralOwner == 0 && w.warnedSessionless.Swap(node.Czxid) != node.Czxid {
		w.Client.Logger().Warn("the predecessor's node is not ephemeral: waiting until it is deleted",
			"path", zkpath.Join(w.Dir, w.decision.Predecessor))
	}
}

// queueReport returns a list and its decision in the form of the hooks.
func (w *waiter) queueReport(children []string, d Decision) *framework.Queue {
	q := &framework.Queue{Recipe: w.Recipe, Path: w.Dir, Node: w.name(), Ahead: d.Ahead, Predecessor: d.Predecessor}
	for _, name := range children {
		if w.Order.IsContender(name) {
			q.Length++
		} else {
			q.Foreign++
		}
	}
	if number, ok := w.Order.SequenceNumber(w.name()); ok {
		q.SequenceLeft = max(SequenceLimit-number-1, 0)
	}
	return q
}

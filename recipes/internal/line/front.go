package line

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/apart"
)

// Front lets the callers of one process use one node of a Line, one after the other or many together. They wait in a local
// line. A goroutine of the client, the owner, acquires the node. With Limits.Users it also supervises the node until the
// delete is queued; otherwise the last user deletes it. The callers' grants are turns (turn.go), not by arm.go's ways.
type Front struct {
	line   *Line
	limits Limits

	mu               sync.Mutex
	state            frontState         // guarded by mu
	callers          list.List          // the local line, of *frontCaller; guarded by mu
	arrivals         int                // callers that have joined the local line so far; guarded by mu
	node             *frontNode         // that callers can use, until its delete is queued; guarded by mu
	cancelAcquire    context.CancelFunc // cancels the owner's wait for the lock; nil otherwise; guarded by mu
	ownerPredecessor string             // the name of the owner's predecessor; guarded by mu
}

// Init makes the zero Front one of l, whose OnWait it may set. Zero Turns and Period are the defaults, 1,000 and 100 ms.
// recipe is in the error for a line with an OnWait.
func (f *Front) Init(l *Line, limits Limits, recipe string) error {
	if l.OnWait != nil {
		return fmt.Errorf("%w OnWait: the callers of a %s have no node of their own; leave it out",
			framework.ErrInvalidOption, recipe)
	}
	limits.Turns, limits.Period = cmp.Or(limits.Turns, 1000), cmp.Or(limits.Period, 100*time.Millisecond)
	if f.line, f.limits = l, limits; limits.Users == 0 {
		l.OnWait = f.handleOwnerWait
	}
	return nil
}

// handleOwnerWait is called when the owner's node is behind another contender's.
func (f *Front) handleOwnerWait(p Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ownerPredecessor = p.Predecessor
	f.applyEvent(onOthers)
}

// frontNode is a node of the Front's line that holds, or has held.
type frontNode struct {
	*Grant
	front         *Front
	ownerWake     chan struct{} // wakes the owner: the state has changed. It has room for one; nil if there is no owner
	deleteReplied chan struct{} // closed after the reply to the delete; nil if there is no owner

	certainUntil  time.Time        // the last result of CertainUntil; guarded by front.mu
	connections   uint64           // Session.Connections at the last list; guarded by front.mu
	listing       bool             // a list is in flight; guarded by front.mu
	watch         *framework.Watch // of the directory, armed with the last list; guarded by front.mu
	callerDeletes bool             // a caller deletes the node; guarded by front.mu
	users         int              // of a retired node, which is not Front.node any more; guarded by front.mu
}

// frontCaller is a caller in the local line.
type frontCaller struct {
	try     bool            // does not wait for other contenders
	arrival int             // Front.arrivals with this one
	turn    chan turnResult // has room for one
	place   *list.Element   // nil after it has left the local line; guarded by Front.mu
}

// turnResult is the result of a caller's wait: a turn on a node, or an error.
type turnResult struct {
	node         *frontNode
	certainUntil time.Time // the node's
	err          error
}

// errHeldLocally is returned to a try if a caller of this process is ahead.
var errHeldLocally = fmt.Errorf("%w: a goroutine of this process has the lock, or waits for it", ErrNotAcquired)

// AcquireTurn gives the caller a turn after all earlier callers, or together with them. With try it does not wait for other
// contenders.
func (f *Front) AcquireTurn(ctx context.Context, try bool) (*Share, error) {
	caller, left := CallerOf(ctx), ctx.Done() // may be the user's code: called before the caller joins
	w, t := f.admitCaller(try)
	if w != nil {
		select {
		case t = <-w.turn:
		case <-left:
			f.withdrawCaller(w)
			t.err = f.line.Client.WaitError(ctx, nil)
			if self := f.line.CheckSelfWait(ctx); self != nil {
				t.err = fmt.Errorf("%w: %w", t.err, self)
			}
		}
	}
	if t.err != nil {
		return nil, t.err
	}
	return t.node.newTurn(caller, t.certainUntil), nil
}

// SeparateTurn returns a turn on a node that no other caller uses, that of g.
func (f *Front) SeparateTurn(g *Grant, caller Caller) *Share {
	n := f.newNode(g)
	n.users = 1
	return n.newTurn(caller, time.Time{})
}

// admitCaller gives the caller a turn or an error immediately, or puts it in the local line: then w is not nil.
func (f *Front) admitCaller(try bool) (w *frontCaller, t turnResult) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.node; n != nil && f.state.phase == nodeFree {
		switch {
		case f.limits.Idle > 0 && n.connections != n.Session.Connections():
			f.applyEvent(onReconnect)
		case f.limits.Users == 0 && isClosed(n.Revoked()):
			f.applyEvent(onRevocation)
		}
	}
	x := f.eventFacts(onArrival)
	x.waiting, x.try = x.waiting+1, try
	switch f.applyTransition(onArrival, x) {
	case serveCallers: // the node was free, so no caller is ahead
		return nil, turnResult{node: f.node, certainUntil: f.node.certainUntil}
	case refuseTries:
		return nil, turnResult{err: f.tryRefusal()}
	}
	f.arrivals++
	w = &frontCaller{try: try, arrival: f.arrivals, turn: make(chan turnResult, 1)}
	w.place = f.callers.PushBack(w)
	return w, t
}

// tryRefusal is the error of a try that sends no request. mu is held.
func (f *Front) tryRefusal() error {
	if f.limits.Users == 0 { // callers do not wait for each other
		return notAcquiredBehind(f.ownerPredecessor)
	}
	return errHeldLocally
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// withdrawCaller removes a caller from the local line. A turn that it was given at the same time is ended.
func (f *Front) withdrawCaller(w *frontCaller) {
	f.mu.Lock()
	if w.place != nil {
		f.removeCaller(w)
		f.applyEvent(onGiveUp)
	}
	f.mu.Unlock()
	select {
	case t := <-w.turn:
		if t.node != nil {
			now := time.Now()
			if last, _ := f.recordTurnEnd(t.node, t.node.CertainUntil(now, t.certainUntil), now); last {
				t.node.deleteNode(nil)
			}
		}
	default:
	}
}

// removeCaller removes a caller from the local line. mu is held.
func (f *Front) removeCaller(w *frontCaller) {
	f.callers.Remove(w.place)
	w.place = nil
}

// recordTurnEnd applies the end of a turn to the state; sure is a result of CertainUntil. last means that the caller has to
// delete the node; others, that callers are in the local line.
func (f *Front) recordTurnEnd(n *frontNode, sure, now time.Time) (last, others bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.node == n:
		n.certainUntil = sure
		last = f.applyTransition(onRelease, frontFacts{waiting: f.callers.Len(), valid: !sure.IsZero(), now: now}) == retireNode
		n.callerDeletes = last
	case n.users > 0: // retired
		n.users--
		last = n.users == 0
	}
	return last, f.callers.Len() > 0
}

// applyEvent applies an event with its facts. mu is held.
func (f *Front) applyEvent(e frontEvent) frontAction { return f.applyTransition(e, f.eventFacts(e)) }

// eventFacts returns the facts for an event of the node. mu is held.
func (f *Front) eventFacts(e frontEvent) frontFacts {
	x := frontFacts{waiting: f.callers.Len(), now: time.Now()}
	if n := f.node; n != nil {
		n.certainUntil = n.CertainUntil(x.now, n.certainUntil)
		x.valid = !n.certainUntil.IsZero()
		if e == onLoss {
			x.grace = n.Hold.Grace()
		}
	}
	return x
}

// applyTransition applies an event with these facts to the state, and does the action, except for an arriving caller:
// that is done by admitCaller. mu is held.
func (f *Front) applyTransition(e frontEvent, x frontFacts) (todo frontAction) {
	users := f.state.users
	f.state, todo = f.limits.next(f.state, e, x)
	switch todo {
	case startOwner:
		f.line.Client.Spawn(f.runOwner)
	case stopOwner:
		if f.cancelAcquire != nil {
			f.cancelAcquire()
		}
	case listContenders:
		f.node.wakeOwner()
	case serveCallers:
		for again := e != onArrival; again; again = f.limits.Users == 0 && f.callers.Len() > 0 {
			f.answerCaller(f.callers.Front(), turnResult{node: f.node, certainUntil: f.node.certainUntil})
		}
	case retireNode:
		if f.state.phase == nodeEnding {
			f.node.wakeOwner()
			break
		}
		f.node.users, f.node = users, nil
		if f.state.phase == nodeComing {
			f.line.Client.Spawn(f.runOwner)
		}
	case refuseTries:
		if e != onArrival {
			f.failCallers(f.tryRefusal(), true, f.arrivals)
			f.applyEvent(onGiveUp)
		}
	}
	return todo
}

// answerCaller ends a caller's wait with a result. mu is held.
func (f *Front) answerCaller(place *list.Element, t turnResult) {
	w := place.Value.(*frontCaller)
	f.removeCaller(w)
	w.turn <- t
}

// failCallers ends the wait of all callers with err; with tries, only of the tries among the first arrivals. mu is held.
func (f *Front) failCallers(err error, tries bool, first int) {
	for place := f.callers.Front(); place != nil; {
		w := place.Value.(*frontCaller)
		at := place
		if place = place.Next(); !tries || w.try && w.arrival <= first {
			f.answerCaller(at, turnResult{err: err})
		}
	}
}

// applyNodeEvent applies an event of a node, unless that is not the Front's any more.
func (f *Front) applyNodeEvent(n *frontNode, e frontEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.node == n {
		if e == onOthers {
			n.watch = nil // it has fired
		}
		f.applyEvent(e)
	}
}

// runOwner is the owner: it acquires a node and supervises it. ctx ends when the client closes.
func (f *Front) runOwner(ctx context.Context) {
	switch n, todo := f.acquireNode(ctx); {
	case n == nil:
	case todo == retireNode:
		n.deleteNode(nil)
	case f.limits.Users > 0:
		defer f.stopDirectoryWatch(ctx, n)
		f.superviseNode(n)
	}
}

// acquireNode acquires a node; nil if it fails. todo is the owner's first action. If a hook ends the goroutine, the callers
// get ErrNoReturn.
func (f *Front) acquireNode(ctx context.Context) (n *frontNode, todo frontAction) {
	attempt, cancel := context.WithCancel(ctx)
	defer cancel()
	try, first := f.beginAcquire(cancel)
	err := apart.ErrNoReturn
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.cancelAcquire = nil; err == nil {
			f.node = n
			todo = f.applyEvent(onGrant)
			return
		}
		switch closed := f.line.Client.Err(); {
		case closed != nil:
			f.failCallers(closed, false, 0)
		case attempt.Err() != nil: // the callers had left before the failure
		case try && errors.Is(err, ErrNotAcquired):
			f.failCallers(err, true, first) // not later arrivals: the list may be older than their calls
		default:
			f.failCallers(err, try, f.arrivals)
		}
		f.applyEvent(onFailure)
	}()
	acquire := f.line.Acquire
	if try {
		acquire = f.line.TryAcquire
	}
	grant, failed := acquire(attempt)
	if failed == nil {
		f.line.WatchRevocation(grant)
		n = f.newNode(grant)
	}
	err = failed
	return n, todo
}

// beginAcquire reports whether the first caller is a try, and how many callers have arrived so far. stop cancels the wait.
func (f *Front) beginAcquire(stop context.CancelFunc) (try bool, first int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cancelAcquire = stop
	if f.callers.Len() == 0 {
		stop() // the callers have left
		return false, f.arrivals
	}
	return f.callers.Front().Value.(*frontCaller).try, f.arrivals
}

func (f *Front) newNode(g *Grant) *frontNode {
	n := &frontNode{Grant: g, front: f}
	if f.limits.Users > 0 {
		n.connections, n.ownerWake, n.deleteReplied = g.Session.Connections(), make(chan struct{}, 1), make(chan struct{})
	}
	return n
}

// superviseNode does the owner's actions until the delete of the node is queued.
func (f *Front) superviseNode(n *frontNode) {
	revoked, lost := n.Revoked(), n.Hold.Context().Done()
	var sessionEnded <-chan struct{} // after a loss
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		todo, watch := f.nextOwnerAction(n, timer)
		switch todo {
		case stopOwner:
			return
		case retireNode:
			n.deleteNode(nil)
			return
		case listContenders:
			watch.Stop()
			watch = nil
			f.listOthers(n)
		}
		select {
		case <-n.ownerWake:
		case <-lost:
			lost, sessionEnded = nil, n.Session.Done()
			f.applyNodeEvent(n, onLoss)
		case <-sessionEnded:
			sessionEnded = nil
			f.applyNodeEvent(n, onLoss)
		case <-revoked:
			revoked = nil
			f.applyNodeEvent(n, onRevocation)
		case <-WatchEvents(watch):
			f.applyNodeEvent(n, onOthers)
		case <-timer.C:
			f.applyNodeEvent(n, onTimer)
		}
	}
}

// nextOwnerAction returns the owner's next action and the watch of the directory, and sets the timer.
func (f *Front) nextOwnerAction(n *frontNode, timer *time.Timer) (todo frontAction, watch *framework.Watch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	todo, watch = f.limits.ownerAction(f.state, n.callerDeletes, f.node != n), n.watch
	if todo == listContenders {
		if n.listing {
			todo = doNothing
		}
		n.listing, n.watch = true, nil
	}
	switch {
	case !f.state.deleteAt.IsZero():
		timer.Reset(time.Until(f.state.deleteAt))
	case f.state.phase == nodeFree:
		timer.Reset(f.limits.Idle - time.Since(f.state.idleSince))
	case f.limits.Idle > 0: // a turn may end at any time, and does not wake the owner
		timer.Reset(f.limits.Idle)
	}
	return todo, watch
}

// listOthers lists the contenders on a goroutine, since a list waits for the connection while the node is held.
func (f *Front) listOthers(n *frontNode) {
	f.line.Client.Spawn(func(context.Context) {
		var c ContenderList
		err := apart.ErrNoReturn
		defer func() { f.handleList(n, c, err) }()
		c, err = n.ListContenders(n.Hold.Context())
	})
}

// handleList handles the result of a list. A node that cannot be watched is not kept.
func (f *Front) handleList(n *frontNode, c ContenderList, err error) {
	if errors.Is(err, framework.ErrNodeDeleted) {
		n.Hold.End(framework.ErrNodeDeleted)
	}
	e := onOthers
	if err == nil && !c.Others {
		e = onAlone
	}
	f.mu.Lock()
	retired := f.node != n
	if !retired {
		n.listing, n.watch, n.connections = false, c.Watch, c.Connections
		f.applyEvent(e)
		n.wakeOwner()
	}
	f.mu.Unlock()
	if retired {
		c.Watch.Stop()
	}
}

// wakeOwner has the owner look for its next action.
func (n *frontNode) wakeOwner() {
	select {
	case n.ownerWake <- struct{}{}:
	default: // the owner will wake anyway
	}
}

// deleteNode ends the hold and queues the delete. then gets the result; if it is nil, a refusal is logged.
func (n *frontNode) deleteNode(then func(error)) {
	if then == nil {
		then = func(err error) { LogRefusal(n.front.line.Client, n.Path, err) }
	}
	defer n.handleQueuedDelete() // also if a hook does not return
	n.ReleaseThen(func(err error) {
		if n.deleteReplied != nil {
			close(n.deleteReplied)
		}
		then(err)
	})
}

// handleQueuedDelete is called when the delete is queued.
func (n *frontNode) handleQueuedDelete() {
	f := n.front
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.node == n {
		f.node = nil
		f.applyEvent(onDeletion)
		n.wakeOwner()
	}
}

// stopDirectoryWatch stops the watch of the directory after the reply to the delete: the delete has fired it, so no request
// is sent.
func (f *Front) stopDirectoryWatch(ctx context.Context, n *frontNode) {
	f.mu.Lock()
	watch := n.watch
	f.mu.Unlock()
	if watch != nil {
		select {
		case <-n.deleteReplied:
		case <-ctx.Done():
		}
		watch.Stop()
	}
}

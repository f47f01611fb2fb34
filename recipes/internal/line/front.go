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

// Front is a line of callers of one process, and the state of the node that they can get in a Line: one caller has it after
// the other, or many have it together. A goroutine of the client, the owner, acquires the node. With Limits.Users it also
// watches over the node until the delete is queued; otherwise the last user deletes it.
type Front struct {
	line   *Line
	limits Limits

	mu      sync.Mutex
	state   frontState         // guarded by mu
	waiting list.List          // of *frontCaller, first come, first; guarded by mu
	arrived int                // callers that have joined the line so far; guarded by mu
	node    *frontNode         // that callers can get, until its delete is queued; guarded by mu
	stop    context.CancelFunc // cancels the owner's wait for the lock; nil otherwise; guarded by mu
	ahead   string             // the name of the node that the owner waits for; guarded by mu
}

// Init makes the zero Front that of l, whose OnWait it may set. Limits that are zero are the defaults. recipe is in the error
// for a line with an OnWait.
func (f *Front) Init(l *Line, limits Limits, recipe string) error {
	if l.OnWait != nil {
		return fmt.Errorf("%w OnWait: the callers of a %s have no node of their own; leave it out",
			framework.ErrInvalidOption, recipe)
	}
	limits.Turns, limits.For = cmp.Or(limits.Turns, 1000), cmp.Or(limits.For, 100*time.Millisecond)
	if f.line, f.limits = l, limits; limits.Users == 0 {
		l.OnWait = f.waits
	}
	return nil
}

// waits is called when the owner's node is behind another contender's.
func (f *Front) waits(p Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ahead = p.Predecessor
	f.on(onOthers)
}

// frontNode is a node that has, or had, the lock.
type frontNode struct {
	*Grant
	front *Front
	kick  chan struct{} // wakes the owner: the state has changed. It has room for one; nil if there is no owner
	gone  chan struct{} // closed when the delete has been answered; nil if there is no owner

	sure        time.Time        // until when the hold was certain, by the last look; guarded by front.mu
	connections uint64           // of the session, before the last list; guarded by front.mu
	listing     bool             // a list is on its way; guarded by front.mu
	watch       *framework.Watch // of the directory, armed with the last list; guarded by front.mu
	deleting    bool             // a caller deletes it; guarded by front.mu
	users       int              // of a node that the Front has retired; guarded by front.mu
}

// frontCaller is a caller in line.
type frontCaller struct {
	try    bool           // does not wait for other contenders
	number int            // counts the callers that have joined the line
	got    chan frontTurn // has room for one
	place  *list.Element  // nil when it is not in line any more; guarded by Front.mu
}

// frontTurn is what a caller gets.
type frontTurn struct {
	node *frontNode
	sure time.Time // until when the hold is certain
	err  error
}

// errTaken is returned to a try if a caller of this process is ahead.
var errTaken = fmt.Errorf("%w: a goroutine of this process has the lock, or waits for it", ErrNotAcquired)

// Take gives the caller a turn after all earlier callers, or together with them. With try it does not wait for other
// contenders.
func (f *Front) Take(ctx context.Context, try bool) (*Share, error) {
	from, left := CallerOf(ctx), ctx.Done() // before the caller counts: this may be the user's code
	w, t := f.arrive(try)
	if w != nil {
		select {
		case t = <-w.got:
		case <-left:
			f.giveUp(w)
			t.err = f.line.Client.Left(ctx, nil)
			if self := f.line.SelfWait(ctx); self != nil {
				t.err = fmt.Errorf("%w: %w", t.err, self)
			}
		}
	}
	if t.err != nil {
		return nil, t.err
	}
	return t.node.turn(from, t.sure), nil
}

// Apart returns the caller's turn with a grant that no other caller gets.
func (f *Front) Apart(g *Grant, from Caller) *Share {
	n := f.newNode(g)
	n.users = 1
	return n.turn(from, time.Time{})
}

// arrive gives the caller a turn or an error immediately, or puts it in line.
func (f *Front) arrive(try bool) (w *frontCaller, t frontTurn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.node; n != nil && f.state.phase == nodeFree {
		switch {
		case f.limits.Idle > 0 && n.connections != n.Session.Connections():
			f.on(onReconnect)
		case f.limits.Users == 0 && closed(n.Asked()):
			f.on(onRevocation)
		}
	}
	x := f.facts(onArrival)
	x.waiting, x.try = x.waiting+1, try
	switch f.next(onArrival, x) {
	case serveCallers: // the node was free, so no caller is ahead
		return nil, frontTurn{node: f.node, sure: f.node.sure}
	case refuseTries:
		return nil, frontTurn{err: f.refusal()}
	}
	f.arrived++
	w = &frontCaller{try: try, number: f.arrived, got: make(chan frontTurn, 1)}
	w.place = f.waiting.PushBack(w)
	return w, t
}

// refusal is the error of a try that sends no request. mu is held.
func (f *Front) refusal() error {
	if f.limits.Users == 0 { // callers do not wait for each other
		return notAcquired(f.ahead)
	}
	return errTaken
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// giveUp removes a caller from the line. A turn that it was given at the same time is ended.
func (f *Front) giveUp(w *frontCaller) {
	f.mu.Lock()
	if w.place != nil {
		f.remove(w)
		f.on(onGiveUp)
	}
	f.mu.Unlock()
	select {
	case t := <-w.got:
		if t.node != nil {
			now := time.Now()
			if last, _ := f.release(t.node, t.node.Certain(now, t.sure), now); last {
				t.node.delete(nil)
			}
		}
	default:
	}
}

// remove removes a caller from the line. mu is held.
func (f *Front) remove(w *frontCaller) {
	f.waiting.Remove(w.place)
	w.place = nil
}

// release ends a turn; the hold is certain until sure. last means that the caller has to delete the node; others, that
// other callers here wait for the next one.
func (f *Front) release(n *frontNode, sure, now time.Time) (last, others bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.node == n:
		n.sure = sure
		last = f.next(onRelease, frontFacts{waiting: f.waiting.Len(), valid: !sure.IsZero(), now: now}) == retireNode
		n.deleting = last
	case n.users > 0: // retired
		n.users--
		last = n.users == 0
	}
	return last, f.waiting.Len() > 0
}

// on applies an event to the state. mu is held.
func (f *Front) on(e frontEvent) frontAction { return f.next(e, f.facts(e)) }

// facts returns the inputs of a transition. mu is held.
func (f *Front) facts(e frontEvent) frontFacts {
	x := frontFacts{waiting: f.waiting.Len(), now: time.Now()}
	if n := f.node; n != nil {
		n.sure = n.Certain(x.now, n.sure)
		x.valid = !n.sure.IsZero()
		if e == onLoss {
			x.grace = n.Hold.Grace()
		}
	}
	return x
}

// next applies an event to the state, and acts. The caller handles an arriving one. mu is held.
func (f *Front) next(e frontEvent, x frontFacts) (todo frontAction) {
	users := f.state.users
	f.state, todo = f.limits.next(f.state, e, x)
	switch todo {
	case startOwner:
		f.line.Client.Spawn(f.own)
	case stopOwner:
		if f.stop != nil {
			f.stop()
		}
	case listContenders:
		f.node.wake()
	case serveCallers:
		for again := e != onArrival; again; again = f.limits.Users == 0 && f.waiting.Len() > 0 {
			f.answer(f.waiting.Front(), frontTurn{node: f.node, sure: f.node.sure})
		}
	case retireNode:
		if f.state.phase == nodeEnding {
			f.node.wake()
			break
		}
		f.node.users, f.node = users, nil
		if f.state.phase == nodeComing {
			f.line.Client.Spawn(f.own)
		}
	case refuseTries:
		if e != onArrival {
			f.fail(f.refusal(), true, f.arrived)
			f.on(onGiveUp)
		}
	}
	return todo
}

// answer ends a caller's wait. mu is held.
func (f *Front) answer(place *list.Element, t frontTurn) {
	w := place.Value.(*frontCaller)
	f.remove(w)
	w.got <- t
}

// fail returns err to the callers in line, or only to the tries among the first ones. mu is held.
func (f *Front) fail(err error, tries bool, first int) {
	for place := f.waiting.Front(); place != nil; {
		w := place.Value.(*frontCaller)
		at := place
		if place = place.Next(); !tries || w.try && w.number <= first {
			f.answer(at, frontTurn{err: err})
		}
	}
}

// happened applies an event of a node, unless its delete is queued.
func (f *Front) happened(n *frontNode, e frontEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.node == n {
		if e == onOthers {
			n.watch = nil // it has fired
		}
		f.on(e)
	}
}

// own is the owner: it acquires a node, and watches over it. ctx ends when the client closes.
func (f *Front) own(ctx context.Context) {
	switch n, todo := f.get(ctx); {
	case n == nil:
	case todo == retireNode:
		n.delete(nil)
	case f.limits.Users > 0:
		defer f.unwatch(ctx, n)
		f.tend(n)
	}
}

// get acquires a node; nil if it fails. A hook may end the goroutine: then that is the error.
func (f *Front) get(ctx context.Context) (n *frontNode, todo frontAction) {
	attempt, cancel := context.WithCancel(ctx)
	defer cancel()
	try, first := f.begin(cancel)
	err := apart.ErrNoReturn
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.stop = nil; err == nil {
			f.node = n
			todo = f.on(onGrant)
			return
		}
		switch over := f.line.Client.Err(); {
		case over != nil:
			f.fail(over, false, 0)
		case attempt.Err() != nil: // the callers had left before the failure
		case try && errors.Is(err, ErrNotAcquired):
			f.fail(err, true, first) // what was seen may be older than the calls of later ones
		default:
			f.fail(err, try, f.arrived)
		}
		f.on(onFailure)
	}()
	acquire := f.line.Acquire
	if try {
		acquire = f.line.TryAcquire
	}
	grant, failed := acquire(attempt)
	if failed == nil {
		f.line.Listen(grant)
		n = f.newNode(grant)
	}
	err = failed
	return n, todo
}

// begin reports whether the node is for a try, and how many callers have joined the line so far.
func (f *Front) begin(stop context.CancelFunc) (try bool, first int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stop = stop
	if f.waiting.Len() == 0 {
		stop() // the callers have left
		return false, f.arrived
	}
	return f.waiting.Front().Value.(*frontCaller).try, f.arrived
}

func (f *Front) newNode(g *Grant) *frontNode {
	n := &frontNode{Grant: g, front: f}
	if f.limits.Users > 0 {
		n.connections, n.kick, n.gone = g.Session.Connections(), make(chan struct{}, 1), make(chan struct{})
	}
	return n
}

// tend watches over the node until its delete is queued.
func (f *Front) tend(n *frontNode) {
	revoked, lost := n.Asked(), n.Hold.Context().Done()
	var over <-chan struct{} // the session, after a loss
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		todo, watch := f.duty(n, timer)
		switch todo {
		case stopOwner:
			return
		case retireNode:
			n.delete(nil)
			return
		case listContenders:
			watch.Stop()
			watch = nil
			f.list(n)
		}
		select {
		case <-n.kick:
		case <-lost:
			lost, over = nil, n.Session.Done()
			f.happened(n, onLoss)
		case <-over:
			over = nil
			f.happened(n, onLoss)
		case <-revoked:
			revoked = nil
			f.happened(n, onRevocation)
		case <-Events(watch):
			f.happened(n, onOthers)
		case <-timer.C:
			f.happened(n, onTimer)
		}
	}
}

// duty returns the owner's next action, if any before the timer fires or the owner is woken, and the watch of the
// directory.
func (f *Front) duty(n *frontNode, timer *time.Timer) (todo frontAction, watch *framework.Watch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	todo, watch = f.limits.duty(f.state, n.deleting, f.node != n), n.watch
	if todo == listContenders {
		if n.listing {
			todo = doNothing
		}
		n.listing, n.watch = true, nil
	}
	switch {
	case !f.state.until.IsZero():
		timer.Reset(time.Until(f.state.until))
	case f.state.phase == nodeFree:
		timer.Reset(f.limits.Idle - time.Since(f.state.idle))
	case f.limits.Idle > 0: // a turn may end at any time, and does not wake the owner
		timer.Reset(f.limits.Idle)
	}
	return todo, watch
}

// list lists the contenders, on a goroutine: it lasts as long as the connection is suspended, or the node is held.
func (f *Front) list(n *frontNode) {
	f.line.Client.Spawn(func(context.Context) {
		var c Contenders
		err := apart.ErrNoReturn
		defer func() { f.listed(n, c, err) }()
		c, err = n.Contenders(n.Hold.Context())
	})
}

// listed handles the result of a list. A node that cannot be watched is not kept.
func (f *Front) listed(n *frontNode, c Contenders, err error) {
	if errors.Is(err, framework.ErrNodeDeleted) {
		n.Hold.End(framework.ErrNodeDeleted)
	}
	e := onOthers
	if err == nil && !c.Others {
		e = onAlone
	}
	f.mu.Lock()
	late := f.node != n
	if !late {
		n.listing, n.watch, n.connections = false, c.Watch, c.Connections
		f.on(e)
		n.wake()
	}
	f.mu.Unlock()
	if late {
		c.Watch.Stop()
	}
}

// wake wakes the owner.
func (n *frontNode) wake() {
	select {
	case n.kick <- struct{}{}:
	default: // the owner will wake anyway
	}
}

// delete ends the hold and queues the delete; then gets its result. Without it a refusal is logged.
func (n *frontNode) delete(then func(error)) {
	if then == nil {
		then = func(err error) { LogRefusal(n.front.line.Client, n.Path, err) }
	}
	defer n.deleted() // also if a hook does not return
	n.GiveBack(func(err error) {
		if n.gone != nil {
			close(n.gone)
		}
		then(err)
	})
}

// deleted is called when the delete is queued.
func (n *frontNode) deleted() {
	f := n.front
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.node == n {
		f.node = nil
		f.on(onDeletion)
		n.wake()
	}
}

// unwatch stops the node's watch when the delete has used it up: then that takes no request.
func (f *Front) unwatch(ctx context.Context, n *frontNode) {
	f.mu.Lock()
	watch := n.watch
	f.mu.Unlock()
	if watch != nil {
		select {
		case <-n.gone:
		case <-ctx.Done():
		}
		watch.Stop()
	}
}

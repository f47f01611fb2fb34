package mutex

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
)

// local is the local line of a Cohort, and the state of its node. A goroutine, the owner, acquires the node, watches
// over it and releases it; it exists while the Cohort has a node or callers that wait for one. The turns pass from
// caller to caller without it.
type local struct {
	line   *line.Line
	limits limits

	// kick wakes the owner: the state has changed. It has room for one.
	kick chan struct{}

	mu      sync.Mutex
	state   state              // guarded by mu
	waiting list.List          // of *waiter, first in line first; guarded by mu
	node    *node              // the node that has the lock, until it is released; guarded by mu
	stop    context.CancelFunc // cancels the owner's wait for the lock; nil otherwise; guarded by mu
}

// node is the process's node while it has the lock.
type node struct {
	*line.Grant
	home    *local
	dropped line.Dropped // of its turns

	sure        time.Time        // until when the hold was certain, by the last look; guarded by home.mu
	connections uint64           // of the session, before the last list; guarded by home.mu
	giving      bool             // a caller or the owner releases it; guarded by home.mu
	given       bool             // the delete was sent; guarded by home.mu
	wanted      bool             // a caller waits for the delete's result; guarded by home.mu
	answered    bool             // the result has arrived; guarded by home.mu
	watch       *framework.Watch // of the directory, once the owner has left it; guarded by home.mu

	gone chan struct{} // closed when the result has arrived
	err  error         // the result; set before gone is closed
}

// waiter is a caller in the local line.
type waiter struct {
	from line.Caller
	try  bool          // does not wait for other contenders
	got  chan outcome  // has room for one
	here *list.Element // nil when it has left the line; guarded by local.mu
}

type outcome struct {
	turn *line.Turn
	err  error
}

// errTaken is returned to a try if a caller of this process is ahead.
var errTaken = fmt.Errorf("%w: a goroutine of this process has the lock, or waits for it", ErrNotAcquired)

// take gives the caller a turn, after all earlier callers in the local line.
func (l *local) take(ctx context.Context, try bool) (*line.Turn, error) {
	w, turn, err := l.arrive(line.CallerOf(ctx), try)
	if w == nil {
		return turn, err
	}
	select {
	case o := <-w.got:
		return o.turn, o.err
	case <-ctx.Done():
	}
	l.leave(w)
	err = l.line.Client.Left(ctx, nil)
	if self := l.line.SelfWait(ctx); self != nil {
		err = fmt.Errorf("%w: %w", err, self)
	}
	return nil, err
}

// arrive gives the caller a turn immediately, or puts it in line.
func (l *local) arrive(from line.Caller, try bool) (*waiter, *line.Turn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if try && (l.state.phase == taken || l.state.phase == ending || l.waiting.Len() > 0) {
		return nil, nil, errTaken
	}
	if l.state.phase == free && l.node.connections != l.node.Session.Connections() {
		l.on(onReconnect)
	}
	now := time.Now()
	valid := l.state.phase == free && l.certain(now)
	if l.next(onArrival, 1, valid, now) == pass { // the node was free, so no caller is ahead
		return nil, l.node.Turn(from, l.node.sure, l.node), nil
	}
	w := &waiter{from: from, try: try, got: make(chan outcome, 1)}
	w.here = l.waiting.PushBack(w)
	return w, nil, nil
}

// leave removes a caller that gives up from the line. A turn that it was given at the same time is ended.
func (l *local) leave(w *waiter) {
	l.mu.Lock()
	if w.here != nil {
		l.remove(w)
		l.on(onLeave)
	}
	l.mu.Unlock()
	select {
	case o := <-w.got:
		if o.turn != nil {
			_, _ = letGo(o.turn, false)
		}
	default:
	}
}

// remove removes a caller from the line. mu is held.
func (l *local) remove(w *waiter) {
	l.waiting.Remove(w.here)
	w.here = nil
}

// letGo ends one user's share of a turn. It returns the cause of the turn's loss, and the node if the node is
// released with the turn and no other caller here waits. Its delete was sent then. wanted means that the caller waits
// for the result.
func letGo(t *line.Turn, wanted bool) (*node, error) {
	now := time.Now()
	last, sure, err := t.Leave(now)
	if !last {
		return nil, nil
	}
	n := t.By.(*node)
	l := n.home
	l.mu.Lock()
	mine := false // releases the node; otherwise the turn passes on, or the node stays, or was lost
	if l.node == n {
		n.sure = sure
		mine = l.next(onRelease, 0, err == nil, now) == end
	}
	others := l.waiting.Len() > 0
	if mine {
		n.giving, n.wanted = true, wanted && !others
	}
	l.mu.Unlock()
	if !mine {
		return nil, err
	}
	n.giveBack()
	if others {
		return nil, err
	}
	return n, err
}

// giveBack ends the hold and sends the delete. The owner continues then.
func (n *node) giveBack() {
	defer func() { // also if a hook does not return
		n.home.mu.Lock()
		defer n.home.mu.Unlock()
		n.given = true
		n.home.wake()
	}()
	n.GiveBack(func(err error) {
		n.err = err
		n.home.mu.Lock()
		watch, wanted := n.watch, n.wanted
		n.answered = true
		n.home.mu.Unlock()
		watch.Stop() // without a request: the delete has used it up
		if !wanted {
			line.LogRefusal(n.home.line.Client, n.Path, err)
		}
		close(n.gone)
	})
}

// leave hands over the owner's watch, to be stopped after the delete has used it up.
func (n *node) leave(watch *framework.Watch) {
	n.home.mu.Lock()
	over := n.answered
	n.watch = watch
	n.home.mu.Unlock()
	if over {
		watch.Stop()
	}
}

// on applies an event to the state. mu is held.
func (l *local) on(e event) {
	now := time.Now()
	l.next(e, 0, l.node != nil && l.certain(now), now)
}

// certain reports whether the hold is certain. mu is held.
func (l *local) certain(now time.Time) bool {
	l.node.sure = l.node.Certain(now, l.node.sure)
	return !l.node.sure.IsZero()
}

// next is on for a caller that knows whether the hold is certain. more is the number of waiting callers that are not
// in the line yet; next does not give them a turn.
func (l *local) next(e event, more int, valid bool, now time.Time) (todo action) {
	f := facts{waiting: l.waiting.Len() + more, valid: valid, now: now}
	if e == onLoss {
		f.grace = l.node.Hold.Grace()
	}
	l.state, todo = l.limits.next(l.state, e, f)
	switch todo {
	case start:
		l.line.Client.Spawn(l.own)
	case stop:
		if l.stop != nil {
			l.stop()
		}
	case look, end:
		l.wake()
	case pass:
		if more == 0 {
			w := l.waiting.Front().Value.(*waiter)
			l.remove(w)
			w.got <- outcome{turn: l.node.Turn(w.from, l.node.sure, l.node)}
		}
	}
	return todo
}

// wake wakes the owner.
func (l *local) wake() {
	select {
	case l.kick <- struct{}{}:
	default: // the owner will wake anyway
	}
}

// tell removes the callers in line, or only the tries, and returns err to them. mu is held.
func (l *local) tell(err error, tries bool) {
	for e := l.waiting.Front(); e != nil; {
		w := e.Value.(*waiter)
		e = e.Next()
		if w.try || !tries {
			l.remove(w)
			w.got <- outcome{err: err}
		}
	}
}

// tries reports whether the first in line is a try. mu is held.
func (l *local) tries() bool {
	first := l.waiting.Front()
	return first != nil && first.Value.(*waiter).try
}

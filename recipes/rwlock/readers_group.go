package rwlock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-curator/curator/internal/apart"
	"github.com/go-curator/curator/recipes/internal/line"
)

// local is the state shared by the callers of a Readers: the groups that callers may join.
type local struct {
	line   *line.Line
	limits limits

	mu     sync.Mutex
	newest *group // the group that has the lock or waits for it; nil if none may be joined; guarded by mu
	trying *group // the group of tries in flight; nil if there is none; guarded by mu
}

// group is a group of readers that share a node. A goroutine of the client acquires the node; the last one to leave
// releases it.
type group struct {
	home    *local
	acquire line.Waiter
	state   state // guarded by home.mu

	settled chan struct{}      // closed when the waiters have the lock, or get an error
	err     error              // their error; set before settled is closed
	stop    context.CancelFunc // of the wait for the lock; nil before it begins; guarded by home.mu

	grant   *line.Grant  // set before any reader has the lock
	dropped line.Dropped // of its readers, set with grant
	sure    time.Time    // until when the hold was certain, by the last look; guarded by home.mu
}

// take lets the caller read, in a group.
func (l *local) take(ctx context.Context, caller line.Caller, try bool) (*line.Turn, error) {
	left := ctx.Done() // before the caller is counted: Done may be the user's code
	for again := try; ; again = false {
		g, first, sure := l.arrive(try)
		if sure.IsZero() {
			select {
			case <-g.settled:
			case <-left:
				if g.leave() { // it has got the lock at the same time
					g.grant.Abandon()
				}
				return nil, l.line.Client.Left(ctx, nil)
			}
		}
		switch {
		case g.err == nil:
			return g.grant.Turn(caller, sure, g), nil
		case again && !first && errors.Is(g.err, ErrNotAcquired):
			continue // a writer was ahead, but possibly before this call
		}
		return nil, g.err
	}
}

// arrive has the caller join a group. If sure is zero it has to wait with the others of the group. first reports
// whether it is the first of a new group.
func (l *local) arrive(try bool) (g *group, first bool, sure time.Time) {
	e := onArrival
	if try {
		e = onTry
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range []*group{l.newest, l.trying} {
		if g == nil {
			continue
		}
		switch l.next(g, e) {
		case read:
			return g, false, g.sure
		case wait:
			return g, false, time.Time{}
		}
	}
	g = &group{home: l, state: state{try: try, waiting: 1}, settled: make(chan struct{})}
	if try {
		g.acquire, l.trying = l.line.TryAcquire, g
	} else {
		g.acquire, l.newest = l.line.Acquire, g
	}
	l.line.Client.Spawn(g.own)
	return g, true, time.Time{}
}

// beside returns a group of one, whose node is not shared.
func (l *local) beside(grant *line.Grant) *group {
	g := &group{home: l, state: state{phase: closed, readers: 1}}
	g.has(grant)
	return g
}

func (g *group) has(grant *line.Grant) {
	g.grant, g.dropped = grant, line.DroppedOf(grant.Path, grant.Session)
}

// leave is called once by each caller that has arrived: it gives up, or has read. last reports whether the group has
// the lock, and has to release it.
func (g *group) leave() (last bool) {
	g.home.mu.Lock()
	defer g.home.mu.Unlock()
	switch g.home.next(g, onLeave) {
	case stop:
		if g.stop != nil {
			g.stop()
		}
	case end:
		return true
	}
	return false
}

// next applies an event to the group's state. mu is held.
func (l *local) next(g *group, e event) (todo action) {
	f := facts{now: time.Now()}
	if g.grant != nil && e != onLeave {
		g.sure = g.grant.Certain(f.now, g.sure)
		f.certain, f.asked = !g.sure.IsZero(), g.asked()
	}
	g.state, todo = l.limits.next(g.state, e, f)
	if g.state.phase == closed || g.state.phase == over {
		l.forget(g)
	}
	return todo
}

// forget ends joining the group. mu is held.
func (l *local) forget(g *group) {
	if l.newest == g {
		l.newest = nil
	}
	if l.trying == g {
		l.trying = nil
	}
}

func (g *group) asked() bool {
	select {
	case <-g.grant.Asked():
		return true
	default:
		return false
	}
}

// own acquires the node, on a separate goroutine. ctx ends when the client closes. A hook may end the goroutine: then
// the waiters get an error.
func (g *group) own(ctx context.Context) {
	err := apart.ErrNoReturn
	defer func() { g.failed(err) }()
	err = g.get(ctx)
}

func (g *group) get(ctx context.Context) error {
	line := g.home.line
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for g.begin(stop) {
		grant, err := g.acquire(ctx)
		if err != nil {
			if closed := line.Client.Err(); closed != nil {
				return closed
			}
			return err
		}
		line.Listen(grant)
		if g.granted(grant) {
			return nil
		}
		grant.Abandon()
	}
	return nil
}

// begin reports whether callers wait for the node.
func (g *group) begin(stop context.CancelFunc) bool {
	g.home.mu.Lock()
	defer g.home.mu.Unlock()
	g.stop = stop
	return g.state.phase == coming
}

// granted lets the waiters read. It returns false if there are none, or if the hold is not certain any more.
func (g *group) granted(grant *line.Grant) bool {
	l := g.home
	l.mu.Lock()
	defer l.mu.Unlock()
	g.has(grant)
	if l.next(g, onGrant) != read {
		g.grant = nil
		return false
	}
	if l.forget(g); l.newest == nil {
		l.newest = g
	}
	close(g.settled)
	return true
}

// failed returns err to the waiters, if there are any.
func (g *group) failed(err error) {
	g.home.mu.Lock()
	defer g.home.mu.Unlock()
	if err != nil && g.state.phase == coming {
		g.home.next(g, onFailure)
		g.err = err
		close(g.settled)
	}
}

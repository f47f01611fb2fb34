package framework

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/go-curator/curator/internal/flow"
	"github.com/go-curator/curator/internal/plain"
	"github.com/go-curator/curator/internal/wire"
)

// epoch is one ZooKeeper session in the life of a client. There is exactly one live epoch at any time.
type epoch struct {
	n      int64
	core   *core
	wire   *wire.Session
	conn   func() *zk.Conn // go-zookeeper's connection on it, made at the first call
	ctx    context.Context // ends with the session; its cause is ErrSessionLost or ErrClosed
	cancel context.CancelCauseFunc

	// Owned by the manager's goroutine:
	probing  bool         // a read of configPath is in flight
	refusals int          // number of reads of configPath in a row that were refused for a passing reason
	logged   wire.Servers // the assumptions about the servers as last logged

	mu        sync.Mutex  // never held while wire is called
	changed   flow.Signal // a field below has changed
	attached  bool        // a member with a quorum has confirmed the session
	suspended bool        // and now no such member is connected
	over      error       // why nothing can be held any more
	holds     map[*Hold]struct{}

	young young
	lanes lanes
}

// change runs f with the lock held and wakes the goroutines that wait for a change.
func (e *epoch) change(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
	e.changed.Fire()
}

// connected reports whether the session has a connection to a member with a quorum. The epoch records a loss before the
// loss is announced: so code that runs at the end of a hold does not find the client connected.
func (e *epoch) connected() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.attached && !e.suspended
}

func (e *epoch) held() []*Hold {
	e.mu.Lock()
	defer e.mu.Unlock()
	holds := make([]*Hold, 0, len(e.holds))
	for h := range e.holds {
		holds = append(holds, h)
	}
	return holds
}

// isOver reports whether a transport error means that the session has ended.
func (e *epoch) isOver(err error) bool {
	return e.ctx.Err() != nil || errors.Is(err, wire.ErrSessionLost) || errors.Is(err, wire.ErrClosed)
}

// endCause returns why the session ends: ErrClosed, or ErrSessionLost with the reason. Everything that ends
// with a session ends with this cause.
func (e *epoch) endCause() error {
	if cause := context.Cause(e.ctx); cause != nil {
		return cause
	}
	switch why := e.wire.Validity().Why(); {
	case why == nil:
		return ErrSessionLost
	case errors.Is(why, wire.ErrClosed):
		return ErrClosed
	default:
		return fmt.Errorf("%w: %w", ErrSessionLost, plain.Error(why))
	}
}

// epochs keeps the current epoch, and whether the client is closing.
type epochs struct {
	wg     sync.WaitGroup // every goroutine of the core
	closed chan struct{}  // closed when Close begins

	mu      sync.Mutex
	current *epoch      // the last epoch, never nil; guarded by mu
	closing bool        // guarded by mu
	moved   flow.Signal // current is replaced, or the client is closing; guarded by mu
	back    flow.Signal // there is a new connection; guarded by mu
}

// spawn runs f on a goroutine that Close waits for. It returns false, without running f, when Close has
// begun.
func (s *epochs) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.wg.Go(f)
	return true
}

// epochNow returns the current epoch; nil when the client is closed. A lost epoch stays the current one until
// the next has begun.
func (s *epochs) epochNow() *epoch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil
	}
	return s.current
}

// epochLast is epochNow, but after Close it returns the last epoch.
func (s *epochs) epochLast() *epoch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// setEpoch makes e the current epoch. It returns false when the client is closed.
func (s *epochs) setEpoch(e *epoch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.current = e
	s.moved.Fire()
	return true
}

// shut makes spawn and setEpoch refuse, and returns the last epoch.
func (s *epochs) shut() *epoch {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	s.moved.Fire()
	close(s.closed)
	return s.current
}

var closedChannel = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// movedOn returns a channel that is closed when e is no longer the current epoch, or the client is closed.
func (s *epochs) movedOn(e *epoch) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || s.current != e {
		return closedChannel
	}
	return s.moved.C()
}

// nextConnection returns a channel that is closed at the next connection, of whatever epoch.
func (s *epochs) nextConnection() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.back.C()
}

func (s *epochs) isBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.back.Fire()
}

// epochView returns the view's epoch or, without one, the current epoch; the last epoch after Close.
func (c *Client) epochView() *epoch {
	if e := c.view.epoch; e != nil {
		return e
	}
	return c.core.epochLast()
}

// epochOf returns the epoch for this view's operations now.
func (c *Client) epochOf() (*epoch, error) {
	if c.none() {
		return nil, ErrNoClient
	}
	now, e := c.core.epochNow(), c.view.epoch
	switch {
	case now == nil: // first of all: a closed client must not look like one whose session has ended
		return nil, ErrClosed
	case e == nil:
		return now, nil
	case e.ctx.Err() != nil:
		return nil, e.endCause()
	}
	return e, nil
}

// none reports whether c is a nil pointer or the zero value.
func (c *Client) none() bool { return c == nil || c.core == nil }

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

// sessionEpoch is one ZooKeeper session in the life of a client. There is exactly one live epoch at any time.
type sessionEpoch struct {
	n      int64
	core   *clientCore
	wire   *wire.Session
	conn   func() *zk.Conn // go-zookeeper's connection on it, made at the first call
	ctx    context.Context // ends with the session; its cause is ErrSessionLost or ErrClosed
	cancel context.CancelCauseFunc

	// Owned by the manager's goroutine:
	probing       bool         // a read of configPath is in flight
	refusals      int          // number of reads of configPath in a row that were refused for a passing reason
	loggedServers wire.Servers // the assumptions about the servers as last logged

	mu        sync.Mutex  // never held while wire is called
	changed   flow.Signal // a field below has changed
	attached  bool        // a member with a quorum has confirmed the session
	suspended bool        // and now no such member is connected
	endedBy   error       // why nothing can be held any more
	holds     map[*Hold]struct{}

	youngHolds  youngHolds
	sharedReads sharedReads
}

// changeState runs f with the lock held and wakes the goroutines that wait for a change.
func (e *sessionEpoch) changeState(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
	e.changed.Fire()
}

// isConnected reports whether the session has a connection to a member with a quorum. The epoch records a loss
// before the loss is announced: so code that runs at the end of a hold does not find the client connected.
func (e *sessionEpoch) isConnected() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.attached && !e.suspended
}

func (e *sessionEpoch) currentHolds() []*Hold {
	e.mu.Lock()
	defer e.mu.Unlock()
	holds := make([]*Hold, 0, len(e.holds))
	for h := range e.holds {
		holds = append(holds, h)
	}
	return holds
}

// isEndError reports whether a transport error means that the session has ended.
func (e *sessionEpoch) isEndError(err error) bool {
	return e.ctx.Err() != nil || errors.Is(err, wire.ErrSessionLost) || errors.Is(err, wire.ErrClosed)
}

// endCause returns why the session ends: ErrClosed, or ErrSessionLost with the reason. Everything that ends
// with a session ends with this cause.
func (e *sessionEpoch) endCause() error {
	if cause := context.Cause(e.ctx); cause != nil {
		return cause
	}
	switch why := e.wire.Validity().LossReason(); {
	case why == nil:
		return ErrSessionLost
	case errors.Is(why, wire.ErrClosed):
		return ErrClosed
	default:
		return fmt.Errorf("%w: %w", ErrSessionLost, plain.Error(why))
	}
}

// epochKeeper keeps the current epoch, and whether the client is closing.
type epochKeeper struct {
	wg     sync.WaitGroup // every goroutine of the core
	closed chan struct{}  // closed when Close begins

	mu          sync.Mutex
	current     *sessionEpoch // the last epoch, never nil; guarded by mu
	closing     bool          // guarded by mu
	replaced    flow.Signal   // current is replaced, or the client is closing; guarded by mu
	reconnected flow.Signal   // there is a new connection; guarded by mu
}

// spawn runs f on a goroutine that Close waits for. It returns false, without running f, when Close has
// begun.
func (s *epochKeeper) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.wg.Go(f)
	return true
}

// currentEpoch returns the current epoch; nil when the client is closed. A lost epoch stays the current one until
// the next has begun.
func (s *epochKeeper) currentEpoch() *sessionEpoch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil
	}
	return s.current
}

// latestEpoch is currentEpoch, but after Close it returns the last epoch.
func (s *epochKeeper) latestEpoch() *sessionEpoch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// setCurrentEpoch makes e the current epoch. It returns false when the client is closed.
func (s *epochKeeper) setCurrentEpoch(e *sessionEpoch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.current = e
	s.replaced.Fire()
	return true
}

// shutDown makes spawn and setCurrentEpoch refuse, and returns the last epoch.
func (s *epochKeeper) shutDown() *sessionEpoch {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	s.replaced.Fire()
	close(s.closed)
	return s.current
}

var closedChannel = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// epochReplaced returns a channel that is closed when e is no longer the current epoch, or the client is closed.
func (s *epochKeeper) epochReplaced(e *sessionEpoch) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || s.current != e {
		return closedChannel
	}
	return s.replaced.C()
}

// nextConnection returns a channel that is closed at the next connection, of whatever epoch.
func (s *epochKeeper) nextConnection() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reconnected.C()
}

func (s *epochKeeper) signalConnection() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reconnected.Fire()
}

// viewEpoch returns the view's epoch or, without one, the current epoch; the last epoch after Close.
func (c *Client) viewEpoch() *sessionEpoch {
	if e := c.view.epoch; e != nil {
		return e
	}
	return c.core.latestEpoch()
}

// operationEpoch returns the epoch for this view's operations now.
func (c *Client) operationEpoch() (*sessionEpoch, error) {
	if c.isZeroValue() {
		return nil, ErrNoClient
	}
	now, e := c.core.currentEpoch(), c.view.epoch
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

// isZeroValue reports whether c is a nil pointer or the zero value.
func (c *Client) isZeroValue() bool { return c == nil || c.core == nil }

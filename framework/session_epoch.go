package framework

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-curator/curator/internal/chance"
	"github.com/go-curator/curator/internal/flow"
	"github.com/go-curator/curator/internal/plain"
	"github.com/go-curator/curator/internal/wire"
)

// sessionEpoch is one ZooKeeper session in the life of a client. There is exactly one live epoch at any time.
type sessionEpoch struct {
	n           int64
	core        *clientBase
	wire        *wire.Session
	conn        func() *zk.Conn // go-zookeeper's connection on it, made at the first call
	ctx         context.Context // ends with the session; its cause is ErrSessionLost or ErrClosed
	cancel      context.CancelCauseFunc
	onFirstHold func() // is called when a hold begins and there was none

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

// clientBase is the part of a client that its sessions and their manager need: the current epoch, whether the client
// is closing, and the parts that all epochs share.
type clientBase struct {
	cfg             options
	log             *slog.Logger
	board           *stateBoard
	servers         serverLists
	connectFailure  connectFailure
	hooks           serialExecutor // calls hooks on behalf of goroutines that must not wait
	chance          *chance.Source
	awaitedRequests sync.Pool   // the waits of operations that can be used again
	clearTextLogged atomic.Bool // the log has said that credentials go over the network unencrypted

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
func (c *clientBase) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return false
	}
	c.wg.Go(f)
	return true
}

func (c *clientBase) pauseFor(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-c.closed:
	}
}

// currentEpoch returns the current epoch; nil when the client is closed. A lost epoch stays the current one until
// the next has begun.
func (c *clientBase) currentEpoch() *sessionEpoch {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return nil
	}
	return c.current
}

// latestEpoch is currentEpoch, but after Close it returns the last epoch.
func (c *clientBase) latestEpoch() *sessionEpoch {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

// setCurrentEpoch makes e the current epoch. It returns false when the client is closed.
func (c *clientBase) setCurrentEpoch(e *sessionEpoch) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return false
	}
	c.current = e
	c.replaced.Fire()
	return true
}

// shutDown makes spawn and setCurrentEpoch refuse, and returns the last epoch.
func (c *clientBase) shutDown() *sessionEpoch {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closing = true
	c.replaced.Fire()
	close(c.closed)
	return c.current
}

var closedChannel = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// endedContext is the context of zero values.
var endedContext = func() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(ErrNoClient)
	return ctx
}()

// epochReplaced returns a channel that is closed when e is no longer the current epoch, or the client is closed.
func (c *clientBase) epochReplaced(e *sessionEpoch) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing || c.current != e {
		return closedChannel
	}
	return c.replaced.C()
}

// nextConnection returns a channel that is closed at the next connection, of whatever epoch.
func (c *clientBase) nextConnection() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reconnected.C()
}

// signalConnection closes the channels of nextConnection, unless session has lost its connection again. Otherwise:
//
//  1. A connection begins; its event waits for the manager.
//  2. The connection is lost. An operation fails and takes nextConnection's channel.
//  3. The manager handles the event: the operation is repeated, without a connection, and its next wait is the policy's.
//
// An operation that fails after the check takes its channel after Fire.
func (c *clientBase) signalConnection(session *wire.Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if session.Connected() {
		c.reconnected.Fire()
	}
}

func (c *clientBase) serverList() []string {
	list, _ := c.servers.currentServers()
	return list
}

// explainWait adds the reason for the missing connection to the error of a wait. The wait was for a connection, or
// until a context ended.
func (c *clientBase) explainWait(err error) error {
	var told *disconnectedError
	switch {
	case !errors.Is(err, ErrNotConnected) && !errors.Is(err, context.DeadlineExceeded) &&
		!errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, errCredentialsRefused), errors.Is(err, ErrClosed), errors.As(err, &told):
		return err
	}
	last := c.connectFailure.lastFailure()
	if last == nil && c.latestEpoch().wire.Connected() {
		return err
	}
	return &disconnectedError{err, joinServers(c.serverList(), ", "), last}
}

// connectWaitError returns the error of a wait for a connection that ended with ctx.
func (c *clientBase) connectWaitError(ctx context.Context) error {
	why := errNotConnectedNow
	switch now, _ := c.board.currentState(); now.State {
	case NeverConnected:
		why = errNeverConnected
	case ReadOnly:
		why = errNoQuorum
	}
	return c.explainWait(fmt.Errorf("%w: %w", why, flow.Ended(ctx)))
}

// pongReporter returns the function that reports the round trips of pings; nil without hooks.
func (c *clientBase) pongReporter() func(time.Duration) {
	if len(c.cfg.observer) == 0 {
		return nil
	}
	return func(took time.Duration) { c.reportRoundTrip(RoundTrip{"ping", took}) }
}

func (c *clientBase) reportRoundTrip(r RoundTrip) {
	c.hooks.enqueue(func() { c.cfg.observer.reportRoundTrip(r) })
}

// refusalPause returns how long to wait after the nth passing refusal in a row.
func (c *clientBase) refusalPause(n int) time.Duration {
	return c.chance.UpTo(min(10*time.Millisecond<<min(n, 10), time.Second))
}

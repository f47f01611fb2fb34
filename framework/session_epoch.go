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

// sessionEpoch is one ZooKeeper session of a client. At any time one epoch of the client is the current one; the
// manager replaces it when its session is lost.
type sessionEpoch struct {
	number      int64
	core        *clientBase
	wire        *wire.Session
	conn        func() *zk.Conn // go-zookeeper's connection on the session, made at the first call
	ctx         context.Context // ends with the session; its cause matches ErrSessionLost or ErrClosed
	cancel      context.CancelCauseFunc
	onFirstHold func() // is called when a hold begins and there was none

	// Owned by the manager's goroutine. A probe is a read of configPath that shows whether the server is standalone.
	probing       bool         // a probe is in flight
	probeRefusals int          // how many probes in a row were refused for a passing reason
	loggedServers wire.Servers // the assumptions about the servers as last logged

	mu        sync.Mutex  // guards the fields up to holds; never held while wire is called
	changed   flow.Signal // one of these fields has changed, or a state of wire that waiters check
	attached  bool        // a member with a quorum has confirmed the session
	suspended bool        // there is no connection to a member with a quorum
	endedBy   error       // why nothing can be held any more
	holds     map[*Hold]struct{}

	youngHolds  youngHolds
	sharedReads sharedReads
}

// changeState calls f with mu held, and wakes the goroutines that wait for a change.
func (e *sessionEpoch) changeState(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
	e.changed.Fire()
}

// isConnected reports whether the session has a connection to a member with a quorum. The epoch records the loss of a
// connection before it ends the holds, and before the loss is announced: so code that runs at the end of a hold does
// not find the client connected.
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

// isEndError reports whether an error of package wire means that the session has ended.
func (e *sessionEpoch) isEndError(err error) bool {
	return e.ctx.Err() != nil || errors.Is(err, wire.ErrSessionLost) || errors.Is(err, wire.ErrClosed)
}

// endCause returns why the session has ended: ErrClosed, or ErrSessionLost with the reason. The contexts of the session
// and of its holds end with this cause.
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
	awaitedRequests sync.Pool   // *awaitedRequest
	clearTextLogged atomic.Bool // it was logged that credentials cross the network unencrypted

	wg     sync.WaitGroup // the goroutines that Close waits for
	closed chan struct{}  // closed when Close begins

	mu          sync.Mutex
	current     *sessionEpoch // the last epoch, never nil; guarded by mu
	closing     bool          // Close has begun; guarded by mu
	replaced    flow.Signal   // fires when current is replaced, or Close begins; guarded by mu
	reconnected flow.Signal   // fires when there is a new connection; guarded by mu
}

// spawn runs f on a goroutine that Close waits for. It returns false, without running f, when Close has begun.
func (c *clientBase) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return false
	}
	c.wg.Go(f)
	return true
}

// pauseFor waits for d, or until ctx ends or Close begins.
func (c *clientBase) pauseFor(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-c.closed:
	}
}

// currentEpoch returns the current epoch; nil when Close has begun. A lost epoch stays the current one until the next
// has begun.
func (c *clientBase) currentEpoch() *sessionEpoch {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return nil
	}
	return c.current
}

// latestEpoch returns the current epoch, also when Close has begun.
func (c *clientBase) latestEpoch() *sessionEpoch {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

// setCurrentEpoch makes e the current epoch. It returns false, and changes nothing, when Close has begun.
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

// shutDown begins Close: from now on spawn and setCurrentEpoch return false. It returns the last epoch.
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

// epochReplaced returns a channel that is closed when e is not the current epoch any more, or Close has begun.
func (c *clientBase) epochReplaced(e *sessionEpoch) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing || c.current != e {
		return closedChannel
	}
	return c.replaced.C()
}

// nextConnection returns a channel that is closed at the next connection, in this epoch or a later one.
func (c *clientBase) nextConnection() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reconnected.C()
}

// signalConnection closes the channels of nextConnection, unless session has lost its connection again. Without that
// check, an operation could be repeated at the wrong moment:
//
//  1. A connection begins; its event is queued for the manager.
//  2. The connection is lost. An operation fails, and waits for the channel of nextConnection.
//  3. The manager handles the event of step 1 and closes the channel. The operation is repeated without a connection,
//     and then waits as long as the retry policy says, even if there is a connection sooner.
//
// With the check, an operation of step 2 that comes between the check and Fire blocks on mu, and gets the next channel.
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

// explainWait adds the reason for the missing connection, if there is none, to an error of a wait: one that matches
// ErrNotConnected or a context's error. It returns other errors unchanged, and those that have a reason already.
func (c *clientBase) explainWait(err error) error {
	var explained *disconnectedError
	switch {
	case !errors.Is(err, ErrNotConnected) && !errors.Is(err, context.DeadlineExceeded) &&
		!errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, errCredentialsRefused), errors.Is(err, ErrClosed), errors.As(err, &explained):
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

// pongReporter returns the function that reports the round trips of pings to the hooks; nil if there are none.
func (c *clientBase) pongReporter() func(time.Duration) {
	if len(c.cfg.observer) == 0 {
		return nil
	}
	return func(took time.Duration) { c.reportRoundTrip(RoundTrip{"ping", took}) }
}

func (c *clientBase) reportRoundTrip(r RoundTrip) {
	c.hooks.enqueue(func() { c.cfg.observer.reportRoundTrip(r) })
}

// refusalPause returns how long to wait after the nth refusal in a row that had a passing reason: at random between a
// half and the whole of a limit that doubles with n, from 20 ms to 1 s.
func (c *clientBase) refusalPause(n int) time.Duration {
	return c.chance.UpTo(min(10*time.Millisecond<<min(n, 10), time.Second))
}

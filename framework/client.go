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
	"github.com/go-curator/curator/internal/wire"
)

// Client is a connection to a ZooKeeper ensemble that outlives connections and sessions. Make one per process with [New] and share it.
// Safe for concurrent use. Views of it ([Client.UsingNamespace], [Session.Client]) share everything with it, Close included.
// Corresponds to Curator's CuratorFramework.
type Client struct {
	core *core
	view view
}

// core is what all views of a client share.
type core struct {
	cfg     options
	log     *slog.Logger
	board   *board
	manager *manager
	ops     *ops
	trouble trouble
	chance  *chance.Source
	wg      sync.WaitGroup // every goroutine of the core
	closed  chan struct{}  // closed when Close begins

	mu      sync.Mutex
	given   []string      // the servers, by the user; never changed in place
	tracked []string      // by the ensemble, nil unless it is followed: these first; never changed in place
	current *epoch        // the last one, never nil
	moved   chan struct{} // closed and replaced when current is replaced
	back    chan struct{} // closed and replaced with every connection
	closing bool

	clear      atomic.Bool   // it was said that credentials go over the network in clear
	begunClose atomic.Bool   // somebody has begun to close
	ended      chan struct{} // closed when closeErr is set
	closeErr   error
}

// New makes a client of the servers in connect: "host1:2181,host2:2181/chroot". The port may be left out for 2181, and with a chroot
// every path is below it; the chroot itself has to be there, nothing makes it (ErrNoChroot). New checks its arguments (ErrInvalidConnectString,
// ErrInvalidOption, ErrInvalidPath), begins to connect and returns at once; use [Client.WaitConnected] to wait. Close the client when you are done.
//
// Corresponds to CuratorFrameworkFactory.builder() with build() and start().
func New(connect string, opts ...Option) (*Client, error) {
	servers, chroot, err := parseConnectString(connect)
	if err != nil {
		return nil, err
	}
	cfg := defaultOptions()
	for _, opt := range opts {
		if opt == nil {
			return nil, invalid("nil", "an option is nil; leave it out")
		}
		if err := opt(&cfg); err != nil {
			return nil, err
		}
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	view, err := newView(chroot, cfg.namespace)
	if err != nil {
		return nil, err
	}
	c := &core{cfg: cfg, given: servers, chance: chance.New(), closed: make(chan struct{}), moved: make(chan struct{}), back: make(chan struct{}), ended: make(chan struct{})}
	c.board = newBoard(c.spawn, c.closed)
	c.manager = newManager(c)
	c.ops = newOps(c.epochLast, cfg.logger.Handler(), c.chance)
	c.log = c.ops.log
	if err := c.manager.open(1, nil, nil); err != nil {
		c.ops.workers.close()
		return nil, fmt.Errorf("framework: %w", err)
	}
	c.spawn(c.manager.run)
	if cfg.tracking {
		c.spawn(c.track)
	}
	return &Client{core: c, view: view}, nil
}

// spawn runs f on a goroutine that Close waits for. It returns false, without running f, when Close has begun.
func (c *core) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return false
	}
	c.wg.Go(f)
	return true
}

// epochNow returns the current epoch, nil when the client is closed. An epoch that was lost stays the current one for the instant until
// the next has begun.
func (c *core) epochNow() *epoch {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return nil
	}
	return c.current
}

// epochLast is epochNow, but the last epoch also after Close.
func (c *core) epochLast() *epoch {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

// setEpoch makes e the current epoch; false when the client is closed.
func (c *core) setEpoch(e *epoch) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return false
	}
	c.current = e
	close(c.moved)
	c.moved = make(chan struct{})
	return true
}

var closedChannel = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// movedOn returns a channel that is closed when e is no longer the current epoch, or the client is closed.
func (c *core) movedOn(e *epoch) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing || c.current != e {
		return closedChannel
	}
	return c.moved
}

// nextConnection returns a channel that is closed with the next connection of any epoch.
func (c *core) nextConnection() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.back
}

// isBack tells who waits for a connection that there is one.
func (c *core) isBack() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.back)
	c.back = make(chan struct{})
}

// epochView returns the epoch of the view, or the current one; the last one after Close.
func (c *Client) epochView() *epoch {
	if e := c.pinned(); e != nil {
		return e
	}
	return c.core.epochLast()
}

// State returns what was announced last; NeverConnected before the first connection.
func (c *Client) State() StateChange {
	if c.none() {
		return StateChange{}
	}
	now, _ := c.core.board.look()
	return now
}

// StateChanges returns a channel of all state changes from now on, in order and without loss, the current state first (if there has been
// any). The channel is closed when ctx ends or the client is closed; what has not been received by then is dropped. A subscriber may be
// as slow as it likes: it delays nobody else. With a nil ctx the channel is closed from the start.
//
// When a state is received, what it means has happened already: at [Lost] every hold of that epoch has ended.
func (c *Client) StateChanges(ctx context.Context) <-chan StateChange {
	if ctx == nil || c.none() {
		none := make(chan StateChange)
		close(none)
		return none
	}
	return c.core.board.subscribe(ctx)
}

// WaitConnected returns nil as soon as the client is connected (to a member with a quorum, unless [WithReadOnly]), ErrClosed when it is
// closed, ErrSessionLost for a session's view whose session is over, and, when ctx ends first, an error that matches ErrNotConnected and
// ctx.Err() and says which servers were tried and what went wrong. Corresponds to Curator's blockUntilConnected.
func (c *Client) WaitConnected(ctx context.Context) error {
	if c.none() {
		return ErrNoClient
	}
	if ctx == nil {
		return ErrNilContext
	}
	for {
		now, changed := c.core.board.look()
		e, err := c.epochOf()
		switch {
		case err != nil:
			return err
		case now.State.IsConnected() && (now.State == ReadOnly && c.core.cfg.readOnly || e.connected()):
			return nil
		case ctx.Err() != nil:
			return c.core.notConnected(ctx)
		}
		select {
		case <-changed:
		case <-e.ctx.Done():
			if c.pinned() == nil {
				select {
				case <-c.core.movedOn(e):
				case <-ctx.Done():
				}
			}
		case <-ctx.Done():
		}
	}
}

// Conn returns a go-zookeeper connection that shares the current session, for code written for that library. The first call makes it; a client that is
// never asked for one has none. Do not close it: that ends the session. It belongs to one epoch and is dead when that is over; ask again then. While there
// is no connection its calls wait, and fail with zk.ErrNoServer within three seconds. If the session ends while they do, those calls, and Close of the client,
// may take up to a second longer.
func (c *Client) Conn() *zk.Conn {
	if c.none() {
		return nil
	}
	return c.epochView().wire.Conn()
}

// Close ends the client within the closing timeout (5 s unless [WithClosingTimeout]); see [Client.CloseContext].
func (c *Client) Close() error {
	if c.none() {
		return ErrNoClient
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.core.cfg.closeTimeout)
	defer cancel()
	return c.CloseContext(ctx)
}

// CloseContext ends the client: all holds end with ErrClosed, clean-ups that are pending get their chance (for half of the time), the session is
// closed at the server, operations under way fail with ErrClosed, subscriptions and watches end, and every goroutine of the client has ended when it
// returns. The client's ephemeral nodes are gone when the error is nil. ErrUnacknowledged says that the server did not confirm that: they may stay until
// the session timeout, also those of a session that was lost before and could not be closed since. A client that has never been connected says it when a
// server may have opened a session that the client has not heard of; it waits for the answer to a handshake that is going on, and closes what comes of it.
// When ctx ends first, what is left winds down in the background.
//
// Closing again waits for the first call, as long as ctx allows, and returns its error.
func (c *Client) CloseContext(ctx context.Context) error {
	if c.none() {
		return ErrNoClient
	}
	if ctx == nil {
		return ErrNilContext
	}
	if c.core.begunClose.CompareAndSwap(false, true) {
		c.core.closeErr = c.core.close(ctx)
		close(c.core.ended)
		return c.core.closeErr
	}
	select {
	case <-c.core.ended:
		return c.core.closeErr
	case <-ctx.Done():
		return fmt.Errorf("close: %w", leftBy(ctx, true))
	}
}

func (c *core) close(ctx context.Context) error {
	// First nothing is held any more: what follows may give it to somebody else.
	done := make(chan struct{})
	c.manager.inbox.put(func() {
		c.manager.apply(input{kind: inClose}, "", nil, nil)
		close(done)
	})
	select {
	case <-done:
	case <-ctx.Done(): // the manager waits for a session that is busy
	}
	c.mu.Lock()
	c.closing = true
	e := c.current
	close(c.moved)
	close(c.closed)
	c.mu.Unlock()
	e.endHolds(ErrClosed)

	draining, stop := firstHalf(ctx)
	c.ops.cleanups.drain(draining)
	stop()
	e.cancel(ErrClosed)
	idle := make(chan error, 1)
	go func() {
		err := e.wire.Close(ctx)
		c.manager.stop()
		c.ops.workers.close()
		c.wg.Wait()
		idle <- err
	}()
	err := within(ctx, idle)
	defer c.ops.lines.flush(ctx)
	switch {
	case err == nil:
		c.log.Info("closed", "epoch", e.n)
		return nil
	case errors.Is(err, wire.ErrUnacknowledged):
		err = known(ErrUnacknowledged, err)
	default:
		err = fmt.Errorf("close: %w", err)
	}
	c.log.Warn("closed", "epoch", e.n, "err", err)
	return err
}

// closeGrace is what goroutines get to end after the context of CloseContext has.
const closeGrace = 50 * time.Millisecond

// firstHalf bounds what must leave time for something else.
func firstHalf(ctx context.Context) (context.Context, context.CancelFunc) {
	end, bounded := ctx.Deadline()
	if !bounded {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, time.Now().Add(time.Until(end)/2))
}

func within(ctx context.Context, idle <-chan error) error {
	select {
	case err := <-idle:
		return err
	case <-ctx.Done():
	}
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	select {
	case err := <-idle:
		return err
	case <-timer.C:
		return fmt.Errorf("%w, and some goroutines have not ended yet: %w", wire.ErrUnacknowledged, ctx.Err())
	}
}

// ErrUnacknowledged says that the server did not confirm the end of the session: its ephemeral nodes may stay until the session timeout.
var ErrUnacknowledged = named("session close not acknowledged by the server")

package framework

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-curator/curator/internal/chance"
	"github.com/go-curator/curator/retry"
)

// New makes a client of the servers in connect, which has the form "host1:2181,host2:2181/chroot". The port may be left
// out if it is 2181; a server that is listed twice counts once. With a chroot, all the client's paths are below that
// node, which has to exist ([ErrNoChroot]).
//
// New checks its arguments (ErrInvalidConnectString, ErrInvalidOption, ErrInvalidPath), begins to connect and returns
// without waiting for a connection; use [Client.WaitConnected] to wait. Call [Client.Close] when the client is no longer
// needed. Corresponds to CuratorFrameworkFactory.builder() with build() and start().
func New(connect string, opts ...Option) (*Client, error) {
	servers, chroot, err := parseConnectString(connect)
	if err != nil {
		return nil, err
	}
	cfg, err := newOptions(opts)
	if err != nil {
		return nil, err
	}
	view, err := newClientView(chroot, cfg.namespace)
	if err != nil {
		return nil, err
	}
	c := &clientCore{clientBase: clientBase{cfg: cfg, chance: chance.New()}}
	c.servers.given, c.closed, c.closeResult.done = servers, make(chan struct{}), make(chan struct{})
	c.operationRetry = []retry.Option{retry.WithInterrupt(c.closed), retry.WithReady(c.retryReady)}
	c.callerRetry = append(slices.Clip(c.operationRetry), retry.WithRetryable(Retryable))
	c.awaitedRequests.New = newAwaitedRequest
	c.board = newBoard(c.spawn, c.closed)
	c.manager = newManager(&c.clientBase)
	c.ops = newOperationResources(&c.clientBase, cfg.logger.Handler())
	c.log, c.hooks.spawn = c.ops.log, c.ops.workers.spawn
	warnOfDoubles(c.log, connect, servers)
	if err := c.manager.openEpoch(1, nil, nil); err != nil {
		c.ops.workers.close()
		return nil, fmt.Errorf("framework: %w", err)
	}
	c.spawn(c.manager.run)
	if cfg.tracking {
		c.spawn(c.trackEnsemble)
	}
	return newClient(c, view), nil
}

// State returns the state that was announced last; NeverConnected before the first connection.
func (c *Client) State() StateChange {
	if c.isZeroValue() {
		return StateChange{}
	}
	now, _ := c.core.board.currentState()
	return now
}

// StateChanges returns a channel of all state changes from now on, in order and without loss. It begins with the
// current state if there has been a connection. The channel is closed when ctx ends or the client is closed; changes
// that have not been received by then are dropped. A slow receiver delays no other. With a nil ctx, or a nil or zero
// client, the returned channel is closed already.
//
// Before a state is sent to the channel, the client has acted on it: when [Lost] is received, every hold of that epoch
// has ended.
func (c *Client) StateChanges(ctx context.Context) <-chan StateChange {
	if ctx == nil || c.isZeroValue() {
		none := make(chan StateChange)
		close(none)
		return none
	}
	return c.core.board.subscribe(ctx)
}

// WaitConnected returns nil as soon as the client is connected: to a server with a quorum or, with [WithReadOnly], to
// any server. It returns ErrClosed when the client is closed, and on a session's view ErrSessionLost when that session
// has ended. If ctx ends first, the error matches ErrNotConnected and ctx.Err(), and its text has the servers and the
// reason why the last attempt to connect failed. Corresponds to Curator's blockUntilConnected.
func (c *Client) WaitConnected(ctx context.Context) error {
	if c.isZeroValue() {
		return ErrNoClient
	}
	if ctx == nil {
		return ErrNilContext
	}
	for {
		now, changed := c.core.board.currentState()
		e, err := c.operationEpoch()
		switch {
		case err != nil:
			return err
		case now.State.IsConnected() && (now.State == ReadOnly && c.core.cfg.readOnly || e.isConnected()):
			return nil
		case ctx.Err() != nil:
			return c.core.connectWaitError(ctx)
		}
		select {
		case <-changed:
		case <-e.ctx.Done():
			if c.view.epoch == nil { // else operationEpoch returns the error
				select {
				case <-c.core.epochReplaced(e):
				case <-ctx.Done():
				}
			}
		case <-ctx.Done():
		}
	}
}

// Conn returns a go-zookeeper connection that shares the current session, for code written for that library; nil for a
// nil or zero client. The first call in a session makes the connection. Do not close it: that ends the session.
//
// The connection belongs to one epoch and ends with it; then call Conn again. While the client is not connected, calls
// on the connection wait for a new one, and after at most three seconds fail with zk.ErrNoServer. If the session ends
// while they wait, those calls, and Close of the client, may take up to a second longer.
func (c *Client) Conn() *zk.Conn {
	if c.isZeroValue() {
		return nil
	}
	return c.viewEpoch().conn()
}

// ErrUnacknowledged means that the server did not confirm the end of the session: the session's ephemeral nodes may
// stay until the session timeout.
var ErrUnacknowledged = newSentinel("session close not acknowledged by the server")

// Close ends the client within the closing timeout (5 s unless [WithClosingTimeout]); see
// [Client.CloseContext].
func (c *Client) Close() error {
	if c.isZeroValue() {
		return ErrNoClient
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.core.cfg.closeTimeout)
	defer cancel()
	return c.CloseContext(ctx)
}

// CloseContext ends the client:
//
//   - All holds end with ErrClosed, before anything else.
//   - While there is a connection, pending clean-ups are tried, for half of the time that ctx leaves.
//   - The session is closed at the server, after the requests submitted before. Operations that have no reply by then
//     fail with ErrClosed. Without a connection, each server is tried once, for a second in all.
//   - Subscriptions and watches end.
//
// When CloseContext returns, every goroutine of the client has ended. If ctx ends first, CloseContext returns
// ErrUnacknowledged, and the remaining goroutines end in the background.
//
// If the error is nil, the client's ephemeral nodes are deleted. ErrUnacknowledged means that no server has confirmed
// that: the nodes may stay until the session timeout. They may be nodes of an earlier session, which was lost and could
// not be closed since. A client that has never been connected also returns ErrUnacknowledged if a handshake without a
// reply may have opened a session. CloseContext waits for the reply to a handshake in flight, and closes the session
// that the handshake opens.
//
// Another call waits for the first call's end and returns its error; if ctx ends before, the error matches ctx.Err().
func (c *Client) CloseContext(ctx context.Context) error {
	if c.isZeroValue() {
		return ErrNoClient
	}
	if ctx == nil {
		return ErrNilContext
	}
	end := &c.core.closeResult
	if end.begun.CompareAndSwap(false, true) {
		end.err = c.core.close(ctx)
		close(end.done)
		return end.err
	}
	select {
	case <-end.done:
		return end.err
	case <-ctx.Done():
		return fmt.Errorf("close: %w", unansweredError(ctx, true))
	}
}

func (c *clientCore) close(ctx context.Context) error {
	// All holds end first, since the steps below delete nodes: then other clients may get the locks.
	done := make(chan struct{})
	c.manager.inbox.Put(func() {
		c.manager.applyInput(machineInput{kind: inClose}, "", nil, nil)
		close(done)
	})
	select {
	case <-done:
	case <-ctx.Done():
	}
	e := c.shutDown()
	e.endAllHolds(ErrClosed)

	draining, stop := withHalfTime(ctx)
	c.ops.cleanups.drain(draining)
	stop()
	e.cancel(ErrClosed)
	idle := make(chan error, 1)
	go func() {
		err := e.wire.Close(ctx)
		c.manager.stop()
		c.ops.workers.close()
		c.ops.cleanups.close()
		c.wg.Wait()
		idle <- err
	}()
	err := awaitWithGrace(ctx, idle)
	defer c.ops.logLines.flush(ctx)
	if err == nil {
		c.log.Info("client closed", "epoch", e.number)
		return nil
	}
	err = withSentinel(ErrUnacknowledged, err) // err matches wire.ErrUnacknowledged
	c.log.Warn("client closed", "epoch", e.number, "err", err)
	return err
}

// withHalfTime returns a context with half of the time that is left until ctx's deadline.
func withHalfTime(ctx context.Context) (context.Context, context.CancelFunc) {
	end, bounded := ctx.Deadline()
	if !bounded {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, time.Now().Add(time.Until(end)/2))
}

package framework

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-curator/curator/internal/wire"
)

// ErrUnacknowledged says that the server did not confirm the end of the session: its ephemeral nodes may
// stay until the session timeout.
var ErrUnacknowledged = named("session close not acknowledged by the server")

type end struct {
	begun atomic.Bool
	done  chan struct{} // closed when err is set
	err   error
}

// Close ends the client within the closing timeout (5 s unless [WithClosingTimeout]); see
// [Client.CloseContext].
func (c *Client) Close() error {
	if c.none() {
		return ErrNoClient
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.core.cfg.closeTimeout)
	defer cancel()
	return c.CloseContext(ctx)
}

// CloseContext ends the client. All holds end with ErrClosed, clean-ups that are pending are tried for half
// of the time, the session is closed at the server, operations under way fail with ErrClosed, and
// subscriptions and watches end. When it returns every goroutine of the client has ended; if ctx has ended
// first, what is left winds down in the background.
//
// The client's ephemeral nodes are gone when the error is nil. ErrUnacknowledged says that the server did
// not confirm that: they may stay until the session timeout, also those of a session that was lost before
// and could not be closed since. A client that has never been connected returns it, too, if a server may
// have opened a session without the client's hearing of it. Close waits for the answer to a handshake under
// way, and closes the session that it opens.
//
// Closing again waits for the first call, as long as ctx allows, and returns its error.
func (c *Client) CloseContext(ctx context.Context) error {
	if c.none() {
		return ErrNoClient
	}
	if ctx == nil {
		return ErrNilContext
	}
	end := &c.core.end
	if end.begun.CompareAndSwap(false, true) {
		end.err = c.core.close(ctx)
		close(end.done)
		return end.err
	}
	select {
	case <-end.done:
		return end.err
	case <-ctx.Done():
		return fmt.Errorf("close: %w", leftBy(ctx, true))
	}
}

func (c *core) close(ctx context.Context) error {
	// First all holds end: what follows may give what is held to somebody else.
	done := make(chan struct{})
	c.manager.inbox.Put(func() {
		c.manager.apply(input{kind: inClose}, "", nil, nil)
		close(done)
	})
	select {
	case <-done:
	case <-ctx.Done(): // the manager waits for a session that is busy
	}
	e := c.shut()
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
		c.ops.cleanups.close()
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

// firstHalf bounds work that must leave as much time for the rest.
func firstHalf(ctx context.Context) (context.Context, context.CancelFunc) {
	end, bounded := ctx.Deadline()
	if !bounded {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, time.Now().Add(time.Until(end)/2))
}

// closeGrace is how long goroutines may take to end after the context of CloseContext has ended.
const closeGrace = 50 * time.Millisecond

// within returns what comes out of idle until closeGrace after the end of ctx.
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

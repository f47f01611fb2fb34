package framework

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-curator/curator/retry"
)

// Connections returns how many connections the session has had so far. It has grown before the first event or result that came over a
// new connection is delivered: who finds it unchanged knows that there was no reconnect meanwhile.
func (s *Session) Connections() uint64 { return s.e.wire.Links() }

// RetryPolicy returns the policy of [WithRetry], or of [Client.UsingRetry], for recipes that repeat several operations as one.
func (c *Client) RetryPolicy() retry.Policy {
	if p := c.view.retry; p != nil {
		return p
	}
	return c.core.cfg.retry
}

// Retry runs op as the retry policy says, for recipes that repeat several operations as one. An error for which retryable says false is returned at
// once. When the client closes, no pause goes on: op is called once more, to be told ErrClosed.
func (c *Client) Retry(ctx context.Context, op func(ctx context.Context) error, retryable func(error) bool) error {
	return retry.Do(ctx, c.RetryPolicy(), op, retry.WithRetryable(retryable), retry.WithInterrupt(c.core.closed))
}

// Pause waits for d, but not longer than until ctx ends or the client closes. For recipes that try again by a rule of their own.
func (c *Client) Pause(ctx context.Context, d time.Duration) { c.core.pause(ctx, d) }

func (c *core) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-c.closed:
	}
}

// Retryable says whether the error of an operation is about the way to the server and not about the operation, so that a retry policy may
// be asked about it: ErrConnectionLoss, ErrNotConnected, ErrSessionMoved, ErrOperationTimeout, ErrThrottled. Whether a repeat does no harm
// is for the caller to know.
func Retryable(err error) bool { return transient(err) }

// Logger returns the logger of [WithLogger], for recipes.
func (c *Client) Logger() *slog.Logger { return c.core.log }

// SessionSoon is [Client.Session] for who would rather fail than wait for ever: it waits for a connection as an operation does, that is
// for the connection timeout, and again as often as the retry policy says. Then the error is ErrNotConnected.
// While every server refuses the client's credentials it is ErrAuthFailed, at once.
func (c *Client) SessionSoon(ctx context.Context) (s *Session, err error) {
	if err := checkContext(ctx); err != nil {
		return nil, err
	}
	err = c.Retry(ctx, func(ctx context.Context) error {
		limited, cancel := context.WithTimeout(ctx, c.core.cfg.connectTimeout)
		defer cancel()
		if s, err = c.session(limited, true); err != nil && limited.Err() != nil && ctx.Err() == nil {
			return fmt.Errorf("%w (%v)", ErrNotConnected, err) // the deadline was not the caller's: it must not be found in the error
		}
		return err
	}, transient)
	if err != nil {
		return nil, err
	}
	return s, nil
}

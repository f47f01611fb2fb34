package framework

import (
	"context"
	"log/slog"
	"time"
	"weak"

	"github.com/go-curator/curator/retry"
)

// Connections returns how many connections the session has had so far. It has grown before the first event or result that came over a
// new connection is delivered: who finds it unchanged knows that there was no reconnect meanwhile.
func (s *Session) Connections() uint64 { return s.e.wire.Links() }

// Ended returns what says whether the session is over, for clean-ups of the garbage collector: it keeps neither the session nor its client, looks at no
// clock and touches no channel.
func (s *Session) Ended() func() bool {
	kept := weak.Make(s.e)
	return func() bool {
		e := kept.Value()
		if e == nil {
			return true
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.over != nil
	}
}

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
			return c.core.explain(ErrNotConnected) // the deadline was not the caller's: it must not be found in the error
		}
		return err
	}, transient)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Over returns why no operation of this client can ever succeed again, nil while one may: ErrClosed, and for the view of a [Session] also ErrSessionLost. For
// recipes that sit out the loss of a session, which is nothing that passes for who is bound to that session.
func (c *Client) Over() error {
	_, err := c.epochOf()
	return err
}

// Unpacked returns data that somebody has put into a node, and that were read Undecompressed, as this client would read them: with [WithCompression]
// unpacked, if they can be, and else as they are. For recipes, which read the nodes of others: whether those pack their data is not to be relied on.
func (c *Client) Unpacked(path string, data []byte) []byte {
	full, err := c.fullPath(path)
	if err != nil {
		return data
	}
	plain, err := c.incoming(full, data, packDefault)
	if err != nil {
		return data
	}
	return plain
}

// Spawn runs f on a goroutine of the client's, for recipes that have to finish something behind their caller's back. Close waits for it: by then
// operations, and pauses, fail with ErrClosed, and f has to return.
func (c *Client) Spawn(f func(ctx context.Context)) {
	c.core.ops.workers.spawn(func() { f(c.core.ops.workers.ctx) })
}

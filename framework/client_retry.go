package framework

import (
	"context"
	"errors"

	"github.com/cenkalti/backoff/v4"

	"github.com/go-curator/curator/retry"
)

// UsingRetry returns a view of the client whose operations are repeated as policy says instead of
// [WithRetry]'s: for a call that must answer soon, or one that may take its time. Recipes made with the
// view use it, too. retry.RetryNTimes{} repeats nothing; nil is the client's own policy. The view shares
// everything with the client and needs no closing.
//
//	data, err := client.UsingRetry(retry.RetryNTimes{}).GetData().ForPath(ctx, path)
func (c *Client) UsingRetry(policy retry.Policy) *Client {
	if c.none() {
		return &Client{}
	}
	v := c.view
	v.retry = policy
	return &Client{core: c.core, view: v}
}

// Retryable says whether an operation's error is about the way to the server and not about the operation,
// so that a retry policy may be asked: ErrConnectionLoss, ErrNotConnected, ErrSessionMoved,
// ErrOperationTimeout, ErrThrottled. Whether a repeat does harm is for the caller to know.
func Retryable(err error) bool { return transient(err) }

// WhileConnected makes a retry policy, for [WithRetry] and [Client.UsingRetry], that repeats nothing while
// the client has no connection: an operation that fails then returns its error at once, ErrConnectionLoss
// or ErrNotConnected. While there is a connection it is policy; nil repeats nothing. How long an operation
// waits for a connection is [WithConnectionTimeout]. Curator has no such policy.
func WhileConnected(policy retry.Policy) retry.Policy { return whileConnected{policy} }

type whileConnected struct{ retry.Policy }

// NewBackOff implements [retry.Policy] for use without a client.
func (p whileConnected) NewBackOff() backoff.BackOff {
	if p.Policy == nil {
		return &backoff.StopBackOff{}
	}
	return p.Policy.NewBackOff()
}

// whileConnected returns op with errors that are final while there is no connection.
func (c *Client) whileConnected(op func(ctx context.Context) error) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		err := op(ctx)
		var marked *backoff.PermanentError // a second mark would stay on the error
		if err != nil && !errors.As(err, &marked) && ctx.Err() == nil && !c.core.epochLast().wire.Connected() {
			return retry.Permanent(err)
		}
		return err
	}
}

// ready returns the channel that ends the wait before the first retry: with a connection, if err is about
// its loss.
func (c *Client) ready(err error) <-chan struct{} {
	if !errors.Is(err, ErrSessionLost) && !errors.Is(err, ErrConnectionLoss) &&
		!errors.Is(err, ErrNotConnected) {
		return nil
	}
	back := c.core.nextConnection() // before the look, so that none is missed
	if c.core.epochLast().wire.Connected() {
		return closedChannel
	}
	return back
}

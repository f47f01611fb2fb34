package framework

import (
	"context"
	"errors"

	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/retry"
)

// Helpers over whole subtrees send their requests in flights: many at once, then a wait for all the answers. A flight
// that is interrupted by a lost connection is repeated whole, so all of it must be harmless when it is done twice.
const (
	flightSize  = 512
	flightBytes = 8 << 20 // of data in one flight, about: their size is known when they have been read
)

// flight sends what calls makes, and repeats that as the retry policy says until there is an answer to each.
func (c *Client) flight(ctx context.Context, calls func() []*wire.Call) (replies []wire.Reply, err error) {
	err = c.repeat(ctx, func(ctx context.Context, e *epoch) error {
		frames := calls()
		for _, call := range frames {
			c.expiring(call)
		}
		replies, err = awaitAll(ctx, e, frames...)
		for i := 0; err == nil && i < len(replies); i++ {
			failed := replyError(replies[i])
			if !changesTree(frames[i]) {
				failed = readError(replies[i])
			}
			if unfinished(failed) {
				err = failed
			}
		}
		return err
	})
	return replies, err
}

// repeat runs f as the retry policy says, in whatever session is the current one.
func (c *Client) repeat(ctx context.Context, f func(ctx context.Context, e *epoch) error) error {
	if err := checkContext(ctx); err != nil {
		return err
	}
	err := c.Retry(ctx, func(ctx context.Context) error {
		e, err := c.epochOf()
		if err != nil {
			return err
		}
		return f(ctx, e)
	}, retry.WithRetryable(func(err error) bool {
		switch {
		case errors.Is(err, ErrClosed):
			return false
		case errors.Is(err, ErrSessionLost):
			return c.pinned() == nil
		}
		return transient(err)
	}))
	return c.core.explain(err)
}

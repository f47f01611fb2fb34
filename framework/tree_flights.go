package framework

import (
	"context"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// Helpers over whole subtrees send their requests in flights: many at once, then a wait for all the answers.
// A flight that is interrupted by a lost connection is repeated whole, so all of it must be harmless when it
// is done twice.
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

// flightOf is a flight of one call for each value.
func flightOf[T any](ctx context.Context, c *Client, each []T, call func(T) *wire.Call) ([]wire.Reply,
	error) {
	return c.flight(ctx, func() []*wire.Call { return callsOf(each, call) })
}

func callsOf[T any](each []T, call func(T) *wire.Call) []*wire.Call {
	calls := make([]*wire.Call, len(each))
	for i, v := range each {
		calls[i] = call(v)
	}
	return calls
}

// lists lists nodes in one flight, and calls each with the names of a node's children, or why there are none.
// An error of each ends it.
func (c *Client) lists(ctx context.Context, dirs []string,
	each func(i int, names []string, err error) error) error {
	replies, err := flightOf(ctx, c, dirs, func(dir string) *wire.Call {
		return readCall(jute.OpGetChildren2, dir)
	})
	for i := 0; err == nil && i < len(replies); i++ {
		var list jute.Children2Response
		failed := replied(replies[i], &list)
		err = each(i, list.Children, failed)
	}
	return err
}

package framework

import (
	"context"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

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
	replies, err := flightOf(ctx, c, dirs, childrenCall)
	for i := 0; err == nil && i < len(replies); i++ {
		var list jute.Children2Response
		failed := replied(replies[i], &list)
		err = each(i, list.Children, failed)
	}
	return err
}

// replied decodes a reply into res, or returns its error.
func replied(r wire.Reply, res jute.Decodable) error {
	if err := replyError(r); err != nil {
		return err
	}
	return decode(r.Body, res)
}

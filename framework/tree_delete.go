package framework

import (
	"context"
	"errors"
	"slices"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/internal/zkpath"
)

// Helpers for whole subtrees send their requests in flights: many at once, then they wait for all the
// answers. A flight that is interrupted by a lost connection is repeated as a whole, so everything in it must
// be harmless when done twice.
const (
	flightSize  = 512
	flightBytes = 8 << 20 // of data in one flight, about: the sizes are known only after reading
)

// flight sends what the function calls returns. It repeats them all, as the retry policy says, until each has an
// answer.
func (c *Client) flight(ctx context.Context, calls func() []*wire.Call) (replies []wire.Reply, err error) {
	err = c.repeat(ctx, func(ctx context.Context, e *epoch) error {
		frames := calls()
		for _, call := range frames {
			c.expiring(call)
		}
		replies, err = awaitAll(ctx, e, frames...)
		for i := 0; err == nil && i < len(replies); i++ {
			failed := replyError(replies[i])
			if !wire.Mutates(frames[i].Op) {
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

// flightOf sends a flight of one call for each value.
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

// lists lists nodes in one flight. For each node it calls each with the names of the children, or with the
// error of the list. An error returned by each ends it.
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

// DeleteRecursively deletes a node and everything below it. It also succeeds if the node does not exist. It
// is not atomic: others may see the tree partly deleted. Nodes that others delete meanwhile are no error.
// Nodes that others add meanwhile are deleted, too, up to a limit (then the error is ErrNotEmpty). Each
// flight of requests is repeated as the retry policy says. Any other refusal, such as ErrNoAuth, ends the
// call with part of the tree deleted. After any error it may be called again.
//
// It sends hundreds of deletes at a time: one request for a node without children, three for any other node.
// It keeps the paths of the nodes with children in memory. To delete "/", or the chroot, is ErrBadArguments.
//
// To delete a node with a version, or in the background, use [Client.Delete] with DeletingChildrenIfNeeded.
// Corresponds to Curator's ZKPaths.deleteChildren with deleteSelf, and to ZKUtil.deleteRecursive.
func (c *Client) DeleteRecursively(ctx context.Context, path string) error {
	full, err := c.fullPath(path)
	if err == nil && (full == "/" || full == c.view.chroot) {
		err = errDeleteRoot
	}
	for n := 0; err == nil && n < rounds; n++ {
		var left []string
		if left, err = c.deleteFlights(ctx, []string{full}); err != nil || len(left) == 0 {
			return opError("deleteRecursively", path, err)
		}
		err = c.deleteBelow(ctx, full)
	}
	if err == nil {
		err = ErrNotEmpty
	}
	return opError("deleteRecursively", path, err)
}

// DeleteChildren deletes everything below a node, and keeps the node. Otherwise it works like
// DeleteRecursively, except that nodes that others add meanwhile may stay. A node that does not exist has
// nothing below it. Emptying "/" is ErrBadArguments; a chroot can be emptied. Corresponds to Curator's
// ZKPaths.deleteChildren without deleteSelf.
func (c *Client) DeleteChildren(ctx context.Context, path string) error {
	full, err := c.fullPath(path)
	if err == nil && full == "/" {
		err = errDeleteRoot
	}
	if err == nil {
		err = c.deleteBelow(ctx, full)
	}
	return opError("deleteChildren", path, err)
}

// deleteBelow deletes everything that is below a node now; nodes that others add meanwhile may stay.
func (c *Client) deleteBelow(ctx context.Context, full string) error {
	all := []string{full} // nodes with children, parents first
	for next := 0; next < len(all); {
		dirs := all[next:min(len(all), next+64)]
		next += len(dirs)
		var children []string
		err := c.lists(ctx, dirs, func(i int, names []string, err error) error {
			for _, name := range names {
				children = append(children, zkpath.Join(dirs[i], name))
			}
			return opError("getChildren", c.userPath(dirs[i]), unlessNoNode(err))
		})
		if err != nil {
			return err
		}
		left, err := c.deleteFlights(ctx, children)
		if err != nil {
			return err
		}
		all = append(all, left...)
	}
	slices.Reverse(all)
	_, err := c.deleteFlights(ctx, all[:len(all)-1]) // the server executes them in this order, children first
	return err
}

// deleteFlights deletes nodes in flights, in order, and returns the nodes that it could not delete because
// they have children.
func (c *Client) deleteFlights(ctx context.Context, paths []string) (left []string, err error) {
	for flight := range slices.Chunk(paths, flightSize) {
		replies, err := flightOf(ctx, c, flight, func(path string) *wire.Call { return deleteCall(path, -1) })
		if err != nil {
			return nil, err
		}
		for i, r := range replies {
			switch err := replyError(r); {
			case errors.Is(err, ErrNotEmpty):
				left = append(left, flight[i])
			case unlessNoNode(err) != nil:
				return nil, opError("delete", c.userPath(flight[i]), err)
			}
		}
	}
	return left, nil
}

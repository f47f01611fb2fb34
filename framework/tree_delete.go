package framework

import (
	"context"
	"errors"
	"slices"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/internal/zkpath"
)

// DeleteRecursively deletes a node and everything below it; that there is no such node, any more, is
// success. It is not atomic: others see a part of it gone. What they delete meanwhile is no error, what
// they add meanwhile is deleted, too, up to a limit (then ErrNotEmpty). It is repeated as the retry policy
// says, flight by flight, and may be called again after any error. Any other refusal, such as ErrNoAuth,
// ends it, with a part deleted.
//
// It sends hundreds of deletes at a time and does not look at nodes without children before it deletes
// them: one request for each of them, three for any other. It keeps the paths of nodes with children in
// memory. The root of the whole tree is ErrBadArguments, and so is the chroot.
//
// Corresponds to Curator's ZKPaths.deleteChildren with deleteSelf, and to ZKUtil.deleteRecursive. To delete
// a node with a version, or behind the caller's back, use [Client.Delete] with DeletingChildrenIfNeeded.
func (c *Client) DeleteRecursively(ctx context.Context, path string) error {
	full, err := c.fullPath(path)
	if err == nil && (full == "/" || c.view.isChroot(full)) {
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

// deleteBelow deletes what is below a node now, but for what others add meanwhile.
func (c *Client) deleteBelow(ctx context.Context, full string) error {
	all := []string{full} // nodes with children, parents first
	for next := 0; next < len(all); {
		dirs := all[next:min(len(all), next+64)]
		next += len(dirs)
		children, err := c.namesBelow(ctx, dirs)
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
	_, err := c.deleteFlights(ctx, all[:len(all)-1]) // children before their parents, in this order at the server
	return err
}

// namesBelow lists nodes, in one flight, and returns the full paths of their children.
func (c *Client) namesBelow(ctx context.Context, dirs []string) (children []string, err error) {
	replies, err := c.flight(ctx, func() (calls []*wire.Call) {
		for _, dir := range dirs {
			calls = append(calls, childrenCall(dir))
		}
		return calls
	})
	if err != nil {
		return nil, err
	}
	for i, r := range replies {
		var list jute.Children2Response
		err := replyError(r)
		if err == nil {
			err = decode(r.Body, &list)
		}
		if unlessNoNode(err) != nil {
			return nil, opError("getChildren", c.userPath(dirs[i]), err)
		}
		for _, name := range list.Children {
			children = append(children, zkpath.Join(dirs[i], name))
		}
	}
	return children, nil
}

// deleteFlights deletes nodes in flights, in order, and returns those that have children.
func (c *Client) deleteFlights(ctx context.Context, paths []string) (left []string, err error) {
	for flight := range slices.Chunk(paths, flightSize) {
		replies, err := c.flight(ctx, func() (calls []*wire.Call) {
			for _, path := range flight {
				calls = append(calls, deleteCall(path, -1))
			}
			return calls
		})
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

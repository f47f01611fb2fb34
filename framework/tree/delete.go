package tree

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
)

// maxRounds limits how often a deletion begins again because other clients have added nodes.
const maxRounds = 16

// Delete deletes a node and everything below it, and blocks until that is done or ctx ends. It also succeeds if the
// node does not exist. It is not atomic: other clients may see the tree partly deleted. Nodes that they delete at the
// same time are skipped. Nodes that they add during the call are deleted, too; if they continue to add nodes, the error
// finally matches framework.ErrNotEmpty. After a lost connection the retry policy decides whether a flight is repeated.
// A refusal, such as framework.ErrNoAuth, ends the call with part of the tree deleted. After any error it may be called
// again.
//
// It sends hundreds of deletes at a time: one request for a node without children, three for any other node. It keeps
// the paths of the nodes with children in memory. The root "/" and a chroot cannot be deleted: the error matches
// framework.ErrBadArguments.
//
// To delete a node with a version, or in the background, use [framework.Client.Delete] with DeletingChildrenIfNeeded.
// Corresponds to Curator's ZKPaths.deleteChildren with deleteSelf, and to ZKUtil.deleteRecursive.
func Delete(ctx context.Context, c *framework.Client, path string) error {
	v, at, err := resolveView(c, path)
	if err == nil && at == "/" {
		err = errRoot
	}
	for n := 0; err == nil && n < maxRounds; n++ {
		var left []string
		if left, err = v.deleteAll(ctx, []string{at}); err != nil || len(left) == 0 {
			return wrapOpError("deleteRecursively", path, err)
		}
		err = v.deleteBelow(ctx, at)
	}
	if err == nil {
		err = framework.ErrNotEmpty
	}
	return wrapOpError("deleteRecursively", path, err)
}

// DeleteChildren deletes everything below a node, and keeps the node. Otherwise it works like Delete, except that nodes
// that other clients add during the call may stay. It also succeeds if the node does not exist. The children of a
// chroot can be deleted; for those of the root "/" the error matches framework.ErrBadArguments. Corresponds to
// Curator's ZKPaths.deleteChildren without deleteSelf.
func DeleteChildren(ctx context.Context, c *framework.Client, path string) error {
	v, at, err := resolveView(c, path)
	if err == nil && at == "/" && v.chroot == "/" {
		err = errRoot
	}
	if err == nil {
		err = v.deleteBelow(ctx, at)
	}
	return wrapOpError("deleteChildren", path, err)
}

// Prune deletes a node and then its parent, the parent of that, and so on, until it finds a node that has children; upTo,
// which is an ancestor of path, stays in any case. A node that does not exist counts as deleted. If the node at path has
// children the error matches framework.ErrNotEmpty, and nothing is deleted.
//
// It sends one request for each deleted or missing node, and one for the node that stays. Each delete is atomic: a parent that gets
// a child from another client at the same time stays, or that client's create fails with framework.ErrNoNode (one with
// CreatingParentsIfNeeded creates the parent again). After a lost reply a delete is repeated, and may then delete a node
// that another client has created in between. The data of the nodes do not matter. A refusal, such as
// framework.ErrNoAuth, ends the call with part of the nodes deleted. It is framework.ErrBadArguments if upTo is not an
// ancestor of path. Curator has containers for that, which the servers delete, but some time later.
func Prune(ctx context.Context, c *framework.Client, path, upTo string) error {
	v, at, err := resolveView(c, path)
	var top string
	if err == nil {
		_, top, err = resolveView(c, upTo)
	}
	if above := strings.TrimSuffix(top, "/") + "/"; err == nil && (at == above || !strings.HasPrefix(at, above)) {
		err = badArguments(fmt.Sprintf("%q is not an ancestor of the node", upTo))
	}
	for next := at; err == nil && next != top; next = zkpath.Parent(next) {
		var left []string
		left, err = v.deleteAll(ctx, []string{next})
		switch {
		case err != nil || len(left) == 0:
		case next == at:
			err = framework.ErrNotEmpty
		default:
			return nil
		}
	}
	return wrapOpError("prune", path, err)
}

// deleteBelow deletes everything that is below a node now. Nodes that other clients add later may stay.
func (v unscopedClient) deleteBelow(ctx context.Context, at string) error {
	all := []string{at} // nodes with children, parents first
	for next := 0; next < len(all); {
		dirs := all[next:min(len(all), next+64)]
		next += len(dirs)
		var children []string
		err := v.listDirectories(ctx, dirs, func(i int, names []string, err error) error {
			for _, name := range names {
				children = append(children, zkpath.Join(dirs[i], name))
			}
			if errors.Is(err, framework.ErrNoNode) {
				return nil
			}
			return wrapOpError("getChildren", v.callerPath(dirs[i]), err)
		})
		if err != nil {
			return err
		}
		left, err := v.deleteAll(ctx, children)
		if err != nil {
			return err
		}
		all = append(all, left...)
	}
	slices.Reverse(all)
	_, err := v.deleteAll(ctx, all[:len(all)-1]) // all but the node itself, children first
	return err
}

// deleteAll deletes nodes in flights; the server executes the deletes in the order of nodes. It returns the nodes that
// could not be deleted because they have children.
func (v unscopedClient) deleteAll(ctx context.Context, nodes []string) (left []string, err error) {
	for some := range slices.Chunk(nodes, flightSize) {
		var full []string
		err := v.sendFlight(ctx, func(ctx context.Context) error {
			full = nil
			all := sendAll(some, func(at string) *framework.Pending[struct{}] {
				return v.Client.Delete().Quietly().InBackground().ForPath(ctx, at)
			})
			return awaitReplies(ctx, all, func(i int, _ struct{}, refused error) error {
				if errors.Is(refused, framework.ErrNotEmpty) {
					full = append(full, some[i])
					return nil
				}
				return wrapOpError("delete", v.callerPath(some[i]), refused)
			})
		})
		if err != nil {
			return nil, err
		}
		left = append(left, full...)
	}
	return left, nil
}

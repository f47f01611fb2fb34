package framework

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/plain"
	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/internal/zkpath"
)

// parentOptions has the properties of nodes that are created on the way to another. They have no data, as in Curator.
type parentOptions struct {
	mode      CreateMode // Persistent or Container
	acl       []ACL      // nil: from the client's options
	requested int        // 1 if the deepest node is the caller's own, which WithParentLevels does not count; else 0
}

// WithParentLevels limits how many missing parents of a node one operation creates; 0: none. It applies to recipes and
// to the root of a namespace, too. So a typing error in a path does not create a second tree. If more are
// missing, none is created: ErrNoNode. The node at the path of [Client.Ensure] or [Client.CreateContainers] does not
// count as a parent. The limit costs no request unless it is exceeded. Default: no limit.
func WithParentLevels(levels int) Option {
	return checkedOption(levels >= 0, func(o *options) { o.parentLevels = &levels },
		"WithParentLevels", "%d levels; choose 0 for none, or leave the option out for no limit", levels)
}

// WithPersistentParents makes persistent what would otherwise be created as a container: the parents of recipes' nodes,
// the roots of namespaces, and the nodes of CreatingParentContainersIfNeeded and CreateContainers. The servers then
// never delete them. Corresponds to Curator's dontUseContainerParents.
func WithPersistentParents() Option {
	return func(o *options) error { o.persistentParents = true; return nil }
}

// provesExistence reports whether err, from the reply to an exists request, proves that the node exists. So does
// ErrNoAuth: servers since 3.8.4 and 3.9.2 refuse exists without READ permission, but only for existing nodes.
func provesExistence(err error) bool { return err == nil || errors.Is(err, ErrNoAuth) }

// createWithAncestors creates the node at the full path and its missing ancestors. made is false if another client has
// created the node itself.
//
// It first tries to create the node, then its parent, and so on, up to the deepest ancestor that exists or can be
// created. So it needs no permission on the ancestors above. Then it sends the creates of all nodes below together. If
// the chroot is missing, it is not created, and createWithAncestors fails.
func (c *Client) createWithAncestors(
	ctx context.Context, e *sessionEpoch, path string, p parentOptions,
) (made bool, err error) {
	for range maxRounds {
		var below []string // missing nodes, deepest first
		at := path
		for {
			if chroot := c.view.chroot; chroot != "" && !strings.HasPrefix(at, chroot+"/") {
				return false, c.noChrootError() // nothing is ever created outside the chroot
			}
			if at == "/" {
				break // always exists
			}
			if c.exceedsLevels(len(below), p) {
				if err = sendRequest(ctx, e, e.limitPatience(readCall(jute.OpExists, at))); errors.Is(err, ErrNoNode) {
					return false, c.parentLevelsError(at, err)
				} else if provesExistence(err) {
					err = ErrNodeExists
				}
				break
			}
			if err = sendRequest(ctx, e, e.limitPatience(c.directoryCall(at, p, at == path))); !errors.Is(err, ErrNoNode) {
				break
			}
			below = append(below, at)
			at = zkpath.Parent(at)
		}
		if err != nil && !errors.Is(err, ErrNodeExists) && !errors.Is(err, ErrNoNode) {
			return false, err
		}
		if len(below) == 0 {
			return err == nil, nil
		}
		calls := make([]*wire.Call, 0, len(below))
		for i := len(below) - 1; i >= 0; i-- {
			calls = append(calls, e.limitPatience(c.directoryCall(below[i], p, i == 0)))
		}
		var replies []wire.Reply
		if replies, err = awaitReplies(ctx, e, calls...); err != nil {
			return false, err
		}
		for _, r := range replies {
			err = replyError(r)
			if made = err == nil; errors.Is(err, ErrNodeExists) {
				err = nil
			}
			if err != nil {
				break
			}
		}
		if !errors.Is(err, ErrNoNode) {
			return made, err
		}
		// Another client, or the servers' deletion of empty containers, has deleted a node just created: start again.
	}
	return false, err
}

// createRoot creates the root of the namespace if it is missing. made is false if the root exists or there is no
// namespace.
func (c *Client) createRoot(ctx context.Context, e *sessionEpoch) (made bool, err error) {
	if c.view.namespace == "" {
		return false, nil
	}
	return c.createWithAncestors(ctx, e, c.view.prefix, parentOptions{mode: Container})
}

// exceedsLevels reports whether WithParentLevels forbids the creation of a node above this number of missing nodes.
func (c *Client) exceedsLevels(below int, p parentOptions) bool {
	levels := c.core.cfg.parentLevels
	return levels != nil && below >= *levels+p.requested
}

func (c *Client) parentLevelsError(at string, err error) error {
	return fmt.Errorf("%w: %s is missing, and this client creates no more than %d missing parents "+
		"(WithParentLevels): create it first", err, plain.Text(c.userPath(at)), *c.core.cfg.parentLevels)
}

// directoryCall returns the request to create one node. nearest is true for the deepest of the nodes, and false for its
// ancestors.
func (c *Client) directoryCall(path string, p parentOptions, nearest bool) *wire.Call {
	acl := p.acl
	if cfg := &c.core.cfg; acl == nil && cfg.parentACL != nil {
		acl = cfg.ancestorACL
		if nearest || path == c.view.prefix { // the root of a namespace gets parentACL as well
			acl = cfg.parentACL
		}
	}
	op := jute.OpCreate
	switch {
	case p.mode == Container && c.core.cfg.persistentParents:
		p.mode = Persistent
	case p.mode == Container:
		op = jute.OpCreateContainer
	}
	req := jute.CreateRequest{Path: path, Data: []byte{}, ACL: c.aclForNode(acl, path), Flags: int32(p.mode)}
	return newCall(op, &req)
}

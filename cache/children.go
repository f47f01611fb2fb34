package cache

import (
	"context"
	"iter"

	"github.com/go-curator/curator/framework"
)

// PathChildren is a local copy of the children of a node, without the node itself. Safe for concurrent use. Corresponds to Curator's
// PathChildrenCache.
type PathChildren struct{ e *engine }

// NewPathChildren makes a cache of the children of path; see [New] for the rest. Unlike Curator's it does not create path unless told to with
// [WithRootCreated].
func NewPathChildren(client *framework.Client, path string, opts ...Option) (*PathChildren, error) {
	cfg, err := configure(client, path, config{maxDepth: 1, hideRoot: true}, opts)
	if err != nil {
		return nil, err
	}
	return &PathChildren{start(client, cfg)}, nil
}

// Path returns the path of the parent.
func (c *PathChildren) Path() string { return c.e.made().cfg.root }

// WaitSynced is as in [Cache.WaitSynced].
func (c *PathChildren) WaitSynced(ctx context.Context) error { return c.e.made().waitSynced(ctx) }

// Progress is as in [Cache.Progress].
func (c *PathChildren) Progress() Progress { return c.e.made().progress() }

// Get returns the child of that name if there is one.
func (c *PathChildren) Get(name string) (Node, bool) {
	return c.e.made().store.get(childPath(c.e.made().cfg.root, name))
}

// Len returns how many children there are.
func (c *PathChildren) Len() int { return c.e.made().store.len() }

// All returns the children by name, sorted, as they were at one moment: the call of the iteration.
func (c *PathChildren) All() iter.Seq2[string, Node] {
	return c.e.made().store.children(c.e.made().cfg.root)
}

// Events is as in [Cache.Events], for the children. Paths are whole paths.
func (c *PathChildren) Events(ctx context.Context) iter.Seq2[Event, error] {
	return c.e.made().events(ctx)
}

// Close is as in [Cache.Close].
func (c *PathChildren) Close() error {
	c.e.made().close()
	return nil
}

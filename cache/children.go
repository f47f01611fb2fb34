package cache

import (
	"iter"

	"github.com/go-curator/curator/framework"
)

// PathChildren is a local copy of the children of a node, without the node itself. Safe for concurrent use.
// Corresponds to Curator's PathChildrenCache.
type PathChildren struct{ common }

// NewPathChildren makes a cache of the children of path; see [New] for the rest. Unlike Curator's it does not
// create path unless told to with [WithRootCreated].
func NewPathChildren(client *framework.Client, path string, opts ...Option) (*PathChildren, error) {
	c, err := open(client, path, config{maxDepth: 1, hideRoot: true}, opts)
	if err != nil {
		return nil, err
	}
	return &PathChildren{c}, nil
}

// Path returns the path of the parent.
func (c *PathChildren) Path() string { return c.made().cfg.root }

// Progress is as in [Cache.Progress].
func (c *PathChildren) Progress() Progress { return c.made().sync.progress() }

// Get returns the child of that name if there is one.
func (c *PathChildren) Get(name string) (Node, bool) {
	return c.made().store.get(childPath(c.Path(), name))
}

// Len returns how many children there are.
func (c *PathChildren) Len() int { return c.made().store.len() }

// All returns the children by name, sorted, as they were at one moment: the call of the iteration.
func (c *PathChildren) All() iter.Seq2[string, Node] { return c.made().store.children(c.Path()) }

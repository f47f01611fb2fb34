package cache

import "github.com/go-curator/curator/framework"

// Single is a local copy of one node. Safe for concurrent use. Corresponds to Curator's NodeCache.
type Single struct{ common }

// NewNode makes a cache of the node at path alone; see [New] for the rest. It has one one-shot watch, and
// reads once for every change. Only the data and what belongs to it in the Stat are kept up to date, not what
// a Stat tells of children.
func NewNode(client *framework.Client, path string, opts ...Option) (*Single, error) {
	c, err := open(client, path, config{oneShot: true}, opts)
	if err != nil {
		return nil, err
	}
	return &Single{c}, nil
}

// Path returns the path of the node.
func (c *Single) Path() string { return c.made().cfg.root }

// Get returns the node if it exists.
func (c *Single) Get() (Node, bool) { return c.made().store.get(c.Path()) }

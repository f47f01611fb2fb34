package cache

import (
	"context"
	"iter"

	"github.com/go-curator/curator/framework"
)

// Single is a local copy of one node. Safe for concurrent use. Corresponds to Curator's NodeCache.
type Single struct{ e *engine }

// NewNode makes a cache of the node at path alone; see [New] for the rest. It has one one-shot watch, and reads once for every change. Only the data
// and what belongs to it in the Stat are kept up to date, not what a Stat tells of children.
func NewNode(client *framework.Client, path string, opts ...Option) (*Single, error) {
	cfg, err := configure(client, path, config{oneShot: true}, opts)
	if err != nil {
		return nil, err
	}
	return &Single{start(client, cfg)}, nil
}

// Path returns the path of the node.
func (c *Single) Path() string { return c.e.made().cfg.root }

// WaitSynced is as in [Cache.WaitSynced].
func (c *Single) WaitSynced(ctx context.Context) error { return c.e.made().waitSynced(ctx) }

// Get returns the node if it exists.
func (c *Single) Get() (Node, bool) { return c.e.made().store.get(c.e.made().cfg.root) }

// Events is as in [Cache.Events], for the node.
func (c *Single) Events(ctx context.Context) iter.Seq2[Event, error] { return c.e.made().events(ctx) }

// Close is as in [Cache.Close].
func (c *Single) Close() error {
	c.e.made().close()
	return nil
}

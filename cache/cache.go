package cache

import (
	"context"
	"iter"

	"github.com/go-curator/curator/framework"
)

// Cache is a local copy of a node and everything below it. Safe for concurrent use. Reading it costs no
// request and never waits for the network.
//
// [New] makes one that corresponds to Curator's CuratorCache, [NewTree] one that corresponds to its
// TreeCache.
type Cache struct{ common }

// New makes a cache of root and everything below, begins to load it and returns at once. root need not exist:
// until it appears, the cache is empty. The error is framework.ErrInvalidPath or framework.ErrInvalidOption.
// Close the cache when you are done; it also ends with its client.
func New(client *framework.Client, root string, opts ...Option) (*Cache, error) {
	return open[Cache](client, root, config{maxDepth: -1}, opts)
}

// NewTree is New with limits: how deep the cache reaches, and which nodes it leaves out.
func NewTree(client *framework.Client, root string, opts ...TreeOption) (*Cache, error) {
	return open[Cache](client, root, config{maxDepth: -1}, opts)
}

// Root returns the path of the root.
func (c *Cache) Root() string { return c.made().cfg.root }

// Progress returns how far the loading is.
func (c *Cache) Progress() Progress { return c.made().sync.progress() }

// Progress is how far the loading of a cache, or the comparison after a reconnect, is.
type Progress struct {
	// Known is how many nodes have been heard of. It grows while the tree is being discovered.
	Known  int
	Loaded int  // how many of those have been dealt with
	Synced bool // whether WaitSynced would return at once
}

// Get returns the node at path if the cache holds it.
func (c *Cache) Get(path string) (Node, bool) { return c.made().store.get(path) }

// Len returns how many nodes the cache holds.
func (c *Cache) Len() int { return c.made().store.len() }

// All returns all nodes by path, as they were at one moment: the call of the iteration. A node comes before
// its children, siblings are sorted by name. It can be repeated, and each time has a moment of its own. It
// takes about 130 bytes per node while it lasts, and delays nobody.
func (c *Cache) All() iter.Seq2[string, Node] { return c.made().store.all() }

// Children returns the children of the node at path by name, sorted, as they were at one moment: the call of
// the iteration.
func (c *Cache) Children(path string) iter.Seq2[string, Node] { return c.made().store.children(path) }

// common is what all kinds of cache have. Its zero value has ended.
type common struct{ e *engine }

func open[C ~struct{ common }, O TreeOption](
	client *framework.Client, root string, cfg config, opts []O,
) (*C, error) {
	cfg, err := configure(client, root, cfg, opts)
	if err != nil {
		return nil, err
	}
	return &C{common{start(cfg)}}, nil
}

func (c *common) made() *engine { return c.e.made() }

// WaitSynced waits until everything that is there has been read, and after a reconnect until everything that
// may have changed meanwhile has been compared. What may not be read is not waited for; but if that is the
// root, the error says so: framework.ErrNoAuth, for example.
//
// It ends with ctx: the error matches ctx.Err(), and says why there is no connection if there is none. It
// also ends with ErrClosed, with framework.ErrClosed when the client is closed, and with
// framework.ErrSessionLost when the client is the view of a session that is over.
//
// A cache that is in sync may still be a moment behind: WaitSynced does not wait for writes that others have
// just made, nor for what is being read because of them.
func (c *common) WaitSynced(ctx context.Context) error { return c.made().waitSynced(ctx) }

// Events returns a stream of events. It begins, when the iteration does, with [ConnectionChanged] for the
// present state of the connection, [Created] for every node that is there, parents first, and [Failed] for
// those that cannot be read. Then follow the changes. [Initialized] comes once: when all that was there has
// been reported. Every iteration is a stream of its own. A node's Path is its whole path.
//
// A stream is ordered and complete: played back on an empty map, its Created, Changed and Deleted give what
// the cache holds. The nodes below a deleted one are reported as deleted before it; a node is reported as
// created after its parent, unless that cannot be read; one that was deleted and created again is reported as
// both. For a subscriber that keeps up, every state that the cache went through is in the stream.
//
// When more events than [WithBuffer], or 16 MiB, wait for a subscriber, those beyond are merged to the latest
// state per path: a node may skip states, or never show up if it has come and gone. Deletions come before
// creations. Of the changes of the connection only the last remains, and comes before them; of the failures
// of a node the last. So a subscriber may be as slow as it likes: it delays nobody, and what waits for it is
// never more than the buffer and a few states per node.
//
// The stream ends with the loop's break, and otherwise with one error: when ctx ends (it matches ctx.Err()),
// or when the cache does (as in WaitSynced). What has not been received by then is dropped.
func (c *common) Events(ctx context.Context) iter.Seq2[Event, error] { return c.made().events(ctx) }

// Close ends the cache: it stops watching, streams end with ErrClosed, and its goroutines have ended when
// Close returns. What the cache held can still be read. Not to be called from an option's function. Closing
// again does nothing. The error is always nil.
func (c *common) Close() error {
	c.made().close()
	return nil
}

// PathChildren is a local copy of the children of a node, without the node itself. Safe for concurrent use.
// Corresponds to Curator's PathChildrenCache.
type PathChildren struct{ common }

// NewPathChildren makes a cache of the children of path; see [New] for the rest. Unlike Curator's it does not
// create path unless told to with [WithRootCreated].
func NewPathChildren(client *framework.Client, path string, opts ...Option) (*PathChildren, error) {
	return open[PathChildren](client, path, config{maxDepth: 1, hideRoot: true}, opts)
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

// Single is a local copy of one node. Safe for concurrent use. Corresponds to Curator's NodeCache.
type Single struct{ common }

// NewNode makes a cache of the node at path alone; see [New] for the rest. It has one one-shot watch, and
// reads once for every change. Only the data and what belongs to it in the Stat are kept up to date, not what
// a Stat tells of children.
func NewNode(client *framework.Client, path string, opts ...Option) (*Single, error) {
	return open[Single](client, path, config{oneShot: true}, opts)
}

// Path returns the path of the node.
func (c *Single) Path() string { return c.made().cfg.root }

// Get returns the node if it exists.
func (c *Single) Get() (Node, bool) { return c.made().store.get(c.Path()) }

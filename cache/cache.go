package cache

import (
	"context"
	"iter"

	"github.com/go-curator/curator/framework"
)

// Cache is a local copy of a node and everything below it. Safe for concurrent use. Reading a cache sends no
// request and never waits for the network.
//
// [New] makes a Cache like Curator's CuratorCache, [NewTree] makes one like its TreeCache.
type Cache struct{ cacheHandle }

// New makes a cache of root and everything below it, begins to load it and returns immediately. root need not exist:
// until it appears, the cache is empty. The error is framework.ErrInvalidPath or framework.ErrInvalidOption. Close the
// cache when you are done; it also ends with its client.
func New(client *framework.Client, root string, opts ...Option) (*Cache, error) {
	return openCache[Cache](client, root, config{maxDepth: -1}, opts)
}

// NewTree is New with options that limit how deep the cache reaches, and which nodes it contains.
func NewTree(client *framework.Client, root string, opts ...TreeOption) (*Cache, error) {
	return openCache[Cache](client, root, config{maxDepth: -1}, opts)
}

// Root returns the path of the root.
func (c *Cache) Root() string { return c.nonNilEngine().cfg.root }

// Progress returns the progress of the load, or of the comparison after a reconnect.
func (c *Cache) Progress() Progress { return c.nonNilEngine().sync.progress() }

// Get returns the node at path if the cache contains it.
func (c *Cache) Get(path string) (Node, bool) { return c.nonNilEngine().store.get(path) }

// All returns all nodes by path, as of the beginning of the iteration. A node comes before its children; siblings are
// sorted by name. The iteration can be repeated, each time with the nodes of that moment. While it lasts it takes about
// 130 bytes per node; it blocks neither the cache nor other readers.
func (c *Cache) All() iter.Seq2[string, Node] { return c.nonNilEngine().store.allNodes() }

// Children returns the children of the node at path by name, sorted, as they were at the moment when the
// iteration began.
func (c *Cache) Children(path string) iter.Seq2[string, Node] {
	return c.nonNilEngine().store.childNodes(path)
}

// Failures returns the nodes that cannot be read or decoded, by path, with the errors of their [Failed]
// events, as they were at the moment when the iteration began. Parents come first. [Cache.All] has the last
// version of such a node that could be read, and leaves it out if there is none.
func (c *Cache) Failures() iter.Seq2[string, error] { return c.nonNilEngine().store.failures() }

// cacheHandle has the methods of all kinds of cache. Its zero value has ended.
type cacheHandle struct{ engine *engine }

func openCache[C ~struct{ cacheHandle }, O TreeOption](
	client *framework.Client, root string, cfg config, opts []O,
) (*C, error) {
	cfg, err := configure(client, root, cfg, opts)
	if err != nil {
		return nil, err
	}
	return &C{cacheHandle{startEngine(cfg)}}, nil
}

// nonNilEngine returns the cache's engine; of a zero value it is endedEngine.
func (c *cacheHandle) nonNilEngine() *engine {
	if c.engine == nil {
		return endedEngine
	}
	return c.engine
}

// Len returns how many nodes the cache contains.
func (c *cacheHandle) Len() int { return c.nonNilEngine().store.len() }

// WaitSynced waits until the cache has read everything that exists, and after a reconnect until it has compared
// everything that may have changed in between. It does not wait for nodes that the client has no permission to read.
// But if the root cannot be read, it returns that error: framework.ErrNoAuth, for example.
//
// When ctx ends, the error matches ctx.Err() and, without a connection, has the reason for that. When the cache is
// closed it is ErrClosed, when the client is closed framework.ErrClosed. If the client is the view of a session, it is
// framework.ErrSessionLost once that session has ended.
//
// A cache in sync may still lag behind: WaitSynced waits neither for writes that others have just made, nor for reads
// that they have caused.
func (c *cacheHandle) WaitSynced(ctx context.Context) error { return c.nonNilEngine().waitSynced(ctx) }

// Events returns a stream of events. When the iteration begins, the stream begins with [ConnectionChanged] for the
// current state of the connection, [Created] for every existing node, parents first, and [Failed] for every node that
// cannot be read. The changes follow. [Initialized] comes once, when all nodes that existed have been reported. Every
// iteration is a separate stream. Node.Path is always the whole path.
//
// A stream is ordered and complete: if its Created, Changed and Deleted are applied to an empty map, the map
// equals the cache. Nodes below a deleted node are reported as deleted before it. A node is reported as
// created after its parent, unless the parent cannot be read. A node that was deleted and created again is
// reported as both. If the subscriber keeps up, the stream contains every state that the cache went through.
//
// When more events than [WithBuffer], or 16 MiB of them, wait for a subscriber, further events are merged: only the
// latest state of each path is kept. Then a subscriber may miss states of a node, or the whole node if it was deleted
// again. Merged deletions come before merged creations. Of the connection's changes only the last is kept, and comes
// before the deletions; of a node's failures only the last. So a slow subscriber delays neither the cache nor other
// subscribers, and never more than the buffer and a few states per node wait for it.
//
// The stream ends when the loop breaks. It also ends with one error: when ctx ends (the error matches
// ctx.Err()), or when the cache ends (with the errors of WaitSynced). Events that have not been received by
// then are dropped.
func (c *cacheHandle) Events(ctx context.Context) iter.Seq2[Event, error] {
	return c.nonNilEngine().eventStream(ctx)
}

// Snapshot returns the contents of the cache, also after Close. It waits for no server, but for functions of the
// options that are running; it must not be called from them. It blocks the cache for about 0.1 µs per node. The
// snapshot takes about 150 bytes per node until it is dropped; data are shared.
func (c *cacheHandle) Snapshot() *Snapshot {
	e := c.nonNilEngine()
	if e == endedEngine {
		return &Snapshot{}
	}
	taken := make(chan *Snapshot, 1)
	e.postCall(func() { taken <- e.takeSnapshot() })
	select {
	case s := <-taken:
		return s
	case <-e.ctx.Done():
		e.wg.Wait()
		return e.takeSnapshot()
	}
}

// Close ends the cache: it stops watching, and streams end with ErrClosed. When Close returns, the cache's
// goroutines have ended. The nodes in the cache can still be read. Close must not be called from an option's
// function. Closing again does nothing. The error is always nil.
func (c *cacheHandle) Close() error {
	c.nonNilEngine().close()
	return nil
}

// PathChildren is a local copy of the children of a node, without the node itself. Safe for concurrent use.
// Corresponds to Curator's PathChildrenCache.
type PathChildren struct{ cacheHandle }

// NewPathChildren makes a cache of the children of path; see [New] for the rest. Unlike Curator's cache it
// does not create path, except with [WithRootCreated].
func NewPathChildren(client *framework.Client, path string, opts ...Option) (*PathChildren, error) {
	return openCache[PathChildren](client, path, config{maxDepth: 1, hideRoot: true}, opts)
}

// Path returns the path of the parent.
func (c *PathChildren) Path() string { return c.nonNilEngine().cfg.root }

// Progress is like [Cache.Progress].
func (c *PathChildren) Progress() Progress { return c.nonNilEngine().sync.progress() }

// Get returns the child of that name if there is one.
func (c *PathChildren) Get(name string) (Node, bool) {
	return c.nonNilEngine().store.get(childPath(c.Path(), name))
}

// All returns the children by name, sorted, as they were when the iteration began.
func (c *PathChildren) All() iter.Seq2[string, Node] {
	return c.nonNilEngine().store.childNodes(c.Path())
}

// Failures is like [Cache.Failures]. It includes the parent if that cannot be read. Paths are whole paths.
func (c *PathChildren) Failures() iter.Seq2[string, error] { return c.nonNilEngine().store.failures() }

// Single is a local copy of one node. Safe for concurrent use. Corresponds to Curator's NodeCache.
type Single struct{ cacheHandle }

// NewNode makes a cache of the node at path alone; see [New] for the rest. It has one one-shot watch, and
// reads the node once for every change. It keeps the data and the fields of the Stat that belong to the data
// up to date, but not the fields that describe children.
func NewNode(client *framework.Client, path string, opts ...Option) (*Single, error) {
	return openCache[Single](client, path, config{oneShot: true}, opts)
}

// Path returns the path of the node.
func (c *Single) Path() string { return c.nonNilEngine().cfg.root }

// Get returns the node if it exists.
func (c *Single) Get() (Node, bool) { return c.nonNilEngine().store.get(c.Path()) }

// Failure returns why the node cannot be read or decoded, or nil.
func (c *Single) Failure() error {
	for _, err := range c.nonNilEngine().store.failures() {
		return err
	}
	return nil
}

package cache

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
)

// Cache is a local copy of a node and everything below it. Safe for concurrent use. Reading it costs no request and never waits for the network.
//
// [New] makes one that corresponds to Curator's CuratorCache, [NewTree] one that corresponds to its TreeCache.
type Cache struct{ e *engine }

// New makes a cache of root and everything below, begins to load it and returns at once. root need not exist: the cache is empty then, until it
// appears. The error is framework.ErrInvalidPath or framework.ErrInvalidOption. Close the cache when you are done; it also ends with its client.
func New(client *framework.Client, root string, opts ...Option) (*Cache, error) {
	cfg, err := configure(client, root, config{maxDepth: -1}, opts)
	if err != nil {
		return nil, err
	}
	return &Cache{start(client, cfg)}, nil
}

// NewTree is New with limits: how deep the cache reaches, and which nodes it leaves out.
func NewTree(client *framework.Client, root string, opts ...TreeOption) (*Cache, error) {
	cfg, err := configure(client, root, config{maxDepth: -1}, opts)
	if err != nil {
		return nil, err
	}
	return &Cache{start(client, cfg)}, nil
}

// Root returns the path of the root.
func (c *Cache) Root() string { return c.e.made().cfg.root }

// WaitSynced waits until everything that is there has been read; after a reconnect, until everything that may have changed meanwhile has been
// compared. It returns nil at once when that is so. What may not be read is not waited for, but when that is the root the error says so: framework.ErrNoAuth,
// say. It ends with ctx (the error matches ctx.Err(), and says why there is no connection if there is none), with ErrClosed, with framework.ErrClosed when the client is closed, and with framework.ErrSessionLost when the client is a session's view whose session is over.
//
// A cache that is in sync may still be a moment behind: WaitSynced does not wait for writes that others have just made, nor for what is being read
// because of them.
func (c *Cache) WaitSynced(ctx context.Context) error { return c.e.made().waitSynced(ctx) }

// Progress returns how far the loading is.
func (c *Cache) Progress() Progress { return c.e.made().progress() }

// Progress is how far the loading of a cache, or the comparison after a reconnect, is.
type Progress struct {
	// Known is how many nodes have been heard of; it grows while the tree is being discovered.
	Known int
	// Loaded is how many of those have been dealt with.
	Loaded int
	// Synced says whether WaitSynced would return at once.
	Synced bool
}

func (e *engine) progress() Progress {
	known := int(e.known.Load())
	return Progress{Known: known, Loaded: max(0, known-int(e.open.Load())), Synced: e.sync.is()}
}

// Get returns the node at path if the cache holds it.
func (c *Cache) Get(path string) (Node, bool) { return c.e.made().store.get(path) }

// Len returns how many nodes the cache holds.
func (c *Cache) Len() int { return c.e.made().store.len() }

// All returns all nodes by path, as they were at one moment: the call of the iteration. A node comes before its children, siblings are sorted by name.
// The iteration can be repeated, and each has a moment of its own. It takes about 130 bytes per node while it lasts, and delays nobody.
func (c *Cache) All() iter.Seq2[string, Node] { return c.e.made().store.all() }

// Children returns the children of the node at path by name, sorted, as they were at one moment: the call of the iteration.
func (c *Cache) Children(path string) iter.Seq2[string, Node] { return c.e.made().store.children(path) }

// Events returns a stream of events. It begins, when the iteration does, with [ConnectionChanged] for the present state of the connection,
// [Created] for every node that is there, parents first, and [Failed] for those that cannot be read; then follow the changes. [Initialized] comes once:
// when all that was there has been reported. Every iteration is a stream of its own.
//
// A stream is ordered and complete: played back on an empty map, its Created, Changed and Deleted give what the cache holds. The nodes below a
// deleted one are reported as deleted before it, a node is reported as created after its parent, unless that cannot be read, and a node that was deleted
// and created again is reported as both. For a subscriber that keeps up every state that the
// cache went through is in it. When more events than [WithBuffer], or 16 MiB, wait for a subscriber, those beyond are merged to the latest state per
// path: then a node may go from one state to a later one in one step, or never show up if it has come and gone; deletions come before creations, and
// only the last ConnectionChanged, which comes before them, and the last Failed of a node remain. So a subscriber may be as slow as it likes: it delays nobody, and what waits for it is never more
// than the buffer and a few states per node.
//
// The stream ends with the loop's break, and otherwise with one error: when ctx ends (it matches ctx.Err()), or when the cache does (as in
// WaitSynced). What has not been received by then is dropped.
func (c *Cache) Events(ctx context.Context) iter.Seq2[Event, error] { return c.e.made().events(ctx) }

// Close ends the cache: it stops watching, streams end with ErrClosed, and its goroutines have ended when it returns. What it held can still be read.
// Not to be called from an option's function. Closing again does nothing. The error is always nil.
func (c *Cache) Close() error {
	c.e.made().close()
	return nil
}

func (s *store) get(path string) (Node, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if before, changed := s.before(path); changed {
		if before == nil {
			return Node{}, false
		}
		return *before, true
	}
	n := s.find(path)
	if n == nil || !s.seen(n) {
		return Node{}, false
	}
	return *s.view(n), true
}

func (s *store) len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.live + s.draft.fewer()
}

func (s *store) all() iter.Seq2[string, Node] {
	return func(yield func(string, Node) bool) {
		s.mu.RLock()
		c := s.shown()
		s.mu.RUnlock()
		for n := c.next(); n != nil; n = c.next() {
			if !yield(n.Path, *n) {
				return
			}
		}
	}
}

func (s *store) children(path string) iter.Seq2[string, Node] {
	return func(yield func(string, Node) bool) {
		for _, it := range s.kids(path) {
			full := childPath(path, it.name)
			if !yield(full[len(full)-len(it.name):], Node{Path: full, Data: it.data, Stat: it.stat}) {
				return
			}
		}
	}
}

// kids copies the children of a node.
func (s *store) kids(path string) []item {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var kids []*node
	if n := s.find(path); n != nil {
		kids = n.offspring()
	}
	items := make([]item, 0, len(kids))
	for _, k := range kids {
		if k.live && (len(s.draft.nodes) == 0 || !s.draft.nodes[childPath(path, k.name())].tells()) {
			items = append(items, item{name: k.name(), data: k.data(), stat: k.stat()})
		}
	}
	if before := s.draft.before(func(p string) bool { return p != "/" && zkpath.Parent(p) == path }); len(before) > 0 {
		for _, n := range before {
			items = append(items, item{name: n.Name(), data: n.Data, stat: n.Stat})
		}
		slices.SortFunc(items, func(a, b item) int { return strings.Compare(a.name, b.name) })
	}
	return items
}

func childPath(parent, name string) string {
	if parent == "/" {
		return "/" + name
	}
	return parent + "/" + name
}

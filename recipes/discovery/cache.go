package discovery

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/apart"
	"github.com/go-curator/curator/internal/flow"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Cache caches the instances of one service in memory. Safe for concurrent use.
//
// Corresponds to Curator's ServiceCache.
type Cache[T any] struct {
	discovery *Discovery[T]
	path      string
	nodes     *cache.PathChildren
	cancel    context.CancelFunc
	done      sync.WaitGroup

	mu      sync.Mutex
	changed flow.Signal // a field below has changed
	tickets int         // the number of looks begun
	newest  int         // the ticket of the newest look that has ended
	shown   int         // the ticket of the look that set entries, since they have changed
	entries []entry[T]  // by name; replaced as a whole
	loaded  bool
	over    error // the error that has ended the updates
}

// entry is a child of the service's node.
type entry[T any] struct {
	name         string
	czxid, mzxid int64
	instance     Instance[T]
	err          error // why it is not an instance
}

// Cache starts to follow the instances of a service in the background. There may be none yet. Close it when you are
// done; it also ends with its client.
//
// Errors: framework.ErrNoClient, framework.ErrInvalidPath.
func (d *Discovery[T]) Cache(service string) (*Cache[T], error) {
	path, err := d.at(service)
	var nodes *cache.PathChildren
	if err == nil {
		nodes, err = cache.NewPathChildren(d.client, path)
	}
	if err != nil {
		return nil, wrap(d.path(service), "cache", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &Cache[T]{discovery: d, path: path, nodes: nodes, cancel: cancel}
	c.done.Go(func() { c.run(ctx) })
	return c, nil
}

// Close ends the cache. Closing again does nothing. The error is always nil.
func (c *Cache[T]) Close() error {
	if c == nil || c.nodes == nil {
		return nil
	}
	c.cancel()
	c.done.Wait()
	return c.nodes.Close()
}

// WaitSynced waits until the cache is in sync, also after a reconnect. Errors: ctx's; framework.ErrNoAuth if the
// client may not list the instances; framework.ErrClosed; cache.ErrClosed after Close. Corresponds to startImmediate.
func (c *Cache[T]) WaitSynced(ctx context.Context) error {
	if c == nil || c.nodes == nil {
		return wrap("", "wait synced", framework.ErrNoClient)
	}
	if err := line.Ready(ctx, c.discovery.client, nil); err != nil {
		return wrap(c.path, "wait synced", err)
	}
	if err := c.nodes.WaitSynced(ctx); err != nil {
		return wrap(c.path, "wait synced", err)
	}
	c.look()
	return nil
}

// Instances returns the instances, including disabled ones, sorted by the names of their nodes. Without a connection,
// and after Close, it returns the last known ones. It sends nothing.
func (c *Cache[T]) Instances() (all []Instance[T]) {
	entries, _ := c.show()
	return instancesOf(entries)
}

func instancesOf[T any](entries []entry[T]) (all []Instance[T]) {
	for _, e := range entries {
		if e.err == nil {
			all = append(all, e.instance)
		}
	}
	return all
}

// Failures returns the nodes of the service that are not instances, with the reason: [ErrCorrupt], or
// framework.ErrDataTooLarge above framework.ContenderDataLimit. Nodes that the client may not read come with the
// server's error.
func (c *Cache[T]) Failures() iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if c == nil || c.nodes == nil {
			return
		}
		for path, err := range c.nodes.Failures() {
			if !yield(path, err) {
				return
			}
		}
		entries, _ := c.show()
		for _, e := range entries {
			if e.err != nil && !yield(c.path+"/"+e.name, e.err) {
				return
			}
		}
	}
}

// Follow yields the instances as soon as they are known, and then whenever they have changed. A slow loop misses
// lists in between, but never the last. The last yield may be an error: ctx's, framework.ErrClosed, or
// cache.ErrClosed after Close. Corresponds to ServiceCacheListener.cacheChanged.
func (c *Cache[T]) Follow(ctx context.Context) iter.Seq2[[]Instance[T], error] {
	return func(yield func([]Instance[T], error) bool) {
		if c == nil || c.nodes == nil {
			yield(nil, wrap("", "follow", framework.ErrNoClient))
			return
		}
		if err := line.Ready(ctx, c.discovery.client, nil); err != nil {
			yield(nil, wrap(c.path, "follow", err))
			return
		}
		for told := 0; ; {
			c.mu.Lock()
			entries, shown, loaded, over, changed := c.entries, c.shown, c.loaded, c.over, c.changed.C()
			c.mu.Unlock()
			if over == nil && ctx.Err() != nil {
				over = c.discovery.client.Left(ctx, nil)
			}
			switch {
			case over != nil:
				yield(nil, wrap(c.path, "follow", over))
				return
			case loaded && shown != told:
				if told = shown; !yield(instancesOf(entries), nil) {
					return
				}
				continue
			}
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	}
}

// run looks whenever the nodes have changed.
func (c *Cache[T]) run(ctx context.Context) {
	over := apart.ErrNoReturn // the user's codec may end this goroutine
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.over = over
		c.changed.Fire()
	}()
	for _, err := range cache.Follow(ctx, c.nodes) {
		if err != nil {
			if over = err; ctx.Err() != nil {
				over = cache.ErrClosed
			}
			return
		}
		c.look()
	}
}

// look updates the entries from the nodes. No lock is held during calls of the user's codec.
func (c *Cache[T]) look() {
	c.mu.Lock()
	c.tickets++
	ticket, known := c.tickets, map[string]entry[T]{}
	for _, e := range c.entries {
		known[e.name] = e
	}
	var nodes []cache.Node
	for _, n := range c.nodes.All() { // in the order of the tickets
		nodes = append(nodes, n)
	}
	c.mu.Unlock()

	var entries []entry[T]
	for _, n := range nodes {
		e := entry[T]{name: n.Name(), czxid: n.Stat.Czxid, mzxid: n.Stat.Mzxid}
		if before, ok := known[e.name]; ok && before.of(e) {
			e = before
		} else {
			e.instance, e.err = c.discovery.decode(n.Path, n.Data, n.Stat.EphemeralOwner)
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, byName)
	for _, e := range c.replace(ticket, entries) {
		c.discovery.report(c.path+"/"+e.name, e.err)
	}
}

func byName[T any](a, b entry[T]) int { return cmp.Compare(a.name, b.name) }

// of reports whether both entries are from the same version of the same node.
func (e entry[T]) of(other entry[T]) bool {
	return e.name == other.name && e.czxid == other.czxid && e.mzxid == other.mzxid
}

// replace sets the entries, unless newer ones are set, and returns the new ones that are not instances. Two
// goroutines may look at the same time and find the same.
func (c *Cache[T]) replace(ticket int, entries []entry[T]) (corrupt []entry[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ticket < c.newest {
		return nil
	}
	c.newest = ticket
	if c.loaded && slices.EqualFunc(entries, c.entries, entry[T].of) {
		return nil
	}
	for _, e := range entries {
		if e.err == nil {
			continue
		}
		if i, found := slices.BinarySearchFunc(c.entries, e, byName); !found || !c.entries[i].of(e) {
			corrupt = append(corrupt, e)
		}
	}
	c.shown, c.entries, c.loaded = ticket, entries, true
	c.changed.Fire()
	return corrupt
}

// show returns the entries, and whether any were loaded yet.
func (c *Cache[T]) show() (entries []entry[T], loaded bool) {
	if c == nil {
		return nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entries, c.loaded
}

package discovery

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/internal/apart"
	"github.com/go-curator/curator/internal/flow"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Cache caches the instances of one service in memory. Safe for concurrent use.
//
// Corresponds to Curator's ServiceCache.
type Cache[T any] struct {
	discovery  *Discovery[T]
	path       string
	nodes      *cache.PathChildren
	cancel     context.CancelFunc
	goroutines sync.WaitGroup

	mu           sync.Mutex
	changed      flow.Signal     // a field below has changed
	lastTicket   int             // the number of updates begun: each has a ticket
	newestTicket int             // the largest ticket of an update that has ended
	shownTicket  int             // the ticket of the last update that changed entries
	entries      []cacheEntry[T] // by name; replaced as a whole
	loaded       bool
	endedErr     error // the error that has ended the updates
}

// cacheEntry is a child of the service's node.
type cacheEntry[T any] struct {
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
	path, err := childPath(d.basePath, service)
	var nodes *cache.PathChildren
	if err == nil {
		nodes, err = cache.NewPathChildren(d.client, path)
	}
	if err != nil {
		return nil, wrapError(d.pathForErrors(service), "cache", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &Cache[T]{discovery: d, path: path, nodes: nodes, cancel: cancel}
	c.goroutines.Go(func() { c.followNodes(ctx) })
	return c, nil
}

// Close ends the cache. Closing again does nothing. The error is always nil.
func (c *Cache[T]) Close() error {
	c.cancel()
	c.goroutines.Wait()
	return c.nodes.Close()
}

// WaitSynced waits until the cache is in sync, also after a reconnect. Errors: ctx's; framework.ErrNoAuth if the
// client may not list the instances; framework.ErrClosed; cache.ErrClosed after Close. Corresponds to startImmediate.
func (c *Cache[T]) WaitSynced(ctx context.Context) error {
	if err := line.CheckCall(ctx, c.discovery.client, nil); err != nil {
		return wrapError(c.path, "wait synced", err)
	}
	if err := c.nodes.WaitSynced(ctx); err != nil {
		return wrapError(c.path, "wait synced", err)
	}
	c.updateEntries()
	return nil
}

// Instances returns the instances, including disabled ones, sorted by the names of their nodes. Without a connection,
// and after Close, it returns the last known ones. It sends nothing.
func (c *Cache[T]) Instances() (all []Instance[T]) {
	entries, _ := c.loadedEntries()
	return instancesOf(entries)
}

func instancesOf[T any](entries []cacheEntry[T]) (all []Instance[T]) {
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
		for path, err := range c.nodes.Failures() {
			if !yield(path, err) {
				return
			}
		}
		entries, _ := c.loadedEntries()
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
		if err := line.CheckCall(ctx, c.discovery.client, nil); err != nil {
			yield(nil, wrapError(c.path, "follow", err))
			return
		}
		for yieldedTicket := 0; ; {
			c.mu.Lock()
			entries, shown, loaded, endedErr, changed := c.entries, c.shownTicket, c.loaded, c.endedErr, c.changed.C()
			c.mu.Unlock()
			if endedErr == nil && ctx.Err() != nil {
				endedErr = c.discovery.client.WaitError(ctx, nil)
			}
			switch {
			case endedErr != nil:
				yield(nil, wrapError(c.path, "follow", endedErr))
				return
			case loaded && shown != yieldedTicket:
				if yieldedTicket = shown; !yield(instancesOf(entries), nil) {
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

// followNodes updates the entries whenever the nodes have changed.
func (c *Cache[T]) followNodes(ctx context.Context) {
	endedErr := apart.ErrNoReturn // the user's codec may end this goroutine
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.endedErr = endedErr
		c.changed.Fire()
	}()
	// Not cache.Follow, which leaves out changes that cancel each other: WaitSynced may have updated the entries in between.
	loaded := false
	for event, err := range c.nodes.Events(ctx) {
		if err != nil {
			if endedErr = err; ctx.Err() != nil {
				endedErr = cache.ErrClosed
			}
			return
		}
		loaded = loaded || event.Type == cache.Initialized
		if loaded && event.Type != cache.ConnectionChanged && event.Type != cache.Failed {
			c.updateEntries()
		}
	}
}

// updateEntries updates the entries from the nodes. No lock is held during calls of the user's codec.
func (c *Cache[T]) updateEntries() {
	c.mu.Lock()
	c.lastTicket++
	ticket, known := c.lastTicket, map[string]cacheEntry[T]{}
	for _, e := range c.entries {
		known[e.name] = e
	}
	var nodes []cache.Node
	for _, n := range c.nodes.All() { // with mu held: the nodes of a larger ticket are not older
		nodes = append(nodes, n)
	}
	c.mu.Unlock()

	var entries []cacheEntry[T]
	for _, n := range nodes {
		e := cacheEntry[T]{name: n.Name(), czxid: n.Stat.Czxid, mzxid: n.Stat.Mzxid}
		if before, ok := known[e.name]; ok && before.isSameVersion(e) {
			e = before
		} else {
			e.instance, e.err = c.discovery.decodeNode(n.Path, n.Data, n.Stat.EphemeralOwner)
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, compareNames)
	for _, e := range c.replaceEntries(ticket, entries) {
		c.discovery.logCorrupt(c.path+"/"+e.name, e.err)
	}
}

func compareNames[T any](a, b cacheEntry[T]) int { return cmp.Compare(a.name, b.name) }

// isSameVersion reports whether both entries are from the same version of the same node.
func (e cacheEntry[T]) isSameVersion(other cacheEntry[T]) bool {
	return e.name == other.name && e.czxid == other.czxid && e.mzxid == other.mzxid
}

// replaceEntries sets the entries, unless newer ones are set, and returns the new ones that are not instances. If two
// goroutines update at the same time, only the first returns them.
func (c *Cache[T]) replaceEntries(ticket int, entries []cacheEntry[T]) (corrupt []cacheEntry[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ticket < c.newestTicket {
		return nil
	}
	c.newestTicket = ticket
	if c.loaded && slices.EqualFunc(entries, c.entries, cacheEntry[T].isSameVersion) {
		return nil
	}
	for _, e := range entries {
		if e.err == nil {
			continue
		}
		if i, found := slices.BinarySearchFunc(c.entries, e, compareNames); !found || !c.entries[i].isSameVersion(e) {
			corrupt = append(corrupt, e)
		}
	}
	c.shownTicket, c.entries, c.loaded = ticket, entries, true
	c.changed.Fire()
	return corrupt
}

// loadedEntries returns the entries, and whether any were loaded yet.
func (c *Cache[T]) loadedEntries() (entries []cacheEntry[T], loaded bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entries, c.loaded
}

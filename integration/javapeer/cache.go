package javapeer

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// The kinds of caches that a peer has.
const (
	CuratorCache      = "CuratorCache"
	TreeCache         = "TreeCache"
	PathChildrenCache = "PathChildrenCache"
)

// Cache is a cache of the peer.
type Cache struct {
	peer *Peer
	name string
	// Took is the time until it reported that it was initialized.
	Took time.Duration
}

// CachedNode is a node as a cache of the peer holds it.
type CachedNode struct {
	Data    string
	Version int32
	Mzxid   int64
}

// Cache starts a cache of that kind, known to the peer by name, and waits until it reports that it is initialized. It
// returns ErrTimeout, and the cache nevertheless, if that takes longer than limit.
func (p *Peer) Cache(ctx context.Context, name, kind, path string, limit time.Duration) (*Cache, error) {
	c := &Cache{peer: p, name: name}
	nanos, err := p.number(ctx, "cache", name, kind, path, milliseconds(limit))
	c.Took = time.Duration(nanos)
	return c, err
}

// Nodes are all nodes that the cache holds, by path.
func (c *Cache) Nodes(ctx context.Context) (map[string]CachedNode, error) {
	words, err := c.peer.Call(ctx, "cached", c.name)
	if err != nil {
		return nil, err
	}
	if len(words)%4 != 0 {
		return nil, fmt.Errorf("javapeer: cached: %d words", len(words))
	}
	nodes := map[string]CachedNode{}
	for ; len(words) > 0; words = words[4:] {
		version, err := strconv.ParseInt(words[2], 10, 32)
		if err != nil {
			return nil, err
		}
		mzxid, err := strconv.ParseInt(words[3], 10, 64)
		if err != nil {
			return nil, err
		}
		nodes[words[0]] = CachedNode{Data: words[1], Version: int32(version), Mzxid: mzxid}
	}
	return nodes, nil
}

// Size returns the number of nodes that the cache holds.
func (c *Cache) Size(ctx context.Context) (int, error) {
	n, err := c.peer.number(ctx, "cached-size", c.name)
	return int(n), err
}

// Close closes the cache; its name is free again.
func (c *Cache) Close(ctx context.Context) error {
	_, err := c.peer.Call(ctx, "close-cache", c.name)
	return err
}

// Heap returns the bytes in use on the peer's heap after garbage collection.
func (p *Peer) Heap(ctx context.Context) (int64, error) { return p.number(ctx, "heap") }

// SetCompressed sets the data of a node, compressed as Curator does it.
func (p *Peer) SetCompressed(ctx context.Context, path string, data []byte) error {
	_, err := p.Call(ctx, "set-compressed", path, string(data))
	return err
}

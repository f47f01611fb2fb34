package cache

import "github.com/go-curator/curator/framework"

// item is a node in a snapshot.
type item struct {
	name  string
	data  []byte
	stat  framework.Stat
	depth int32
	shown bool // the others are only there to name what is below them
}

// snapshot copies the nodes from n down: each before its children, siblings by name. mu is held.
func (s *store) snapshot(n *node) []item {
	items := make([]item, 0, s.live+1)
	var add func(n *node, depth int32)
	add = func(n *node, depth int32) {
		if !n.live && len(n.offspring()) == 0 {
			return
		}
		items = append(items, item{name: n.name(), data: n.data(), stat: n.stat(), depth: depth, shown: s.seen(n)})
		for _, k := range n.offspring() {
			add(k, depth+1)
		}
	}
	add(n, 0)
	return items
}

// cursor goes through a snapshot once.
type cursor struct {
	items []item
	paths []string // of the nodes above the next, by depth
	nodes []*Node  // instead of items
}

// newCursor takes a snapshot whose first item has the path root.
func newCursor(items []item, root string) *cursor {
	return &cursor{items: items, paths: []string{root}}
}

// next returns nil at the end. Paths are only made here: there may be many, and few readers read to the end.
func (c *cursor) next() *Node {
	if len(c.nodes) > 0 {
		n := c.nodes[0]
		c.nodes = c.nodes[1:]
		return n
	}
	for len(c.items) > 0 {
		it := &c.items[0]
		c.items = c.items[1:]
		path := c.paths[0]
		if it.depth > 0 {
			above := c.paths[it.depth-1]
			if above == "/" {
				above = ""
			}
			path = above + "/" + it.name
			c.paths = append(c.paths[:it.depth], path)
		}
		if it.shown {
			return &Node{Path: path, Data: it.data, Stat: it.stat}
		}
	}
	c.items, c.paths, c.nodes = nil, nil, nil
	return nil
}

package cache

import (
	"iter"
	"slices"
	"strings"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
)

func (s *nodeStore) get(path string) (Node, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	n, changed := s.draftedNode(path)
	if at := s.findNode(path); !changed && at != nil && s.isVisible(at) {
		n = s.publicNode(at)
	}
	if n == nil {
		return Node{}, false
	}
	return *n, true
}

func (s *nodeStore) len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.live + s.draft.countDifference()
}

func (s *nodeStore) allNodes() iter.Seq2[string, Node] {
	return func(yield func(string, Node) bool) {
		s.mu.RLock()
		c := s.visibleNodes()
		s.mu.RUnlock()
		for n := c.next(); n != nil; n = c.next() {
			if !yield(n.Path, *n) {
				return
			}
		}
	}
}

func (s *nodeStore) childNodes(path string) iter.Seq2[string, Node] {
	return func(yield func(string, Node) bool) {
		for _, it := range s.childItems(path) {
			full := childPath(path, it.name)
			if !yield(full[len(full)-len(it.name):], Node{Path: full, Data: it.data, Stat: it.stat}) {
				return
			}
		}
	}
}

func (s *nodeStore) childItems(path string) []copiedNode {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var kids []*treeNode
	if n := s.findNode(path); n != nil {
		kids = n.children()
	}
	items := make([]copiedNode, 0, len(kids))
	for _, k := range kids {
		if k.live && (len(s.draft.nodes) == 0 || !s.draft.nodes[childPath(path, k.name())].changesNode()) {
			items = append(items, copiedNode{name: k.name(), data: k.data(), stat: k.stat()})
		}
	}
	earlier := s.draft.earlierNodes(func(p string) bool { return p != "/" && zkpath.Parent(p) == path })
	if len(earlier) > 0 {
		for _, n := range earlier {
			items = append(items, copiedNode{name: n.Name(), data: n.Data, stat: n.Stat})
		}
		slices.SortFunc(items, func(a, b copiedNode) int { return strings.Compare(a.name, b.name) })
	}
	return items
}

type copiedNode struct {
	name  string
	data  []byte
	stat  framework.Stat
	depth int32
	shown bool // false: readers do not see the node; it is here for the paths of the nodes below
}

// copySubtree copies the nodes from n down: each node before its children, siblings by name. mu is held.
func (s *nodeStore) copySubtree(n *treeNode) []copiedNode {
	items := make([]copiedNode, 0, s.live+1)
	var add func(n *treeNode, depth int32)
	add = func(n *treeNode, depth int32) {
		if !n.live && len(n.children()) == 0 {
			return
		}
		items = append(items, copiedNode{
			name: n.name(), data: n.data(), stat: n.stat(), depth: depth, shown: s.isVisible(n),
		})
		for _, k := range n.children() {
			add(k, depth+1)
		}
	}
	add(n, 0)
	return items
}

// nodeCursor iterates once over nodes as they were when it was made.
type nodeCursor struct {
	items []copiedNode // of copySubtree
	paths []string     // by depth, of the nodes above the next item; at first of the first item
	nodes []*Node      // instead of items, if there is a draft
}

// next returns the next node; nil at the end. It makes the paths only now: there may be many, and few readers
// read to the end.
func (c *nodeCursor) next() *Node {
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

// draftedNode returns the node that readers see at path, if that is not the node in the tree. mu is held.
func (s *nodeStore) draftedNode(path string) (n *Node, changed bool) {
	d := s.draft.nodes[path]
	return d.old, d.changesNode()
}

// visibleNodes returns the nodes that readers see, in the order of a walk. mu is held.
func (s *nodeStore) visibleNodes() *nodeCursor {
	c := &nodeCursor{items: s.copySubtree(s.top), paths: []string{s.root}}
	if len(s.draft.nodes) == 0 {
		return c
	}
	nodes := s.draft.earlierNodes(func(string) bool { return true })
	for n := c.next(); n != nil; n = c.next() {
		if !s.draft.nodes[n.Path].changesNode() {
			nodes = append(nodes, n)
		}
	}
	slices.SortFunc(nodes, func(a, b *Node) int { return comparePaths(a.Path, b.Path) })
	return &nodeCursor{nodes: nodes}
}

type failedNode struct {
	path string
	err  error
}

func (s *nodeStore) failures() iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		s.mu.RLock()
		all := s.sortedFailures()
		s.mu.RUnlock()
		for _, f := range all {
			if !yield(f.path, f.err) {
				return
			}
		}
	}
}

// rootFailure returns why the root cannot be read or decoded, or nil.
func (s *nodeStore) rootFailure() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.failed[s.top].err
}

// sortedFailures lists the nodes that cannot be read, parents first. mu is held.
func (s *nodeStore) sortedFailures() []failedNode {
	all := make([]failedNode, 0, len(s.failed))
	for n, f := range s.failed {
		all = append(all, failedNode{s.pathOf(n), f.err})
	}
	slices.SortFunc(all, func(a, b failedNode) int { return comparePaths(a.path, b.path) })
	return all
}

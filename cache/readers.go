package cache

import (
	"iter"
	"slices"
	"strings"

	"github.com/go-curator/curator/internal/zkpath"
)

func (s *store) get(path string) (Node, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	n, changed := s.before(path)
	if at := s.find(path); !changed && at != nil && s.seen(at) {
		n = s.view(at)
	}
	if n == nil {
		return Node{}, false
	}
	return *n, true
}

func (s *store) len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.live + s.draft.hidden()
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
	before := s.draft.before(func(p string) bool { return p != "/" && zkpath.Parent(p) == path })
	if len(before) > 0 {
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

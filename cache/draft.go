package cache

import "slices"

// The server tells of a transaction piece by piece: first that a node is gone, then that another was created;
// what it holds has to be read. Shown one by one these make states that the tree never had. So the store
// records what changes, readers go on seeing what was before, and the engine publishes the record when it
// knows all that had happened until some moment (show.go).

// before returns what readers see at path if that is not what the tree has. mu is held.
func (s *store) before(path string) (n *Node, changed bool) {
	d := s.draft.nodes[path]
	return d.old, d.tells()
}

// shown returns what readers see, as a walk. mu is held.
func (s *store) shown() *cursor {
	c := &cursor{items: s.snapshot(s.top), paths: []string{s.root}}
	if len(s.draft.nodes) == 0 {
		return c
	}
	nodes := s.draft.before(func(string) bool { return true })
	for n := c.next(); n != nil; n = c.next() {
		if !s.draft.nodes[n.Path].tells() {
			nodes = append(nodes, n)
		}
	}
	slices.SortFunc(nodes, func(a, b *Node) int { return comparePaths(a.Path, b.Path) })
	return &cursor{nodes: nodes}
}

// before returns the nodes that were there, of the paths that which accepts.
func (d *deltas) before(which func(path string) bool) (nodes []*Node) {
	for path, n := range d.nodes {
		if n.old != nil && which(path) {
			nodes = append(nodes, n.old)
		}
	}
	return nodes
}

// hidden is by how many nodes readers see more than the tree has.
func (d *deltas) hidden() (n int) {
	for _, d := range d.nodes {
		if d.old != nil {
			n++
		}
		if d.new != nil {
			n--
		}
	}
	return n
}

// recording says whether changes are kept for publish. When some are, all are. mu is held.
func (s *store) recording() bool { return s.strict || len(s.subs) > 0 || len(s.draft.nodes) > 0 }

// record has changes recorded also if there are no subscribers, or not.
func (s *store) record(strict bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.strict = strict
}

// publish shows readers and subscribers what the tree has.
func (s *store) publish() {
	events := s.draft.events() // takes its time: not under the lock
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draft = deltas{}
	for _, ev := range events {
		s.tell(ev)
	}
}

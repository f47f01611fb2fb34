package cache

import (
	"slices"
	"time"

	"github.com/go-curator/curator/framework"
)

// The server tells of a transaction piece by piece: first that a node is gone, then that another was created;
// what it holds has to be read. Shown one by one these make states that the tree never had. So the store
// records what changes, readers go on seeing what was before, and the engine publishes the record when it
// knows all that had happened until some moment.

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

const (
	// keepMost is how long changes are kept back. If they come too fast for a moment at which all is known,
	// they are shown as they are read until there is one.
	keepMost = time.Second
	tellMost = time.Second // how long changes wait for the word of the reconnect that revealed them
)

// showing is what readers and subscribers are shown, and what is kept back from them.
type showing struct {
	loose  bool      // changes are shown as they are read
	since  time.Time // since when some are kept back
	told   told
	tellAt time.Time // show what came by then, also if its connection was not reported
}

// exact says that the tree in memory is what the tree was when the last answer was given: everything that the
// server had reported by then has been read. What it has reported since stands in the queue: anew of the
// nodes in that answer.
func (e *engine) exact(anew int) bool {
	r := &e.reads
	return e.current() && !r.halted && r.weight == 0 && r.queue.len() == anew
}

// current says that all that is there, or was there before a gap, has been read.
func (e *engine) current() bool {
	return e.session != nil && e.way.caughtUp() && e.reads.awaited == 0
}

// idle says that nothing more comes by itself. What was there before a gap may not all be known: the watch
// may not be set yet.
func (e *engine) idle() bool {
	r := &e.reads
	return e.session != nil && !e.way.asking() && !r.halted && r.weight == 0 && r.queue.len() == 0
}

// answered shows what an answer has made complete.
func (e *engine) answered(anew int) {
	s := &e.showing
	switch {
	case e.exact(anew):
		e.show(false)
	case !s.loose && !s.since.IsZero() && time.Since(s.since) >= keepMost:
		e.show(true)
	}
}

// show publishes what is kept back, if subscribers know of the connection that it came by; loose if it is not
// all that there is.
func (e *engine) show(loose bool) {
	s := &e.showing
	if len(e.store.draft.nodes) > 0 {
		if e.session != nil && s.told.less(e.session) {
			if s.tellAt.IsZero() {
				s.tellAt = time.Now().Add(tellMost)
			}
			return
		}
		e.store.publish()
	}
	s.since, s.tellAt = time.Time{}, time.Time{}
	if s.loose != loose {
		s.loose = loose
		e.store.record(!loose)
	}
}

// told counts of how many connections of a session, by its epoch, subscribers have been told: the changes of
// the connection come another way than the events.
type told struct {
	epoch       int64
	connections uint64
	begun       bool
}

func (t *told) less(s *framework.Session) bool {
	return t.epoch != s.Epoch() || t.connections < s.Connections()
}

func (t *told) hear(state framework.StateChange) {
	if !state.State.IsConnected() {
		return
	}
	if t.epoch != state.Epoch {
		t.epoch, t.connections = state.Epoch, 0
	}
	t.connections++
}

// begin takes a session. The cache's first may have had connections before, and the word of the last may be
// on its way.
func (t *told) begin(s *framework.Session) {
	if t.begun {
		return
	}
	t.begun = true
	heard := t.epoch == s.Epoch()
	if t.all(s); !heard {
		t.connections--
	}
}

// all takes it that subscribers know.
func (t *told) all(s *framework.Session) { t.epoch, t.connections = s.Epoch(), s.Connections() }

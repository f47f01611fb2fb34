package cache

import (
	"slices"
	"time"

	"github.com/go-curator/curator/framework"
)

// What is told of the tree comes in pieces: first that a node is gone, then that another was created, then what it holds. Shown one by one they make
// states that the tree never had. So the store records what changes, readers go on seeing what was before, and the engine publishes when it knows all
// that had happened until some moment.

const (
	// Changes are kept back for holdMost and for holdAnswers answers at least, and for no longer: if they come too fast for a moment at which all is known,
	// they are shown as they are read until there is one.
	holdMost, holdAnswers = time.Second, 4
	// tellMost is how long changes wait for the word of the reconnect that brought them.
	tellMost = time.Second
)

// before returns what readers see at path if that is not what the tree has. mu is held.
func (s *store) before(path string) (n *Node, changed bool) {
	d := s.draft.nodes[path]
	return d.old, d.tells()
}

// shown returns what readers see, as a walk. mu is held.
func (s *store) shown() *cursor {
	c := newCursor(s.snapshot(s.top), s.root)
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

// before returns the nodes that were there, of the paths that which wants.
func (d *deltas) before(which func(path string) bool) (nodes []*Node) {
	for path, n := range d.nodes {
		if n.old != nil && which(path) {
			nodes = append(nodes, n.old)
		}
	}
	return nodes
}

// fewer is by how many nodes there were more before.
func (d *deltas) fewer() (n int) {
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

// record has changes recorded also if nobody listens, or not.
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

// exact says that the tree in memory is what the tree was when the last answer was given: everything that the server had told of by then has been
// read. That of which it has told since stands in the queue, anew nodes of which the answer was about.
func (e *engine) exact(anew int) bool {
	r := &e.reads
	return e.current() && !e.catching && !r.halted && r.weight == 0 && r.waiting() == anew
}

// current says that all that is there, or was there before a gap, has been read.
func (e *engine) current() bool {
	return e.session != nil && (e.armed || e.oneShot) && !e.probing && e.counted == 0
}

// idle says that nothing more comes by itself, though not all that there was before a gap may be known: the watch is not set yet.
func (e *engine) idle() bool {
	r := &e.reads
	return e.session != nil && !e.probing && !r.halted && r.weight == 0 && r.waiting() == 0
}

// answered has what an answer has made complete shown.
func (e *engine) answered(anew int) {
	e.answers++
	switch {
	case e.exact(anew):
		e.show(false)
	case !e.loose && !e.draftAt.IsZero() && e.answers >= holdAnswers && time.Since(e.draftAt) >= holdMost:
		e.show(true)
	}
}

// show publishes, if those who listen know of the connection that it came by; loose if it is not all that there is.
func (e *engine) show(loose bool) {
	if len(e.store.draft.nodes) > 0 {
		if e.untold() {
			if e.tellAt.IsZero() {
				e.tellAt = time.Now().Add(tellMost)
			}
			return
		}
		e.store.publish()
	}
	e.draftAt, e.tellAt = time.Time{}, time.Time{}
	if e.loose != loose {
		e.loose = loose
		e.store.record(!loose)
	}
}

// untold says that the session has had a connection of which subscribers have not been told yet: its state changes come another way than its events.
func (e *engine) untold() bool {
	return e.session != nil && (e.told.epoch != e.session.Epoch() || e.told.connections < e.session.Connections())
}

// told counts of how many connections of a session, by its epoch, subscribers have been told.
type told struct {
	epoch       int64
	connections uint64
	sessions    int // that the cache has had
}

// hear counts a change of the connection.
func (t *told) hear(state framework.StateChange) {
	if !state.State.IsConnected() {
		return
	}
	if t.epoch != state.Epoch {
		t.epoch, t.connections = state.Epoch, 0
	}
	t.connections++
}

// begin takes the cache's first session: it may have had connections before, and of the last the word may be on its way.
func (t *told) begin(s *framework.Session) {
	heard := t.epoch == s.Epoch()
	if t.all(s); !heard {
		t.connections--
	}
}

// all takes it that subscribers know.
func (t *told) all(s *framework.Session) { t.epoch, t.connections = s.Epoch(), s.Connections() }

package cache

import (
	"slices"
	"strings"
	"sync"

	"github.com/go-curator/curator/framework"
)

// store contains the copy of the tree, and its subscribers. Only the engine's goroutine changes it, holding
// mu; that goroutine may read without mu.
type store struct {
	root     string // the path of top
	hideRoot bool   // readers do not see top

	mu          sync.RWMutex
	top         *node // never nil; live or not
	live        int   // nodes that readers see; guarded by mu
	subs        map[*subscription]struct{}
	connection  framework.StateChange // the last state; guarded by mu
	initialized bool                  // guarded by mu
	ended       error                 // why the cache has ended; guarded by mu
	failures    map[*node]failure     // the nodes that cannot be read, and why; guarded by mu

	// Changes since publish. Readers see the state before them, unless nothing is recorded.
	draft  deltas // guarded by mu
	strict bool   // record even without subscribers; guarded by mu

	bytes int         // of data in the cache; of the engine's goroutine
	known int         // nodes in the tree, live or not; of the engine's goroutine
	gone  func(*node) // called for each node that leaves the tree, with mu held
}

func newStore(root string, hideRoot bool) *store {
	return &store{
		root: root, hideRoot: hideRoot, top: &node{}, known: 1,
		subs: map[*subscription]struct{}{}, failures: map[*node]failure{},
	}
}

// below returns the part of a path under the root, without a leading "/".
func (s *store) below(path string) (rest string, ok bool) {
	if s.root == "/" {
		return strings.CutPrefix(path, "/")
	}
	rest, ok = strings.CutPrefix(path, s.root)
	if !ok || rest == "" {
		return rest, ok
	}
	return strings.CutPrefix(rest, "/")
}

// find returns the node at a path, live or not; nil if there is none.
func (s *store) find(path string) *node {
	rest, ok := s.below(path)
	if !ok {
		return nil
	}
	n := s.top
	for rest != "" {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		i, found := n.kid(name)
		if !found {
			return nil
		}
		n = n.offspring()[i]
	}
	return n
}

func (s *store) path(n *node) string {
	if n.up == nil {
		return s.root
	}
	size := len(s.root)
	for at := n; at.up != nil; at = at.up {
		size += 1 + len(at.name())
	}
	if s.root == "/" {
		size--
	}
	b := make([]byte, size)
	end := size
	for at := n; at.up != nil; at = at.up {
		name := at.name()
		end -= len(name)
		copy(b[end:], name)
		end--
		b[end] = '/'
	}
	copy(b[:end], s.root)
	return string(b)
}

// seen reports whether readers see the node.
func (s *store) seen(n *node) bool { return n.live && !(s.hideRoot && n.up == nil) }

func (s *store) view(n *node) *Node {
	return &Node{Path: s.path(n), Data: n.data(), Stat: n.stat()}
}

// walk calls f for every node, parents first.
func (s *store) walk(f func(*node)) { walk(s.top, f) }

func walk(n *node, f func(*node)) {
	f(n)
	for _, k := range n.offspring() {
		walk(k, f)
	}
}

// insert adds a node below n, under a name that n's children do not have.
func (s *store) insert(n *node, name string) *node {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, _ := n.kid(name)
	k := &node{text: pack(name, nil), up: n}
	n.setKids(slices.Insert(n.offspring(), i, k))
	s.known++
	return k
}

// merge makes names (sorted, without duplicates) the names of n's children, and returns the new nodes.
func (s *store) merge(n *node, names []string) (added []*node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := n.offspring()
	kids := make([]*node, 0, max(len(names), len(old)))
	var lost []*node
	for len(old) > 0 || len(names) > 0 {
		switch {
		case len(names) == 0 || len(old) > 0 && old[0].name() < names[0]:
			lost, old = append(lost, old[0]), old[1:]
		case len(old) == 0 || names[0] < old[0].name():
			k := &node{text: pack(names[0], nil), up: n}
			kids, added = append(kids, k), append(added, k)
			names = names[1:]
		default:
			kids = append(kids, old[0])
			old, names = old[1:], names[1:]
		}
	}
	for i := len(lost) - 1; i >= 0; i-- {
		s.drop(lost[i])
	}
	n.setKids(kids)
	s.known += len(added)
	return added
}

// put stores the result of a read: the node exists, and data are new. If the node was live before, it is the
// same node.
func (s *store) put(n *node, data []byte, stat framework.Stat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var old *Node
	recording := s.recording() && !(s.hideRoot && n.up == nil)
	if n.live && recording {
		old = s.view(n)
	}
	if !n.live {
		n.live = true
		if s.seen(n) {
			s.live++
		}
	}
	s.setData(n, data)
	n.setStat(stat)
	if recording {
		ev := Event{Type: Created, Old: old, New: s.view(n)}
		if ev.Path = ev.New.Path; old != nil {
			ev.Type = Changed
		}
		s.note(ev)
	}
}

// putStat stores the result of a look: the same node with the same data.
func (s *store) putStat(n *node, stat framework.Stat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.setStat(stat)
}

// remove removes a node below the root, and everything below that node, from the tree.
func (s *store) remove(n *node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(n)
	if i, found := n.up.kid(n.name()); found {
		kids := slices.Delete(n.up.offspring(), i, i+1)
		if len(kids) < cap(kids)/4 {
			kids = slices.Clone(kids)
		}
		n.up.setKids(kids)
	}
}

// empty reports a node and everything below it as deleted. The node itself stays in the tree, not live.
func (s *store) empty(n *node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fade(n)
	s.setData(n, nil)
}

// setData changes a node's data. mu is held.
func (s *store) setData(n *node, data []byte) {
	s.bytes += len(data) - len(n.data())
	n.text = pack(n.name(), data)
}

// drop does what fade does, and forgets the node. mu is held.
func (s *store) drop(n *node) {
	s.fade(n)
	s.bytes -= len(n.data())
	s.known--
	if _, failed := s.failures[n]; failed {
		delete(s.failures, n)
		s.forgetFailure(s.path(n))
	}
	s.gone(n)
}

// fade reports a subtree as deleted, the deepest nodes first, and drops the nodes below n. mu is held.
func (s *store) fade(n *node) {
	kids := n.offspring()
	n.setKids(nil)
	for _, k := range slices.Backward(kids) {
		s.drop(k)
	}
	if s.seen(n) {
		s.live--
		if s.recording() {
			old := s.view(n)
			s.note(Event{Type: Deleted, Path: old.Path, Old: old})
		}
	}
	n.live = false
}

// note keeps an event for publish. mu is held.
func (s *store) note(ev Event) {
	s.draft.add(ev)
}

// tell reports an event to the subscribers. mu is held.
func (s *store) tell(ev Event) {
	for sub := range s.subs {
		sub.put(ev)
	}
}

func (s *store) connected(state framework.StateChange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connection = state
	s.tell(Event{Type: ConnectionChanged, State: state})
}

// loaded reports Initialized the first time that everything has been read.
func (s *store) loaded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.initialized {
		s.initialized = true
		s.tell(Event{Type: Initialized})
	}
}

func (s *store) failed(n *node, f failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures[n] = f
	if s.recording() {
		s.note(Event{Type: Failed, Path: s.path(n), Err: f.err})
	}
}

func (s *store) recovered(n *node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.failures, n)
}

// forgetFailure drops pending reports that a node cannot be read, because the node is gone. mu is held.
func (s *store) forgetFailure(path string) {
	s.draft.forgetFailure(path)
	for sub := range s.subs {
		sub.forgetFailure(path)
	}
}

func (s *store) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = err
	for sub := range s.subs {
		sub.end(err)
	}
}

// subscribe registers a subscriber whose stream begins with the current nodes.
func (s *store) subscribe(limit int) *subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := newSubscription(limit)
	if s.ended != nil {
		sub.end(s.ended)
		return sub
	}
	if s.connection.State != framework.NeverConnected {
		sub.batch = append(sub.batch, Event{Type: ConnectionChanged, State: s.connection})
	}
	sub.snapshot = s.shown()
	for _, f := range s.failing() {
		if s.draft.nodes[f.path].err == nil { // otherwise the draft will report it
			sub.put(Event{Type: Failed, Path: f.path, Err: f.err})
		}
	}
	if s.initialized {
		sub.put(Event{Type: Initialized})
	}
	s.subs[sub] = struct{}{}
	return sub
}

func (s *store) unsubscribe(sub *subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.subs, sub)
}

// recording reports whether changes are kept for publish. Once a change is kept, all later ones are. mu is held.
func (s *store) recording() bool { return s.strict || len(s.subs) > 0 || len(s.draft.nodes) > 0 }

// record sets whether changes are recorded even without subscribers.
func (s *store) record(strict bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.strict = strict
}

// publish shows readers and subscribers the current tree.
func (s *store) publish() {
	events := s.draft.events() // takes long: not under the lock
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draft = deltas{}
	for _, ev := range events {
		s.tell(ev)
	}
}

type failure struct {
	err   error
	again bool // the node will be tried again
}

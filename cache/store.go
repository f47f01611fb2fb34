package cache

import (
	"slices"
	"strings"
	"sync"

	"github.com/go-curator/curator/framework"
)

// nodeStore contains the cache's tree, and its subscribers. Only the engine's goroutine changes it, holding
// mu; that goroutine may read without mu.
type nodeStore struct {
	root     string // the path of top
	hideRoot bool   // readers do not see top

	mu            sync.RWMutex
	top           *treeNode // never nil; live or not
	live          int       // nodes that readers see; guarded by mu
	subscriptions map[*subscription]struct{}
	connection    framework.StateChange     // the last state; guarded by mu
	initialized   bool                      // guarded by mu
	endErr        error                     // why the cache has ended; guarded by mu
	failed        map[*treeNode]readFailure // the nodes that cannot be read, and why; guarded by mu

	// The changes since publishDraft, unless isRecording is false. Readers see the state before them.
	draft mergedChanges // guarded by mu
	loose bool          // changes are shown as they are read, and so recorded for subscribers only; guarded by mu

	bytes     int             // of data in the cache; of the engine's goroutine
	nodeCount int             // nodes in the tree, live or not; of the engine's goroutine
	onRemove  func(*treeNode) // called for each node that leaves the tree, with mu held
}

func newStore(root string, hideRoot bool) *nodeStore {
	return &nodeStore{
		root: root, hideRoot: hideRoot, top: &treeNode{}, nodeCount: 1, loose: true,
		subscriptions: map[*subscription]struct{}{}, failed: map[*treeNode]readFailure{},
	}
}

// relativePath returns the part of a path under the root, without a leading "/".
func (s *nodeStore) relativePath(path string) (rest string, ok bool) {
	if s.root == "/" {
		return strings.CutPrefix(path, "/")
	}
	rest, ok = strings.CutPrefix(path, s.root)
	if !ok || rest == "" {
		return rest, ok
	}
	return strings.CutPrefix(rest, "/")
}

// findNode returns the node at a path, live or not; nil if there is none.
func (s *nodeStore) findNode(path string) *treeNode {
	rest, ok := s.relativePath(path)
	if !ok {
		return nil
	}
	n := s.top
	for rest != "" {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		i, found := n.findChild(name)
		if !found {
			return nil
		}
		n = n.children()[i]
	}
	return n
}

func (s *nodeStore) pathOf(n *treeNode) string {
	if n.parent == nil {
		return s.root
	}
	size := len(s.root)
	for at := n; at.parent != nil; at = at.parent {
		size += 1 + len(at.name())
	}
	if s.root == "/" {
		size--
	}
	b := make([]byte, size)
	end := size
	for at := n; at.parent != nil; at = at.parent {
		name := at.name()
		end -= len(name)
		copy(b[end:], name)
		end--
		b[end] = '/'
	}
	copy(b[:end], s.root)
	return string(b)
}

// isVisible reports whether readers see the node.
func (s *nodeStore) isVisible(n *treeNode) bool { return n.live && !(s.hideRoot && n.parent == nil) }

func (s *nodeStore) publicNode(n *treeNode) *Node {
	return &Node{Path: s.pathOf(n), Data: n.data(), Stat: n.stat()}
}

// walkNodes calls f for every node, parents first.
func (s *nodeStore) walkNodes(f func(*treeNode)) { walkSubtree(s.top, f) }

func walkSubtree(n *treeNode, f func(*treeNode)) {
	f(n)
	for _, k := range n.children() {
		walkSubtree(k, f)
	}
}

// insertNode adds a node below n, under a name that n's children do not have.
func (s *nodeStore) insertNode(n *treeNode, name string) *treeNode {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, _ := n.findChild(name)
	k := &treeNode{text: packText(name, nil), parent: n}
	n.setChildren(slices.Insert(n.children(), i, k))
	s.nodeCount++
	return k
}

// mergeChildren makes names (sorted, without duplicates) the names of n's children, and returns the new nodes.
func (s *nodeStore) mergeChildren(n *treeNode, names []string) (added []*treeNode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := n.children()
	kids := make([]*treeNode, 0, max(len(names), len(old)))
	var lost []*treeNode
	for len(old) > 0 || len(names) > 0 {
		switch {
		case len(names) == 0 || len(old) > 0 && old[0].name() < names[0]:
			lost, old = append(lost, old[0]), old[1:]
		case len(old) == 0 || names[0] < old[0].name():
			k := &treeNode{text: packText(names[0], nil), parent: n}
			kids, added = append(kids, k), append(added, k)
			names = names[1:]
		default:
			kids = append(kids, old[0])
			old, names = old[1:], names[1:]
		}
	}
	for i := len(lost) - 1; i >= 0; i-- {
		s.dropNode(lost[i])
	}
	n.setChildren(kids)
	s.nodeCount += len(added)
	return added
}

// putNode stores the result of a read that has found the node: a new node or, if it is live, the same one with new data.
func (s *nodeStore) putNode(n *treeNode, data []byte, stat framework.Stat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var old *Node
	recording := s.isRecording() && !(s.hideRoot && n.parent == nil)
	if n.live && recording {
		old = s.publicNode(n)
	}
	if !n.live {
		n.live = true
		if s.isVisible(n) {
			s.live++
		}
	}
	s.setData(n, data)
	n.setStat(stat)
	if recording {
		now := s.publicNode(n)
		s.recordEvent(Event{Type: Changed, Path: now.Path, Old: old, New: now}) // or Created: toEvents decides
	}
}

func (s *nodeStore) putStat(n *treeNode, stat framework.Stat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.setStat(stat)
}

// removeNode removes a node below the root, and everything below that node, from the tree.
func (s *nodeStore) removeNode(n *treeNode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropNode(n)
	if i, found := n.parent.findChild(n.name()); found {
		kids := slices.Delete(n.parent.children(), i, i+1)
		if len(kids) < cap(kids)/4 {
			kids = slices.Clone(kids)
		}
		n.parent.setChildren(kids)
	}
}

// clearNode records a node and everything below it as deleted. The node itself stays in the tree, not live.
func (s *nodeStore) clearNode(n *treeNode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deleteSubtree(n)
	s.setData(n, nil)
}

// setData sets the data; mu is held.
func (s *nodeStore) setData(n *treeNode, data []byte) {
	s.bytes += len(data) - len(n.data())
	n.text = packText(n.name(), data)
}

// dropNode is deleteSubtree for a node that leaves the tree, too; the caller removes it from its parent. mu is held.
func (s *nodeStore) dropNode(n *treeNode) {
	s.deleteSubtree(n)
	s.bytes -= len(n.data())
	s.nodeCount--
	if _, failed := s.failed[n]; failed {
		delete(s.failed, n)
		s.forgetFailure(s.pathOf(n))
	}
	s.onRemove(n)
}

// deleteSubtree records a subtree as deleted, the deepest nodes first, and drops the nodes below n. mu is held.
func (s *nodeStore) deleteSubtree(n *treeNode) {
	kids := n.children()
	n.setChildren(nil)
	for _, k := range slices.Backward(kids) {
		s.dropNode(k)
	}
	if s.isVisible(n) {
		s.live--
		if s.isRecording() {
			old := s.publicNode(n)
			s.recordEvent(Event{Type: Deleted, Path: old.Path, Old: old})
		}
	}
	n.live = false
}

// recordEvent adds an event to the draft. mu is held.
func (s *nodeStore) recordEvent(ev Event) {
	s.draft.addEvent(ev)
}

// broadcast reports an event to the subscribers. mu is held.
func (s *nodeStore) broadcast(ev Event) {
	for sub := range s.subscriptions {
		sub.putEvent(ev)
	}
}

func (s *nodeStore) setConnection(state framework.StateChange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connection = state
	s.broadcast(Event{Type: ConnectionChanged, State: state})
}

// setInitialized reports Initialized the first time that everything has been read.
func (s *nodeStore) setInitialized() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.initialized {
		s.initialized = true
		s.broadcast(Event{Type: Initialized})
	}
}

func (s *nodeStore) addFailure(n *treeNode, f readFailure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed[n] = f
	if s.isRecording() {
		s.recordEvent(Event{Type: Failed, Path: s.pathOf(n), Err: f.err})
	}
}

func (s *nodeStore) deleteFailure(n *treeNode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.failed, n)
}

// forgetFailure drops pending reports that a node cannot be read, because the node is gone. mu is held.
func (s *nodeStore) forgetFailure(path string) {
	s.draft.forgetFailure(path)
	for sub := range s.subscriptions {
		sub.forgetFailure(path)
	}
}

func (s *nodeStore) endStreams(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endErr = err
	for sub := range s.subscriptions {
		sub.endStream(err)
	}
}

// subscribe registers a subscriber whose stream begins with the current nodes.
func (s *nodeStore) subscribe(limit int) *subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := newSubscription(limit)
	if s.endErr != nil {
		sub.endStream(s.endErr)
		return sub
	}
	if s.connection.State != framework.NeverConnected {
		sub.batch = append(sub.batch, Event{Type: ConnectionChanged, State: s.connection})
	}
	sub.initial = s.visibleNodes()
	for _, f := range s.sortedFailures() {
		if s.draft.nodes[f.path].err == nil { // otherwise the draft will report it
			sub.putEvent(Event{Type: Failed, Path: f.path, Err: f.err})
		}
	}
	if s.initialized {
		sub.putEvent(Event{Type: Initialized})
	}
	s.subscriptions[sub] = struct{}{}
	return sub
}

func (s *nodeStore) unsubscribe(sub *subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.subscriptions, sub)
}

// isRecording reports whether changes go into the draft. After the first, all do until publishDraft. mu is held.
func (s *nodeStore) isRecording() bool {
	return !s.loose || len(s.subscriptions) > 0 || len(s.draft.nodes) > 0
}

func (s *nodeStore) setLoose(loose bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loose = loose
}

// publishDraft shows the current tree to readers and subscribers.
func (s *nodeStore) publishDraft() {
	events := s.draft.toEvents() // without the lock, since it may take long
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draft = mergedChanges{}
	for _, ev := range events {
		s.broadcast(ev)
	}
}

// readFailure is the reason why the cache does not have a node's current data.
type readFailure struct {
	err       error
	isRetried bool // after a pause; otherwise after the node's next change, or when there is room
}

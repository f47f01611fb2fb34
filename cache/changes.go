package cache

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/go-curator/curator/framework"
)

// pathChange is the change of one path that its readers (of the store) or its subscriber have not received yet.
type pathChange struct {
	old, new   *Node // the node that they have received, and the node that exists now; nil: none
	wasDeleted bool  // the old node was deleted since, even if it came back unchanged
	err        error // the error of a later Failed
}

// withEvent returns the change with one more event added; known is false for the first event of the path's node.
func (c pathChange) withEvent(ev Event, known bool) pathChange {
	if ev.Type == Failed {
		c.err = ev.Err
		return c
	}
	if !known {
		c = pathChange{old: ev.Old}
	}
	return pathChange{old: c.old, new: ev.New, wasDeleted: c.wasDeleted || c.old != nil && ev.New == nil}
}

func (c pathChange) isEmpty() bool {
	return c.err == nil && !c.wasDeleted && (c.old == nil && c.new == nil || sameVersion(c.old, c.new))
}

func sameVersion(a, b *Node) bool {
	return a != nil && b != nil && sameNode(a.Stat, b.Stat) && sameData(a.Stat, b.Stat)
}

// changesNode reports whether the node has changed, and not only failed to be read.
func (c pathChange) changesNode() bool { return c.old != nil || c.new != nil }

// deletesNode reports whether the old node does not exist any more.
func (c pathChange) deletesNode() bool {
	return c.old != nil && (c.new == nil || !sameNode(c.old.Stat, c.new.Stat))
}

// sameNode reports whether two Stats of a path belong to the same node, which was not deleted and created
// again in between. The czxid would be enough, but a server that was wiped or restored uses zxids again.
func sameNode(a, b framework.Stat) bool { return a.Czxid == b.Czxid && a.Ctime == b.Ctime }

// sameData reports whether the data did not change between two Stats of one node.
func sameData(a, b framework.Stat) bool {
	return a.Mzxid == b.Mzxid && a.Mtime == b.Mtime && a.Version == b.Version
}

// mergedChanges has the changes of each path since some moment, all events of a path merged. There are two uses: nodeStore.draft,
// since the last publication, through which every event of a node goes; and subscription.merged, for a subscriber whose queue is full.
// It never has more entries than there are nodes: existing ones, and deleted ones whose deletion was not received.
type mergedChanges struct {
	nodes       map[string]pathChange
	connection  *framework.StateChange
	initialized bool
}

func (c *mergedChanges) addEvent(ev Event) {
	switch ev.Type {
	case Initialized:
		c.initialized = true
	case ConnectionChanged:
		c.connection = &ev.State
	default:
		if c.nodes == nil {
			c.nodes = map[string]pathChange{}
		}
		old, known := c.nodes[ev.Path]
		// a Failed alone leaves the old node as it is
		if now := old.withEvent(ev, known && old.changesNode()); now.isEmpty() {
			delete(c.nodes, ev.Path)
		} else {
			c.nodes[ev.Path] = now
		}
	}
}

func (c *mergedChanges) forgetFailure(path string) {
	n, known := c.nodes[path]
	if !known || n.err == nil {
		return
	}
	n.err = nil
	if n.isEmpty() {
		delete(c.nodes, path)
	} else {
		c.nodes[path] = n
	}
}

// toEvents returns the changes as a list of events: first the state of the connection, which comes before the changes that
// it revealed; then deleted nodes, children before their parents; then new and changed nodes, parents before their
// children; then the rest. Applied to the old nodes, they give the existing nodes.
func (c *mergedChanges) toEvents() []Event {
	paths := slices.SortedFunc(maps.Keys(c.nodes), comparePaths)
	events := make([]Event, 0, len(paths))
	if c.connection != nil {
		events = append(events, Event{Type: ConnectionChanged, State: *c.connection})
	}
	deleted := c.deletedPaths(paths)
	for i, path := range slices.Backward(paths) {
		if deleted[i] {
			events = append(events, Event{Type: Deleted, Path: path, Old: c.nodes[path].old})
		}
	}
	for i, path := range paths {
		switch n := c.nodes[path]; {
		case n.new == nil:
		case n.old == nil || deleted[i]:
			events = append(events, Event{Type: Created, Path: path, New: n.new})
		case !sameVersion(n.old, n.new):
			events = append(events, Event{Type: Changed, Path: path, Old: n.old, New: n.new})
		}
	}
	for _, path := range paths {
		if err := c.nodes[path].err; err != nil {
			events = append(events, Event{Type: Failed, Path: path, Err: err})
		}
	}
	if c.initialized {
		events = append(events, Event{Type: Initialized})
	}
	return events
}

// deletedPaths reports which of the sorted paths have to be reported as deleted. A subscriber may drop everything below a
// deleted node. So a node that is back unchanged counts as deleted, too, if a node above it was replaced by another.
func (c *mergedChanges) deletedPaths(paths []string) []bool {
	deleted := make([]bool, len(paths))
	above := "" // the topmost deleted node above the next path, if any
	for i, path := range paths {
		n := c.nodes[path]
		below := above != "" && (above == "/" || strings.HasPrefix(path, above+"/"))
		deleted[i] = n.deletesNode() || n.wasDeleted && below
		if n.deletesNode() && !below {
			above = path
		}
	}
	return deleted
}

// comparePaths orders paths as a walk through the tree does: parents before their children, siblings by name.
// Plain comparison would put "/a-b" between "/a" and "/a/b".
func comparePaths(a, b string) int {
	for i := 0; i < len(a) && i < len(b); i++ {
		if a[i] == b[i] {
			continue
		}
		switch {
		case a[i] == '/':
			return -1
		case b[i] == '/':
			return 1
		}
		return cmp.Compare(a[i], b[i])
	}
	return cmp.Compare(len(a), len(b))
}

// earlierNodes returns the nodes that readers still see, at the paths that which accepts.
func (c *mergedChanges) earlierNodes(which func(path string) bool) (nodes []*Node) {
	for path, n := range c.nodes {
		if n.old != nil && which(path) {
			nodes = append(nodes, n.old)
		}
	}
	return nodes
}

// countDifference returns how many more nodes readers see than the tree has.
func (c *mergedChanges) countDifference() (n int) {
	for _, c := range c.nodes {
		if c.old != nil {
			n++
		}
		if c.new != nil {
			n--
		}
	}
	return n
}

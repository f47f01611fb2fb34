package cache

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/go-curator/curator/framework"
)

// pathChange is the change of one path that a slow subscriber has not received yet: the node that the subscriber knows, and
// the node that exists now.
type pathChange struct {
	old, new   *Node
	wasDeleted bool  // the subscriber's node was deleted since, even if it came back unchanged
	err        error // the error of a later Failed
}

// withEvent returns the delta with one more event added; known is false for the first event of a path.
func (d pathChange) withEvent(ev Event, known bool) pathChange {
	if ev.Type == Failed {
		d.err = ev.Err
		return d
	}
	if !known {
		d = pathChange{old: ev.Old}
	}
	return pathChange{old: d.old, new: ev.New, wasDeleted: d.wasDeleted || d.old != nil && ev.New == nil}
}

func (d pathChange) isEmpty() bool {
	return d.err == nil && !d.wasDeleted && (d.old == nil && d.new == nil || sameVersion(d.old, d.new))
}

func sameVersion(a, b *Node) bool {
	return a != nil && b != nil && sameNode(a.Stat, b.Stat) && sameData(a.Stat, b.Stat)
}

// changesNode reports whether the delta contains a change of the node, and not only a failure to read it.
func (d pathChange) changesNode() bool { return d.old != nil || d.new != nil }

// deletesNode reports whether the node that the subscriber knows is gone.
func (d pathChange) deletesNode() bool {
	return d.old != nil && (d.new == nil || !sameNode(d.old.Stat, d.new.Stat))
}

// sameNode reports whether two Stats of a path belong to the same node, which was not deleted and created
// again in between. The czxid would be enough, but a server that was wiped or restored uses zxids again.
func sameNode(a, b framework.Stat) bool { return a.Czxid == b.Czxid && a.Ctime == b.Ctime }

// sameData reports whether the data did not change between two Stats of one node.
func sameData(a, b framework.Stat) bool {
	return a.Mzxid == b.Mzxid && a.Mtime == b.Mtime && a.Version == b.Version
}

// mergedChanges has the latest state of each path, for a subscriber whose queue is full. So it never has more entries than
// there are nodes: existing ones, and deleted ones whose deletion the subscriber has not received.
type mergedChanges struct {
	nodes       map[string]pathChange
	connection  *framework.StateChange
	initialized bool
}

func (d *mergedChanges) addEvent(ev Event) {
	switch ev.Type {
	case Initialized:
		d.initialized = true
	case ConnectionChanged:
		d.connection = &ev.State
	default:
		if d.nodes == nil {
			d.nodes = map[string]pathChange{}
		}
		old, known := d.nodes[ev.Path]
		// a Failed alone does not change the node that the subscriber knows
		if now := old.withEvent(ev, known && old.changesNode()); now.isEmpty() {
			delete(d.nodes, ev.Path)
		} else {
			d.nodes[ev.Path] = now
		}
	}
}

func (d *mergedChanges) forgetFailure(path string) {
	n, known := d.nodes[path]
	if !known || n.err == nil {
		return
	}
	if n.err = nil; n.isEmpty() {
		delete(d.nodes, path)
	} else {
		d.nodes[path] = n
	}
}

// toEvents returns the deltas as a list of events: first the state of the connection, which comes before the changes that
// it revealed; then deleted nodes, children before their parents; then new and changed nodes, parents before their
// children; then the rest. Applied to the subscriber's nodes, they give the existing nodes.
func (d *mergedChanges) toEvents() []Event {
	paths := slices.SortedFunc(maps.Keys(d.nodes), comparePaths)
	events := make([]Event, 0, len(paths))
	if d.connection != nil {
		events = append(events, Event{Type: ConnectionChanged, State: *d.connection})
	}
	dead := d.deletedPaths(paths)
	for i, path := range slices.Backward(paths) {
		if dead[i] {
			events = append(events, Event{Type: Deleted, Path: path, Old: d.nodes[path].old})
		}
	}
	for i, path := range paths {
		switch n := d.nodes[path]; {
		case n.new == nil:
		case n.old == nil || dead[i]:
			events = append(events, Event{Type: Created, Path: path, New: n.new})
		case !sameVersion(n.old, n.new):
			events = append(events, Event{Type: Changed, Path: path, Old: n.old, New: n.new})
		}
	}
	for _, path := range paths {
		if err := d.nodes[path].err; err != nil {
			events = append(events, Event{Type: Failed, Path: path, Err: err})
		}
	}
	if d.initialized {
		events = append(events, Event{Type: Initialized})
	}
	return events
}

// deletedPaths reports which of the sorted paths have to be reported as deleted. A subscriber may drop everything below a
// deleted node. So a node that is back unchanged counts as deleted, too, if a node above it was replaced by another.
func (d *mergedChanges) deletedPaths(paths []string) []bool {
	dead := make([]bool, len(paths))
	above := "" // the topmost deleted node above the next path, if any
	for i, path := range paths {
		n := d.nodes[path]
		below := above != "" && (above == "/" || strings.HasPrefix(path, above+"/"))
		dead[i] = n.deletesNode() || n.wasDeleted && below
		if n.deletesNode() && !below {
			above = path
		}
	}
	return dead
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
func (d *mergedChanges) earlierNodes(which func(path string) bool) (nodes []*Node) {
	for path, n := range d.nodes {
		if n.old != nil && which(path) {
			nodes = append(nodes, n.old)
		}
	}
	return nodes
}

// hiddenCount returns how many nodes more readers see than the tree has.
func (d *mergedChanges) hiddenCount() (n int) {
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

package cache

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-curator/curator/framework"
)

// ErrSnapshot means that a snapshot is damaged, is none, or does not fit the cache: see [ReadSnapshot] and
// [WithSnapshot].
var ErrSnapshot = errors.New("unusable snapshot")

// Snapshot has the contents of a cache at some moment, for [WithSnapshot]. Take it with Snapshot of a cache, write it
// with WriteTo, and read it with [ReadSnapshot]. It never changes, and is safe for concurrent use. The data are as in
// the cache: after a decoder, not encrypted.
type Snapshot struct {
	root     string
	dataForm dataForm
	nodes    []savedNode // each before its children, siblings by name
}

// dataForm is the form of the data that a cache keeps.
type dataForm uint8

const (
	formStored dataForm = iota
	formDecoded
	formNone
)

func (c *config) dataForm() dataForm {
	switch {
	case c.noData:
		return formNone
	case c.decode != nil:
		return formDecoded
	}
	return formStored
}

type savedNode struct {
	name   string
	data   []byte
	stat   framework.Stat
	depth  int32
	live   bool // false: it could not be read; it is here for the paths of the nodes below
	listed bool // all children that the Stat counts follow
}

// Len returns how many nodes the snapshot has, including nodes that could not be read but have nodes below
// them.
func (s *Snapshot) Len() int { return len(s.nodes) }

// Root returns the path of the cache's root, as it was given to the constructor.
func (s *Snapshot) Root() string { return s.root }

// takeSnapshot is called by the cache's goroutine, or after its end.
func (e *engine) takeSnapshot() *Snapshot {
	s := &Snapshot{root: e.cfg.root, dataForm: e.cfg.dataForm(), nodes: make([]savedNode, 0, e.store.nodeCount)}
	s.addSubtree(e.store.top, 0)
	if len(s.nodes) == 1 && !s.nodes[0].live {
		s.nodes = nil // the root does not exist
	}
	return s
}

func (s *Snapshot) addSubtree(n *treeNode, depth int32) {
	at := len(s.nodes)
	s.nodes = append(s.nodes, savedNode{name: n.name(), depth: depth, live: n.live})
	listed := n.live && n.state.hasAny(childrenKnown)
	for _, k := range n.children() {
		listed = listed && k.live // else its name is missing in the snapshot
		if k.live || len(k.children()) > 0 {
			s.addSubtree(k, depth+1)
		}
	}
	if saved := &s.nodes[at]; n.live {
		saved.data, saved.stat, saved.listed = n.data(), n.stat(), listed
	}
}

// WithSnapshot makes the cache begin with the nodes of a snapshot. They can be read immediately, without a connection,
// and streams of events begin with them. The cache is not in sync until it has compared them with the tree, as after a
// reconnect. Then events report the differences: nodes that were deleted, created or changed since. Of nodes with 4 KiB
// of data or more only the Stat is read if they have not changed; reading smaller nodes costs no more than their Stat.
// A node counts as unchanged if the zxid, time and version of its creation and of its last change are the same; so do
// not use snapshots of another ensemble whose zxids and times are the same.
//
// The cache must have the snapshot's root, and keep data in the same form: as they are stored, decoded (by the same
// decoder), or not at all. The data must fit into [WithDataLimit]. Otherwise the constructor fails with ErrSnapshot and
// framework.ErrInvalidOption. Filters and the depth may differ; filters are called before the constructor returns. With
// a nil snapshot the cache loads as usual.
//
// Corresponds to a CuratorCacheStorage that is filled before Curator's cache is started.
func WithSnapshot(s *Snapshot) Option {
	return generalOption(func(c *config) error { c.snapshot = s; return nil })
}

func (s *Snapshot) checkFits(cfg *config) error {
	bytes := 0
	for i := range s.nodes {
		bytes += len(s.nodes[i].data)
	}
	why := ""
	switch {
	case s.root != cfg.root:
		why = fmt.Sprintf("it is of %q, and the cache of %q", s.root, cfg.root)
	case s.dataForm != cfg.dataForm():
		why = "its cache kept data in another way (WithoutData, WithDecoder, WithCompressedData)"
	case bytes > cfg.dataLimit:
		why = fmt.Sprintf("it has %d bytes of data, and the limit is %d", bytes, cfg.dataLimit)
	default:
		return nil
	}
	return fmt.Errorf("cache: %w: %w: %s; leave WithSnapshot out", framework.ErrInvalidOption, ErrSnapshot, why)
}

// adoptSnapshot fills the empty store with a snapshot's nodes that belong to the cache. It is called before the
// cache's goroutine begins.
func (e *engine) adoptSnapshot(s *Snapshot) {
	st := e.store
	var above []*treeNode   // by depth: the last node and those above it; nil: does not belong to the cache
	var counts []int32      // by depth: how many children that node has in the snapshot
	finish := func(d int) { // the node at this depth has no more children in the snapshot
		n := above[d]
		if n != nil && n.state.hasAny(childrenKnown) && counts[d] != n.stat().NumChildren {
			e.applyInput(n, childrenUncertain) // some were left out by that cache's filter or depth
		}
	}
	for i := range s.nodes {
		saved := &s.nodes[i]
		d := int(saved.depth)
		for len(above) > d {
			finish(len(above) - 1)
			above, counts = above[:len(above)-1], counts[:len(counts)-1]
		}
		n := st.top
		if d > 0 {
			parent := above[d-1]
			counts[d-1]++
			n = nil
			if parent != nil && e.includesChildren(parent) && e.acceptsChild(parent, saved.name) {
				n = &treeNode{parent: parent, text: packText(saved.name, nil)}
				parent.setChildren(append(parent.children(), n))
				st.nodeCount++
			}
		}
		above, counts = append(above, n), append(counts, 0)
		if n == nil || !saved.live {
			continue
		}
		n.live = true
		if st.isVisible(n) {
			st.live++
		}
		st.setData(n, saved.data)
		n.setStat(saved.stat)
		if saved.listed {
			e.applyInput(n, childrenListed)
		}
	}
	for d := range slices.Backward(above) {
		finish(d)
	}
	// Readers see the snapshot's moment until the comparison is done, or has taken a second.
	st.loose = false
	e.sync.setProgress(st.nodeCount, st.nodeCount, readFailure{})
}

package wire

import (
	"encoding/binary"
	"slices"

	"github.com/go-curator/curator/internal/jute"
)

// registry holds a session's watches: at most one on the server per path and kind, with any number of
// subscribers here. Session.mu guards it.
//
// Before ZooKeeper 3.9 a persistent and a one-shot watch of one connection on one path replace each other. So
// a one-shot watch on a path with a persistent one is not armed on the server but served from it; a one-shot
// that was there before is replaced by it and served from then on; and persistent and recursive subscribers
// of a path share one watch. A recursive watch gets no event when a node's list of children changes, only the
// events of the children themselves: the registry derives the former for the subscribers that want it.
type registry struct {
	entries map[watchKey]*watchEntry
	order   entryList // oldest arming first: the order of a gap's events within each kind
	paths   lengths   // of all entries
	above   lengths   // of the persistent ones, which get the events of nodes below
	lookups int       // number of entries looked up for events

	unremoved map[string]bool // paths of watches that the server of this connection would not remove
	unarmed   int             // requests of the last connection to arm watches again that are not confirmed,
	gapFrom   int64           // and the highest zxid before that connection
}

// watchKey names a watch on the server. Persistent stands for both persistent kinds.
type watchKey struct {
	path string
	kind WatchKind
}

// watchEntry is a watch on the server. A cache may have two for each of hundreds of thousands of nodes, so
// its size matters: 80 bytes.
type watchEntry struct {
	key        watchKey
	subs       []*Watch
	prev, next *watchEntry // in the order
	pending    int32       // calls in flight that arm it
	recursive  int32       // subscribers, attached or pending, that want the whole subtree
	mode       int8        // Persistent: as it was last written
	armed      bool        // there is a watch on the server, or will be after the next reconnect
	exist      bool        // Data: the node was absent when it was armed
	served     bool        // one-shot: served from the path's persistent watch
	guest      bool        // one-shot: the guest may have its own watch there
	written    bool        // Persistent: a request that arms it has been written to this connection
	deep       bool        // Persistent: armed as recursive, for all that has come in so far
}

// entryList is a list of entries. It needs no allocation for an entry.
type entryList struct {
	first, last *watchEntry
	n           int
}

func (l *entryList) push(e *watchEntry) {
	if e.prev, e.next = l.last, nil; l.last == nil {
		l.first = e
	} else {
		l.last.next = e
	}
	l.last = e
	l.n++
}

func (l *entryList) remove(e *watchEntry) {
	if e.prev == nil {
		l.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		l.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
	l.n--
}

func newRegistry() registry { return registry{entries: map[watchKey]*watchEntry{}} }

func keyOf(w *Watch) watchKey {
	kind := w.Kind
	if kind == Recursive {
		kind = Persistent
	}
	return watchKey{w.Path, kind}
}

func (r *registry) entry(k watchKey) *watchEntry {
	e := r.entries[k]
	if e == nil {
		e = &watchEntry{key: k}
		r.order.push(e)
		r.entries[k] = e
		r.paths.add(len(k.path))
		if k.kind == Persistent {
			r.above.add(len(k.path))
		}
	}
	return e
}

// find is the entry for a path that a server has named, or nil.
func (r *registry) find(path string, kind WatchKind) *watchEntry {
	if !r.paths.has(len(path)) {
		return nil
	}
	r.lookups++
	return r.entries[watchKey{path, kind}]
}

// submitting records which watches a call will arm.
func (r *registry) submitting(c *Call) {
	for _, w := range c.watches() {
		r.submitted(w)
	}
}

// submitted records that a call will arm w.
func (r *registry) submitted(w *Watch) {
	w.attach(r.entry(keyOf(w)))
	w.entry.pending++
}

// attach makes e the entry of w; detach undoes it.
func (w *Watch) attach(e *watchEntry) {
	w.entry = e
	if w.Kind == Recursive {
		e.recursive++
	}
}

// writing sets the watch flag or mode in the body of a call that is about to be written.
func (r *registry) writing(c *Call) {
	w := c.Watch
	e := w.entry
	if len(c.Body) == 0 {
		return
	}
	if e.key.kind == Persistent {
		e.mode, e.written, c.arms = int8(e.wanted()), true, true
		binary.BigEndian.PutUint32(c.Body[len(c.Body)-4:], uint32(e.mode))
		return
	}
	c.Body[len(c.Body)-1] = 0
	if c.arms = !w.stopped; !c.arms {
		return
	}
	p := r.entries[watchKey{w.Path, Persistent}]
	if e.served = p != nil && p.written; !e.served {
		c.Body[len(c.Body)-1] = 1
	}
}

// wanted returns the mode in which a persistent watch serves all its subscribers.
func (e *watchEntry) wanted() int32 {
	if e.recursive > 0 {
		return jute.WatchPersistentRecursive
	}
	return jute.WatchPersistent
}

// answered attaches the call's watch if by its reply it is armed. It returns the event for the subscriber, if any. If
// the watch is not attached, or stopped, the caller calls unneeded.
func (r *registry) answered(c *Call, code int32) (fire []delivery) {
	w := c.Watch
	e := w.entry
	e.pending--
	exist := c.Op == jute.OpExists && code == jute.CodeNoNode
	if !c.arms || code != jute.CodeOK && !exist {
		r.detach(w, e)
		return nil
	}
	switch e.key.kind {
	case Persistent:
		e.deep = binary.BigEndian.Uint32(c.Body[len(c.Body)-4:]) == uint32(jute.WatchPersistentRecursive)
	case Data:
		e.exist = exist
	}
	e.armed = true
	if w.stopped {
		r.detach(w, e)
		return nil
	}
	if e.served {
		if p := r.entries[watchKey{w.Path, Persistent}]; p == nil || !p.armed {
			// The persistent watch that was to serve it has been refused: let the subscriber read again.
			e.armed = false
			r.detach(w, e)
			return []delivery{{w, WatchEvent{Type: jute.EventNodeDataChanged, Path: w.Path}}}
		}
	}
	e.subs = append(e.subs, w)
	r.fresh(e)
	return nil
}

// fresh records that an entry has got a subscriber.
func (r *registry) fresh(e *watchEntry) {
	if len(e.subs) == 1 {
		r.order.remove(e)
		r.order.push(e)
	}
}

// failed undoes submitted for a call without an answer.
func (r *registry) failed(w *Watch) {
	e := r.entries[keyOf(w)] // pending keeps the entry; w.entry may be nil if w has fired
	e.pending--
	r.detach(w, e)
}

// join attaches w to a watch that is armed.
func (r *registry) join(w *Watch) bool {
	e := r.entries[keyOf(w)]
	if e == nil || !e.armed || len(e.subs) == 0 || w.Kind == Recursive && !e.deep {
		return false
	}
	w.attach(e)
	e.subs = append(e.subs, w)
	return true
}

// detach removes w from its entry, and the entry if it is unused and no watch is on the server.
func (r *registry) detach(w *Watch, e *watchEntry) {
	if i := slices.Index(e.subs, w); i >= 0 {
		e.subs = slices.Delete(e.subs, i, i+1)
	}
	if w.Kind == Recursive && w.entry != nil {
		e.recursive--
	}
	w.entry = nil
	if e.idle() && !e.armed {
		r.drop(e)
	}
}

// idle reports whether the watch is unused.
func (e *watchEntry) idle() bool { return len(e.subs) == 0 && e.pending == 0 && !e.guest }

func (r *registry) drop(e *watchEntry) {
	if r.entries[e.key] == e {
		r.order.remove(e)
		delete(r.entries, e.key)
		r.paths.remove(len(e.key.path))
		if e.key.kind == Persistent {
			r.above.remove(len(e.key.path))
		}
	}
}

// unneeded drops the path's watches that have no subscriber left and returns the calls that remove them from
// the server.
func (r *registry) unneeded(path string) (calls []*Call) {
	p := r.find(path, Persistent)
	oneShots := false
	var what []int32
	for _, kind := range []WatchKind{Data, Child} {
		e := r.find(path, kind)
		switch {
		case e == nil:
			continue
		case !e.idle():
			oneShots = true
			continue
		case e.armed && p == nil: // removing it would take a persistent one along
			if what = append(what, jute.WatcherData); kind == Child {
				what[len(what)-1] = jute.WatcherChildren
			}
		}
		r.drop(e)
	}
	switch len(what) {
	case 1:
		calls = append(calls, removal(path, what[0]))
	case 2:
		calls = append(calls, removal(path, jute.WatcherAny))
	}
	if p != nil && p.idle() && !oneShots { // it may serve them, and removing it would take them along
		if p.armed {
			calls = append(calls, removal(path, jute.WatcherAny))
		}
		r.drop(p)
	}
	return calls
}

// on reports whether the path has a watch, or a pending one.
func (r *registry) on(path string) bool {
	return slices.ContainsFunc([]WatchKind{Data, Child, Persistent}, func(kind WatchKind) bool {
		return r.entries[watchKey{path, kind}] != nil
	})
}

func removal(path string, what int32) *Call {
	return &Call{Op: jute.OpRemoveWatches, Body: jute.Marshal(&jute.PathIntRequest{Path: path, Value: what})}
}

// shared records that the guest watches paths, too. It appends the persistent watches at these paths: on servers before
// 3.9 the guest's watches replace them.
func (r *registry) shared(again []*watchEntry, kind WatchKind, paths ...string) []*watchEntry {
	for _, path := range paths {
		r.entry(watchKey{path, kind}).guest = true
		if p := r.entries[watchKey{path, Persistent}]; p != nil && p.written && !slices.Contains(again, p) {
			again = append(again, p)
		}
	}
	return again
}

// persistent reports whether there are persistent watches to be armed again.
func (r *registry) persistent() bool {
	for k, e := range r.entries {
		if k.kind == Persistent && e.armed {
			return true
		}
	}
	return false
}

// end empties the registry and returns every subscriber.
func (r *registry) end() (subs []*Watch) {
	for e := r.order.first; e != nil; e = e.next {
		subs = append(subs, e.subs...)
	}
	*r = newRegistry()
	return subs
}

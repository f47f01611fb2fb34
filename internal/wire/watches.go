package wire

import (
	"container/list"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/go-curator/curator/internal/jute"
)

// registry holds a session's watches: at most one on the server per path and kind, with any number of subscribers here. Session.mu guards it.
//
// Before ZooKeeper 3.9 a persistent and a one-shot watch of one connection on one path replace each other. So a one-shot watch on a path that has
// a persistent one is not armed on the server but served from it, a one-shot that was there before is replaced by it and served from then on, and
// persistent and recursive subscribers of a path share one watch. A recursive watch hears nothing of changed children, but of the children
// themselves: that is told to those who want to know.
type registry struct {
	entries map[watchKey]*watchEntry
	order   *list.List // of *watchEntry, oldest arming first: events of a gap come in this order within each kind
	paths   lengths    // of all entries
	above   lengths    // of the persistent ones, which hear of what is below them
	lookups int        // how many entries were looked for on behalf of events
}

// watchKey names a watch on the server. Persistent stands for both persistent kinds.
type watchKey struct {
	path string
	kind WatchKind
}

type watchEntry struct {
	key       watchKey
	subs      []*Watch
	pending   int   // calls under way that arm it
	recursive int   // subscribers, attached or pending, that want the whole subtree
	armed     bool  // there is a watch on the server, or will be after the next reconnect
	exist     bool  // Data: the node was absent when it was armed
	served    bool  // one-shot: served from the path's persistent watch
	library   bool  // one-shot: the library may have a watch of its own there
	written   bool  // Persistent: requests written from now on are behind one that arms it
	mode      int32 // Persistent: as it was last written
	deep      bool  // Persistent: armed as recursive, for all that has come in so far
	pos       *list.Element
}

func newRegistry() registry {
	return registry{entries: map[watchKey]*watchEntry{}, order: list.New()}
}

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
		e.pos = r.order.PushBack(e)
		r.entries[k] = e
		r.paths.add(len(k.path))
		if k.kind == Persistent {
			r.above.add(len(k.path))
		}
	}
	return e
}

// find is the entry for a path that a server has named; nil if there is none.
func (r *registry) find(path string, kind WatchKind) *watchEntry {
	if !r.paths.has(len(path)) {
		return nil
	}
	r.lookups++
	return r.entries[watchKey{path, kind}]
}

// submitted notes that a call will arm w.
func (r *registry) submitted(w *Watch) {
	e := r.entry(keyOf(w))
	w.entry = e
	e.pending++
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
		e.mode, e.written, c.arms = e.wanted(), true, true
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

// wanted is the mode in which a persistent watch serves all its subscribers.
func (e *watchEntry) wanted() int32 {
	if e.recursive > 0 {
		return jute.WatchPersistentRecursive
	}
	return jute.WatchPersistent
}

// answered attaches the call's watch if its reply says that it is armed. It returns what the subscriber must be told at once. Where the watch is
// not attached, or stopped, the caller looks for what is unneeded.
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
			// The persistent watch that was to serve it was refused meanwhile: let the subscriber read again.
			e.armed = false
			r.detach(w, e)
			return []delivery{{w, WatchEvent{Type: jute.EventNodeDataChanged, Path: w.Path}}}
		}
	}
	e.subs = append(e.subs, w)
	if e.pos != nil && len(e.subs) == 1 {
		r.order.MoveToBack(e.pos)
	}
	return nil
}

// failed undoes submitted for a call without an answer.
func (r *registry) failed(c *Call) {
	c.Watch.entry.pending--
	r.detach(c.Watch, c.Watch.entry)
}

// join attaches w to a watch that is armed.
func (r *registry) join(w *Watch) bool {
	e := r.entries[keyOf(w)]
	if e == nil || !e.armed || len(e.subs) == 0 || w.Kind == Recursive && !e.deep {
		return false
	}
	w.entry = e
	e.subs = append(e.subs, w)
	if w.Kind == Recursive {
		e.recursive++
	}
	return true
}

// detach removes w from its entry, and the entry when nobody needs it and no watch is on the server.
func (r *registry) detach(w *Watch, e *watchEntry) {
	for i, s := range e.subs {
		if s == w {
			e.subs = append(e.subs[:i:i], e.subs[i+1:]...)
			break
		}
	}
	if w.Kind == Recursive && w.entry != nil {
		e.recursive--
	}
	w.entry = nil
	if e.idle() && !e.armed {
		r.drop(e)
	}
}

// idle says that nobody needs the watch.
func (e *watchEntry) idle() bool { return len(e.subs) == 0 && e.pending == 0 && !e.library }

func (r *registry) drop(e *watchEntry) {
	if e.pos != nil {
		r.order.Remove(e.pos)
		e.pos = nil
	}
	if r.entries[e.key] == e {
		delete(r.entries, e.key)
		r.paths.remove(len(e.key.path))
		if e.key.kind == Persistent {
			r.above.remove(len(e.key.path))
		}
	}
}

// unneeded drops the path's watches that have no subscriber left and returns the calls that remove them from the server.
func (r *registry) unneeded(path string) (calls []*Call) {
	p := r.find(path, Persistent)
	oneShots := false
	for _, kind := range []WatchKind{Data, Child} {
		e := r.find(path, kind)
		switch {
		case e == nil:
			continue
		case !e.idle():
			oneShots = true
			continue
		case e.armed && p == nil: // removing it would take a persistent one along
			what := jute.WatcherData
			if kind == Child {
				what = jute.WatcherChildren
			}
			calls = append(calls, removal(path, what))
		}
		r.drop(e)
	}
	if p != nil && p.idle() && !oneShots { // it may serve them, and removing it would take them along
		if p.armed {
			calls = append(calls, removal(path, jute.WatcherAny))
		}
		r.drop(p)
	}
	return calls
}

// on says whether somebody watches the path, or is about to.
func (r *registry) on(path string) bool {
	for _, kind := range []WatchKind{Data, Child, Persistent} {
		if r.entries[watchKey{path, kind}] != nil {
			return true
		}
	}
	return false
}

func removal(path string, what int32) *Call {
	return &Call{Op: jute.OpRemoveWatches, Body: jute.Marshal(&jute.PathIntRequest{Path: path, Value: what})}
}

// shared notes that the library watches paths, too, and appends the persistent watches there, which its own replace on servers before 3.9.
func (r *registry) shared(again []*watchEntry, kind WatchKind, paths ...string) []*watchEntry {
	for _, path := range paths {
		r.entry(watchKey{path, kind}).library = true
		if p := r.entries[watchKey{path, Persistent}]; p != nil && p.written && !slices.Contains(again, p) {
			again = append(again, p)
		}
	}
	return again
}

// persistent says whether there are persistent watches to be armed again.
func (r *registry) persistent() bool {
	for k, e := range r.entries {
		if k.kind == Persistent && e.armed {
			return true
		}
	}
	return false
}

// delivery is an event on its way to a subscriber.
type delivery struct {
	to *Watch
	ev WatchEvent
}

// fired returns who hears of a notification, in order; one-shot watches are used up by it. parent is the path's.
func (r *registry) fired(typ int32, path, parent string) (out []delivery) {
	ev := WatchEvent{Type: typ, Path: path}
	switch typ {
	case jute.EventNodeCreated, jute.EventNodeDataChanged:
		out = r.once(out, Data, ev)
	case jute.EventNodeDeleted:
		out = r.once(out, Data, ev)
		out = r.once(out, Child, ev)
	case jute.EventNodeChildrenChanged:
		out = r.once(out, Child, ev)
	default:
		return nil
	}
	for _, length := range r.above.sorted { // from the node itself upwards
		at, below := prefix(path, length)
		if !below {
			continue
		}
		self := length == len(path)
		e := r.find(at, Persistent)
		if e == nil {
			continue
		}
		// The server sends a recursive watch nothing of changed children: the parent of what came or went learns it here.
		children := WatchEvent{Type: jute.EventNodeChildrenChanged, Path: at}
		derived := e.deep && !self && length == len(parent) && typ != jute.EventNodeDataChanged
		if derived {
			out = r.once(out, Child, children)
		}
		for _, w := range e.subs {
			switch {
			case w.Kind == Recursive && typ != jute.EventNodeChildrenChanged, w.Kind == Persistent && self:
				out = append(out, delivery{w, ev})
			case w.Kind == Persistent && derived:
				out = append(out, delivery{w, children})
			}
		}
	}
	return out
}

// prefix is the path of so many bytes that is path or above it, if there is one.
func prefix(path string, length int) (at string, ok bool) {
	switch {
	case length > len(path):
		return "", false
	case length == len(path):
		return path, true
	case length == 1:
		return path[:1], true // the root
	}
	return path[:length], path[length] == '/'
}

// once appends what the event's one-shot subscribers hear, who are used up by it.
func (r *registry) once(out []delivery, kind WatchKind, ev WatchEvent) []delivery {
	e := r.find(ev.Path, kind)
	if e == nil {
		return out
	}
	for _, w := range e.subs {
		out = append(out, delivery{w, ev})
		w.entry = nil
	}
	e.subs, e.armed, e.library = nil, false, false
	if e.idle() {
		r.drop(e)
	}
	return out
}

func parentOf(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}

// setWatchesLimit keeps re-arming requests small, whatever packet limit the server has.
const setWatchesLimit = 128 << 10

// setWatchesHead is what a re-arming request has besides paths: header, zxid and the counts of five lists.
const setWatchesHead = 8 + 8 + 5*4

// rearm returns the calls that arm every watch anew on a fresh connection, all with one zxid: changes since then fire. Persistent watches hear
// of no changes; their subscribers, which are returned too, are told to read again. No call is longer than limit, if its paths allow.
func (r *registry) rearm(since int64, limit int) (calls []*Call, gaps []*Watch) {
	var persistent, recursive []string
	cur := &jute.SetWatches{RelativeZxid: since}
	room := min(setWatchesLimit, limit) - setWatchesHead
	size := 0
	add := func(list *[]string, path string) {
		if size += 4 + len(path); size > room && size > 4+len(path) {
			calls = append(calls, &Call{Op: jute.OpSetWatches, Body: jute.Marshal(cur)})
			*cur, size = jute.SetWatches{RelativeZxid: since}, 4+len(path)
		}
		*list = append(*list, path)
	}
	for el := r.order.Front(); el != nil; {
		e := el.Value.(*watchEntry)
		el = el.Next()
		e.library, e.written = false, e.armed
		switch {
		case e.idle() && !e.armed:
			r.drop(e)
		case !e.armed:
		case e.key.kind == Persistent:
			if e.mode = e.wanted(); e.mode == jute.WatchPersistent {
				persistent = append(persistent, e.key.path)
			} else {
				recursive = append(recursive, e.key.path)
			}
			e.deep = e.mode == jute.WatchPersistentRecursive
			gaps = append(gaps, e.subs...)
		case e.key.kind == Child:
			add(&cur.Child, e.key.path)
		case e.exist:
			add(&cur.Exist, e.key.path)
		default:
			add(&cur.Data, e.key.path)
		}
	}
	if size > 0 {
		calls = append(calls, &Call{Op: jute.OpSetWatches, Body: jute.Marshal(cur)})
	}
	// setWatches2 only where it is needed: servers before 3.6 close the connection on it. It comes last: on one path it must win.
	for len(persistent)+len(recursive) > 0 {
		two := &jute.SetWatches2{SetWatches: jute.SetWatches{RelativeZxid: since}}
		two.Persistent, persistent = cutStrings(persistent, room/2)
		if len(persistent) == 0 {
			two.Recursive, recursive = cutStrings(recursive, room/2)
		}
		calls = append(calls, &Call{Op: jute.OpSetWatches2, Body: jute.Marshal(two)})
	}
	return calls, gaps
}

// cutStrings cuts off what fits into room, but one at least.
func cutStrings(all []string, room int) (now, later []string) {
	size := 0
	for i, s := range all {
		if size += 4 + len(s); size > room && i > 0 {
			return all[:i], all[i:]
		}
	}
	return all, nil
}

// end empties the registry and returns every subscriber.
func (r *registry) end() (subs []*Watch) {
	for el := r.order.Front(); el != nil; el = el.Next() {
		subs = append(subs, el.Value.(*watchEntry).subs...)
	}
	*r = newRegistry()
	return subs
}

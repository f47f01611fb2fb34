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

func newRegistry() registry { return registry{entries: map[watchKey]*watchEntry{}} }

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

// end empties the registry and returns the last event of every subscriber.
func (r *registry) end(why error) (out []delivery) {
	for e := r.order.first; e != nil; e = e.next {
		for _, w := range e.subs {
			out = append(out, delivery{w, WatchEvent{Type: EventEnd, Path: w.Path, Err: why}})
		}
	}
	*r = newRegistry()
	return out
}

// fired returns the subscribers of a notification, in order; it uses up one-shot watches. parent is the
// parent of path.
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
		// The server sends a recursive watch no event of a changed list: the parent of a node that was
		// created or deleted gets it here.
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

// once appends the deliveries to the event's one-shot subscribers, and removes them.
func (r *registry) once(out []delivery, kind WatchKind, ev WatchEvent) []delivery {
	e := r.find(ev.Path, kind)
	if e == nil {
		return out
	}
	for i, w := range e.subs {
		if w.entry = nil; w.Set == nil || i == 0 || e.subs[i-1].Set != w.Set {
			out = append(out, delivery{w, ev})
		}
	}
	e.subs, e.armed, e.guest = nil, false, false
	if e.idle() {
		r.drop(e)
	}
	return out
}

// setWatchesLimit keeps re-arming requests small, whatever packet limit the server has.
const setWatchesLimit = 128 << 10

// setWatchesHead is the size of a re-arming request without paths: header, zxid and the counts of five lists.
const setWatchesHead = 8 + 8 + 5*4

// rearm returns the calls that arm every watch again on a new connection. All have the same zxid, the highest when the
// watches were last known to be armed: changes since then fire one-shot watches. Persistent watches get no events of
// the gap; their subscribers are returned, too, and have to read again. No call is longer than limit, if its paths
// allow.
func (r *registry) rearm(seen int64, limit int) (calls []*Call, gaps []*Watch) {
	since := seen
	if r.unarmed > 0 { // changes before the connection in between have not been reported
		since = min(since, r.gapFrom)
	}
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
	var next *watchEntry
	for e := r.order.first; e != nil; e = next {
		next = e.next
		e.guest, e.written = false, e.armed
		switch {
		case e.idle() && !e.armed:
			r.drop(e)
		case !e.armed:
		case e.key.kind == Persistent:
			e.mode = int8(e.wanted())
			if e.deep = int32(e.mode) == jute.WatchPersistentRecursive; e.deep {
				recursive = append(recursive, e.key.path)
			} else {
				persistent = append(persistent, e.key.path)
			}
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
	// setWatches2 only where it is needed: servers before 3.6 close the connection on it. It comes last: on
	// one path it must win.
	for len(persistent)+len(recursive) > 0 {
		two := &jute.SetWatches2{SetWatches: jute.SetWatches{RelativeZxid: since}}
		two.Persistent, persistent = cutStrings(persistent, room/2)
		if len(persistent) == 0 {
			two.Recursive, recursive = cutStrings(recursive, room/2)
		}
		calls = append(calls, &Call{Op: jute.OpSetWatches2, Body: jute.Marshal(two)})
	}
	r.unremoved, r.unarmed, r.gapFrom = map[string]bool{}, len(calls), since
	return calls, gaps
}

// How watches are armed without reading (Rearming). Their owner has read the nodes, by requests that can set no watch,
// or not this one. A server fires each watch whose node has changed since then, as it does after a reconnect. So no
// change is missed between the read and this request.
//
// Such an event comes before the reply. So the watches are attached when the request is written: an event before the
// reply may belong to them.

// rearming attaches the watches of a call that is about to be written. Those on paths with a persistent watch
// are left out, since they would replace it.
func (r *registry) rearming(c *Call) {
	var without map[*Watch]bool
	for _, w := range c.Rearm.Watches {
		p := r.entries[watchKey{w.Path, Persistent}]
		if w.stopped || p != nil && p.written {
			if without == nil {
				without = map[*Watch]bool{}
			}
			without[w] = true
			continue
		}
		w.entry.subs = append(w.entry.subs, w)
		r.fresh(w.entry)
	}
	if c.arms = true; len(without) > 0 {
		c.Body = c.Rearm.body(without)
	}
}

// rearmed handles the reply, and returns the events for the subscribers: if a persistent watch kept a watch from being
// armed, its node may have changed, so it is reported as changed.
func (r *registry) rearmed(a *Rearming, code int32) (fire []delivery) {
	for _, w := range a.Watches {
		e := r.entries[keyOf(w)] // pending, so it exists
		e.pending--
		attached := slices.Contains(e.subs, w)
		switch {
		case code == jute.CodeOK && attached:
			e.armed, e.exist = true, w.Absent
			continue
		case code == jute.CodeOK && w.entry != nil && !w.stopped:
			typ := int32(jute.EventNodeDataChanged)
			if w.Kind == Child {
				typ = jute.EventNodeChildrenChanged
			}
			fire = append(fire, delivery{w, WatchEvent{Type: typ, Path: w.Path}})
		case code == jute.CodeOK && w.stopped:
			e.armed = true // it was stopped after the request was written: tidy removes it
		case code == jute.CodeOK && w.Absent && len(e.subs) == 0:
			// It was used up by an event from before the request, of a node that is gone again; the server has
			// armed it. Then, too, tidy removes it.
			e.armed, e.exist = true, true
		}
		r.detach(w, e)
	}
	return fire
}

package wire

import (
	"encoding/binary"
	"slices"

	"github.com/go-curator/curator/internal/jute"
)

// watchRegistry holds a session's watches: at most one on the server per path and kind, with any number of
// subscribers here. Session.mu guards it.
//
// Before ZooKeeper 3.9 a persistent and a one-shot watch of one connection on one path replace each other. So on a path
// with a persistent watch, one-shot watches are not armed on the server, but get their events from the persistent
// one, even if they were armed before it. Persistent and recursive subscribers of a path share one watch. A
// recursive watch gets no event of a changed list of children, only the events of the children: from these the registry
// derives the former.
type watchRegistry struct {
	entries         map[watchKey]*watchEntry
	order           entryList   // those armed earliest first: the order of a gap's events within each kind
	paths           pathLengths // of all entries
	persistentPaths pathLengths // of the persistent ones, which get the events of nodes below
	lookups         int         // number of entries looked up for events

	unremoved   map[string]bool // paths of watches that the server of this connection would not remove
	unconfirmed int             // requests of rearmAll, on the last connection, without a successful reply
	gapZxid     int64           // the highest zxid when the watches were last known to be armed
}

func newWatchRegistry() watchRegistry { return watchRegistry{entries: map[watchKey]*watchEntry{}} }

func (r *watchRegistry) entryFor(k watchKey) *watchEntry {
	e := r.entries[k]
	if e == nil {
		e = &watchEntry{key: k}
		r.order.pushBack(e)
		r.entries[k] = e
		r.paths.addLength(len(k.path))
		if k.kind == Persistent {
			r.persistentPaths.addLength(len(k.path))
		}
	}
	return e
}

// findEntry returns the entry for a path that a server has named, or nil.
func (r *watchRegistry) findEntry(path string, kind WatchKind) *watchEntry {
	if !r.paths.hasLength(len(path)) {
		return nil
	}
	r.lookups++
	return r.entries[watchKey{path, kind}]
}

// recordSubmit records which watches a call will arm.
func (r *watchRegistry) recordSubmit(c *Call) {
	for _, w := range c.watchesToArm() {
		r.addPending(w)
	}
}

// addPending records that a call will arm w.
func (r *watchRegistry) addPending(w *Watch) {
	w.attachTo(r.entryFor(watchKeyOf(w)))
	w.entry.pending++
}

// prepareWrite sets the watch flag or mode in the body of a call that is about to be written.
func (r *watchRegistry) prepareWrite(c *Call) {
	w := c.Watch
	e := w.entry
	if len(c.Body) == 0 {
		return
	}
	if e.key.kind == Persistent {
		e.mode, e.written, c.armsWatch = int8(e.wantedMode()), true, true
		binary.BigEndian.PutUint32(c.Body[len(c.Body)-4:], uint32(e.mode))
		return
	}
	c.Body[len(c.Body)-1] = 0
	if c.armsWatch = !w.stopped; !c.armsWatch {
		return
	}
	p := r.entries[watchKey{w.Path, Persistent}]
	if e.isServed = p != nil && p.written; !e.isServed {
		c.Body[len(c.Body)-1] = 1
	}
}

// recordArmed attaches the call's watch if the reply shows that it is armed. It returns the event for the subscriber, if
// any. If the watch is not attached, or stopped, the caller calls dropUnused.
func (r *watchRegistry) recordArmed(c *Call, code int32) (fire []eventDelivery) {
	w := c.Watch
	e := w.entry
	e.pending--
	exist := c.Op == jute.OpExists && code == jute.CodeNoNode
	if !c.armsWatch || code != jute.CodeOK && !exist {
		r.detachWatch(w, e)
		return nil
	}
	switch e.key.kind {
	case Persistent:
		e.armedDeep = binary.BigEndian.Uint32(c.Body[len(c.Body)-4:]) == uint32(jute.WatchPersistentRecursive)
	case Data:
		e.nodeAbsent = exist
	}
	e.armed = true
	if w.stopped {
		r.detachWatch(w, e)
		return nil
	}
	if e.isServed {
		if p := r.entries[watchKey{w.Path, Persistent}]; p == nil || !p.armed {
			// The server has refused the persistent watch that was to serve it: the event makes the subscriber read again.
			e.armed = false
			r.detachWatch(w, e)
			return []eventDelivery{{w, WatchEvent{Type: jute.EventNodeDataChanged, Path: w.Path}}}
		}
	}
	e.subscribers = append(e.subscribers, w)
	r.moveFirstSubscribed(e)
	return nil
}

// moveFirstSubscribed records that an entry has got a subscriber.
func (r *watchRegistry) moveFirstSubscribed(e *watchEntry) {
	if len(e.subscribers) == 1 {
		r.order.unlinkEntry(e)
		r.order.pushBack(e)
	}
}

// dropPending undoes addPending for a call without a reply.
func (r *watchRegistry) dropPending(w *Watch) {
	e := r.entries[watchKeyOf(w)] // pending keeps the entry; w.entry may be nil if w has fired
	e.pending--
	r.detachWatch(w, e)
}

// joinArmed attaches w to a watch that is armed and has subscribers, and returns false if there is none.
func (r *watchRegistry) joinArmed(w *Watch) bool {
	e := r.entries[watchKeyOf(w)]
	if e == nil || !e.armed || len(e.subscribers) == 0 || w.Kind == Recursive && !e.armedDeep {
		return false
	}
	w.attachTo(e)
	e.subscribers = append(e.subscribers, w)
	return true
}

// detachWatch removes w from its entry, and the entry if it is unused and no watch is on the server.
func (r *watchRegistry) detachWatch(w *Watch, e *watchEntry) {
	if i := slices.Index(e.subscribers, w); i >= 0 {
		e.subscribers = slices.Delete(e.subscribers, i, i+1)
	}
	if w.Kind == Recursive && w.entry != nil {
		e.recursive--
	}
	w.entry = nil
	if e.isIdle() && !e.armed {
		r.dropEntry(e)
	}
}

func (r *watchRegistry) dropEntry(e *watchEntry) {
	if r.entries[e.key] == e {
		r.order.unlinkEntry(e)
		delete(r.entries, e.key)
		r.paths.removeLength(len(e.key.path))
		if e.key.kind == Persistent {
			r.persistentPaths.removeLength(len(e.key.path))
		}
	}
}

// dropUnused drops the path's watches that have no subscriber left and returns the calls that remove them from
// the server.
func (r *watchRegistry) dropUnused(path string) (calls []*Call) {
	p := r.findEntry(path, Persistent)
	oneShots := false
	var what []int32
	for _, kind := range []WatchKind{Data, Child} {
		e := r.findEntry(path, kind)
		switch {
		case e == nil:
			continue
		case !e.isIdle():
			oneShots = true
			continue
		case e.armed && p == nil: // else the removal would also remove the persistent one
			if what = append(what, jute.WatcherData); kind == Child {
				what[len(what)-1] = jute.WatcherChildren
			}
		}
		r.dropEntry(e)
	}
	switch len(what) {
	case 1:
		calls = append(calls, removalCall(path, what[0]))
	case 2:
		calls = append(calls, removalCall(path, jute.WatcherAny))
	}
	if p != nil && p.isIdle() && !oneShots { // which it may serve, and which its removal would also remove
		if p.armed {
			calls = append(calls, removalCall(path, jute.WatcherAny))
		}
		r.dropEntry(p)
	}
	return calls
}

// hasWatch reports whether the path has a watch, or a pending one.
func (r *watchRegistry) hasWatch(path string) bool {
	return slices.ContainsFunc([]WatchKind{Data, Child, Persistent}, func(kind WatchKind) bool {
		return r.entries[watchKey{path, kind}] != nil
	})
}

func removalCall(path string, what int32) *Call {
	return &Call{Op: jute.OpRemoveWatches, Body: jute.Marshal(&jute.PathIntRequest{Path: path, Value: what})}
}

// recordGuestWatches records that the guest watches paths, too. It appends to replaced the persistent watches at these
// paths: on servers before 3.9 the guest's watches replace them.
func (r *watchRegistry) recordGuestWatches(replaced []*watchEntry, kind WatchKind, paths ...string) []*watchEntry {
	for _, path := range paths {
		r.entryFor(watchKey{path, kind}).guestWatch = true
		if p := r.entries[watchKey{path, Persistent}]; p != nil && p.written && !slices.Contains(replaced, p) {
			replaced = append(replaced, p)
		}
	}
	return replaced
}

// hasPersistent reports whether there are persistent watches to be armed again.
func (r *watchRegistry) hasPersistent() bool {
	for k, e := range r.entries {
		if k.kind == Persistent && e.armed {
			return true
		}
	}
	return false
}

// endAll empties the registry and returns the last event of every subscriber.
func (r *watchRegistry) endAll(why error) (out []eventDelivery) {
	for e := r.order.first; e != nil; e = e.next {
		for _, w := range e.subscribers {
			out = append(out, eventDelivery{w, WatchEvent{Type: EventEnd, Path: w.Path, Err: why}})
		}
	}
	*r = newWatchRegistry()
	return out
}

// fireWatches returns the subscribers of a notification, in order; it uses up one-shot watches. parent is the
// parent of path.
func (r *watchRegistry) fireWatches(typ int32, path, parent string) (out []eventDelivery) {
	ev := WatchEvent{Type: typ, Path: path}
	switch typ {
	case jute.EventNodeCreated, jute.EventNodeDataChanged:
		out = r.takeOneShots(out, Data, ev)
	case jute.EventNodeDeleted:
		out = r.takeOneShots(out, Data, ev)
		out = r.takeOneShots(out, Child, ev)
	case jute.EventNodeChildrenChanged:
		out = r.takeOneShots(out, Child, ev)
	default:
		return nil
	}
	for _, length := range r.persistentPaths.sorted { // from the node itself upwards
		at, below := pathPrefix(path, length)
		if !below {
			continue
		}
		self := length == len(path)
		e := r.findEntry(at, Persistent)
		if e == nil {
			continue
		}
		// The server sends a recursive watch no event of a changed list: the parent of a node that was
		// created or deleted gets it here.
		children := WatchEvent{Type: jute.EventNodeChildrenChanged, Path: at}
		derived := e.armedDeep && !self && length == len(parent) && typ != jute.EventNodeDataChanged
		if derived {
			out = r.takeOneShots(out, Child, children)
		}
		for _, w := range e.subscribers {
			switch {
			case w.Kind == Recursive && typ != jute.EventNodeChildrenChanged, w.Kind == Persistent && self:
				out = append(out, eventDelivery{w, ev})
			case w.Kind == Persistent && derived:
				out = append(out, eventDelivery{w, children})
			}
		}
	}
	return out
}

// takeOneShots appends the deliveries to the event's one-shot subscribers, and removes them.
func (r *watchRegistry) takeOneShots(out []eventDelivery, kind WatchKind, ev WatchEvent) []eventDelivery {
	e := r.findEntry(ev.Path, kind)
	if e == nil {
		return out
	}
	for i, w := range e.subscribers {
		if w.entry = nil; w.Set == nil || i == 0 || e.subscribers[i-1].Set != w.Set {
			out = append(out, eventDelivery{w, ev})
		}
	}
	e.subscribers, e.armed, e.guestWatch = nil, false, false
	if e.isIdle() {
		r.dropEntry(e)
	}
	return out
}

// setWatchesLimit keeps re-arming requests small, whatever packet limit the server has.
const setWatchesLimit = 128 << 10

// setWatchesHead is the size of a re-arming request without paths: header, zxid and the counts of five lists.
const setWatchesHead = 8 + 8 + 5*4

// rearmAll returns the calls that arm every watch again on a new connection. All have the same zxid, the highest when
// the watches were last known to be armed: changes since then fire one-shot watches. Persistent watches get no events
// of the gap: their subscribers, persistentWatches, have to read again. No call is longer than limit, unless one path is.
func (r *watchRegistry) rearmAll(highest int64, limit int) (calls []*Call, persistentWatches []*Watch) {
	since := highest
	if r.unconfirmed > 0 { // on the last connection not all were armed: changes since gapZxid may be unreported
		since = min(since, r.gapZxid)
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
		e.guestWatch, e.written = false, e.armed
		switch {
		case e.isIdle() && (!e.armed || e.key.kind != Persistent): // an armed one-shot was kept for the guest
			r.dropEntry(e)
		case !e.armed:
		case e.key.kind == Persistent:
			e.mode = int8(e.wantedMode())
			if e.armedDeep = int32(e.mode) == jute.WatchPersistentRecursive; e.armedDeep {
				recursive = append(recursive, e.key.path)
			} else {
				persistent = append(persistent, e.key.path)
			}
			persistentWatches = append(persistentWatches, e.subscribers...)
		case e.key.kind == Child:
			add(&cur.Child, e.key.path)
		case e.nodeAbsent:
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
		two.Persistent, persistent = splitToFit(persistent, room/2)
		if len(persistent) == 0 {
			two.Recursive, recursive = splitToFit(recursive, room/2)
		}
		calls = append(calls, &Call{Op: jute.OpSetWatches2, Body: jute.Marshal(two)})
	}
	r.unremoved, r.unconfirmed, r.gapZxid = map[string]bool{}, len(calls), since
	return calls, persistentWatches
}

// How watches are armed without reading (Rearming). (1) Their owner has read the nodes, by requests that arm no watch,
// or another. (2) The request is written, and the watches are attached. (3) The server fires each watch whose node has
// changed since the read; that event comes before the reply. (4) The reply.

// attachRearming attaches the watches of a call that is about to be written. Those on paths with a persistent watch
// are left out, since they would replace it.
func (r *watchRegistry) attachRearming(c *Call) {
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
		w.entry.subscribers = append(w.entry.subscribers, w)
		r.moveFirstSubscribed(w.entry)
	}
	if c.armsWatch = true; len(without) > 0 {
		c.Body = c.Rearm.encodeBody(without)
	}
}

// recordRearmed handles the reply. It returns an event for each watch that was left out because of a persistent one: its
// node may have changed.
func (r *watchRegistry) recordRearmed(a *Rearming, code int32) (fire []eventDelivery) {
	for _, w := range a.Watches {
		e := r.entries[watchKeyOf(w)] // pending, so it exists
		e.pending--
		attached := slices.Contains(e.subscribers, w)
		switch {
		case code == jute.CodeOK && attached:
			e.armed, e.nodeAbsent = true, w.Absent
			continue
		case code == jute.CodeOK && w.entry != nil && !w.stopped:
			typ := int32(jute.EventNodeDataChanged)
			if w.Kind == Child {
				typ = jute.EventNodeChildrenChanged
			}
			fire = append(fire, eventDelivery{w, WatchEvent{Type: typ, Path: w.Path}})
		case code == jute.CodeOK && w.stopped:
			e.armed = true // it was stopped after the request was written: removeUnused removes it
		case code == jute.CodeOK && w.Absent && len(e.subscribers) == 0:
			// (1) An event from before the request, of a node that is deleted again, has used it up here. (2) The server
			// has armed it for the absent node. removeUnused removes it.
			e.armed, e.nodeAbsent = true, true
		}
		r.detachWatch(w, e)
	}
	return fire
}

package wire

import (
	"container/list"
	"encoding/binary"
	"strings"

	"github.com/go-curator/curator/internal/jute"
)

// registry holds a session's watches: at most one on the server per path and kind, with any number of subscribers here. Session.mu guards it.
//
// Before ZooKeeper 3.9 a persistent and a one-shot watch of one connection on one path replace each other. So a one-shot watch on a path that has
// a persistent one is not armed on the server but served from it, and persistent and recursive subscribers of a path share one watch.
type registry struct {
	entries map[watchKey]*watchEntry
	order   *list.List // of *watchEntry, oldest arming first: events of a gap come in this order within each kind
}

// watchKey names a watch on the server. Persistent stands for both persistent kinds.
type watchKey struct {
	path string
	kind WatchKind
}

type watchEntry struct {
	key       watchKey
	subs      []*Watch
	pending   int  // calls under way that arm it
	recursive int  // subscribers, attached or pending, that want the whole subtree
	armed     bool // there is a watch on the server, or will be after the next reconnect
	exist     bool // Data: the node was absent when it was armed
	served    bool // one-shot: served from the path's persistent watch
	deep      bool // Persistent: armed as recursive
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
	}
	return e
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
	if w.stopped || len(c.Body) == 0 {
		return
	}
	if w.Kind == Persistent || w.Kind == Recursive {
		mode := jute.WatchPersistent
		if w.entry.recursive > 0 {
			mode = jute.WatchPersistentRecursive
		}
		binary.BigEndian.PutUint32(c.Body[len(c.Body)-4:], uint32(mode))
		return
	}
	p := r.entries[watchKey{w.Path, Persistent}]
	w.entry.served = p != nil && (p.armed || p.pending > 0) && (w.Kind == Data || p.recursive == 0)
	c.Body[len(c.Body)-1] = 1
	if w.entry.served {
		c.Body[len(c.Body)-1] = 0
	}
}

// answered attaches the call's watch if its reply says that it is armed. It returns what the subscriber must be told at once.
func (r *registry) answered(c *Call, code int32) (fire []delivery) {
	w := c.Watch
	e := w.entry
	e.pending--
	exist := c.Op == jute.OpExists && code == jute.CodeNoNode
	if code != jute.CodeOK && !exist {
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
		r.detach(w, e) // the caller removes what nobody needs
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
	if len(e.subs) == 0 && e.pending == 0 && !e.armed {
		r.drop(e)
	}
}

func (r *registry) drop(e *watchEntry) {
	if e.pos != nil {
		r.order.Remove(e.pos)
		e.pos = nil
	}
	if r.entries[e.key] == e {
		delete(r.entries, e.key)
	}
}

// unneeded drops the path's watches that have no subscriber left and returns the calls that remove them from the server.
func (r *registry) unneeded(path string) (calls []*Call) {
	oneShots := false
	for _, kind := range []WatchKind{Data, Child} {
		e := r.entries[watchKey{path, kind}]
		if e == nil {
			continue
		}
		if len(e.subs) > 0 || e.pending > 0 {
			oneShots = true
			continue
		}
		if e.armed && !e.served {
			what := jute.WatcherData
			if kind == Child {
				what = jute.WatcherChildren
			}
			calls = append(calls, removal(path, what))
		}
		r.drop(e)
	}
	p := r.entries[watchKey{path, Persistent}]
	switch {
	case p == nil || p.pending > 0:
	case len(p.subs) == 0 && oneShots:
		// It may serve them, and removing it would take them along.
	case len(p.subs) == 0:
		if p.armed {
			calls = append(calls, removal(path, jute.WatcherAny))
		}
		r.drop(p)
	case p.deep && p.recursive == 0:
		p.deep = false
		calls = append(calls, &Call{Op: jute.OpAddWatch, Body: jute.Marshal(&jute.PathIntRequest{Path: path, Value: jute.WatchPersistent})})
	}
	return calls
}

func removal(path string, what int32) *Call {
	return &Call{Op: jute.OpRemoveWatches, Body: jute.Marshal(&jute.PathIntRequest{Path: path, Value: what})}
}

// delivery is an event on its way to a subscriber.
type delivery struct {
	to *Watch
	ev WatchEvent
}

// fired returns who hears of a notification, in order; one-shot watches are used up by it.
func (r *registry) fired(typ int32, path string) (out []delivery) {
	ev := WatchEvent{Type: typ, Path: path}
	once := func(kind WatchKind) {
		e := r.entries[watchKey{path, kind}]
		if e == nil {
			return
		}
		for _, w := range e.subs {
			out = append(out, delivery{w, ev})
			w.entry = nil
		}
		e.subs, e.armed = nil, false
		if e.pending == 0 {
			r.drop(e)
		}
	}
	switch typ {
	case jute.EventNodeCreated, jute.EventNodeDataChanged:
		once(Data)
	case jute.EventNodeDeleted:
		once(Data)
		once(Child)
	case jute.EventNodeChildrenChanged:
		once(Child)
	default:
		return nil
	}
	for at, self := path, true; ; self = false {
		if e := r.entries[watchKey{at, Persistent}]; e != nil {
			for _, w := range e.subs {
				switch {
				case w.Kind == Recursive && typ != jute.EventNodeChildrenChanged, w.Kind == Persistent && self:
					out = append(out, delivery{w, ev})
				case w.Kind == Persistent && e.deep && at == parentOf(path) && typ != jute.EventNodeDataChanged:
					// The server sends no such event to a recursive watch.
					out = append(out, delivery{w, WatchEvent{Type: jute.EventNodeChildrenChanged, Path: at}})
				}
			}
		}
		if at == "/" {
			return out
		}
		at = parentOf(at)
	}
}

func parentOf(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}

// setWatchesLimit keeps re-arming requests small, whatever packet limit the server has.
const setWatchesLimit = 128 << 10

// rearm returns the calls that arm every watch anew on a fresh connection, all with one zxid: changes since then fire. Persistent watches hear
// of no changes; their subscribers, which are returned too, are told to read again.
func (r *registry) rearm(since int64) (calls []*Call, gaps []*Watch) {
	var persistent, recursive []string
	cur := &jute.SetWatches{RelativeZxid: since}
	size := 0
	room := func(path string) {
		if size += 4 + len(path); size > setWatchesLimit {
			calls = append(calls, &Call{Op: jute.OpSetWatches, Body: jute.Marshal(cur)})
			cur, size = &jute.SetWatches{RelativeZxid: since}, 4+len(path)
		}
	}
	for el := r.order.Front(); el != nil; el = el.Next() {
		e := el.Value.(*watchEntry)
		if !e.armed {
			continue
		}
		switch {
		case e.key.kind == Persistent && e.deep:
			recursive = append(recursive, e.key.path)
			gaps = append(gaps, e.subs...)
		case e.key.kind == Persistent:
			persistent = append(persistent, e.key.path)
			gaps = append(gaps, e.subs...)
		case e.key.kind == Child:
			room(e.key.path)
			cur.Child = append(cur.Child, e.key.path)
		case e.exist:
			room(e.key.path)
			cur.Exist = append(cur.Exist, e.key.path)
		default:
			room(e.key.path)
			cur.Data = append(cur.Data, e.key.path)
		}
	}
	if size > 0 {
		calls = append(calls, &Call{Op: jute.OpSetWatches, Body: jute.Marshal(cur)})
	}
	// setWatches2 only where it is needed: servers before 3.6 close the connection on it. It comes last: on one path it must win.
	for len(persistent)+len(recursive) > 0 {
		two := &jute.SetWatches2{SetWatches: jute.SetWatches{RelativeZxid: since}}
		two.Persistent, persistent = cutStrings(persistent)
		if len(persistent) == 0 {
			two.Recursive, recursive = cutStrings(recursive)
		}
		calls = append(calls, &Call{Op: jute.OpSetWatches2, Body: jute.Marshal(two)})
	}
	return calls, gaps
}

func cutStrings(all []string) (now, later []string) {
	size := 0
	for i, s := range all {
		if size += 4 + len(s); size > setWatchesLimit/2 && i > 0 {
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

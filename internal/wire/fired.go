package wire

import (
	"slices"

	"github.com/go-curator/curator/internal/jute"
)

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

// lengths counts paths by their length. A path that a server names is looked up only if one of its length is
// registered: otherwise a long path with many names would cost a hash for every node above it, under the
// session's mutex. Session.mu guards it.
type lengths struct {
	n      map[int]int
	sorted []int // the longest first
}

func (l *lengths) add(length int) {
	if l.n == nil {
		l.n = map[int]int{}
	}
	if l.n[length]++; l.n[length] == 1 {
		at, _ := slices.BinarySearchFunc(l.sorted, length, longerFirst)
		l.sorted = slices.Insert(l.sorted, at, length)
	}
}

func (l *lengths) remove(length int) {
	if l.n[length]--; l.n[length] > 0 {
		return
	}
	delete(l.n, length)
	if at, found := slices.BinarySearchFunc(l.sorted, length, longerFirst); found {
		l.sorted = slices.Delete(l.sorted, at, at+1)
	}
}

func (l *lengths) has(length int) bool { return l.n[length] > 0 }

func longerFirst(a, b int) int { return b - a }

package framework

import (
	"context"
	"sync"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// WatchSet is a set of one-shot watches of a session that share a callback, for copies of thousands of nodes: a watch
// of a set takes about 200 bytes of memory, a [Watch] about 500. A read with WatchedBy arms one watch, [WatchSet.Rearm]
// arms many at once. The watches survive reconnects within the session, as every one-shot watch does, and end with it,
// without a call of the callback. Safe for concurrent use. For authors of caches.
type WatchSet struct {
	session *Session // nil in the zero value
	members wire.WatchSet
}

// watchOptions has the watch that a read sets, if any.
type watchOptions struct {
	wanted   bool
	callback func(Event) // nil: the watch has a channel
	set      *WatchSet   // if not nil, the watch belongs to it, and the other fields do not count
}

func callbackWatch(f func(Event)) watchOptions { return watchOptions{wanted: f != nil, callback: f} }

// WatchSet returns an empty set of one-shot watches. f is called once for each watch that fires; see [Pending.Then] for
// the goroutine. When a node is deleted that has two watches, of its data and of its children, f may be called twice.
// For authors of caches.
func (s *Session) WatchSet(f func(Event)) *WatchSet {
	if s.isZeroValue() || f == nil {
		return &WatchSet{}
	}
	set := &WatchSet{session: s}
	set.members.Fn = func(we wire.WatchEvent) {
		typ, ok := eventTypes[we.Type]
		if !ok || typ == EventEnd {
			return
		}
		ev := Event{Type: typ, Path: s.client.userPath(we.Path)}
		s.client.executors().callbacks.enqueue(func() { f(ev) })
	}
	return set
}

// Drop ends the set's watches of the node at path: of its data, of its children, or both. It does not block. The client
// removes them from the server if no other watch needs them there. A watch whose read has no reply yet is not ended. If
// several reads have armed watches of one kind on one path, Drop ends one of them.
func (w *WatchSet) Drop(path string, data, children bool) {
	full, err := w.fullPath(path)
	if err != nil {
		return
	}
	var kinds []wire.WatchKind
	if data {
		kinds = append(kinds, wire.Data)
	}
	if children {
		kinds = append(kinds, wire.Child)
	}
	w.session.epoch.wire.UnwatchPath(&w.members, full, kinds...)
}

// Rearm arms watches, all by one request, on nodes that were read without a watch: of the data of some nodes, and of
// the children of others. since is a [Session.Zxid] from before the nodes were read. A watch whose node has changed
// since then fires immediately: the set's callback is called before those of the Pending. So does a watch that cannot
// be armed because there is a persistent watch on its path. A watch also fires for any event of its node that comes
// before the reply, even if that event is of another watch. If the request fails, no watch is armed. The error is
// ErrTooLarge if the request is larger than [WithMaxFrame] allows.
func (w *WatchSet) Rearm(ctx context.Context, since int64, data, children []string) *Pending[struct{}] {
	o := &operation[struct{}]{name: "setWatches"}
	a := &watchSetArmer{set: w, since: since}
	if o.c = (&Client{}); w.session != nil {
		o.c = w.session.client
	}
	for i, path := range append(data[:len(data):len(data)], children...) {
		full, err := w.fullPath(path)
		if o.path = path; err != nil {
			o.argumentError = err
			break
		}
		if i < len(data) {
			a.data = append(a.data, full)
		} else {
			a.children = append(a.children, full)
		}
	}
	o.watch, o.procedure = a, functionProcedure[struct{}]{makeRequest: setWatches, decode: decodeNothing}
	return startBackground(ctx, o)
}

func setWatches() *wire.Call { return &wire.Call{Op: jute.OpSetWatches} }

func (w *WatchSet) fullPath(path string) (full string, err error) {
	if w.session == nil {
		return "", ErrNoClient
	}
	return w.session.client.fullPath(path)
}

// newArmer returns the watch that the result of a read has, and the object that arms it. The watch is nil for a watch
// of a set; both are nil if no watch is wanted.
func (s watchOptions) newArmer(c *Client, kind wire.WatchKind, full string) (*Watch, watchArmer) {
	switch {
	case s.set != nil:
		a := &watchSetArmer{set: s.set, single: true}
		if kind == wire.Child {
			a.children = []string{full}
		} else {
			a.data = []string{full}
		}
		return nil, a
	case s.wanted:
		w := newWatch(c, kind, full, s.callback)
		return w, w
	}
	return nil, nil
}

// watchSetArmer arms watches of a set: one by a read, or many by setWatches.
type watchSetArmer struct {
	set            *WatchSet
	since          int64
	single         bool // by a read
	data, children []string

	mu    sync.Mutex
	epoch *sessionEpoch // of armed; guarded by mu
	armed []*wire.Watch // guarded by mu
}

func (a *watchSetArmer) armWatches(e *sessionEpoch, call *wire.Call) {
	watches := make([]*wire.Watch, 0, len(a.data)+len(a.children))
	add := func(kind wire.WatchKind, paths []string) {
		for _, path := range paths {
			watches = append(watches, &wire.Watch{Kind: kind, Path: path, Set: &a.set.members})
		}
	}
	add(wire.Data, a.data)
	add(wire.Child, a.children)
	if a.single {
		call.Watch = watches[0]
	} else {
		call.Rearm = &wire.Rearming{Since: a.since, Watches: watches}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.epoch, a.armed = e, watches
}

func (a *watchSetArmer) disarmWatches() {
	a.mu.Lock()
	e, armed := a.epoch, a.armed
	a.epoch, a.armed = nil, nil
	a.mu.Unlock()
	for _, w := range armed {
		e.wire.Unwatch(w)
	}
}

package framework

import (
	"context"
	"sync"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// WatchSet is many one-shot watches of a session with one callback, for a copy of thousands of nodes: each of them
// takes about 200 bytes of memory, where a [Watch] takes about 500. Reads arm them by WatchedBy, [WatchSet.Rearm] arms
// many at once. They survive reconnects within the session, as every one-shot watch does, and end with it, without a
// call of the callback. Safe for concurrent use. For authors of caches.
type WatchSet struct {
	s       *Session
	members wire.WatchSet
}

// watchOptions is the watch that a builder sets, if any.
type watchOptions struct {
	wanted bool
	fn     func(Event)
	set    *WatchSet // replaces a separate watch
}

func callbackWatch(f func(Event)) watchOptions { return watchOptions{wanted: f != nil, fn: f} }

// WatchSet returns an empty set of one-shot watches. f is called once for each watch that fires; see
// [Pending.Then] for where it runs. If a node was deleted that has a watch of its data and one of its
// children, f may be called twice. For authors of caches.
func (s *Session) WatchSet(f func(Event)) *WatchSet {
	if s.isZeroValue() || f == nil {
		return &WatchSet{}
	}
	set := &WatchSet{s: s}
	set.members.Fn = func(we wire.WatchEvent) {
		typ, ok := eventTypes[we.Type]
		if !ok || typ == EventEnd {
			return
		}
		ev := Event{Type: typ, Path: s.c.userPath(we.Path)}
		s.c.executors().callbacks.enqueue(func() { f(ev) })
	}
	return set
}

// Drop ends the set's watches of the node at path: of its data, of its children, or both. If no other watch needs them,
// they are removed from the server; Drop does not wait for that. A watch whose read has no answer yet is not dropped.
// If several reads have armed watches of one kind on one path, Drop ends one of them.
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
	w.s.e.wire.UnwatchPath(&w.members, full, kinds...)
}

// Rearm arms watches on nodes that were read without a watch, all by one request: of the data of some nodes, and of the
// children of others. since is a [Session.Zxid] from before they were read. A watch whose node has changed since then
// fires immediately, and its callback is called before those of the Pending; so does a watch that cannot be armed
// because there is a persistent watch on its path. Any event of the node that comes before the result, also that of
// another watch, uses the watch up. If the request fails, none is armed. ErrTooLarge if it does not fit into the
// server's packet limit.
func (w *WatchSet) Rearm(ctx context.Context, since int64, data, children []string) *Pending[struct{}] {
	o := &operation[struct{}]{operationKind: operationKind{name: "setWatches"}}
	a := &watchSetArmer{set: w, since: since}
	if o.c = (&Client{}); w.s != nil {
		o.c = w.s.c
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

func setWatches(*sessionEpoch) *wire.Call { return &wire.Call{Op: jute.OpSetWatches} }

// Arm arms one-shot watches without reading the nodes, all by one request: of the data of existing nodes, and then of
// missing nodes, for their creation. since is a [Session.Zxid] from before the nodes were seen: a watch whose node has
// changed since then fires immediately, possibly before the Pending is done. If the request fails, none is armed.
// Nothing shows whether the client may read the nodes: newer servers do not send the events of nodes that it may not
// read. For authors of recipes.
func (s *Session) Arm(ctx context.Context, since int64, there, absent []string) *Pending[[]*Watch] {
	o := &operation[[]*Watch]{c: s.Client().ForRecipes(), operationKind: operationKind{name: "setWatches"}}
	a := &watchListArmer{since: since, there: len(there)}
	for _, path := range append(there[:len(there):len(there)], absent...) {
		full, err := o.c.fullPath(path)
		if o.path = path; err != nil {
			o.argumentError = err
			break
		}
		a.watches = append(a.watches, newWatch(o.c, wire.Data, full, nil))
	}
	o.watch, o.procedure = a, functionProcedure[[]*Watch]{
		makeRequest: setWatches, decode: func(int64, []byte) ([]*Watch, error) { return a.watches, nil },
	}
	return startBackground(ctx, o)
}

// watchListArmer arms single watches by setWatches, the first of them on existing nodes.
type watchListArmer struct {
	since   int64
	watches []*Watch
	there   int
}

func (a *watchListArmer) armWatches(e *sessionEpoch, call *wire.Call) {
	call.Rearm = &wire.Rearming{Since: a.since}
	for i, w := range a.watches {
		armed := w.newWireWatch(e)
		armed.Absent = i >= a.there
		call.Rearm.Watches = append(call.Rearm.Watches, armed)
	}
}

func (a *watchListArmer) disarmWatches() {
	for _, w := range a.watches {
		w.disarmWatches()
	}
}

func (w *WatchSet) fullPath(path string) (full string, err error) {
	if w.s == nil {
		return "", ErrNoClient
	}
	return w.s.c.fullPath(path)
}

// newArmer returns the watch for the result of a read, and the object that arms it; both nil if none is wanted.
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
		w := newWatch(c, kind, full, s.fn)
		return w, w
	}
	return nil, nil
}

// watchSetArmer arms watches of a set: one by a read, or many by setWatches.
type watchSetArmer struct {
	set            *WatchSet
	since          int64
	single         bool
	data, children []string

	mu    sync.Mutex
	e     *sessionEpoch // guarded by mu
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
	a.e, a.armed = e, watches
}

func (a *watchSetArmer) disarmWatches() {
	a.mu.Lock()
	e, armed := a.e, a.armed
	a.e, a.armed = nil, nil
	a.mu.Unlock()
	for _, w := range armed {
		e.wire.Unwatch(w)
	}
}

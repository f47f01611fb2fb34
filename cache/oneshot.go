package cache

import (
	"errors"
	"time"

	"github.com/go-curator/curator/framework"
)

// oneShotWay uses one-shot watches: one for each node's data and one for its children. The reads set them, except for
// the children of leaves: see leaves. After a reconnect the server fires these watches for changes that they have
// missed.
//
// The facts dataWatch and listWatch of a node mean that its watch is set and has not fired. A watch may fire before the
// engine handles the reply of the read that set it; then the node is read again, and that read sets another.
type oneShotWay struct {
	e          *engine
	set        *framework.WatchSet
	unneeded   []membership // watches of nodes that are gone
	catchingUp bool         // the server may still be firing watches for missed changes
	leaves     leaves
}

func newOneShotWay(e *engine) *oneShotWay {
	w := &oneShotWay{e: e}
	if e.session != nil {
		w.set = e.session.As(e.view).WatchSet(w.hear)
	}
	return w
}

func (w *oneShotWay) begin()                {} // reads set the watches
func (w *oneShotWay) asking() bool          { return false }
func (w *oneShotWay) caughtUp() bool        { return !w.catchingUp }
func (w *oneShotWay) next() time.Time       { return time.Time{} }
func (w *oneShotWay) timeHasCome(time.Time) {}

func (w *oneShotWay) stop() {
	w.e.store.walk(w.forget)
	w.tidy()
}

func (w *oneShotWay) forget(n *node) {
	if data, children := n.state.is(dataWatch), n.state.is(listWatch); data || children {
		w.e.apply(n, watchesDropped)
		w.unneeded = append(w.unneeded, membership{w.set, w.e.store.path(n), data, children})
	}
}

func (w *oneShotWay) tidy() {
	for _, m := range w.unneeded {
		m.Stop()
	}
	w.unneeded = nil
}

// reconnected reads the root: before the server replies to that, it fires the watches for missed changes.
func (w *oneShotWay) reconnected() {
	if w.e.sync.is() {
		w.e.sync.set(false)
		w.catchingUp = true
		w.e.apply(w.e.store.top, loadStarted)
		w.e.apply(w.e.store.top, dataWanted)
	}
	w.e.sync.about(w.e.session)
}

// rootRead records that the watches have fired for all missed changes. The cache is in sync when those nodes have been
// read.
func (w *oneShotWay) rootRead(_ *framework.ReadResult, outdated bool) bool {
	if w.catchingUp && !outdated {
		w.catchingUp = false
		w.e.store.walk(func(n *node) { w.e.apply(n, loadResumed) })
	}
	return true
}

// children lists the children, also of leaves, because that sets the watch.
func (w *oneShotWay) children(n *node, stat *framework.Stat, _ bool) {
	if n.state.is(listWatch) {
		return
	}
	w.e.apply(n, listWanted)
	if w.leaves.now && stat.NumChildren == 0 && len(n.offspring()) == 0 {
		w.e.apply(n, leafFound)
	}
}

func (w *oneShotWay) pump() {
	for r := &w.e.reads; r.weight < r.window(true); {
		o, light, ok := w.e.take() // light or not, data are read: a look at the Stat would not save that
		if !ok {
			break
		}
		if !light || o.kind != readList || !w.collect(o) {
			w.read(o)
		} else if w.leaves.full() {
			w.armLeaves()
		}
	}
	w.armLeaves()
}

func (w *oneShotWay) read(o op) {
	w.reading()
	set := w.set
	if watch, _ := watchOf(o.kind); o.n.state.is(watch) {
		set = nil // it is set
	}
	w.e.send(o, set)
}

// watchOf returns the watch that a read sets, and the event of its reply.
func watchOf(k kind) (watch nodeFacts, set nodeEvent) {
	if k == readList {
		return listWatch, listWatchSet
	}
	return dataWatch, dataWatchSet
}

// got handles the reply to a read. If the root does not exist, it is read once more, by a request that sets
// a watch for its creation.
func (w *oneShotWay) got(o op, s sent, r *framework.ReadResult) {
	w.leaves.waits--
	w.leaves.now = s.connections == w.leaves.connections
	if s.armed {
		w.keepWatch(o)
	}
	if o.n == w.e.store.top && o.kind == readData && errors.Is(r.Err, framework.ErrNoNode) {
		w.e.reads.delivered(0, 0)
		w.read(op{o.n, readStat})
		return
	}
	w.e.gotOne(o, r)
}

// keepWatch records that a read has set its watch, unless an event may have used it up:
//  1. The server executes the read, which sets the watch, and replies.
//  2. A change fires the watch. The event is handled before the reply, and makes the read outdated.
//  3. The reply is handled. The read will be sent once more, and set another watch.
func (w *oneShotWay) keepWatch(o op) {
	watch, set := watchOf(o.kind)
	if w.e.apply(o.n, set); !o.n.state.is(watch) {
		membership{w.set, w.e.store.path(o.n), watch == dataWatch, watch == listWatch}.Stop()
	}
}

// hear is the callback of the watches. After a reconnect the server reports a node that was deleted and created again
// as changed. The deletion of a node uses up all its watches.
func (w *oneShotWay) hear(ev framework.Event) {
	w.e.inbox.Put(post{way: w, f: func() {
		n := w.e.store.find(ev.Path)
		switch {
		case n == nil:
		case ev.Type == framework.EventNodeChildrenChanged:
			w.e.apply(n, listWatchFired)
			w.e.apply(n, listWanted)
		case ev.Type == framework.EventNodeDeleted:
			w.e.apply(n, bothWatchesFired)
			w.e.apply(n, otherPossible)
		default:
			w.e.apply(n, dataWatchFired)
			w.e.apply(n, otherPossible)
		}
	}})
}

// A node whose Stat counts no children need not be listed. But its first child is reported only to a watch of its list
// of children, which only a list sets. Here such watches are set without lists, hundreds by one request: the setWatches
// with which clients arm their watches again after a reconnect. The server fires the watches whose node has changed
// since a given transaction, and sets the others.
//
// No change is missed: a reply had shown the transaction before the Stats were read. If the server sets the watch, the
// list of children has not changed since then, so it is still empty, as in the Stat.

// leaves are nodes without children that wait until watches are set on their lists of children.
type leaves struct {
	ops   []op // with their lists in flight
	paths []string
	bytes int // of paths

	since       int64  // was executed before the Stat of any leaf was read; 0: all of them have their watches
	connections uint64 // of the session when since was noted; a server with restored data may have come since
	now         bool   // the present reply is to a read that was sent after since was noted
	waits       int    // for so many replies, which may bring more leaves
	refused     bool   // by the server: leaves are listed
}

const (
	// mostLeaves and mostLeafBytes limit a request. A few leaves are listed instead: a node that was just
	// created has changed since the last reply, and would have to be listed anyway.
	mostLeaves, mostLeafBytes, fewLeaves = 512, 64 << 10, 4
)

// reading records a transaction before a node is read. After a reconnect leaves that were read before are listed.
func (w *oneShotWay) reading() {
	e, l := w.e, &w.leaves
	connections := e.session.Connections()
	if l.since != 0 && l.connections == connections {
		return
	}
	if l.since != 0 {
		e.store.walk(func(n *node) { e.apply(n, leafDoubted) })
		if len(l.ops) > 0 {
			e.reads.weight--
		}
		for _, o := range l.ops {
			e.apply(o.n, listFailed)
		}
		l.ops, l.paths, l.bytes = nil, nil, 0
	}
	l.connections, l.since = connections, e.session.Zxid()
}

// collect takes the list of a leaf. A request that is being put together counts as in flight.
func (w *oneShotWay) collect(o op) bool {
	l, n := &w.leaves, o.n
	if l.refused || l.since == 0 {
		return false
	}
	if len(l.ops) == 0 {
		l.waits = w.e.reads.weight
		w.e.reads.weight++
	}
	path := w.e.store.path(n)
	l.ops, l.paths, l.bytes = append(l.ops, o), append(l.paths, path), l.bytes+len(path)+4
	return true
}

// full reports whether a request is as large as it may be.
func (l *leaves) full() bool { return len(l.ops) >= mostLeaves || l.bytes >= mostLeafBytes }

// armLeaves sets the watches of the leaves, once there are many, or all replies have come that were in flight
// when the first was found.
func (w *oneShotWay) armLeaves() {
	e, l, r := w.e, &w.leaves, &w.e.reads
	idle := r.queue.len() == 0
	switch {
	case len(l.ops) == 0:
		if idle && r.weight == 0 {
			l.since = 0
		}
		return
	case l.waits > 0 && !l.full():
		return
	}
	ops, paths, set, connections := l.ops, l.paths, w.set, l.connections
	l.ops, l.paths, l.bytes = nil, nil, 0
	if len(ops) < fewLeaves {
		r.weight--
		for _, o := range ops {
			e.send(o, set)
		}
		return
	}
	set.Rearm(e.ctx, l.since, nil, paths).Then(func(_ struct{}, err error) {
		undo := allOf{}
		if err == nil {
			undo = allOf{set, paths}
		}
		e.answer(w, undo, func() {
			r.weight--
			if err == nil && connections != e.session.Connections() {
				undo.Stop()
				err = framework.ErrConnectionLoss // since may be of another history
			}
			w.gotLeaves(ops, err)
		})
	})
}

// allOf is the watches of the children of nodes.
type allOf struct {
	set   *framework.WatchSet
	paths []string
}

func (a allOf) Stop() {
	for _, path := range a.paths {
		a.set.Drop(path, false, true)
	}
}

func (w *oneShotWay) gotLeaves(ops []op, err error) {
	e, l := w.e, &w.leaves
	l.waits--
	switch passing := errors.Is(err, framework.ErrSessionLost) || errors.Is(err, framework.ErrClosed) ||
		framework.Retryable(err) || e.ctx.Err() != nil; {
	case err == nil:
	case passing: // they are listed
		e.undelivered(ops, false, err)
		return
	default:
		e.log().Info("cache: the server does not set watches by setWatches; listing leaves", "err", err)
		l.refused = true
		for _, o := range ops {
			e.apply(o.n, listFailed)
		}
		return
	}
	e.reads.delivered(0, 0)
	anew := 0
	for _, o := range ops {
		w.keepWatch(o)
		anew += e.got(o, &framework.ReadResult{})
	}
	e.answered(anew)
}

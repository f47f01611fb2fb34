package cache

import (
	"errors"
	"time"

	"github.com/go-curator/curator/framework"
)

// oneShotWay uses one-shot watches: one for each node's data and one for its children. The reads set them,
// but for the children of leaves (leaves.go). After a reconnect the server tells these watches what they have
// missed.
//
// The facts dataWatch and listWatch of a node say that its watch is set and has not fired. A watch may fire
// before the answer of the read that set it has been seen; then the node is to be read again, and that read
// sets another.
type oneShotWay struct {
	e          *engine
	set        *framework.WatchSet
	unneeded   []membership // watches of nodes that are gone
	catchingUp bool         // the server may be telling the watches what they have missed
	leaves     leaves
}

// membership is watches of a node that the set has.
type membership struct {
	set            *framework.WatchSet
	path           string
	data, children bool
}

// Stop ends the watches.
func (m membership) Stop() { m.set.Drop(m.path, m.data, m.children) }

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

// reconnected reads the root: before the server answers, it tells the watches what they have missed.
func (w *oneShotWay) reconnected() {
	if w.e.sync.is() {
		w.e.sync.set(false)
		w.catchingUp = true
		w.e.apply(w.e.store.top, loadStarted)
		w.e.apply(w.e.store.top, dataWanted)
	}
	w.e.sync.about(w.e.session)
}

// rootRead notes that the watches have been told by now what they have missed. The cache is in sync when
// those nodes have been read.
func (w *oneShotWay) rootRead(_ *framework.ReadResult, old bool) bool {
	if w.catchingUp && !old {
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

// got handles the answer to a read. If the root does not exist, it is read once more, by a request that sets
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

// keepWatch notes that a read has set its watch. If something has changed since, the watch may have fired,
// and the next read sets one in any case.
func (w *oneShotWay) keepWatch(o op) {
	watch, set := watchOf(o.kind)
	if w.e.apply(o.n, set); !o.n.state.is(watch) {
		membership{w.set, w.e.store.path(o.n), watch == dataWatch, watch == listWatch}.Stop()
	}
}

// hear is the callback of the watches. After a reconnect the server reports a node that was deleted and
// created anew as changed. The deletion of a node uses up all its watches.
func (w *oneShotWay) hear(ev framework.Event) {
	w.e.postFor(w, func() {
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
	})
}

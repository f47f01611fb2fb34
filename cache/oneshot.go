package cache

import (
	"errors"
	"math"
	"time"

	"github.com/go-curator/curator/framework"
)

// oneShotWay uses one-shot watches: one for each node's data and one for its children, set by the reads
// themselves. After a reconnect the server tells these watches what they have missed.
type oneShotWay struct {
	e          *engine
	shots      map[target]*shot   // the watches that have not fired
	unneeded   []*framework.Watch // watches of nodes that are gone
	catchingUp bool               // the server may be telling the watches what they have missed
}

type target struct {
	n        *node
	children bool
}

// shot is a one-shot watch. It may fire before the answer of the read that set it has been seen.
type shot struct {
	way   *oneShotWay
	at    target
	fired bool
	watch *framework.Watch
}

func newOneShotWay(e *engine) *oneShotWay { return &oneShotWay{e: e, shots: map[target]*shot{}} }

func (w *oneShotWay) begin()                {} // reads set the watches
func (w *oneShotWay) asking() bool          { return false }
func (w *oneShotWay) caughtUp() bool        { return !w.catchingUp }
func (w *oneShotWay) next() time.Time       { return time.Time{} }
func (w *oneShotWay) timeHasCome(time.Time) {}

func (w *oneShotWay) stop() {
	for _, s := range w.shots {
		s.watch.Stop()
	}
	clear(w.shots)
}

func (w *oneShotWay) forget(n *node) {
	for _, at := range []target{{n, false}, {n, true}} {
		if s, ok := w.shots[at]; ok {
			delete(w.shots, at)
			w.unneeded = append(w.unneeded, s.watch)
		}
	}
}

func (w *oneShotWay) tidy() {
	for _, watch := range w.unneeded {
		watch.Stop()
	}
	w.unneeded = nil
}

// reconnected reads the root: before the server answers, it tells the watches what they have missed.
func (w *oneShotWay) reconnected() {
	if w.e.sync.is() {
		w.e.sync.set(false)
		w.catchingUp = true
		w.e.count(w.e.store.top)
		w.e.want(w.e.store.top)
	}
	w.e.sync.about(w.e.session)
}

// rootRead notes that the watches have been told by now what they have missed. The cache is in sync when
// those nodes have been read.
func (w *oneShotWay) rootRead(_ *framework.ReadResult, old bool) bool {
	if w.catchingUp && !old {
		w.catchingUp = false
		w.e.store.walk(func(n *node) {
			if n.flags&busy != 0 {
				w.e.count(n)
			}
		})
	}
	return true
}

// children lists the children, also of leaves, because the list sets the watch.
func (w *oneShotWay) children(n *node, _ *framework.Stat, _ bool) {
	if w.shots[target{n, true}] == nil {
		w.e.wantList(n)
	}
}

func (w *oneShotWay) pump() {
	for r := &w.e.reads; r.weight < r.window(); {
		o, ok := w.e.take(math.MaxInt32) // a look at the Stat alone would not save the read
		if !ok {
			return
		}
		w.read(o)
	}
}

func (w *oneShotWay) read(o op) {
	at := target{o.n, o.kind == readList}
	if w.shots[at] != nil {
		w.e.send(o, nil)
	} else {
		w.e.send(o, &shot{way: w, at: at})
	}
}

// got handles the answer to a read. If the root does not exist, it is read once more, by a request that sets
// a watch for its creation.
func (w *oneShotWay) got(o op, s *shot, r *framework.ReadResult, watch *framework.Watch) {
	w.keepWatch(s, watch)
	if o.n == w.e.store.top && o.kind == readData && errors.Is(r.Err, framework.ErrNoNode) {
		w.e.reads.delivered(0, 0)
		w.read(op{o.n, readStat})
		return
	}
	w.e.gotOne(o, r)
}

func (w *oneShotWay) keepWatch(s *shot, watch *framework.Watch) {
	switch {
	case watch == nil || s.fired: // no watch was asked for or set, or it has fired
	case s.at.n.flags&gone != 0:
		watch.Stop()
	default:
		s.watch = watch
		w.shots[s.at] = s
	}
}

// hear is the callback of the watch. After a reconnect the server reports a node that was deleted and created
// anew as changed.
func (s *shot) hear(ev framework.Event) {
	w, n := s.way, s.at.n
	w.e.postFor(w, func() {
		s.fired = true
		if ev.Type == framework.EventEnd || n.flags&gone != 0 {
			return
		}
		if w.shots[s.at] == s {
			delete(w.shots, s.at)
		}
		if s.at.children && ev.Type != framework.EventNodeDeleted {
			w.e.wantList(n)
		} else {
			w.e.wantOther(n)
		}
	})
}

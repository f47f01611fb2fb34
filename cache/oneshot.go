package cache

import (
	"errors"
	"time"

	"github.com/go-curator/curator/framework"
)

// oneShotStrategy uses one-shot watches: one for each node's data and one for its children. The reads set them, except for
// the children of leaves: see pendingLeaves.
//
// After a reconnect the server fires these watches for changes that they have missed, before it replies to a read:
//
//  1. handleReconnect reads the root.
//  2. The events queue reads of the changed nodes.
//  3. handleRootRead handles the reply of step 1. The cache is in sync when the reads of step 2 are done.
type oneShotStrategy struct {
	engine        *engine
	watches       *framework.WatchSet
	unneeded      []nodeWatches // to be removed from the server: of forgotten nodes
	missedPending bool          // between steps 1 and 3: events of missed changes may still come
	leaves        pendingLeaves
}

func newOneShotStrategy(e *engine) *oneShotStrategy {
	w := &oneShotStrategy{engine: e}
	if e.session != nil {
		w.watches = e.session.As(e.view).WatchSet(w.enqueueEvent)
	}
	return w
}

func (w *oneShotStrategy) startWatching()        {} // reads set the watches
func (w *oneShotStrategy) isGapOpen() bool       { return false }
func (w *oneShotStrategy) allReported() bool     { return !w.missedPending }
func (w *oneShotStrategy) nextTimer() time.Time  { return time.Time{} }
func (w *oneShotStrategy) handleTimer(time.Time) {}

func (w *oneShotStrategy) stopWatching() {
	w.engine.store.walkNodes(w.forgetWatches)
	w.removeForgotten()
}

func (w *oneShotStrategy) forgetWatches(n *treeNode) {
	if data, children := n.state.hasAny(dataWatch), n.state.hasAny(listWatch); data || children {
		w.engine.applyInput(n, watchesDropped)
		w.unneeded = append(w.unneeded, nodeWatches{w.watches, w.engine.store.pathOf(n), data, children})
	}
}

func (w *oneShotStrategy) removeForgotten() {
	for _, m := range w.unneeded {
		m.Stop()
	}
	w.unneeded = nil
}

// handleReconnect begins step 1, also if an earlier gap's step 3 is still to come, or its changes are withheld.
func (w *oneShotStrategy) handleReconnect() {
	w.engine.sync.beginSync(w.engine.session)
	w.missedPending = true
	w.engine.applyInput(w.engine.store.top, nodeAwaited)
	w.engine.applyInput(w.engine.store.top, dataWanted)
}

// handleRootRead records that the watches have fired for all missed changes.
func (w *oneShotStrategy) handleRootRead(_ *framework.ReadResult, outdated bool) bool {
	if w.missedPending && !outdated {
		w.missedPending = false
		w.engine.store.walkNodes(func(n *treeNode) { w.engine.applyInput(n, readsAwaited) })
	}
	return true
}

// listChildren lists the children, also of leaves, because that sets the watch.
func (w *oneShotStrategy) listChildren(n *treeNode, stat *framework.Stat, _ bool) {
	if n.state.hasAny(listWatch) {
		return
	}
	w.engine.applyInput(n, listWanted)
	if w.leaves.isCurrent && stat.NumChildren == 0 && len(n.children()) == 0 {
		w.engine.applyInput(n, leafFound)
	}
}

func (w *oneShotStrategy) sendReads() {
	for r := &w.engine.reads; r.weight < r.weightLimit(true); {
		o, light, ok := w.engine.takeRead() // data are read whole even if light
		if !ok {
			break
		}
		if !light || o.kind != readList || !w.collectLeaf(o) {
			w.sendRead(o)
		} else if w.leaves.isFull() {
			w.armLeaves()
		}
	}
	w.armLeaves()
}

func (w *oneShotStrategy) sendRead(o nodeRead) {
	w.recordBaseZxid()
	set := w.watches
	if watch, _ := watchOfRead(o.kind); o.node.state.hasAny(watch) {
		set = nil // the watch is set already
	}
	w.engine.sendSingle(o, set)
}

// watchOfRead returns the watch that a read sets, and the input for its reply.
func watchOfRead(k readKind) (watch nodeFacts, set nodeInput) {
	if k == readList {
		return listWatch, listWatchSet
	}
	return dataWatch, dataWatchSet
}

// handleReply handles the reply to a read. If the root does not exist, it is read once more, by a request that sets
// a watch for its creation.
func (w *oneShotStrategy) handleReply(o nodeRead, s sentRead, r *framework.ReadResult) {
	w.leaves.awaitedReplies--
	w.leaves.isCurrent = s.connections == w.leaves.connections
	if s.armed {
		w.recordWatch(o)
	}
	if o.node == w.engine.store.top && o.kind == readData && errors.Is(r.Err, framework.ErrNoNode) {
		w.engine.reads.recordReply(0, 0)
		w.sendRead(nodeRead{o.node, readStat})
		return
	}
	w.engine.handleSingle(o, r)
}

// recordWatch records that a read has set its watch, unless an event may have used the watch up:
//  1. The server executes the read, which sets the watch, and replies.
//  2. A change fires the watch. The event is handled before the reply, and makes the read outdated.
//  3. The reply is handled. The read will be sent once more, and set another watch. In case the event of step 2 was of an
//     earlier watch, the watch of step 1 is removed.
func (w *oneShotStrategy) recordWatch(o nodeRead) {
	watch, set := watchOfRead(o.kind)
	w.engine.applyInput(o.node, set)
	if !o.node.state.hasAny(watch) {
		nodeWatches{w.watches, w.engine.store.pathOf(o.node), watch == dataWatch, watch == listWatch}.Stop()
	}
}

// enqueueEvent is the callback of the watches. After a reconnect the server reports a node that was deleted and created again
// as changed. The deletion of a node uses up all its watches.
func (w *oneShotStrategy) enqueueEvent(ev framework.Event) {
	w.engine.inbox.Put(engineCall{watching: w, run: func() {
		n := w.engine.store.findNode(ev.Path)
		switch {
		case n == nil:
		case ev.Type == framework.EventNodeChildrenChanged:
			w.engine.applyInput(n, listWatchFired)
			w.engine.applyInput(n, listWanted)
		case ev.Type == framework.EventNodeDeleted:
			w.engine.applyInput(n, bothWatchesFired)
			w.engine.applyInput(n, maybeReplaced)
		default:
			w.engine.applyInput(n, dataWatchFired)
			w.engine.applyInput(n, maybeReplaced)
		}
	}})
}

// pendingLeaves are nodes whose Stat counts no children. They are not listed, but only a watch of the list reports a first child.
// Such watches are set without lists, hundreds by one setWatches: the server fires those whose node has changed since a given
// transaction, and sets the others.
//
// No change is missed: a reply had shown the transaction before the Stats were read. So if the server sets the watch, the list
// is still empty, as in the Stat.
type pendingLeaves struct {
	reads []nodeRead // with their lists in flight
	paths []string
	bytes int // of paths

	baseZxid       int64  // was executed before the Stat of any leaf was read; 0: all leaves have their watches
	connections    uint64 // of the session when baseZxid was recorded; the next server may have restored data
	isCurrent      bool   // the reply that is being handled is of a read that was sent after baseZxid was recorded
	awaitedReplies int    // how many replies armLeaves waits for: they may bring more leaves
	refused        bool   // the server refuses setWatches: leaves are listed
}

const (
	// mostLeaves and mostLeafBytes limit a request. A few leaves are listed instead: a node that was just
	// created has changed since the last reply, and would have to be listed anyway.
	mostLeaves, mostLeafBytes, fewLeaves = 512, 64 << 10, 4
)

// recordBaseZxid records a transaction before a node is read. After a reconnect leaves that were read before are listed.
func (w *oneShotStrategy) recordBaseZxid() {
	e, l := w.engine, &w.leaves
	connections := e.session.Connections()
	if l.baseZxid != 0 && l.connections == connections {
		return
	}
	if l.baseZxid != 0 {
		e.store.walkNodes(func(n *treeNode) { e.applyInput(n, leafUncertain) })
		if len(l.reads) > 0 {
			e.reads.weight--
		}
		for _, o := range l.reads {
			e.applyInput(o.node, listFailed)
		}
		l.reads, l.paths, l.bytes = nil, nil, 0
	}
	l.connections, l.baseZxid = connections, e.session.Zxid()
}

// collectLeaf adds the list of a leaf to the next request for watches. From its first leaf that counts as in flight.
func (w *oneShotStrategy) collectLeaf(o nodeRead) bool {
	l, n := &w.leaves, o.node
	if l.refused || l.baseZxid == 0 {
		return false
	}
	if len(l.reads) == 0 {
		l.awaitedReplies = w.engine.reads.weight
		w.engine.reads.weight++
	}
	path := w.engine.store.pathOf(n)
	l.reads, l.paths, l.bytes = append(l.reads, o), append(l.paths, path), l.bytes+len(path)+4
	return true
}

func (l *pendingLeaves) isFull() bool { return len(l.reads) >= mostLeaves || l.bytes >= mostLeafBytes }

// armLeaves sets the watches of the leaves when there are enough for a request, or all reads that were in flight when the
// first leaf was found have their replies.
func (w *oneShotStrategy) armLeaves() {
	e, l, r := w.engine, &w.leaves, &w.engine.reads
	switch {
	case len(l.reads) == 0:
		if r.queue.len() == 0 && r.weight == 0 {
			l.baseZxid = 0
		}
		return
	case l.awaitedReplies > 0 && !l.isFull():
		return
	}
	ops, paths, set, connections := l.reads, l.paths, w.watches, l.connections
	l.reads, l.paths, l.bytes = nil, nil, 0
	if len(ops) < fewLeaves {
		r.weight--
		for _, o := range ops {
			e.sendSingle(o, set)
		}
		return
	}
	set.Rearm(e.ctx, l.baseZxid, nil, paths).Then(func(_ struct{}, err error) {
		undo := leafWatches{}
		if err == nil {
			undo = leafWatches{set, paths}
		}
		e.postReply(w, undo, func() {
			r.weight--
			if err == nil && connections != e.session.Connections() {
				undo.Stop()
				err = framework.ErrConnectionLoss // baseZxid may be of another history
			}
			w.handleLeaves(ops, err)
		})
	})
}

type leafWatches struct {
	set   *framework.WatchSet
	paths []string
}

func (a leafWatches) Stop() {
	for _, path := range a.paths {
		a.set.Drop(path, false, true)
	}
}

func (w *oneShotStrategy) handleLeaves(ops []nodeRead, err error) {
	e, l := w.engine, &w.leaves
	l.awaitedReplies--
	temporary := errors.Is(err, framework.ErrSessionLost) || errors.Is(err, framework.ErrClosed) ||
		framework.Retryable(err) || e.ctx.Err() != nil
	switch {
	case err == nil:
	case temporary: // the leaves are listed
		e.requeueReads(ops, false, err)
		return
	default:
		e.logger().Info("cache: the server refuses setWatches; listing the children of leaf nodes instead", "err", err)
		l.refused = true
		for _, o := range ops {
			e.applyInput(o.node, listFailed)
		}
		return
	}
	e.reads.recordReply(0, 0)
	requeued := 0
	for _, o := range ops {
		w.recordWatch(o)
		requeued += e.applyReply(o, &framework.ReadResult{})
	}
	e.publishAfterReply(requeued)
}

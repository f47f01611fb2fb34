package cache

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
)

// persistentStrategy uses one persistent recursive watch, and reads by MultiRead. The server does not send this watch the
// events that it has missed in a gap (without a connection):
//
//  1. On the new connection internal/wire arms the watch again. After the server's reply the watch reports EventReset.
//  2. handleGap asks for the server's zxid. Until then no read is sent.
//  3. If that is the zxid of the last reply before the gap, nothing was missed. Otherwise compareAfterGap compares every node.
//
// If the connection is lost again in between, the next EventReset begins at 2 again, and a late reply for the earlier gap
// is ignored. Of a comparison that was not finished, the failed reads are queued again (requeueReads), and the others are
// still queued.
type persistentStrategy struct {
	engine  *engine
	pending pendingEvents

	watch          *framework.Watch // nil until the server has confirmed it
	compareWhenSet bool             // the watch was not set at the first try: compare when it is set
	losses         int              // connections lost in a row while setting the watch
	zxid           int64            // of the last reply: all changes until then are reported, or found by queued reads; 0 if unknown
	gapOpen        bool             // events may have been missed, and the reply to requestZxid has not come
	zxidRequests   int              // how often requestZxid was called
	retryAt        time.Time        // when to set the watch, or to request the zxid, again
	suspect        *nodeVersion     // the root's identity when the server reported a change of the root
}

// pendingEvents counts the events that wait for the cache's goroutine, which may be in the user's decoder. Without a limit,
// any client with permission to write below the root could make them any number.
type pendingEvents struct {
	events, bytes atomic.Int64
	overflowed    atomic.Bool // further events were dropped, and a comparison is posted in their place
}

// nodeVersion changes with every change of a node.
type nodeVersion struct{ czxid, mzxid int64 }

// After mostWatchLosses connections lost in a row while setting the watch, the cache uses one-shot watches. It stops using
// MultiRead, which is sent together with the watch, before that: see mostReadLosses.
const mostWatchLosses = 10

func (w *persistentStrategy) forgetWatches(*treeNode) {}
func (w *persistentStrategy) removeForgotten()        {}
func (w *persistentStrategy) handleReconnect()        {} // the watch reports it, as EventReset
func (w *persistentStrategy) isGapOpen() bool         { return w.gapOpen }
func (w *persistentStrategy) allReported() bool       { return w.watch != nil && !w.gapOpen }
func (w *persistentStrategy) nextTimer() time.Time    { return w.retryAt }

func (w *persistentStrategy) handleReply(o nodeRead, _ sentRead, r *framework.ReadResult) {
	w.engine.handleSingle(o, r)
}

func (w *persistentStrategy) handleTimer(now time.Time) {
	switch {
	case !clearIfDue(&w.retryAt, now):
	case w.watch == nil:
		w.startWatching()
	case w.gapOpen:
		w.requestZxid()
	}
}

// startWatching sets the watch. The reads are sent without waiting for it: the server sets it before it executes them.
func (w *persistentStrategy) startWatching() {
	e, connections := w.engine, w.engine.session.Connections()
	e.view.Watches().Add().WithMode(framework.PersistentRecursiveWatch).Watching(w.enqueueEvent).
		InBackground().ForPath(e.ctx, e.cfg.root).Then(func(watch *framework.Watch, err error) {
		e.postReply(w, watch, func() { w.handleWatch(watch, connections, err) })
	})
}

// handleWatch handles the reply to startWatching; connections is Session.Connections before the request. If there is a later
// connection by now, the watch may have missed events, with its EventReset still to come.
func (w *persistentStrategy) handleWatch(watch *framework.Watch, connections uint64, err error) {
	lost := errors.Is(err, framework.ErrConnectionLoss)
	switch {
	case err == nil:
		w.watch = watch
		if w.compareWhenSet || connections != w.engine.session.Connections() {
			w.compareAfterGap()
		}
	case errors.Is(err, framework.ErrUnimplemented):
		w.useOneShot("the server has no persistent watches", true)
	case w.engine.endsSession(err):
	case errors.Is(err, framework.ErrAuthFailed): // also matches ErrNotConnected, but comes immediately
		w.compareWhenSet, w.retryAt = true, time.Now().Add(retryFirst)
	case lost && w.losses == mostWatchLosses:
		w.useOneShot("the server closes the connection when asked for a persistent watch", false)
	case lost, errors.Is(err, framework.ErrNotConnected):
		if lost {
			w.losses++
		}
		w.compareWhenSet = true
		w.startWatching() // waits for a connection
	default:
		w.engine.logger().Warn("cache: cannot set the watch; retrying", "path", w.engine.cfg.root, "err", err)
		w.compareWhenSet, w.retryAt = true, time.Now().Add(retryFirst)
	}
}

// useOneShot continues with one-shot watches: for good if it is certain that the server needs them, otherwise
// for this session.
func (w *persistentStrategy) useOneShot(why string, certain bool) {
	e := w.engine
	e.logger().Warn("cache: using one-shot watches: "+why, "path", e.cfg.root)
	w.stopWatching()
	e.cfg.oneShot = certain
	e.startStrategy(newOneShotStrategy(e))
}

func (w *persistentStrategy) stopWatching() {
	w.watch.Stop()
	w.watch = nil
}

func (w *persistentStrategy) compareAfterGap() {
	w.gapOpen, w.suspect = false, nil
	w.engine.compareTree()
}

// enqueueEvent is the callback of the watch; it runs on the callbacks' goroutine. If too many events wait, a comparison of all
// nodes replaces further ones.
func (w *persistentStrategy) enqueueEvent(ev framework.Event) {
	u, bytes := &w.pending, int64(len(ev.Path))
	if u.events.Load() < framework.WatchBacklog && u.bytes.Load()+bytes <= framework.WatchBacklogBytes {
		u.events.Add(1)
		u.bytes.Add(bytes)
		w.engine.inbox.Put(engineCall{watching: w, run: func() {
			u.events.Add(-1)
			u.bytes.Add(-bytes)
			w.handleEvent(ev)
		}})
		return
	}
	if !u.overflowed.Swap(true) {
		w.engine.inbox.Put(engineCall{watching: w, run: func() {
			u.overflowed.Store(false)
			w.compareAfterGap()
		}})
	}
}

func (w *persistentStrategy) handleEvent(ev framework.Event) {
	switch ev.Type {
	case framework.EventReset:
		w.handleGap()
	case framework.EventNodeCreated, framework.EventNodeDataChanged:
		w.handleChange(ev.Path, ev.Type == framework.EventNodeCreated)
	case framework.EventNodeDeleted:
		w.handleDeletion(ev.Path)
	}
}

// handleChange handles the creation of a node or a change of its data.
func (w *persistentStrategy) handleChange(path string, created bool) {
	e := w.engine
	n := e.store.findNode(path)
	wanted := dataWanted
	if created {
		wanted = maybeReplaced
	}
	if n == e.store.top {
		w.suspectRoot()
		e.applyInput(n, wanted)
		return
	}
	parent := e.store.findNode(zkpath.Parent(path))
	if parent == nil || !e.includesChildren(parent) {
		return // a later list of the parent will contain the node, or it does not belong to the cache
	}
	e.applyInput(parent, listChanged)
	if n != nil {
		e.applyInput(n, wanted)
		if created { // the deletion before it was not read yet: the parent's Stat has changed once more
			e.scheduleStat(parent, true)
		}
		return
	}
	if zkpath.Validate(path, false) != nil {
		return // of a faulty server: such a node could never be read
	}
	if name := zkpath.Base(path); e.acceptsChild(parent, name) {
		e.applyInput(e.store.insertNode(parent, name), dataWanted)
	}
	e.refreshParent(parent, e.store.isVisible(parent))
}

// handleDeletion handles the deletion of a node. The node may exist again: one transaction can delete a node and create it
// again, and the server reports both separately. So the node is read, as after any other change.
func (w *persistentStrategy) handleDeletion(path string) {
	e := w.engine
	n := e.store.findNode(path)
	if n == e.store.top {
		w.suspectRoot()
	}
	if n != nil {
		e.applyInput(n, maybeReplaced)
	}
	if parent := e.store.findNode(zkpath.Parent(path)); parent != nil && path != e.cfg.root {
		e.refreshParent(parent, n != nil)
	}
}

// suspectRoot records the root's identity when the server has reported a change of the root. If the next read finds the root
// unchanged, the server has reported the path of the watch instead of the changed node's.
func (w *persistentStrategy) suspectRoot() {
	top := w.engine.store.top
	if top.live && top.state.data == fetchIdle && !top.state.hasAny(eventsMissed) && !w.gapOpen && w.suspect == nil {
		w.suspect = &nodeVersion{top.czxid, top.stat().Mzxid}
	}
}

func (w *persistentStrategy) handleRootRead(r *framework.ReadResult, outdated bool) bool {
	suspect := w.suspect
	w.suspect = nil
	if suspect == nil || outdated || r.Err != nil || *suspect != (nodeVersion{r.Stat.Czxid, r.Stat.Mzxid}) {
		return true
	}
	w.useOneShot("the server's events name the path of the watch instead of the node", true)
	return false
}

// listChildren lists the children if they may have changed: not of a leaf, nor if they are known. While events may have been
// missed, children are known only if the Stat has not changed.
func (w *persistentStrategy) listChildren(n *treeNode, stat *framework.Stat, same bool) {
	known, proven := n.state.hasAny(childrenKnown), !n.state.hasAny(eventsMissed) && w.allReported()
	switch {
	case known && (proven || same):
	case !known && !n.state.list.isQueued() && stat.NumChildren == 0 && len(n.children()) == 0:
		w.engine.applyInput(n, childrenListed)
	default:
		w.engine.applyInput(n, listWanted)
	}
}

func (w *persistentStrategy) handleGap() {
	w.engine.sync.beginSync(w.engine.session)
	w.suspect, w.engine.publishing.withheldSince = nil, time.Time{}
	if w.zxid == 0 {
		w.compareAfterGap()
		return
	}
	w.gapOpen = true
	w.requestZxid()
}

// requestZxid requests the server's zxid. Late replies to earlier requests are ignored: they do not cover the last gap.
func (w *persistentStrategy) requestZxid() {
	w.zxidRequests++
	w.retryAt = time.Time{}
	e, request := w.engine, w.zxidRequests
	e.view.MultiRead().Undecompressed().InBackground().ForReads(e.ctx, framework.ReadData(e.cfg.root)).
		Then(func(r framework.MultiReadResult, err error) {
			e.inbox.Put(engineCall{watching: w, run: func() { w.handleZxid(request, r.Zxid, err) }})
		})
}

// handleZxid handles the reply to requestZxid. After an error it retries: the request may have failed without a loss of the
// connection, because it was not sent in time. A reconnect in between is another gap, with a separate request.
func (w *persistentStrategy) handleZxid(request int, zxid int64, err error) {
	switch {
	case request != w.zxidRequests || !w.gapOpen:
	case errors.Is(err, framework.ErrConnectionLoss), errors.Is(err, framework.ErrNotConnected):
		w.retryAt = time.Now().Add(retryFirst)
	default:
		w.gapOpen = false
		if err != nil || zxid != w.zxid {
			w.compareAfterGap()
		}
	}
}

// sendReads sends pending reads. When the cache is in sync it waits for the reply to the last request, and sends all reads that
// were queued since then together.
func (w *persistentStrategy) sendReads() {
	e, r := w.engine, &w.engine.reads
	if w.gapOpen || e.sync.wasSynced() && r.weight > 0 && r.queue.len() < r.sizes.nodesPerRead {
		return
	}
	for r.weight < r.weightLimit(r.sizes.single) && w.sendBatch() {
	}
}

// sendBatch sends one request with pending reads, if any.
func (w *persistentStrategy) sendBatch() bool {
	e, r := w.engine, &w.engine.reads
	most := min(r.queue.len(), r.sizes.nodesPerRead)
	ops, multi := make([]nodeRead, 0, most), make([]framework.Read, 0, most)
	var singles []nodeRead
	request, reply := 0, 0
	for len(ops) < r.sizes.nodesPerRead && request < requestLimit && reply < replyTarget &&
		r.weight+len(singles) < r.weightLimit(r.sizes.single) {
		o, light, ok := e.takeRead()
		if !ok {
			break
		}
		if light && o.node.live && o.node.length >= largeData {
			o.kind = readStat
		}
		if r.sizes.single || o.kind == readStat {
			if singles = append(singles, o); len(ops) == 0 {
				break
			}
			continue // sent after the MultiRead, which may have nodes above it
		}
		ops = append(ops, o)
		path := e.store.pathOf(o.node)
		request += len(path) + 24
		if o.kind == readList {
			multi = append(multi, framework.ReadChildren(path))
			reply += int(o.node.stat().NumChildren) * nameBytes
		} else {
			multi = append(multi, framework.ReadData(path))
			reply += r.expectedBytes(o.node) + statBytes
		}
	}
	if len(ops) > 0 {
		r.weight += multiReadWeight
		e.view.MultiRead().Undecompressed().InBackground().ForReads(e.ctx, multi...).
			Then(func(result framework.MultiReadResult, err error) {
				e.inbox.Put(engineCall{watching: w, run: func() { w.handleBatch(ops, result, err) }})
			})
	}
	for _, o := range singles {
		e.sendSingle(o, nil)
	}
	return len(ops)+len(singles) > 0
}

// handleBatch handles the reply to a MultiRead.
func (w *persistentStrategy) handleBatch(ops []nodeRead, result framework.MultiReadResult, err error) {
	e := w.engine
	e.reads.weight -= multiReadWeight
	if err != nil {
		e.requeueReads(ops, true, err)
		return
	}
	bytes, nodes := 0, 0
	for i, o := range ops {
		if o.kind == readData && result.Results[i].Err == nil {
			bytes, nodes = bytes+len(result.Results[i].Data), nodes+1
		}
	}
	e.reads.recordReply(nodes, bytes)
	if !w.gapOpen { // in a gap a reply proves nothing; in a comparison it does, since the queue has the other nodes
		w.zxid = max(w.zxid, result.Zxid)
	}
	requeued := 0
	for i, o := range ops {
		if requeued += e.applyReply(o, &result.Results[i]); e.watching != w {
			return // everything is read again
		}
	}
	e.publishAfterReply(requeued)
}

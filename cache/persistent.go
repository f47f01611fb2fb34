package cache

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
)

// persistentWay uses one persistent recursive watch, and reads by MultiRead. The server does not send this watch the
// events that it has missed, so after a reconnect the cache asks whether anything has changed.
type persistentWay struct {
	e      *engine
	unread unread

	watch     *framework.Watch
	armed     bool      // the server has confirmed the watch
	missed    bool      // the watch was not set at the first try: load when it is set
	losses    int       // connections lost in a row while setting the watch
	zxid      int64     // the server's zxid, of the last reply before which nothing was missed; 0 if unknown
	gapOpen   bool      // events may have been missed, and the server has been asked for its zxid
	questions int       // how often the server has been asked
	againAt   time.Time // when to set the watch, or to ask, again
	suspect   *identity // the root's identity when the server reported a change of the root
}

// unread counts the events that wait for the cache's goroutine, which may be in the user's decoder. Without a limit,
// any client with permission to write below the root could make them any number.
type unread struct {
	events, bytes atomic.Int64
	missed        atomic.Bool // further events were dropped, and a load is posted that makes up for them
}

// identity changes with every change of a node.
type identity struct{ czxid, mzxid int64 }

// After mostWatchLosses connections lost in a row while setting the watch, the losses are not taken for chance any
// more. The MultiRead that is sent together with the watch is given up first: see mostReadLosses.
const mostWatchLosses = 10

func (w *persistentWay) forget(*node)    {}
func (w *persistentWay) tidy()           {}
func (w *persistentWay) reconnected()    {} // the watch reports it, as EventReset
func (w *persistentWay) asking() bool    { return w.gapOpen }
func (w *persistentWay) caughtUp() bool  { return w.armed && !w.gapOpen }
func (w *persistentWay) next() time.Time { return w.againAt }

func (w *persistentWay) got(o op, _ sent, r *framework.ReadResult) {
	w.e.gotOne(o, r)
}

func (w *persistentWay) timeHasCome(now time.Time) {
	switch {
	case !due(&w.againAt, now):
	case !w.armed:
		w.begin()
	case w.gapOpen:
		w.askZxid()
	}
}

// begin sets the watch. The reads need not wait for it: the server sets it before it executes them.
func (w *persistentWay) begin() {
	e := w.e
	e.view.Watches().Add().WithMode(framework.PersistentRecursiveWatch).Watching(w.hear).
		InBackground().ForPath(e.ctx, e.cfg.root).Then(func(watch *framework.Watch, err error) {
		e.answer(w, watch, func() { w.begun(watch, err) })
	})
}

func (w *persistentWay) begun(watch *framework.Watch, err error) {
	lost := errors.Is(err, framework.ErrConnectionLoss)
	switch {
	case err == nil:
		w.watch, w.armed = watch, true
		w.e.sync.about(w.e.session)
		if w.missed {
			w.compare()
		}
	case errors.Is(err, framework.ErrUnimplemented):
		w.fallBack("the server has no persistent watches", true)
	case w.e.over(err):
	case errors.Is(err, framework.ErrAuthFailed): // also matches ErrNotConnected, but comes immediately
		w.missed, w.againAt = true, time.Now().Add(retryFirst)
	case lost && w.losses == mostWatchLosses:
		w.fallBack("the server closes the connection when asked for a persistent watch", false)
	case lost, errors.Is(err, framework.ErrNotConnected):
		if lost {
			w.losses++
		}
		w.missed = true
		w.begin() // waits for a connection
	default:
		w.e.log().Warn("cache: cannot set the watch; trying again", "path", w.e.cfg.root, "err", err)
		w.missed, w.againAt = true, time.Now().Add(retryFirst)
	}
}

// fallBack continues with one-shot watches: for good if it is certain that the server needs them, otherwise
// for this session.
func (w *persistentWay) fallBack(why string, certain bool) {
	e := w.e
	e.log().Warn("cache: using one-shot watches: "+why, "path", e.cfg.root)
	w.stop()
	e.cfg.oneShot = certain
	e.begin(newOneShotWay(e))
}

func (w *persistentWay) stop() {
	w.watch.Stop()
	w.watch = nil
}

// compare makes the cache read or compare everything, because events may have been missed.
func (w *persistentWay) compare() {
	w.gapOpen, w.suspect = false, nil
	w.e.load()
}

// hear is the callback of the watch; it runs on the callbacks' goroutine. If too many events wait, one load replaces
// them.
func (w *persistentWay) hear(ev framework.Event) {
	u, bytes := &w.unread, int64(len(ev.Path))
	if u.events.Load() < framework.WatchBacklog && u.bytes.Load()+bytes <= framework.WatchBacklogBytes {
		u.events.Add(1)
		u.bytes.Add(bytes)
		w.e.inbox.Put(post{f: func() {
			u.events.Add(-1)
			u.bytes.Add(-bytes)
			if w.e.way == w {
				w.notice(ev)
			}
		}})
		return
	}
	if !u.missed.Swap(true) {
		w.e.inbox.Put(post{way: w, f: func() {
			u.missed.Store(false)
			w.compare()
		}})
	}
}

func (w *persistentWay) notice(ev framework.Event) {
	switch ev.Type {
	case framework.EventReset:
		w.gap()
	case framework.EventNodeCreated, framework.EventNodeDataChanged:
		w.touched(ev.Path, ev.Type == framework.EventNodeCreated)
	case framework.EventNodeDeleted:
		w.deleted(ev.Path)
	}
}

// touched handles the creation of a node or a change of its data.
func (w *persistentWay) touched(path string, created bool) {
	e := w.e
	n := e.store.find(path)
	wanted := dataWanted
	if created {
		wanted = otherPossible
	}
	if n == e.store.top {
		w.doubt()
		e.apply(n, wanted)
		return
	}
	parent := e.store.find(zkpath.Parent(path))
	if parent == nil || !e.descends(parent) {
		return // a later list of its parent will contain it, or it does not belong here
	}
	e.apply(parent, listChanged)
	if n != nil {
		e.apply(n, wanted)
		if created { // after a deletion not read yet: the parent's Stat has changed once more
			e.scheduleStat(parent, true)
		}
		return
	}
	if zkpath.Validate(path, false) != nil {
		return // no such node can exist: it could never be read
	}
	if name := zkpath.Base(path); e.accepts(parent, name) {
		e.apply(e.store.insert(parent, name), dataWanted)
	}
	e.parentChanged(parent, e.store.seen(parent))
}

// deleted handles the deletion of a node. The node may exist again: one transaction can delete a node and create it
// again, and the server reports both separately. So the node is read, as after any other change.
func (w *persistentWay) deleted(path string) {
	e := w.e
	n := e.store.find(path)
	if n == e.store.top {
		w.doubt()
	}
	if n != nil {
		e.apply(n, otherPossible)
	}
	if parent := e.store.find(zkpath.Parent(path)); parent != nil && path != e.cfg.root {
		e.parentChanged(parent, n != nil)
	}
}

// doubt records the root's identity when the server has reported a change of the root. If the next read finds the root
// unchanged, the server has reported the path of the watch instead of the changed node's. Correct paths in other events
// prove nothing: those events may belong to one-shot watches of other users of the client.
func (w *persistentWay) doubt() {
	top := w.e.store.top
	if top.live && top.state.data == fetchIdle && !top.state.is(eventsMissed) && !w.gapOpen && w.suspect == nil {
		w.suspect = &identity{top.czxid, top.stat().Mzxid}
	}
}

func (w *persistentWay) rootRead(r *framework.ReadResult, outdated bool) bool {
	suspect := w.suspect
	w.suspect = nil
	if suspect == nil || outdated || r.Err != nil || *suspect != (identity{r.Stat.Czxid, r.Stat.Mzxid}) {
		return true
	}
	w.fallBack("the server's events name the path of the watch instead of the node", true)
	return false
}

// children lists the children if they may have changed. Leaves are not listed, nor are nodes whose children
// are known. While events may have been missed, a newer Stat may hide such a change.
func (w *persistentWay) children(n *node, stat *framework.Stat, same bool) {
	known, proven := n.state.is(childrenKnown), !n.state.is(eventsMissed) && w.caughtUp()
	switch {
	case known && (proven || same):
	case !known && !n.state.list.isQueued() && stat.NumChildren == 0 && len(n.offspring()) == 0:
		w.e.apply(n, childrenListed)
	default:
		w.e.apply(n, listWanted)
	}
}

// gap handles a reconnect: events may have been missed. If the server has executed nothing since its last
// reply, none were.
func (w *persistentWay) gap() {
	w.e.sync.set(false)
	w.e.sync.about(w.e.session)
	w.suspect, w.e.showing.since = nil, time.Time{}
	if w.zxid == 0 {
		w.compare()
		return
	}
	w.gapOpen = true
	w.askZxid()
}

// askZxid asks for the server's zxid. Replies to earlier questions may arrive late, and are ignored: they do not cover
// the last gap.
func (w *persistentWay) askZxid() {
	w.questions++
	w.againAt = time.Time{}
	e, question := w.e, w.questions
	e.view.MultiRead().Undecompressed().InBackground().ForReads(e.ctx, framework.ReadData(e.cfg.root)).
		Then(func(r framework.MultiReadResult, err error) {
			e.inbox.Put(post{way: w, f: func() { w.gotZxid(question, r.Zxid, err) }})
		})
}

// gotZxid handles the reply to askZxid. After an error it asks again: the request may have failed without a loss of the
// connection, because it was not sent in time. A reconnect in between is another gap, with a separate question.
func (w *persistentWay) gotZxid(question int, zxid int64, err error) {
	switch {
	case question != w.questions || !w.gapOpen:
	case errors.Is(err, framework.ErrConnectionLoss), errors.Is(err, framework.ErrNotConnected):
		w.againAt = time.Now().Add(retryFirst)
	default:
		if w.gapOpen = false; err != nil || zxid != w.zxid {
			w.compare()
		}
	}
}

// pump sends pending reads. When the cache is in sync, reads that are queued while a request is in flight go
// together in the next request.
func (w *persistentWay) pump() {
	e, r := w.e, &w.e.reads
	if w.gapOpen || e.sync.is() && r.weight > 0 && r.queue.len() < r.sizes.nodesPerRead {
		return
	}
	for r.weight < r.window(r.sizes.single) && w.send() {
	}
}

// send sends one request with pending reads. It returns false when none can be sent.
func (w *persistentWay) send() bool {
	e, r := w.e, &w.e.reads
	most := min(r.queue.len(), r.sizes.nodesPerRead)
	ops, many := make([]op, 0, most), make([]framework.Read, 0, most)
	var singles []op
	request, reply := 0, 0
	for len(ops) < r.sizes.nodesPerRead && request < requestLimit && reply < replyTarget &&
		r.weight+len(singles) < r.window(r.sizes.single) {
		o, light, ok := e.take()
		if !ok {
			break
		}
		if light && o.n.live && o.n.length >= bigData {
			o.kind = readStat
		}
		if r.sizes.single || o.kind == readStat {
			if singles = append(singles, o); len(ops) == 0 {
				break
			}
			continue // nodes above it are read first
		}
		ops = append(ops, o)
		path := e.store.path(o.n)
		request += len(path) + 24
		if o.kind == readList {
			many = append(many, framework.ReadChildren(path))
			reply += int(o.n.stat().NumChildren) * nameBytes
		} else {
			many = append(many, framework.ReadData(path))
			reply += r.expect(o.n) + statBytes
		}
	}
	if len(ops) > 0 {
		r.weight += manyWeight
		e.view.MultiRead().Undecompressed().InBackground().ForReads(e.ctx, many...).
			Then(func(result framework.MultiReadResult, err error) {
				e.inbox.Put(post{way: w, f: func() { w.gotMany(ops, result, err) }})
			})
	}
	for _, o := range singles {
		e.send(o, nil)
	}
	return len(ops)+len(singles) > 0
}

func (w *persistentWay) gotMany(ops []op, result framework.MultiReadResult, err error) {
	e := w.e
	e.reads.weight -= manyWeight
	if err != nil {
		e.undelivered(ops, true, err)
		return
	}
	bytes, nodes := 0, 0
	for i, o := range ops {
		if o.kind == readData && result.Results[i].Err == nil {
			bytes, nodes = bytes+len(result.Results[i].Data), nodes+1
		}
	}
	e.reads.delivered(nodes, bytes)
	if !w.gapOpen {
		w.zxid = max(w.zxid, result.Zxid)
	}
	anew := 0
	for i, o := range ops {
		if anew += e.got(o, &result.Results[i]); e.way != w {
			return // everything is read again
		}
	}
	e.answered(anew)
}

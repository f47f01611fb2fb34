package cache

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
)

// persistentWay watches with one persistent recursive watch, and reads by MultiRead (requests.go). The
// server does not say what this watch has missed, so after a reconnect the cache asks whether anything has
// happened.
type persistentWay struct {
	e      *engine
	unread unread

	watch     *framework.Watch
	armed     bool      // the server has confirmed the watch
	missed    bool      // the watch could not be set at once: load when it is
	losses    int       // connections lost in a row over setting it
	zxid      int64     // the server's, with the last answer before which there was no gap; 0 if unknown
	gapOpen   bool      // there was a gap, and the server has been asked for its zxid
	questions int       // how often it has been
	againAt   time.Time // set the watch, or ask, again
	suspect   *identity // the root, when the server said that it has changed
}

// unread counts the events that wait for the cache's goroutine, which may be in the user's decoder. Anyone
// who may write where the cache looks could make it any number.
type unread struct {
	events, bytes atomic.Int64
	missed        atomic.Bool // there were more, and a load is posted that makes up for them
}

// identity is what changes with every change of a node.
type identity struct{ czxid, mzxid int64 }

// mostWatchLosses connections lost in a row over setting the watch are no accident. The MultiRead, which is
// sent together with the watch, is given up first: see mostReadLosses.
const mostWatchLosses = 10

func (w *persistentWay) forget(*node)    {}
func (w *persistentWay) tidy()           {}
func (w *persistentWay) reconnected()    {} // the watch tells of it, by EventReset
func (w *persistentWay) asking() bool    { return w.gapOpen }
func (w *persistentWay) caughtUp() bool  { return w.armed && !w.gapOpen }
func (w *persistentWay) next() time.Time { return w.againAt }

func (w *persistentWay) got(o op, _ *shot, r *framework.ReadResult, _ *framework.Watch) {
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

// begin sets the watch. It need not be waited for: what is read after it is covered.
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
		if w.missed {
			w.compare()
		}
	case errors.Is(err, framework.ErrUnimplemented):
		w.fallBack("the server has no persistent watches", true)
	case errors.Is(err, framework.ErrSessionLost), errors.Is(err, framework.ErrClosed), w.e.ctx.Err() != nil:
	case errors.Is(err, framework.ErrAuthFailed): // which is ErrNotConnected, too, but comes at once
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

// fallBack goes on with one-shot watches, for good if it is certain that the server needs them, and otherwise
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

// compare has everything read or compared: events may have been missed.
func (w *persistentWay) compare() {
	w.gapOpen, w.suspect = false, nil
	w.e.load()
}

// hear takes an event of the watch, on the goroutine of the callbacks. Events for which there is no room are
// made up for by one load.
func (w *persistentWay) hear(ev framework.Event) {
	u, bytes := &w.unread, int64(len(ev.Path))
	if u.events.Load() < framework.WatchBacklog && u.bytes.Load()+bytes <= framework.WatchBacklogBytes {
		u.events.Add(1)
		u.bytes.Add(bytes)
		w.e.post(func() {
			u.events.Add(-1)
			u.bytes.Add(-bytes)
			if w.e.way == w {
				w.notice(ev)
			}
		})
		return
	}
	if !u.missed.Swap(true) {
		w.e.postFor(w, func() {
			u.missed.Store(false)
			w.compare()
		})
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

// touched: a node was created or its data was set.
func (w *persistentWay) touched(path string, created bool) {
	e := w.e
	n := e.store.find(path)
	if n != nil && created {
		n.flags |= doubted
	}
	if n == e.store.top {
		w.doubt()
		e.want(n)
		return
	}
	parent := e.store.find(zkpath.Parent(path))
	if parent == nil || !e.descends(parent) {
		return // it will be found when its parent is listed, or does not belong here
	}
	if parent.flags&listFlying != 0 {
		parent.flags |= listAgain
	}
	if n != nil {
		e.want(n)
		if created { // after a deletion that is not read yet: the parent's Stat has changed once more
			e.scheduleStat(parent, true)
		}
		return
	}
	if zkpath.Validate(path, false) != nil {
		return // there is no such node, whatever the server says: it could never be read
	}
	if name := zkpath.Base(path); e.accepts(parent, name) {
		e.want(e.store.insert(parent, name))
	}
	e.parentChanged(parent, e.store.seen(parent))
}

// deleted: a node is gone, if it is not there again: one transaction can delete a node and create it, or
// another, and the server tells of that piece by piece. So a deletion is read like any other change.
func (w *persistentWay) deleted(path string) {
	e := w.e
	n := e.store.find(path)
	if n == e.store.top {
		w.doubt()
	}
	if n != nil {
		e.wantOther(n)
	}
	if parent := e.store.find(zkpath.Parent(path)); parent != nil && path != e.cfg.root {
		e.parentChanged(parent, n != nil)
	}
}

// doubt notes what the root was when the server said that it has changed. If the next read finds it
// unchanged, the server has reported the path of the watch instead of that of the node. Right paths in other
// events prove nothing: they may be those of somebody else's one-shot watches.
func (w *persistentWay) doubt() {
	top := w.e.store.top
	if top.live && top.flags&(wanted|flying|unproven) == 0 && !w.gapOpen && w.suspect == nil {
		w.suspect = &identity{top.czxid, top.stat().Mzxid}
	}
}

func (w *persistentWay) rootRead(r *framework.ReadResult, old bool) bool {
	suspect := w.suspect
	w.suspect = nil
	if suspect == nil || old || r.Err != nil || *suspect != (identity{r.Stat.Czxid, r.Stat.Mzxid}) {
		return true
	}
	w.fallBack("the server's events name the path of the watch instead of the node", true)
	return false
}

// children: leaves are not listed, nor is a node whose children are known. While it is open whether events
// were missed, a Stat that has moved on may hide one.
func (w *persistentWay) children(n *node, stat *framework.Stat, same bool) {
	proven := n.flags&unproven == 0 && w.caughtUp()
	switch {
	case n.flags&listed != 0 && (proven || same):
	case n.flags&(listed|listWanted) == 0 && stat.NumChildren == 0 && len(n.offspring()) == 0:
		n.flags |= listed
	default:
		w.e.wantList(n)
	}
}

// gap is a reconnect: events may have been missed. If the server has executed nothing since its last answer,
// there were none.
func (w *persistentWay) gap() {
	w.e.sync.set(false)
	w.suspect, w.e.showing.since = nil, time.Time{}
	if w.zxid == 0 {
		w.compare()
		return
	}
	w.gapOpen = true
	w.askZxid()
}

// askZxid asks for the server's zxid. The answer to an earlier question, which may come late, says nothing
// about the last gap.
func (w *persistentWay) askZxid() {
	w.questions++
	w.againAt = time.Time{}
	e, question := w.e, w.questions
	e.view.MultiRead().Undecompressed().InBackground().ForReads(e.ctx, framework.ReadData(e.cfg.root)).
		Then(func(r framework.MultiReadResult, err error) {
			e.postFor(w, func() { w.gotZxid(question, r.Zxid, err) })
		})
}

// gotZxid is the answer. If there is none, the question is asked again: the connection may be there all the
// time, and the question not have had its turn. A reconnect meanwhile is a gap with a question of its own.
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

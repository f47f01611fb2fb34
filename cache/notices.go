package cache

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
)

// arm sets the persistent watch. It need not be waited for: what is read behind it is covered.
func (e *engine) arm() {
	life := e.life
	e.view.Watches().Add().WithMode(framework.PersistentRecursiveWatch).Watching(func(ev framework.Event) {
		e.hear(life, ev)
	}).InBackground().ForPath(e.ctx, e.cfg.root).Then(func(w *framework.Watch, err error) {
		e.answer(life, nil, w, func() { e.armedWith(w, err) })
	})
}

// unread are the notices that wait for the cache's goroutine, which may be with the user's decoder. Whoever may write where the cache looks decides how many there are.
type unread struct {
	events, bytes atomic.Int64
	missed        atomic.Bool // there were more, and a load waits that makes up for them
}

// hear hands an event of the persistent watch on, on the goroutine of the callbacks. What has no room is made up for by one load, which any life may do: events that
// come before it are seen by it.
func (e *engine) hear(life int, ev framework.Event) {
	u, bytes := &e.unread, int64(len(ev.Path))
	if u.events.Load() < framework.WatchBacklog && u.bytes.Load()+bytes <= framework.WatchBacklogBytes {
		u.events.Add(1)
		u.bytes.Add(bytes)
		e.post(func() {
			u.events.Add(-1)
			u.bytes.Add(-bytes)
			if life == e.life {
				e.notice(ev)
			}
		})
		return
	}
	if u.missed.Swap(true) {
		return
	}
	e.post(func() {
		if u.missed.Store(false); e.session != nil {
			e.load()
		}
	})
}

func (e *engine) armedWith(w *framework.Watch, err error) {
	switch {
	case err == nil:
		e.watch, e.armed, e.losses = w, true, 0
		if e.missed {
			e.missed = false
			e.load()
		}
	case errors.Is(err, framework.ErrUnimplemented):
		e.fallBack("it has no persistent watches")
	case errors.Is(err, framework.ErrSessionLost), errors.Is(err, framework.ErrClosed), e.ctx.Err() != nil:
	case errors.Is(err, framework.ErrAuthFailed): // which is ErrNotConnected, too, but is said at once
		e.missed, e.armAt = true, time.Now().Add(retryFirst)
	case errors.Is(err, framework.ErrConnectionLoss) && e.losses == mostWatchLosses:
		e.guessed = true
		e.fallBack("it closes the connection when it is to set a persistent watch")
	case errors.Is(err, framework.ErrConnectionLoss), errors.Is(err, framework.ErrNotConnected):
		if errors.Is(err, framework.ErrConnectionLoss) {
			e.losses++
		}
		e.missed = true
		e.arm() // waits for a connection
	default:
		e.log.Warn("cache: cannot set the watch; trying again", "path", e.cfg.root, "err", err)
		e.missed, e.armAt = true, time.Now().Add(retryFirst)
	}
}

// fallBack goes on with one-shot watches.
func (e *engine) fallBack(why string) {
	e.log.Warn("cache: using one-shot watches, since the server cannot be relied on: "+why, "path", e.cfg.root)
	e.unwatch()
	e.oneShot = true
	e.begin()
}

// unwatch takes every watch off.
func (e *engine) unwatch() {
	if e.watch != nil {
		e.watch.Stop()
		e.watch = nil
	}
	for _, s := range e.shots {
		s.stop()
	}
	clear(e.shots)
}

// notice takes an event of the persistent watch.
func (e *engine) notice(ev framework.Event) {
	switch ev.Type {
	case framework.EventReset:
		e.gap()
	case framework.EventNodeCreated, framework.EventNodeDataChanged:
		e.touched(ev.Path, ev.Type == framework.EventNodeCreated)
	case framework.EventNodeDeleted:
		e.deleted(ev.Path)
	}
}

// touched: a node was created or its data was set.
func (e *engine) touched(path string, created bool) {
	n := e.store.find(path)
	if n != nil && created {
		n.flags |= doubted
	}
	if n == e.store.top {
		e.doubt()
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
			e.lag(parent, true)
		}
		return
	}
	if zkpath.Validate(path, false) != nil {
		return // there is no such node, whatever the server says: it could never be read
	}
	if name := zkpath.Base(path); e.accepts(parent, name) {
		e.want(e.store.insert(parent, name))
	}
	// The parent's Stat has changed, too; it rides along.
	if parent.flags&(wanted|flying) == 0 && parent.live && e.store.seen(parent) {
		e.look(parent)
	} else {
		e.lag(parent, true)
	}
}

// deleted: a node is gone, if it is not there again: one transaction can delete a node and create it, or another, and tells of that piece by piece. So
// a deletion is read like any other change. The parent's Stat has changed, too, and rides along.
func (e *engine) deleted(path string) {
	n := e.store.find(path)
	if n == e.store.top {
		e.doubt()
		e.wantOther(n)
		return
	}
	if n != nil {
		e.wantOther(n)
	}
	if parent := e.store.find(zkpath.Parent(path)); parent != nil && path != e.cfg.root {
		if n != nil && parent.flags&(wanted|flying) == 0 && parent.live {
			e.look(parent)
		} else {
			e.lag(parent, true)
		}
	}
}

// doubt remembers what the root was when the server said that it has changed. If the next read finds it unchanged, the server has reported the path
// of the watch instead of that of the node. Right paths in other events prove nothing: they may be those of somebody else's one-shot watches.
func (e *engine) doubt() {
	top := e.store.top
	if top.live && top.flags&(wanted|flying|unproven) == 0 && !e.probing && e.suspect == nil {
		e.suspect = &identity{top.czxid, top.stat().Mzxid}
	}
}

// shot is a one-shot watch. It may fire before the answer of the read that set it has been seen.
type shot struct {
	n     *node
	fired bool
	watch *framework.Watch
}

// shots are a node's one-shot watches that have not fired.
type shots struct{ data, child *shot }

func (s shots) stop() {
	for _, s := range []*shot{s.data, s.child} {
		if s != nil {
			s.watch.Stop()
		}
	}
}

// aim makes the watch for a read; nil if there is none to be set.
func (e *engine) aim(n *node, have bool) *shot {
	if !e.oneShot || have {
		return nil
	}
	return &shot{n: n}
}

// firing is what the watch calls.
func (e *engine) firing(s *shot, then func(*node, framework.Event)) func(framework.Event) {
	life := e.life
	return func(ev framework.Event) {
		e.postIn(life, func() {
			s.fired = true
			if ev.Type == framework.EventEnd || s.n.flags&gone != 0 {
				return
			}
			w := e.shots[s.n]
			if w.data == s {
				w.data = nil
			}
			if w.child == s {
				w.child = nil
			}
			e.keep(s.n, w)
			then(s.n, ev)
		})
	}
}

func (e *engine) keep(n *node, w shots) {
	if w == (shots{}) {
		delete(e.shots, n)
	} else {
		e.shots[n] = w
	}
}

// hold keeps the watch that a read has set.
func (e *engine) hold(o op, s *shot, w *framework.Watch) {
	switch {
	case w == nil || s.fired:
	case o.n.flags&gone != 0:
		w.Stop()
	default:
		s.watch = w
		at := e.shots[o.n]
		if o.kind == readList {
			at.child = s
		} else {
			at.data = s
		}
		e.shots[o.n] = at
	}
}

// dataShot: after a reconnect the server says of a node that was deleted and made anew that it has changed.
func (e *engine) dataShot(n *node, _ framework.Event) { e.wantOther(n) }

func (e *engine) childShot(n *node, ev framework.Event) {
	if ev.Type == framework.EventNodeDeleted {
		e.wantOther(n) // unless its other watch has told already
		return
	}
	e.wantList(n)
}

package wire

import (
	"slices"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/zkpath"
)

// failWatches forgets the watch of a call without a reply.
func (s *Session) failWatches(c *Call, t *callbackList) {
	for _, w := range c.watchesToArm() {
		s.watches.dropPending(w)
		s.removeUnused(w.Path, t)
	}
}

// completeWatches records the reply to a call for the watches that it arms.
func (s *Session) completeWatches(c *Call, code int32, t *callbackList) {
	switch {
	case c.Watch != nil:
		t.addEvents(s.watches.recordArmed(c, code)...)
	case c.Rearm != nil:
		t.addEvents(s.watches.recordRearmed(c.Rearm, code)...)
	}
	for _, w := range c.watchesToArm() {
		if w.entry == nil {
			s.removeUnused(w.Path, t)
		}
	}
}

// removeUnused removes the path's unused watches from the server. Without a connection it sends nothing: they are not
// armed on the next one. Nor does it while the session is being closed: the watches end with it, and after a write
// behind closeSession the reply may be lost.
func (s *Session) removeUnused(path string, t *callbackList) {
	calls := s.watches.dropUnused(path)
	if s.connections.live != nil && !s.ending.closing {
		s.queueRemovals(path, t, calls...)
	}
}

// queueRemovals queues calls that remove watches on a path from the server. If the server refuses one, for example
// because it is overloaded, retryRemovals repeats it.
func (s *Session) queueRemovals(path string, t *callbackList, calls ...*Call) {
	for _, c := range calls {
		c.Done = func(r Reply) {
			switch {
			case r.Err != nil: // the connection is gone, and the watches with it
				return
			case r.Code == jute.CodeOK, r.Code == jute.CodeNoWatcher, r.Code == jute.CodeUnimplemented:
				return
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if l := s.connections.live; l != nil && l.number == r.Connection {
				s.watches.unremoved[path] = true
			}
		}
		s.calls.ordinary.pushBack(c)
	}
	s.sendQueued(t)
}

// retryRemovals repeats the removals that the server has refused, except on paths with new watches, which would be
// removed, too.
func (s *Session) retryRemovals(t *callbackList) {
	for path := range s.watches.unremoved {
		if !s.ending.closing && !s.watches.hasWatch(path) {
			delete(s.watches.unremoved, path)
			s.queueRemovals(path, t, removalCall(path, jute.WatcherAny))
		}
	}
}

// Join attaches w to a server watch that is armed already, without a request. It returns false if there is none.
func (s *Session) Join(w *Watch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ending.err == nil && s.watches.joinArmed(w)
}

// Unwatch ends w's subscription; an event that is being delivered may still come. A watch without a subscriber is removed
// from the server.
func (s *Session) Unwatch(w *Watch) {
	s.withLock(func() (t callbackList) {
		if e := w.entry; !w.stopped && e != nil && slices.Contains(e.subscribers, w) {
			s.watches.detachWatch(w, e)
			s.removeUnused(w.Path, &t)
		}
		w.stopped = true
		return t
	})
}

// UnwatchPath ends one of the set's watches of each of these kinds on the path, if the set has any that is attached.
func (s *Session) UnwatchPath(set *WatchSet, path string, kinds ...WatchKind) {
	s.withLock(func() (t callbackList) {
		for _, kind := range kinds {
			e := s.watches.entries[watchKey{path, kind}]
			if e == nil {
				continue
			}
			if i := slices.IndexFunc(e.subscribers, func(w *Watch) bool { return w.Set == set }); i >= 0 {
				w := e.subscribers[i]
				w.stopped = true
				s.watches.detachWatch(w, e)
			}
		}
		s.removeUnused(path, &t)
		return t
	})
}

// deliverEvent reports a watch event to its subscribers. It returns the guest if it may have a watch there, too,
// otherwise nil.
func (s *Session) deliverEvent(l *connection, ev jute.WatcherEvent) (guest Guest) {
	parent := zkpath.Parent(ev.Path)
	s.withLock(func() (t callbackList) {
		if l.guestWatches {
			guest = s.connections.guest
		}
		if s.connections.live == l {
			s.identity.eventsAhead = true
			t.addEvents(s.watches.fireWatches(ev.Type, ev.Path, parent)...)
			s.removeUnused(ev.Path, &t) // a persistent watch may have stayed only for the one-shots
			s.removeUnused(parent, &t)
		}
		return t
	})
	return guest
}

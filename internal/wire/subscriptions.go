package wire

import (
	"slices"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/zkpath"
)

// failWatch forgets the watch of a call without an answer.
func (s *Session) failWatch(c *Call, t *todo) {
	for _, w := range c.watches() {
		s.watches.failed(w)
		s.tidy(w.Path, t)
	}
}

// answerWatches handles a reply for the call's watches.
func (s *Session) answerWatches(c *Call, code int32, t *todo) {
	switch {
	case c.Watch != nil:
		t.fire(s.watches.answered(c, code)...)
	case c.Rearm != nil:
		t.fire(s.watches.rearmed(c.Rearm, code)...)
	}
	for _, w := range c.watches() {
		if w.entry == nil {
			s.tidy(w.Path, t)
		}
	}
}

// tidy removes unused watches from the server. Without a connection there is nothing to do: they are not armed on the
// next one. Nor is there while the session is being closed: the watches end with it, and a write after closeSession
// would break the connection before the reply is read.
func (s *Session) tidy(path string, t *todo) {
	calls := s.watches.unneeded(path)
	if s.links.live != nil && !s.ending.closing {
		s.remove(path, t, calls...)
	}
}

// remove queues the calls that take watches on a path off the server. If the server refuses one, for example
// because it is overloaded, removeAgain repeats it.
func (s *Session) remove(path string, t *todo, calls ...*Call) {
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
			if l := s.links.live; l != nil && l.n == r.Link {
				s.watches.unremoved[path] = true
			}
		}
		s.calls.others.push(c)
	}
	s.pump(t)
}

// removeAgain takes watches off the server that it would not remove before. It waits while there are new ones
// on the same path: those would be removed as well.
func (s *Session) removeAgain(t *todo) {
	for path := range s.watches.unremoved {
		if !s.ending.closing && !s.watches.on(path) {
			delete(s.watches.unremoved, path)
			s.remove(path, t, removal(path, jute.WatcherAny))
		}
	}
}

// Join attaches w to a server watch that is already armed, without a request. It returns false if there is
// none.
func (s *Session) Join(w *Watch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ending.err == nil && s.watches.join(w)
}

// Unwatch ends w's subscription; an event that is being delivered may still come. When the last subscriber of
// a watch leaves, the watch is removed from the server.
func (s *Session) Unwatch(w *Watch) {
	s.locked(func() (t todo) {
		if e := w.entry; !w.stopped && e != nil && slices.Contains(e.subs, w) {
			s.watches.detach(w, e)
			s.tidy(w.Path, &t)
		}
		w.stopped = true
		return t
	})
}

// UnwatchPath ends one of the set's watches of each of these kinds on the path, if the set has any whose call
// was answered.
func (s *Session) UnwatchPath(set *WatchSet, path string, kinds ...WatchKind) {
	s.locked(func() (t todo) {
		for _, kind := range kinds {
			e := s.watches.entries[watchKey{path, kind}]
			if e == nil {
				continue
			}
			if i := slices.IndexFunc(e.subs, func(w *Watch) bool { return w.Set == set }); i >= 0 {
				w := e.subs[i]
				w.stopped = true
				s.watches.detach(w, e)
			}
		}
		s.tidy(path, &t)
		return t
	})
}

// notified reports a watch event to its subscribers. It returns the guest if it may have a watch there, too, otherwise
// nil.
func (s *Session) notified(l *link, ev jute.WatcherEvent) (guest Guest) {
	parent := zkpath.Parent(ev.Path)
	s.locked(func() (t todo) {
		if l.guestWatches {
			guest = s.links.guest
		}
		if s.links.live == l {
			s.identity.ahead = true
			t.fire(s.watches.fired(ev.Type, ev.Path, parent)...)
			s.tidy(ev.Path, &t) // a persistent watch may have stayed only for the one-shots
			s.tidy(parent, &t)
		}
		return t
	})
	return guest
}

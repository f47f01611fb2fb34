package wire

import (
	"slices"

	"github.com/go-curator/curator/internal/jute"
)

// failWatch forgets the watch of a call without an answer.
func (s *Session) failWatch(c *Call, t *todo) {
	if c.Watch != nil {
		s.watches.failed(c)
		s.tidy(c.Watch.Path, t)
	}
}

// tidy removes watches that nobody needs from the server.
func (s *Session) tidy(path string, t *todo) {
	calls := s.watches.unneeded(path)
	if s.link == nil || s.endErr != nil {
		return // the next connection starts without them
	}
	if s.closing {
		return // they go with the session; a write behind its close would break the connection before the answer is read
	}
	s.remove(path, t, calls...)
}

// remove queues the calls that take watches on a path off the server. What it refuses, being overloaded say, is tried again by removeAgain.
func (s *Session) remove(path string, t *todo, calls ...*Call) {
	for _, c := range calls {
		c.Done = func(r Reply) {
			if r.Err != nil || r.Code == jute.CodeOK || r.Code == jute.CodeNoWatcher || r.Code == jute.CodeUnimplemented {
				return // without an answer the connection has gone, and the watches with it
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.link != nil && s.link.n == r.Link {
				s.unremoved[path] = true
			}
		}
		c.state = callQueued
		s.queue.push(c)
	}
	s.pump(t)
}

// removeAgain takes watches off the server that it would not remove before, unless there are new ones on the same path: those would go as well, so it waits
// for their end.
func (s *Session) removeAgain(t *todo) {
	for path := range s.unremoved {
		if !s.closing && !s.watches.on(path) {
			delete(s.unremoved, path)
			s.remove(path, t, removal(path, jute.WatcherAny))
		}
	}
}

// Join attaches w to a server watch that is already armed, without a request. It returns false if there is none.
func (s *Session) Join(w *Watch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endErr == nil && s.watches.join(w)
}

// Unwatch ends w's subscription; an event that is being delivered may still come. The last subscriber of a watch takes it off the server.
func (s *Session) Unwatch(w *Watch) {
	var t todo
	s.mu.Lock()
	if !w.stopped {
		w.stopped = true
		if e := w.entry; e != nil && e.has(w) {
			s.watches.detach(w, e)
			s.tidy(w.Path, &t)
		}
	}
	s.mu.Unlock()
	t.run()
}

func (e *watchEntry) has(w *Watch) bool {
	for _, s := range e.subs {
		if s == w {
			return true
		}
	}
	return false
}

// notified hands a watch event to its subscribers. library says that there may be some of the library's, too.
func (s *Session) notified(l *link, ev jute.WatcherEvent) (library bool) {
	var t todo
	parent := parentOf(ev.Path)
	s.mu.Lock()
	library = l.libWatches
	if s.link == l {
		t.fire(s.watches.fired(ev.Type, ev.Path, parent))
		s.tidy(ev.Path, &t) // a persistent watch may have stayed only for the one-shots
		s.tidy(parent, &t)
	}
	s.mu.Unlock()
	t.run()
	return library
}

// reset tells persistent watches that events may have been missed, if they are still there.
func (s *Session) reset(ws []*Watch) {
	s.mu.Lock()
	var t todo
	for _, w := range ws {
		if w.entry != nil && !w.stopped {
			t.fire([]delivery{{w, WatchEvent{Type: EventReset, Path: w.Path}}})
		}
	}
	s.mu.Unlock()
	t.run()
}

func (s *Session) subscribers(e *watchEntry) []*Watch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(e.subs)
}

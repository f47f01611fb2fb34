package cache

import (
	"time"

	"github.com/go-curator/curator/framework"
)

const (
	// keepMost is how long changes are kept back. If they come too fast for a moment at which all is known,
	// they are shown as they are read until there is one.
	keepMost = time.Second
	tellMost = time.Second // how long changes wait for the word of the reconnect that revealed them
)

// showing is what readers and subscribers are shown, and what is kept back from them: see draft.go.
type showing struct {
	loose  bool      // changes are shown as they are read
	since  time.Time // since when some are kept back
	told   told
	tellAt time.Time // show what came by then, also if its connection was not reported
}

// exact says that the tree in memory is what the tree was when the last answer was given: everything that the
// server had reported by then has been read. What it has reported since stands in the queue: anew of the
// nodes in that answer.
func (e *engine) exact(anew int) bool {
	r := &e.reads
	return e.current() && !r.halted && r.weight == 0 && r.queue.len() == anew
}

// current says that all that is there, or was there before a gap, has been read.
func (e *engine) current() bool {
	return e.session != nil && e.way.caughtUp() && e.reads.awaited == 0
}

// idle says that nothing more comes by itself. What was there before a gap may not all be known: the watch
// may not be set yet.
func (e *engine) idle() bool {
	r := &e.reads
	return e.session != nil && !e.way.asking() && !r.halted && r.weight == 0 && r.queue.len() == 0
}

// answered shows what an answer has made complete.
func (e *engine) answered(anew int) {
	s := &e.showing
	switch {
	case e.exact(anew):
		e.show(false)
	case !s.loose && !s.since.IsZero() && time.Since(s.since) >= keepMost:
		e.show(true)
	}
}

// show publishes what is kept back, if subscribers know of the connection that it came by; loose if it is not
// all that there is.
func (e *engine) show(loose bool) {
	s := &e.showing
	if len(e.store.draft.nodes) > 0 {
		if e.session != nil && s.told.less(e.session) {
			if s.tellAt.IsZero() {
				s.tellAt = time.Now().Add(tellMost)
			}
			return
		}
		e.store.publish()
	}
	s.since, s.tellAt = time.Time{}, time.Time{}
	if s.loose != loose {
		s.loose = loose
		e.store.record(!loose)
	}
}

// told counts of how many connections of a session, by its epoch, subscribers have been told: the changes of
// the connection come another way than the events.
type told struct {
	epoch       int64
	connections uint64
	begun       bool
}

func (t *told) less(s *framework.Session) bool {
	return t.epoch != s.Epoch() || t.connections < s.Connections()
}

func (t *told) hear(state framework.StateChange) {
	if !state.State.IsConnected() {
		return
	}
	if t.epoch != state.Epoch {
		t.epoch, t.connections = state.Epoch, 0
	}
	t.connections++
}

// begin takes a session. The cache's first may have had connections before, and the word of the last may be
// on its way.
func (t *told) begin(s *framework.Session) {
	if t.begun {
		return
	}
	t.begun = true
	heard := t.epoch == s.Epoch()
	if t.all(s); !heard {
		t.connections--
	}
}

// all takes it that subscribers know.
func (t *told) all(s *framework.Session) { t.epoch, t.connections = s.Epoch(), s.Connections() }

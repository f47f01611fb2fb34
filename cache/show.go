package cache

import (
	"time"

	"github.com/go-curator/curator/framework"
)

// The server reports a transaction piece by piece: first that one node is gone, then that another was created; the data
// have to be read. Shown one by one, these would be states that the tree never had. So the store records the changes
// while readers continue seeing the earlier state. The engine publishes the record when it has read all changes up to
// some moment.

const (
	// keepMost limits the time for which changes are withheld. If they come too fast for a moment when everything is
	// known, they are shown as they are read until there is such a moment.
	keepMost = time.Second
	tellMost = time.Second // how long changes wait until the reconnect that revealed them is reported
)

// showing decides which changes are shown to readers and subscribers, and which are withheld.
type showing struct {
	loose  bool      // changes are shown as they are read
	since  time.Time // since when some changes are withheld
	told   told
	tellAt time.Time // when to show changes even if their connection was not reported
}

// exact reports whether the tree in memory is the server's tree at the time of the last reply: the changes of all
// events until then have been read. The queue has only reads for later events: anew of them for nodes in that reply.
func (e *engine) exact(anew int) bool {
	r := &e.reads
	return e.current() && !r.halted && r.weight == 0 && r.queue.len() == anew
}

// current reports whether everything that exists, or existed before a gap, has been read.
func (e *engine) current() bool {
	return e.session != nil && e.way.caughtUp() && e.reads.awaited == 0
}

// idle reports whether no request is queued or in flight. The cache may still lack changes from before a gap: the watch
// may not be set yet.
func (e *engine) idle() bool {
	r := &e.reads
	return e.session != nil && !e.way.asking() && !r.halted && r.weight == 0 && r.queue.len() == 0
}

// answered shows the changes that an answer has completed.
func (e *engine) answered(anew int) {
	s := &e.showing
	switch {
	case e.exact(anew):
		e.show(false)
	case !s.loose && !s.since.IsZero() && time.Since(s.since) >= keepMost:
		e.show(true)
	}
}

// show publishes the withheld changes, if subscribers have received the connection that revealed them. loose means that
// some changes are still missing.
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

// told has the number of connections of a session, numbered by its epoch, that have been reported to subscribers:
// changes of the connection do not come in one stream with the watch's events.
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

// begin starts with a session. The cache's first session may have had connections before, and the report of
// the last may still be on its way.
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

// all assumes that subscribers know of all connections.
func (t *told) all(s *framework.Session) { t.epoch, t.connections = s.Epoch(), s.Connections() }

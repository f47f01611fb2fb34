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
	// withholdMost limits the time for which changes are withheld. If they come too fast for a moment when everything is
	// known, they are shown as they are read until there is such a moment.
	withholdMost = time.Second
	reportWait   = time.Second // how long changes wait until the reconnect that revealed them is reported
)

// publishState decides which changes are shown to readers and subscribers, and which are withheld.
type publishState struct {
	withheldSince time.Time // since when some changes are withheld
	reported      reportedConnections
	publishAt     time.Time // when to show changes even if their connection was not reported
}

// isTreeExact reports whether the tree in memory is the server's tree at the time of the last reply: the changes of all
// events until then have been read. The queue has only reads for later events: requeued of them for nodes in that reply.
func (e *engine) isTreeExact(requeued int) bool {
	r := &e.reads
	return e.isTreeLoaded() && !r.halted && r.weight == 0 && r.queue.len() == requeued
}

// isTreeLoaded reports whether everything that exists, or existed before a gap, has been read.
func (e *engine) isTreeLoaded() bool {
	return e.session != nil && e.watching.allReported() && e.reads.awaited == 0
}

// isReadIdle reports whether no request is queued or in flight. The cache may still lack changes from before a gap: the watch
// may not be set yet.
func (e *engine) isReadIdle() bool {
	r := &e.reads
	return e.session != nil && !e.watching.isGapOpen() && !r.halted && r.weight == 0 && r.queue.len() == 0
}

// publishAfterReply shows the changes that an answer has completed.
func (e *engine) publishAfterReply(requeued int) {
	s := &e.publishing
	switch {
	case e.isTreeExact(requeued):
		e.publishChanges(false)
	case !e.store.loose && !s.withheldSince.IsZero() && time.Since(s.withheldSince) >= withholdMost:
		e.publishChanges(true)
	}
}

// publishChanges publishes the withheld changes, if subscribers have received the connection that revealed them. loose means that
// some changes are still missing.
func (e *engine) publishChanges(loose bool) {
	s := &e.publishing
	if len(e.store.draft.nodes) > 0 {
		if e.session != nil && s.reported.isBehind(e.session) {
			if s.publishAt.IsZero() {
				s.publishAt = time.Now().Add(reportWait)
			}
			return
		}
		e.store.publishDraft()
	}
	s.withheldSince, s.publishAt = time.Time{}, time.Time{}
	if e.store.loose != loose {
		e.store.setLoose(loose)
	}
}

// reportedConnections has the number of connections of a session, numbered by its epoch, that have been reported to subscribers:
// changes of the connection do not come in one stream with the watch's events.
type reportedConnections struct {
	epoch       int64
	connections uint64
	begun       bool
}

func (t *reportedConnections) isBehind(s *framework.Session) bool {
	return t.epoch != s.Epoch() || t.connections < s.Connections()
}

func (t *reportedConnections) countConnection(state framework.StateChange) {
	if !state.State.IsConnected() {
		return
	}
	if t.epoch != state.Epoch {
		t.epoch, t.connections = state.Epoch, 0
	}
	t.connections++
}

// startSession starts with a session. The cache's first session may have had connections before, and the report of
// the last may still be on its way.
func (t *reportedConnections) startSession(s *framework.Session) {
	if t.begun {
		return
	}
	t.begun = true
	heard := t.epoch == s.Epoch()
	if t.assumeAllReported(s); !heard {
		t.connections--
	}
}

// assumeAllReported assumes that subscribers know of all connections.
func (t *reportedConnections) assumeAllReported(s *framework.Session) {
	t.epoch, t.connections = s.Epoch(), s.Connections()
}

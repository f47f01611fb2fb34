package cache

import (
	"time"

	"github.com/go-curator/curator/framework"
)

// The server reports a transaction event by event. Shown one by one, these would be states that the tree never had. So the
// store records the changes in a draft while readers continue seeing the earlier state. The engine publishes the draft when
// it has read all changes up to some moment.

const (
	// withholdMost limits the time for which changes are withheld. If more come before all are read, they are shown
	// as they are read (nodeStore.loose), until all have been read.
	withholdMost = time.Second
	reportWait   = time.Second // how long changes wait until the reconnect that revealed them is reported
)

type publishState struct {
	withheldSince time.Time // since when some changes are withheld
	reported      reportedConnections
	publishAt     time.Time // when to publish even if the last connection was not reported
}

// isTreeExact reports whether the tree in memory is the server's tree at the time of the last reply: the changes of all
// events until then have been read. The queue may have reads for events after that reply: requeued of them.
func (e *engine) isTreeExact(requeued int) bool {
	r := &e.reads
	return e.isTreeLoaded() && !r.halted && r.weight == 0 && r.queue.len() == requeued
}

// isTreeLoaded reports whether everything that exists was read, and after a gap was compared.
func (e *engine) isTreeLoaded() bool {
	return e.session != nil && e.watching.allReported() && e.reads.awaited == 0
}

// isReadIdle reports whether no read is queued or in flight. Unlike isTreeExact it is true while the watch is not set: then
// changes may be missing.
func (e *engine) isReadIdle() bool {
	r := &e.reads
	return e.session != nil && !e.watching.isGapOpen() && !r.halted && r.weight == 0 && r.queue.len() == 0
}

// publishAfterReply publishes the changes if the reply has completed them, or they have been withheld for too long. The queue
// has requeued reads for events after the reply.
func (e *engine) publishAfterReply(requeued int) {
	s := &e.publishing
	switch {
	case e.isTreeExact(requeued):
		e.publishChanges(false)
	case !e.store.loose && !s.withheldSince.IsZero() && time.Since(s.withheldSince) >= withholdMost:
		e.publishChanges(true)
	}
}

// publishChanges publishes the draft, unless the last connection, which may have revealed the changes, is still to be reported.
// loose means that some changes are still missing.
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

// reportedConnections counts the connections of a session, given by its epoch, that have been reported to subscribers: the
// client's states and the watch's events come in separate streams, and a connection is reported before its changes.
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
	counted := t.epoch == s.Epoch()
	t.assumeAllReported(s)
	if !counted {
		t.connections--
	}
}

// assumeAllReported records all connections as reported.
func (t *reportedConnections) assumeAllReported(s *framework.Session) {
	t.epoch, t.connections = s.Epoch(), s.Connections()
}

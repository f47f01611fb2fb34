package zktest

import (
	"fmt"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// traceSize is how many of the last entries are kept.
const traceSize = 4096

type traceKind uint8

const (
	traceReply traceKind = iota // a request and its reply
	traceEvent
	traceNote
)

// traceEntry is formatted only when somebody asks.
type traceEntry struct {
	at            time.Duration
	kind          traceKind
	conn, session int64
	xid, op       int32
	path, note    string
	zxid          int64
	err           Error
}

// trace is a ring, guarded by the server's lock.
type trace struct {
	start   time.Time
	entries []traceEntry
	next    int
}

func (t *trace) add(e traceEntry) {
	e.at = time.Since(t.start)
	if len(t.entries) < traceSize {
		t.entries = append(t.entries, e)
		return
	}
	t.entries[t.next] = e
	t.next = (t.next + 1) % traceSize
}

func (t *trace) lines() []string {
	lines := make([]string, 0, len(t.entries))
	for i := range t.entries {
		lines = append(lines, t.entries[(t.next+i)%len(t.entries)].String())
	}
	return lines
}

func (e traceEntry) String() string {
	who := fmt.Sprintf("%11.6fs #%d %#x", e.at.Seconds(), e.conn, e.session)
	switch e.kind {
	case traceEvent:
		return fmt.Sprintf("%s event %s %s", who, eventName(e.op), e.path)
	case traceNote:
		return fmt.Sprintf("%s %s", who, e.note)
	}
	return fmt.Sprintf("%s %s xid=%d %s -> zxid=%d %s", who, opName(e.op), e.xid, e.path, e.zxid, e.err.text())
}

func eventName(event int32) string {
	switch event {
	case jute.EventNodeCreated:
		return "NodeCreated"
	case jute.EventNodeDeleted:
		return "NodeDeleted"
	case jute.EventNodeDataChanged:
		return "NodeDataChanged"
	case jute.EventNodeChildrenChanged:
		return "NodeChildrenChanged"
	}
	return fmt.Sprintf("event %d", event)
}

// Trace returns the last requests with their replies, events and happenings, oldest first, each with the time since the server's start, the
// connection's number and the session.
func (s *Server) Trace() []string {
	s.mu.Lock()
	entries := trace{entries: append([]traceEntry(nil), s.trace.entries...), next: s.trace.next}
	s.mu.Unlock()
	return entries.lines()
}

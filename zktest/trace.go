package zktest

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/plain"
)

// The trace keeps the last traceSize entries, and the first tracePath bytes of each path: a request's path may be as
// long as a frame.
const (
	traceSize = 4096
	tracePath = 512
)

type traceKind uint8

const (
	traceReply traceKind = iota // a request and its reply
	traceEvent
	traceNote
)

// traceEntry is formatted only when it is read.
type traceEntry struct {
	at            time.Duration
	kind          traceKind
	conn, session int64
	xid, op       int32
	path, note    string
	parts         string // of a multi: its operations
	zxid          int64
	err           Error
	from          *Host // of the connection, if it has one
}

// traceBuffer is a ring, guarded by the server's lock.
type traceBuffer struct {
	start   time.Time
	entries []traceEntry
	next    int
}

// traceText adds a line about the connection to the trace.
func (c *clientConn) traceText(text string) {
	c.s.trace.addEntry(traceEntry{kind: traceNote, conn: c.id, session: c.sessionID, note: text})
}

func (t *traceBuffer) addEntry(e traceEntry) {
	e.at = time.Since(t.start)
	e.path, e.parts = truncateText(e.path), truncateText(e.parts)
	if len(t.entries) < traceSize {
		t.entries = append(t.entries, e)
		return
	}
	t.entries[t.next] = e
	t.next = (t.next + 1) % traceSize
}

// truncateText shortens a text to tracePath bytes.
func truncateText(text string) string {
	if len(text) <= tracePath {
		return text
	}
	return strings.ToValidUTF8(strings.Clone(text[:tracePath]), "") + "…"
}

// oldestFirst copies the entries, oldest first.
func (t *traceBuffer) oldestFirst() []traceEntry {
	return append(append(make([]traceEntry, 0, len(t.entries)), t.entries[t.next:]...), t.entries[:t.next]...)
}

// String is printable: clients choose the paths.
func (e traceEntry) String() string { return plain.Text(e.formatLine()) }

func (e traceEntry) formatLine() string {
	who := fmt.Sprintf("%11.6fs #%d %#x", e.at.Seconds(), e.conn, e.session)
	switch e.kind {
	case traceEvent:
		return fmt.Sprintf("%s event %s %s", who, eventName(e.op), e.path)
	case traceNote:
		return fmt.Sprintf("%s %s", who, e.note)
	}
	path := strings.TrimPrefix(e.path, "\x00")
	if e.parts != "" {
		path = "[" + e.parts + "]"
	}
	return fmt.Sprintf("%s %s xid=%d %s -> zxid=%d %s", who, opName(e.op), e.xid, path, e.zxid, e.err.description())
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

// Trace returns the last requests with their replies, events and incidents, oldest first. Each line has the
// time since the server's start, the number of the connection, and the session.
func (s *Server) Trace() []string {
	s.mu.Lock()
	entries := s.trace.oldestFirst()
	s.mu.Unlock()
	lines := make([]string, len(entries))
	for i, e := range entries {
		lines[i] = e.String()
	}
	return lines
}

package zktest

import (
	"slices"

	"github.com/go-curator/curator/internal/jute"
)

// watchMode is a set of modes; before 3.9 a connection has only one mode per path and table.
type watchMode uint8

const (
	oneShot watchMode = 1 << iota
	persistent
	recursive
)

// watchTable is the data table (data and exists watches) or the child table. Persistent watches are in both.
type watchTable struct {
	paths     map[string]map[*clientConn]watchMode
	conns     map[*clientConn]map[string]struct{}
	recursive int  // number of recursive entries: without any, fire checks only the path itself
	stacked   bool // one connection and path can have several modes
}

func newWatchTable(stacked bool) *watchTable {
	return &watchTable{
		paths: map[string]map[*clientConn]watchMode{}, conns: map[*clientConn]map[string]struct{}{}, stacked: stacked,
	}
}

func (t *watchTable) addWatch(path string, c *clientConn, mode watchMode) {
	if c.closed {
		return
	}
	old := t.paths[path][c]
	if t.stacked {
		mode |= old
	}
	if t.paths[path] == nil {
		t.paths[path] = map[*clientConn]watchMode{}
	}
	if t.conns[c] == nil {
		t.conns[c] = map[string]struct{}{}
	}
	t.conns[c][path] = struct{}{}
	t.setModes(path, c, old, mode)
}

// setModes changes an entry's modes; none removes it.
func (t *watchTable) setModes(path string, c *clientConn, old, mode watchMode) {
	if old&recursive != 0 {
		t.recursive--
	}
	if mode&recursive != 0 {
		t.recursive++
	}
	if mode != 0 {
		t.paths[path][c] = mode
		return
	}
	if delete(t.paths[path], c); len(t.paths[path]) == 0 {
		delete(t.paths, path)
	}
	if delete(t.conns[c], path); len(t.conns[c]) == 0 {
		delete(t.conns, c)
	}
}

// removeModes removes modes and reports whether there were any.
func (t *watchTable) removeModes(path string, c *clientConn, modes watchMode) bool {
	old := t.paths[path][c]
	if old&modes == 0 {
		return false
	}
	t.setModes(path, c, old, old&^modes)
	return true
}

func (t *watchTable) removeConn(c *clientConn) {
	for path := range t.conns[c] {
		t.setModes(path, c, t.paths[path][c], 0)
	}
}

func (t *watchTable) countWatches() int {
	n := 0
	for _, conns := range t.paths {
		n += len(conns)
	}
	return n
}

// fireWatches returns the connections that get an event at path, in the order of connecting, and consumes one-shot
// watches. Recursive watches get all events but child changes.
func (t *watchTable) fireWatches(path string, event int32) []*clientConn {
	var hit []*clientConn
	for at := path; ; at = parentOf(at) {
		for c, mode := range t.paths[at] {
			switch {
			case at != path:
				if mode&recursive != 0 && event != jute.EventNodeChildrenChanged && !slices.Contains(hit, c) {
					hit = append(hit, c)
				}
				continue
			case mode&^recursive == 0 && event == jute.EventNodeChildrenChanged:
				continue
			}
			hit = append(hit, c)
			if mode&oneShot != 0 {
				t.setModes(at, c, mode, mode&^oneShot)
			}
		}
		if t.recursive == 0 || at == rootPath || at == "" {
			break
		}
	}
	slices.SortFunc(hit, func(a, b *clientConn) int { return int(a.id - b.id) })
	return hit
}

// triggerWatches fires the table's watches on path and sends the event to all but those in except. It returns the
// connections that watched.
func (s *Server) triggerWatches(
	t *watchTable, event int32, path string, zxid int64, acl []jute.ACL, except []*clientConn,
) []*clientConn {
	hit := t.fireWatches(path, event)
	for _, c := range hit {
		if slices.Contains(except, c) || (s.cfg.Profile.behaviour().eventsNeedRead && !c.hasPermission(s, acl, jute.PermRead)) {
			continue
		}
		s.sendEvent(c, event, path, zxid)
	}
	return hit
}

func (s *Server) sendEvent(c *clientConn, event int32, path string, zxid int64) {
	if !s.cfg.Profile.behaviour().stackedModes {
		zxid = -1
	}
	entry := traceEntry{kind: traceEvent, conn: c.id, session: c.sessionID, op: event, path: path}
	entry.zxid = s.zxid
	s.trace.addEntry(entry)
	c.queueFrame(jute.Frame(
		&jute.ReplyHeader{Xid: jute.XidNotification, Zxid: zxid},
		&jute.WatcherEvent{Type: event, State: jute.StateSyncConnected, Path: path},
	))
}

package zktest

import (
	"cmp"
	"context"
	"net"
	"slices"
	"time"

	"github.com/go-curator/curator/internal/plain"
)

// Host is a machine where clients of an [Ensemble] run: they connect with its Dial, and its faults strike all their
// connections, present and future. A test that simulates several processes gives each its own Host. The methods of a
// Host are safe for concurrent use.
type Host struct {
	e    *Ensemble
	name string

	// Guarded by the ensemble's lock.
	blocked map[*Server]Direction
	delay   time.Duration
	down    bool
	owned   map[int64]bool // sessions that had a connection from here
}

// NewHost adds a machine for clients. Its name appears in the members' traces.
func (e *Ensemble) NewHost(name string) *Host {
	h := &Host{e: e, name: name, blocked: map[*Server]Direction{}, owned: map[int64]bool{}}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hosts = append(e.hosts, h)
	return h
}

// Name returns the name that the host was made with.
func (h *Host) Name() string { return h.name }

// Dial connects to the member with the address, as [Ensemble.Dial] does, and is refused while the host is
// down.
func (h *Host) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	s, err := h.e.memberAt(network, addr)
	if err != nil {
		return nil, err
	}
	return s.dialFrom(ctx, network, h)
}

// Dialer returns Dial in the form that go-zookeeper's WithDialer wants.
func (h *Host) Dialer() func(network, addr string, timeout time.Duration) (net.Conn, error) {
	return func(network, addr string, timeout time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		return h.Dial(ctx, network, addr)
	}
}

// Block silently drops all bytes sent in a direction between the host and the members, or all members if none are
// given: connections are not closed, and new connections wait. As with lost packets on TCP, the bytes arrive when
// the direction is open again, if the connection still exists. Direction 0 opens both.
func (h *Host) Block(dir Direction, members ...int) {
	note := "blocked"
	if dir == 0 {
		note = "open again"
	}
	h.forEachMember(members, note, func(s *Server) { h.blocked[s] = dir })
}

// Heal ends Block, SetDown and Delay.
func (h *Host) Heal() {
	h.forEachMember(nil, "healed", func(s *Server) {
		delete(h.blocked, s)
		h.delay, h.down = 0, false
	})
}

// Cut closes the host's connections to the members, or to all members when none are given. The sessions
// live until they expire, or their clients reconnect.
func (h *Host) Cut(members ...int) {
	h.forEachMember(members, "connections cut", func(s *Server) {
		for c := range s.conns {
			if c.from == h {
				c.closeConn(false)
			}
		}
	})
}

// SetDown(true) makes the members refuse new connections from the host; SetDown(false) ends that. Present
// connections stay: see Cut.
func (h *Host) SetDown(down bool) {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	h.down = down
}

// Delay makes replies and events for the host arrive later by d. Zero ends it. The order is kept.
func (h *Host) Delay(d time.Duration) {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	h.delay = max(d, 0)
}

// Sessions lists the sessions whose connection comes from the host at the moment.
func (h *Host) Sessions() (ids []int64) {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	for _, s := range h.e.members {
		for c := range s.conns {
			if c.from == h && c.sessionID != 0 && !slices.Contains(ids, c.sessionID) {
				ids = append(ids, c.sessionID)
			}
		}
	}
	slices.Sort(ids)
	return ids
}

// Owned reports whether a session has ever had a connection from the host.
func (h *Host) Owned(session int64) bool {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	return h.owned[session]
}

// HostEvent is an entry of a member's trace about a host.
type HostEvent struct {
	At      time.Duration // since the ensemble began
	Member  int
	Session int64
	Op      Op     // the request, or "" for a Note
	Path    string // of the request; of a sequential node with its number
	Parts   string // of a multi, its operations: "check /a, setData /b"; it may be cut short
	Err     error  // of the reply; nil if the request was executed
	Note    string // the end of a connection or of a session, or a fault that struck one
}

// Events lists the entries of the members' traces about the host, in the order of time. Each trace keeps about 4000
// entries, of all clients together. The host's own faults (Block, Cut, SetDown, Delay) are not listed.
func (h *Host) Events() (events []HostEvent) {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	for i, s := range h.e.members {
		for _, entry := range s.trace.oldestFirst() {
			if entry.from != h && (entry.from != nil || entry.kind != traceNote || !h.owned[entry.session]) {
				continue
			}
			ev := HostEvent{
				At:      entry.at + s.started.Sub(h.e.members[0].started),
				Member:  i,
				Session: entry.session,
				Note:    entry.note,
			}
			if entry.kind == traceReply {
				ev.Op, ev.Path, ev.Parts = opName(entry.op), plain.Text(entry.path), plain.Text(entry.parts)
				if entry.err != ok {
					ev.Err = entry.err
				}
			}
			events = append(events, ev)
		}
	}
	slices.SortStableFunc(events, func(a, b HostEvent) int { return cmp.Compare(a.At, b.At) })
	return events
}

func (h *Host) forEachMember(members []int, note string, do func(*Server)) {
	h.e.mu.Lock()
	defer h.e.unlock()
	for i, s := range h.e.members {
		if len(members) > 0 && !slices.Contains(members, i) {
			continue
		}
		s.trace.addEntry(traceEntry{kind: traceNote, note: h.name + ": " + note})
		do(s)
		s.wakeBlocked()
	}
}

// recordSession records that a session belongs to the host. The ensemble's lock is held.
func (h *Host) recordSession(session int64) {
	if h != nil {
		h.owned[session] = true
	}
}

// isBlocking reports whether Block closes the direction between the host and the server. The ensemble's lock is
// held.
func (h *Host) isBlocking(s *Server, dir Direction) bool { return h != nil && h.blocked[s]&dir != 0 }

package zktest

import (
	"context"
	"net"
	"slices"
	"time"
)

// Host is a machine on which clients of an [Ensemble] run: they connect with its Dial, and its faults strike
// all their connections, present and future ones. A test gives each process that it plays a host of its own.
// Its methods are safe for concurrent use.
type Host struct {
	e    *Ensemble
	name string

	// Guarded by the ensemble's lock.
	blocked map[*Server]Direction
	delay   time.Duration
	down    bool
}

// NewHost adds a machine for clients. The name stands in the members' traces.
func (e *Ensemble) NewHost(name string) *Host {
	h := &Host{e: e, name: name, blocked: map[*Server]Direction{}}
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
	s, err := h.e.at(network, addr)
	if err != nil {
		return nil, err
	}
	return s.dial(ctx, network, h)
}

// Dialer returns Dial in the form that go-zookeeper's WithDialer wants.
func (h *Host) Dialer() func(network, addr string, timeout time.Duration) (net.Conn, error) {
	return func(network, addr string, timeout time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		return h.Dial(ctx, network, addr)
	}
}

// Block drops silently what is sent in a direction between the host and the members, or all members when
// none are given: no reset, no end, and new connections wait. What was sent arrives after Heal, if the
// connection still exists.
func (h *Host) Block(dir Direction, members ...int) {
	h.each(members, "blocked", func(s *Server) { h.blocked[s] |= dir })
}

// Heal ends Block and Delay for the members, or for all members when none are given, and SetDown.
func (h *Host) Heal(members ...int) {
	h.each(members, "healed", func(s *Server) {
		delete(h.blocked, s)
		h.delay, h.down = 0, false
	})
}

// Cut closes the host's connections to the members, or to all members when none are given. The sessions live
// on until their time is over.
func (h *Host) Cut(members ...int) {
	h.each(members, "connections cut", func(s *Server) {
		for c := range s.conns {
			if c.from == h {
				c.end(false)
			}
		}
	})
}

// SetDown makes the members refuse all that the host dials, or ends that. Present connections stay: see Cut.
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

func (h *Host) each(members []int, note string, do func(*Server)) {
	h.e.mu.Lock()
	defer h.e.unlock()
	for i, s := range h.e.members {
		if len(members) > 0 && !slices.Contains(members, i) {
			continue
		}
		s.trace.add(traceEntry{kind: traceNote, note: h.name + ": " + note})
		do(s)
		s.openGate()
	}
}

// holds says whether the host's network keeps back what a connection sends in a direction. The ensemble's
// lock is held.
func (h *Host) holds(s *Server, dir Direction) bool { return h != nil && h.blocked[s]&dir != 0 }

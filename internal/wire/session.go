package wire

import (
	"context"
	"slices"
	"sync"
)

// Session is one ZooKeeper session: one epoch. It connects and reconnects by itself until it ends, which it
// does once and for good. All methods are safe for concurrent use.
type Session struct {
	cfg      Config
	validity *Validity
	hosts    *hosts
	fences   fences
	events   events
	ctx      context.Context // ends with the session
	wg       sync.WaitGroup

	mu        sync.Mutex // guards the fields below
	identity  identity
	admission admission
	links     links
	calls     calls
	watches   registry
	ending    ending
}

// links are a session's connections, one after the other. Session.mu guards it.
type links struct {
	live  *link  // ready for requests; or nil
	last  *link  // the last one made, live or not
	n     uint64 // how many there have been
	guest Guest  // shares them; nil if there is none
}

// add makes l the live connection.
func (ls *links) add(l *link) {
	ls.live, ls.last, ls.n = l, l, l.n
	if ls.guest != nil {
		ls.guest.NewLink()
	}
}

// Open starts to keep a session and returns immediately.
func Open(cfg Config) (*Session, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	s := &Session{
		cfg: cfg, validity: newValidity(cfg.Assume, cfg.Timeout), hosts: newHosts(cfg.Servers),
		events: events{to: cfg.OnEvent}, identity: identity{zxid: cfg.LastZxid},
		calls: newCalls(), watches: newRegistry(),
	}
	s.fences.keep(cfg.Fences)
	s.hosts.shorten, s.hosts.spread, s.hosts.chance = s.halfLeft, cfg.Spread, cfg.Chance
	s.hosts.lost.t = s.hosts.lost.t.Add(-cfg.Away)
	s.ctx, s.ending.cancel = context.WithCancel(context.Background())
	s.wg.Go(s.dial)
	s.wg.Go(s.guard)
	s.wg.Go(s.watchPatience)
	return s, nil
}

// SetServers changes the list of servers, which must not be empty, and the further ones that are tried when
// none of the list can be reached. A connection to a server that is on the list no longer is closed; the
// session continues elsewhere.
func (s *Session) SetServers(servers, further []string) {
	s.hosts.set(slices.Clone(servers), slices.Clone(further))
	if l := s.live(); l != nil && !slices.Contains(servers, l.server) {
		l.close(errNotListed)
	}
}

// Validity returns the time limits of this session's holds.
func (s *Session) Validity() *Validity { return s.validity }

func (s *Session) live() *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.links.live
}

// Connected reports whether there is a live connection.
func (s *Session) Connected() bool { return s.live() != nil }

// Server is the address of the connected server, "" if none is connected.
func (s *Session) Server() string {
	if l := s.live(); l != nil {
		return l.server
	}
	return ""
}

// Links returns the number of connections made so far. It grows before the first event or reply of a new connection is
// delivered: if two calls return the same number, all events and replies in between came over one connection.
func (s *Session) Links() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.links.n
}

// Load has the numbers of calls that wait for a connection or for the window, and of calls in flight.
type Load struct{ Queued, InFlight int }

// Load counts the calls that have no answer yet.
func (s *Session) Load() Load {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Load{s.calls.urgent.n + s.calls.others.n, s.calls.flight.n}
}

// events reports events to the owner of a session, in order.
type events struct {
	to func(Event)

	mu   sync.Mutex // held while to is called, which does not block
	lost bool       // Lost has been reported: it is the last event
}

func (e *events) emit(ev Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lost {
		return
	}
	e.lost = ev.Kind == Lost
	e.to(ev)
}

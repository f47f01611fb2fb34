package wire

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// Session is one ZooKeeper session: one epoch. It connects and reconnects by itself until it ends, which is final.
// All methods are safe for concurrent use.
type Session struct {
	cfg      Config
	validity *Validity
	hosts    *hostProvider
	fences   openFences
	events   eventEmitter
	ctx      context.Context // ends with the session
	wg       sync.WaitGroup

	mu          sync.Mutex // guards the fields below
	identity    sessionIdentity
	refusals    refusalRecord
	connections sessionConnections
	calls       pendingCalls
	watches     watchRegistry
	ending      sessionEnd
}

// sessionConnections are a session's connections, one after the other. Session.mu guards it.
type sessionConnections struct {
	live  *connection // ready for requests; or nil
	last  *connection // the last one made, live or not
	count uint64      // how many there have been
	guest Guest       // shares them; nil if there is none
}

// Guest is another client library, go-zookeeper, that shares the session (internal/guest). Its requests share the
// session's connections, with xids from 0 up, and it never opens one. number is a connection's number.
type Guest interface {
	// Serve returns when the guest has ended. If the session has not, it ends then.
	Serve()
	// NewConnection is called for each new connection. Session.mu is held.
	NewConnection()
	// OperationOf returns the operation of a guest's request in flight. Session.mu is held.
	OperationOf(number uint64, xid int32) (code int32, known bool)
	// DeliverReply delivers the reply to a guest's request. skipped means that it was larger than allowed. It returns an
	// error if the reply is malformed.
	DeliverReply(number uint64, h jute.ReplyHeader, body []byte, skipped bool) error
	// DeliverEvent delivers a watch event. It returns an error if the guest is too far behind.
	DeliverEvent(number uint64, h jute.ReplyHeader, ev jute.WatcherEvent) error
	// Disconnected reports that a connection has ended, and why. last means that there will be no other. It returns
	// when the guest sends no more requests for that connection, after a short time at most.
	Disconnected(number uint64, why error, last bool)
	// Ended reports that the session has ended; expired means that a server has reported it expired.
	Ended(expired bool)
}

// makeLive makes l the live connection.
func (ls *sessionConnections) makeLive(l *connection) {
	ls.live, ls.last, ls.count = l, l, l.number
	if ls.guest != nil {
		ls.guest.NewConnection()
	}
}

// Open starts to keep a session and returns immediately.
func Open(cfg Config) (*Session, error) {
	if err := cfg.applyDefaults(); err != nil {
		return nil, err
	}
	s := &Session{
		cfg: cfg, validity: newValidity(cfg.Assume, cfg.Timeout), hosts: newHostProvider(cfg.Servers),
		events: eventEmitter{onEvent: cfg.OnEvent}, identity: sessionIdentity{zxid: cfg.LastZxid},
		calls: newPendingCalls(), watches: newWatchRegistry(),
	}
	s.fences.keepNewest(cfg.Fences)
	s.hosts.shorten, s.hosts.spread, s.hosts.chance = s.capToHalfLeft, cfg.Spread, cfg.Chance
	s.hosts.lostAt.t = s.hosts.lostAt.t.Add(-cfg.Away)
	s.ctx, s.ending.cancel = context.WithCancel(context.Background())
	s.wg.Go(s.dialServers)
	s.wg.Go(s.guardValidity)
	s.wg.Go(s.watchPatience)
	return s, nil
}

// SetServers changes the list of servers, which must not be empty, and the further ones that are tried when
// none of the list can be reached. A connection to a server that is on the list no longer is closed; the
// session continues elsewhere.
func (s *Session) SetServers(servers, further []string) {
	s.hosts.setServers(slices.Clone(servers), slices.Clone(further))
	if l := s.liveConnection(); l != nil && !slices.Contains(servers, l.server) {
		l.closeWith(errNotListed)
	}
}

// Validity returns the time limits of this session's holds.
func (s *Session) Validity() *Validity { return s.validity }

func (s *Session) liveConnection() *connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connections.live
}

// Connected reports whether there is a live connection.
func (s *Session) Connected() bool { return s.liveConnection() != nil }

// Server is the address of the connected server, "" if none is connected.
func (s *Session) Server() string {
	if l := s.liveConnection(); l != nil {
		return l.server
	}
	return ""
}

// Connections returns the number of connections made so far. It grows before the first event or reply of a new connection is
// delivered: if two calls return the same number, all events and replies in between came over one connection.
func (s *Session) Connections() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connections.count
}

// Load has the numbers of calls that wait for a connection or for the window, and of calls in flight.
type Load struct{ Queued, InFlight int }

// Load counts the calls that have no reply yet.
func (s *Session) Load() Load {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Load{s.calls.urgent.count + s.calls.ordinary.count, s.calls.inFlight.count}
}

// eventEmitter reports events to the owner of a session, in order.
type eventEmitter struct {
	onEvent func(Event)

	mu           sync.Mutex // held while onEvent is called, which does not block
	lostReported bool       // Lost has been reported: it is the last event
}

func (e *eventEmitter) emit(ev Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lostReported {
		return
	}
	e.lostReported = ev.Kind == Lost
	e.onEvent(ev)
}

// withLock runs f under Session.mu, then f's callbacks without it.
func (s *Session) withLock(f func() callbackList) {
	s.mu.Lock()
	t := f()
	s.mu.Unlock()
	t.runAll()
}

func (s *Session) isClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ending.closing
}

// clearStray records that the handshake in progress has opened no session.
func (s *Session) clearStray() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.identity.maybeOpened = false
}

// identityNow is the identity as it is now.
func (s *Session) identityNow() sessionIdentity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.identity
}

// Agreed reports whether a member with a quorum has confirmed the session.
func (s *Session) Agreed() bool { return s.identityNow().quorumConfirmed }

// Timeout returns the shortest session timeout granted so far, the last one if no quorum has confirmed the session, and 0
// before the first handshake.
func (s *Session) Timeout() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.effectiveTimeout()
}

// effectiveTimeout is Timeout while Session.mu is held.
func (s *Session) effectiveTimeout() time.Duration {
	return s.validity.effectiveTimeout(s.identity.timeout)
}

// ID is the session's id, 0 before the first handshake.
func (s *Session) ID() int64 { return s.identityNow().id }

// Identity is the session's id and password: a client that has them can take the session over or end it. Never log them
// together.
func (s *Session) Identity() (id int64, password []byte) {
	i := s.identityNow()
	return i.id, slices.Clone(i.password)
}

// MaxZxid returns the highest zxid of any reply, also to the earlier sessions of the client.
func (s *Session) MaxZxid() int64 { return s.identityNow().zxid }

// Err returns the reason why the session has ended; nil while it has not.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ending.err
}

// Wait returns when the session and all its goroutines have ended.
func (s *Session) Wait() { s.wg.Wait() }

// Refused returns the reason why no server accepts this client; nil if not all servers are known to refuse.
func (s *Session) Refused() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refusals.refused
}

// Unfenced returns the earlier sessions that are not known to be closed. Once Agreed returns true, these
// could not be closed, and no request that they sent can still arrive.
func (s *Session) Unfenced() []Fence { return s.fences.listOpen() }

// capToHalfLeft returns d, but at most half of the time that an established session has left, so that there is time for
// another attempt.
func (s *Session) capToHalfLeft(d time.Duration) time.Duration {
	if left, ok := s.validity.timeToLapse(); ok {
		d = min(d, max(left/2, 50*time.Millisecond))
	}
	return d
}

package zktest

import (
	"bytes"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// Server is an in-process ZooKeeper. Its methods are safe for concurrent use.
type Server struct {
	cfg     *Config   // a pointer: fmt does not call the methods of unexported fields
	name    string    // the in-memory address
	started time.Time // origin of the server's clock
	quit    chan struct{}
	wg      sync.WaitGroup

	faulty     atomic.Bool // paused, or there is a black hole
	expiryWake chan struct{}
	reaperWake chan struct{}

	member *ensembleMember // nil: standalone; immutable

	// mu guards the rest. It is never held across I/O or a wait. The members of an ensemble share one.
	mu              *sync.Mutex
	closed          bool
	stopped, paused bool
	gate            chan struct{} // closed and replaced whenever a pause or black hole may have ended
	blockedAll      Direction
	delayAll        time.Duration
	injections      []*Injection

	listener    net.Listener
	listenAddr  string
	conns       map[*clientConn]struct{} // open
	running     map[*clientConn]int      // goroutines of connections, open or not
	lastConn    int64
	sessions    map[int64]*sessionRecord
	nextSession int64
	zxid        int64 // of the last transaction applied
	skew        time.Duration
	tree        *nodeTree
	dataWatches *watchTable
	kidWatches  *watchTable
	counts      map[int32]int
	countsOf    map[int64]map[int32]int
	trace       traceBuffer
	received    int64 // packets
	sent        int64
	bytesIn     int64
	bytesOut    int64
}

var servers atomic.Int64

// NewServer starts a standalone server. Close ends it.
func NewServer(cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := newServer(cfg, new(sync.Mutex), 1)
	if cfg.Listen != "" {
		if err := s.openListener(cfg.Listen); err != nil {
			return nil, err
		}
	}
	s.start()
	return s, nil
}

// newServer makes a server that does nothing yet. Session ids begin with id.
func newServer(cfg Config, mu *sync.Mutex, id int64) *Server {
	n := servers.Add(1)
	s := &Server{
		cfg: &cfg, mu: mu, name: fmt.Sprintf("192.0.2.%d:2181", (n-1)%254+1), started: time.Now(),
		quit: make(chan struct{}), gate: make(chan struct{}),
		expiryWake: make(chan struct{}, 1), reaperWake: make(chan struct{}, 1),
		conns: map[*clientConn]struct{}{}, running: map[*clientConn]int{},
		counts: map[int32]int{}, countsOf: map[int64]map[int32]int{},
	}
	s.trace.start = s.started
	s.nextSession = firstSession(id, s.started.UnixMilli()+n)
	s.clearState()
	return s
}

// firstSession returns a server's first session id, as in the real one: its number, the milliseconds of its start,
// and 16 bits to count in. The caller adds the count of servers in this process to the milliseconds: so servers that
// start at the same instant, as in virtual time, have different ids.
func firstSession(id, milliseconds int64) int64 { return id<<56 | int64(uint64(milliseconds)<<24>>8) }

func (s *Server) start() {
	s.wg.Add(2)
	go s.expiryLoop()
	go s.reapLoop()
}

// logWarning logs while the lock is held. The user's logger may block or call the server, so it runs on a separate
// goroutine; Close waits for it.
func (s *Server) logWarning(msg string, args ...any) {
	s.wg.Go(func() { s.cfg.Logger.Warn(msg, args...) })
}

// unlock releases the lock. In an ensemble it first calls run: messages to other members may be due.
func (s *Server) unlock() {
	if s.member != nil {
		s.member.e.runDue()
	}
	s.mu.Unlock()
}

// clearState makes the tree empty and removes all sessions.
func (s *Server) clearState() {
	s.zxid = 0
	s.tree = newNodeTree(s.cfg.ExtendedTypes, s.cfg.EnsembleConfig)
	s.sessions = map[int64]*sessionRecord{}
	stacked := s.cfg.Profile.behaviour().stackedModes
	s.dataWatches, s.kidWatches = newWatchTable(stacked), newWatchTable(stacked)
}

// Close ends the server: it closes the connections, and all goroutines of the server have ended when it returns. A
// second Close has no effect.
func (s *Server) Close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		s.wg.Wait()
		return
	}
	s.closed = true
	if s.member != nil {
		s.member.resignRole("the server closes")
	}
	close(s.quit)
	listener := s.listener
	s.listener = nil
	for c := range s.conns {
		c.closeConn(false)
	}
	open := make([]net.Conn, 0, len(s.running))
	for c := range s.running {
		open = append(open, c.nc)
	}
	s.mu.Unlock()
	if listener != nil {
		_ = listener.Close()
	}
	for _, nc := range open {
		_ = nc.Close()
	}
	s.wg.Wait()
}

// serveConn starts a connection's goroutines. It returns false if the server is stopped or closed. A connection
// above its address's limit is closed immediately.
func (s *Server) serveConn(nc net.Conn, from *Host) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.stopped {
		return false
	}
	c := s.newClientConn(nc)
	c.from = from
	if s.atConnLimit(c.host) {
		c.traceText("refused: too many connections from " + c.host)
		_ = nc.Close() // does not block
		return true
	}
	s.conns[c] = struct{}{}
	s.running[c] = 2
	s.wg.Add(2)
	go c.readLoop()
	go c.writeLoop()
	return true
}

// loopEnded records the end of one of a connection's two goroutines.
func (s *Server) loopEnded(c *clientConn) {
	s.mu.Lock()
	if s.running[c]--; s.running[c] == 0 {
		delete(s.running, c)
	}
	s.mu.Unlock()
	s.wg.Done()
}

// connectionEnded handles the end of a connection that its reader or writer has noticed.
func (s *Server) connectionEnded(c *clientConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.closed {
		s.trace.addEntry(traceEntry{
			kind: traceNote, conn: c.id, session: c.sessionID, from: c.from, note: "connection closed",
		})
	}
	c.closeConn(false)
}

// removeConn removes a connection from the state: its watches are removed, its session stays.
func (s *Server) removeConn(c *clientConn) {
	delete(s.conns, c)
	s.dataWatches.removeConn(c)
	s.kidWatches.removeConn(c)
	if c.session != nil && c.session.conn == c {
		c.session.conn = nil
	}
	c.session = nil
}

// Zxid returns the id of the last transaction that the server has applied.
func (s *Server) Zxid() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.zxid
}

// handleFrame executes one request frame, and reports whether the connection is still open.
func (s *Server) handleFrame(c *clientConn, frame []byte) bool {
	d := jute.NewRequestDecoder(frame)
	var h jute.RequestHeader
	if h.Fields(d); d.Err() != nil {
		s.cfg.Logger.Warn("malformed request header", "conn", c.id)
		return false
	}
	if !s.lockWhenOpen(c) {
		return false
	}
	defer s.unlock()
	if s.member != nil {
		d = jute.NewRequestDecoder(bytes.Clone(d.Rest())) // it may have to wait
	}
	c.received++
	s.received++
	s.bytesIn += int64(len(frame)) + 4
	s.countRequest(c.sessionID, h.Op)
	var strike injectionEffect
	if len(s.injections) > 0 {
		if strike = s.injectFault(c, h.Op, c.sessionID, frame[8:]); strike.stop {
			return strike.alive
		}
	}
	strike.beforeExecution(c)
	r := &clientRequest{conn: c, xid: h.Xid, op: h.Op, body: d}
	switch {
	case h.Op == jute.OpAuth && strike.err == ok:
		s.authenticate(c, h.Xid, d)
	case h.Op == jute.OpSASL:
		s.serveLogin(r)
	case s.cfg.RequireAuth && !c.hasProvedDigest() || s.cfg.RequireSASL && !c.isLoggedIn():
		s.replyWithZxid(r, 0, ErrSessionClosedRequireAuth, nil)
		c.closeConn(true)
	default:
		s.submitRequest(r, strike.err)
	}
	if s.member != nil {
		s.member.e.runDue()
	}
	if r.pending {
		r.strike = strike
		strike.suspendEffect(c)
	} else {
		strike.afterExecution(c)
	}
	return !c.closed
}

// atConnLimit reports whether the address has as many connections as MaxClientConns allows.
func (s *Server) atConnLimit(host string) bool {
	if s.cfg.MaxClientConns == 0 {
		return false
	}
	n := 0
	for c := range s.conns {
		if c.host == host {
			n++
		}
	}
	return n >= s.cfg.MaxClientConns
}

// lockWhenOpen takes the lock as soon as the connection's input may pass. It returns false, without the lock, when
// the connection is closed.
func (s *Server) lockWhenOpen(c *clientConn) bool {
	for {
		s.mu.Lock()
		if c.closed {
			s.mu.Unlock()
			return false
		}
		if !s.isBlocked(c, FromClient) {
			return true
		}
		gate := s.gate
		s.mu.Unlock()
		select {
		case <-gate:
		case <-c.done:
		case <-s.quit:
			return false
		}
	}
}

// awaitOpen waits until the direction is open. It returns false if the server closes, or done is closed, first.
func (s *Server) awaitOpen(c *clientConn, dir Direction, done <-chan struct{}) bool {
	for s.faulty.Load() {
		s.mu.Lock()
		blocked, gate := s.isBlocked(c, dir), s.gate
		s.mu.Unlock()
		if !blocked {
			break
		}
		select {
		case <-gate:
		case <-done:
			return false
		case <-s.quit:
			return false
		}
	}
	return true
}

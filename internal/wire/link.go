package wire

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/mutant"
)

var (
	errLibraryClosed = errors.New("connection given up by the library")
	errSilent        = errors.New("no answer from the server")
	errStuck         = errors.New("a request was never answered")
	errSkipped       = errors.New("a request was skipped by the server")
	errRefused       = errors.New("handshake refused")
	errBehind        = errors.New("the servers are behind what this process has seen")
	errNotListed     = errors.New("the server is not on the list any more")
	errTooOld        = errors.New("the server cannot arm persistent watches again")
)

// maxReply bounds what a server can make us allocate. ZooKeeper itself does not bound replies; a list of a million children has 60 MiB.
const maxReply = 256 << 20

// drainTime is how long a connection is read from after it could not be written to.
const drainTime = time.Second

// minTimeout is the shortest session timeout we believe a server to mean.
const minTimeout = 10 * time.Millisecond

// link is one live connection. Its goroutines: reader (owner of the end), writer, keeper (pings and watchdog).
type link struct {
	s        *Session
	n        uint64
	server   string
	conn     net.Conn
	in       *meter
	lib      *libConn
	readOnly bool
	quit     chan struct{} // closed when the link is to end
	gone     chan struct{} // closed when it has ended and everybody knows
	wake     chan struct{} // the writer has something to do
	wg       sync.WaitGroup

	// Guarded by Session.mu.
	out        []byte
	room       room
	sent       instant   // when the last request of ours was written
	pings      []instant // unanswered pings, oldest first: they share one xid
	since      int64     // what we had seen before this connection
	libWatches bool      // the library has watches of its own: it gets the events, too

	once   sync.Once
	err    error       // why it ends; set before quit is closed
	broken atomic.Bool // it could not be written to
}

// dial is the library's dialer: it returns a connection that has been through the handshake already.
func (s *Session) dial(network, addr string, _ time.Duration) (net.Conn, error) {
	s.mu.Lock()
	last := s.lastLink
	s.mu.Unlock()
	s.frugal(libBuffer)
	if last != nil {
		<-last.gone // the library may have given it up before we did
	}
	if wait := s.hosts.takeWait(); wait > 0 {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-s.ctx.Done():
			timer.Stop()
		}
	}
	if s.ctx.Err() != nil {
		s.closeLibrary()
		return s.agreeable(false), nil
	}
	l, err := s.connect(network, addr)
	if err != nil {
		s.log.Debug("cannot connect", "server", addr, "err", err)
		if !errors.Is(err, ErrClosed) {
			s.failed(addr, err)
		}
		if errors.Is(err, ErrExpired) {
			return s.agreeable(true), nil
		}
		return nil, err
	}
	return l.lib, nil
}

// agreeable returns a connection to nowhere for the library after the session's end.
func (s *Session) agreeable(expired bool) net.Conn {
	c := newLibConn(s, nil)
	r := &jute.ConnectResponse{Timeout: int32(s.cfg.Timeout / time.Millisecond), SessionID: max(s.ID(), 1), Password: make([]byte, 16)}
	if expired {
		r.SessionID = 0
	}
	c.deliver(r)
	return c
}

// connect makes a link to the server: TCP, the handshake, credentials, the old session's end, watches; only then anything else.
func (s *Session) connect(network, addr string) (*link, error) {
	s.mu.Lock()
	old := s.lacking[addr][jute.OpSetWatches2] && s.watches.persistent()
	s.mu.Unlock()
	if old {
		return nil, errTooOld
	}
	conn, limit, err := s.dialOne(s.ctx, network, addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(s.ctx, func() { conn.Close() })
	defer stop()
	if !s.greet() {
		conn.Close()
		return nil, ErrClosed
	}
	l, first, err := s.handshake(conn, limit, network, addr)
	s.greeted()
	if err != nil {
		conn.Close()
		if Reason(err) != "closed" { // without a word: it is not serving yet, as members are that look for a leader
			s.hosts.refused()
		}
		return nil, err
	}
	if !stop() { // the session has ended meanwhile, the connection is closed
		close(l.gone)
		return nil, ErrClosed // whatever ended the session, it was not this server's word
	}
	conn.SetDeadline(time.Time{})
	l.start(Event{Kind: Connected, SessionID: s.ID(), Timeout: s.Timeout(), Server: addr, ReadOnly: l.readOnly, Reattached: !first})
	return l, nil
}

// patience is d, but of an established session at most half of the time that is left: so that there is time for another attempt.
func (s *Session) patience(d time.Duration) time.Duration {
	if left, ok := s.validity.lapseIn(); ok {
		d = min(d, max(left/2, 50*time.Millisecond))
	}
	return d
}

// dialOne begins an attempt to connect; limit is when all of it must be done, ZooKeeper's handshake included.
func (s *Session) dialOne(ctx context.Context, network, addr string) (conn net.Conn, limit time.Time, err error) {
	limit = time.Now().Add(s.patience(s.cfg.ConnectTimeout))
	ctx, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	conn, err = s.cfg.Dial(ctx, network, addr)
	return conn, limit, err
}

// exchange writes a connect request and reads its response. From here to limit the connection has its deadline, at most for as long as a silent one is given.
func (s *Session) exchange(conn net.Conn, limit time.Time, req *jute.ConnectRequest, behind ...byte) (resp jute.ConnectResponse, in *meter, err error) {
	_, silence := s.validity.ruleNow().pace(s.cfg.Timeout)
	if silent := time.Now().Add(s.patience(silence)); silent.Before(limit) {
		limit = silent
	}
	conn.SetDeadline(limit)
	if n, err := conn.Write(append(jute.Frame(req), behind...)); err != nil {
		if n == 0 {
			err = unsaid{err}
		}
		return resp, nil, err
	}
	in = newMeter(conn)
	body, err := readFrame(in, 4096)
	var timeout net.Error
	switch {
	case hungUp(err):
		err = fmt.Errorf("%w: %w", ErrHungUp, err)
	case errors.As(err, &timeout) && timeout.Timeout():
		err = fmt.Errorf("%w: is it one of ZooKeeper? (%w)", errSilent, err)
	}
	if err != nil {
		return resp, nil, err
	}
	if err := declined(body); err != nil {
		return resp, nil, err
	}
	err = jute.Unmarshal(body, &resp)
	return resp, in, err
}

// unsaid is a failed write of which nothing has left the house.
type unsaid struct{ error }

func (e unsaid) Unwrap() error { return e.error }

// declined reads a refusal in the form of a reply to a request, which is shorter than any connect response: so a member without a quorum tells that
// it may open no sessions. They would be its own, and that has to be allowed.
func declined(body []byte) error {
	var h jute.ReplyHeader
	if len(body) != replyHeaderSize || jute.Unmarshal(body, &h) != nil {
		return nil
	}
	if h.Err == jute.CodeNotReadOnly {
		return ErrNotReadOnly
	}
	return fmt.Errorf("%w: code %d", errRefused, h.Err)
}

// replyHeaderSize is that of a reply without a body.
const replyHeaderSize = 16

// meter reads a connection and knows when something came in last.
type meter struct {
	*bufio.Reader
	conn net.Conn
	mu   sync.Mutex
	at   instant
}

func newMeter(conn net.Conn) *meter {
	m := &meter{conn: conn, at: now()}
	m.Reader = bufio.NewReaderSize(progress{m}, 16<<10)
	return m
}

// last is when something came in last.
func (m *meter) last() instant {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at
}

// progress is the connection as the meter's buffer reads it: every byte counts, for a large reply on a slow network is no silence.
type progress struct{ m *meter }

func (p progress) Read(b []byte) (int, error) {
	n, err := p.m.conn.Read(b)
	if n > 0 {
		p.m.mu.Lock()
		p.m.at = now()
		p.m.mu.Unlock()
	}
	return n, err
}

// readFrame reads one frame. It allocates as bytes come in, not as the length says.
func readFrame(r io.Reader, limit int) ([]byte, error) {
	var h [4]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return nil, err
	}
	n := int(int32(binary.BigEndian.Uint32(h[:])))
	if n < 0 || n > limit {
		return nil, stranger(h, limit)
	}
	b := make([]byte, 0, min(n, 1<<20))
	for len(b) < n {
		b = slices.Grow(b, min(n-len(b), max(len(b), 1)))
		got, err := io.ReadFull(r, b[len(b):min(n, cap(b))])
		if b = b[:len(b)+got]; err != nil {
			return nil, err
		}
	}
	return b, nil
}

// handshake establishes or re-attaches the session, credentials first, and primes the link's output: watches, then what is queued.
func (s *Session) handshake(conn net.Conn, limit time.Time, network, addr string) (l *link, first bool, err error) {
	s.mu.Lock()
	req := &jute.ConnectRequest{LastZxidSeen: s.maxZxid, Timeout: int32(s.cfg.Timeout / time.Millisecond), SessionID: s.id, Password: s.password,
		HasReadOnly: true, ReadOnly: s.cfg.ReadOnly}
	probe := s.probe
	s.mu.Unlock()
	if probe || mutant.On("the library's last zxid") {
		req.LastZxidSeen = 0
	}
	if probe { // only a member with a quorum speaks for the data of all
		req.ReadOnly = false
	}
	if len(req.Password) == 0 {
		req.Password = make([]byte, 16)
	}
	sent := now()
	s.validity.connecting(sent)
	resp, in, err := s.exchange(conn, limit, req)
	if err != nil {
		if errors.As(err, new(unsaid)) || errors.Is(err, errRefused) || errors.Is(err, ErrNotReadOnly) {
			s.noStray()
		}
		if !errors.Is(err, ErrNotReadOnly) { // which has nothing to do with what we have seen
			s.noteRefusal(err)
		}
		return nil, false, fmt.Errorf("handshake: %w", err)
	}
	if resp.SessionID == 0 || resp.ReadOnly { // none, or one that nobody else knows of
		s.noStray()
	}
	if resp.SessionID == 0 || resp.Timeout <= 0 {
		if req.SessionID == 0 {
			return nil, false, fmt.Errorf("%w: no session given", errRefused)
		}
		if resp.ReadOnly && s.Agreed() { // it speaks for nobody else, and may have missed that the session was opened
			return nil, false, fmt.Errorf("%w: a member without a quorum does not know the session", errRefused)
		}
		s.end(ErrExpired)
		return nil, false, ErrExpired
	}
	l, first, err = s.settle(conn, in, limit, network, addr, req, &resp, sent, probe)
	if err != nil && req.SessionID == 0 && !resp.ReadOnly && s.farewell(conn, in) {
		s.noStray()
	}
	return l, first, err
}

// settle takes what the server has granted: who we are, the old session's end, the rule, watches.
func (s *Session) settle(conn net.Conn, in *meter, limit time.Time, network, addr string, req *jute.ConnectRequest, resp *jute.ConnectResponse,
	sent instant, probe bool) (l *link, first bool, err error) {
	timeout := time.Duration(resp.Timeout) * time.Millisecond
	switch {
	case req.SessionID != 0 && resp.SessionID != req.SessionID:
		return nil, false, fmt.Errorf("%w: session %#x instead of %#x", errRefused, resp.SessionID, req.SessionID)
	case timeout < minTimeout:
		return nil, false, fmt.Errorf("%w: a session timeout of %v", errRefused, timeout)
	}
	// Before the answer counts: a session that cannot be used any more shall lapse.
	if err := s.authenticate(conn, in, limit, addr); err != nil {
		return nil, false, err
	}
	if !resp.ReadOnly {
		if err := s.fence(network, addr); err != nil {
			return nil, false, err
		}
	}
	if !s.validity.connected(sent, timeout, resp.ReadOnly) {
		s.end(ErrLapsed)
		return nil, false, ErrLapsed
	}

	behind := false
	if probe {
		if behind, err = s.behind(conn, in); err != nil {
			return nil, false, err
		}
	}
	if behind {
		s.emit(Event{Kind: Regressed, Err: errBehind})
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.endErr != nil {
		return nil, false, s.endErr
	}
	if behind {
		s.maxZxid = 0
	}
	s.refusals, s.probe = 0, false
	s.unwanted, s.refused = nil, nil
	if first = s.id == 0; first && s.closing {
		return nil, false, ErrClosed // Close waits for what becomes of it
	}
	s.unsure = false
	if !resp.ReadOnly { // one without a quorum knows nothing of sessions that the others have opened
		s.strays = 0
	}
	s.agreed = s.agreed || !resp.ReadOnly
	s.id, s.password, s.timeout = resp.SessionID, resp.Password, timeout
	s.links++
	l = &link{s: s, n: s.links, server: addr, conn: conn, in: in, readOnly: resp.ReadOnly, quit: make(chan struct{}), gone: make(chan struct{}),
		wake: make(chan struct{}, 1), room: newRoom(s.cfg.Window)}
	l.lib = newLibConn(s, l)
	l.lib.deliver(&jute.ConnectResponse{Timeout: resp.Timeout, SessionID: resp.SessionID, Password: make([]byte, 16)}) // we know the password
	s.link, s.lastLink = l, l
	s.unremoved = map[string]bool{}
	l.prime()
	return l, first, nil
}

// prime queues what must come before anything else on a new connection. Session.mu is held.
func (l *link) prime() {
	s := l.s
	l.since, l.sent = s.maxZxid, now()
	if s.unarmed { // what happened before the connection in between has not been told
		l.since = min(l.since, s.gapFrom)
	}
	calls, gaps := s.watches.rearm(l.since, s.cfg.MaxFrame)
	if mutant.On("watches not armed again") {
		calls = nil
	}
	left := len(calls)
	s.unarmed, s.gapFrom = left > 0, l.since
	for i, c := range calls {
		last := i == len(calls)-1
		c.Done = func(r Reply) {
			switch {
			case r.Err != nil:
				return
			case r.Code != jute.CodeOK:
				l.close(fmt.Errorf("wire: watches not armed again: %s", jute.CodeName(r.Code)))
				return
			case last:
				s.reset(gaps)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if left--; left == 0 && s.link == l {
				s.unarmed = false
			}
		}
		s.write(l, c)
	}
	if mutant.On("watches before credentials") {
		l.out = append(l.out, s.credentials()...)
	}
	var t todo
	s.pump(&t)
	if len(t) > 0 {
		s.wg.Go(t.run) // calls that this server is known to lack; nothing may be called back under the lock
	}
}

// start announces the link and starts its goroutines.
func (l *link) start(ev Event) {
	l.s.emit(ev)
	l.wg.Go(l.writer)
	l.wg.Go(l.keeper)
	if l.readOnly {
		l.wg.Go(l.seek)
	}
	l.s.wg.Go(l.reader)
}

// append adds a frame to the output. Session.mu is held.
func (l *link) append(h *jute.RequestHeader, body []byte) {
	l.out = binary.BigEndian.AppendUint32(l.out, uint32(8+len(body)))
	l.out = binary.BigEndian.AppendUint32(l.out, uint32(h.Xid))
	l.out = binary.BigEndian.AppendUint32(l.out, uint32(h.Op))
	l.out = append(l.out, body...)
	l.wakeWriter()
}

func (l *link) wakeWriter() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// forward writes a frame of the library's. A watch of its own on a path where we have a persistent one would replace ours on servers before 3.9,
// so ours is armed again behind it. It returns false if the link is gone.
func (l *link) forward(h jute.RequestHeader, frame []byte) bool {
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link != l {
		return false
	}
	var again []*watchEntry
	switch h.Op {
	case jute.OpExists, jute.OpGetData, jute.OpGetChildren, jute.OpGetChildren2:
		var r jute.PathWatchRequest
		if jute.Unmarshal(frame[8:], &r) == nil && r.Watch {
			l.libWatches = true
			kind := Data
			if h.Op == jute.OpGetChildren || h.Op == jute.OpGetChildren2 {
				kind = Child
			}
			again = s.watches.shared(again, kind, r.Path)
		}
	case jute.OpSetWatches:
		var r jute.SetWatches
		if jute.Unmarshal(frame[8:], &r) == nil {
			l.libWatches = true
			again = s.watches.shared(again, Data, append(r.Data, r.Exist...)...)
			again = s.watches.shared(again, Child, r.Child...)
			// The library's zxid may be that of a reply on this connection, and changes in the gap would be lost.
			binary.BigEndian.PutUint64(frame[8:], uint64(l.since))
		}
	}
	l.append(&h, frame[8:])
	for _, e := range again {
		c := &Call{Op: jute.OpAddWatch, Body: jute.Marshal(&jute.PathIntRequest{Path: e.key.path, Value: e.mode})}
		c.Done = func(r Reply) {
			if r.Err == nil {
				s.reset(s.subscribers(e)) // between the two anything may have happened
			}
		}
		s.write(l, c)
	}
	return true
}

// close makes the link end; the first reason counts.
func (l *link) close(err error) {
	first := false
	l.once.Do(func() {
		l.err, first = err, true
		close(l.quit)
	})
	if first { // not inside: the connection may be a user's own kind
		l.conn.Close()
	}
}

func (l *link) reader() {
	err := l.read()
	l.close(err)
	<-l.quit
	l.wg.Wait()
	if l.s.detached(l, l.err) {
		l.lib.retire()
	} else {
		l.lib.fail(l.err)
	}
	close(l.gone)
}

func (l *link) read() error {
	for {
		frame, err := readFrame(l.in, maxReply)
		if err != nil {
			return err
		}
		select {
		case <-l.quit: // the connection was given up over what came before: what has arrived behind that does not count
			return nil
		default:
		}
		var h jute.ReplyHeader
		if err := jute.Unmarshal(frame, &h); err != nil {
			return err
		}
		l.s.mu.Lock()
		forward := l.libWatches
		l.s.mu.Unlock()
		if h.Err == jute.CodeSessionClosedRequireSASL {
			l.s.unwelcome(l.server)
		}
		switch {
		case h.Err == jute.CodeSessionExpired && !l.readOnly:
			l.s.end(ErrExpired)
			return ErrExpired
		case h.Xid == jute.XidPing:
			if !l.pong(h.Err) {
				l.s.end(ErrLapsed)
				return ErrLapsed
			}
		case h.Xid == jute.XidNotification:
			var ev jute.WatcherEvent
			if err := jute.Unmarshal(frame[16:], &ev); err != nil {
				return err
			}
			l.s.notified(l, ev)
			if forward {
				l.lib.deliver(&h, rawRecord(frame[16:]))
			}
		case h.Xid < firstXid:
			if err := l.s.replied(l, h, frame[16:]); err != nil {
				if errors.Is(err, ErrLapsed) {
					l.s.end(err)
				}
				return err
			}
		case h.Xid >= 0:
			l.s.sawZxid(h.Zxid)
			clear(frame[4:12]) // the library keeps zxids without a lock, and has no use for them here
			l.lib.deliver(rawRecord(frame))
		}
	}
}

// rawRecord is bytes that are encoded already.
type rawRecord []byte

func (r rawRecord) Encode(e *jute.Encoder) { e.Raw(r) }

func (s *Session) sawZxid(zxid int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.maxZxid = max(s.maxZxid, zxid)
}

// pong handles a ping's answer. It returns false if the session had lapsed before.
func (l *link) pong(code int32) bool {
	sent, alive := l.ponged(code)
	if f := l.s.cfg.OnPong; f != nil && !sent.zero() {
		f(elapsed(sent, now()))
	}
	return alive
}

// ponged pairs a ping's answer with the oldest ping (rule R2).
func (l *link) ponged(code int32) (sent instant, alive bool) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if len(l.pings) == 0 {
		return sent, true
	}
	sent = l.pings[0]
	l.pings = l.pings[1:]
	return sent, l.readOnly || !extends(code) || l.s.validity.answer(sent)
}

func (l *link) writer() {
	var spare []byte
	for {
		select {
		case <-l.wake:
		case <-l.quit:
			return
		}
		for {
			l.s.mu.Lock()
			b := l.out
			l.out = spare[:0]
			l.s.mu.Unlock()
			if len(b) == 0 {
				spare = b
				break
			}
			if _, err := l.conn.Write(b); err != nil {
				l.broken.Store(true)
				// What the server has said before it closed the connection shall be read: the reader finds the end.
				if l.conn.SetReadDeadline(time.Now().Add(drainTime)) != nil {
					l.close(err)
				}
				return
			}
			if spare = b; cap(spare) > 1<<20 {
				spare = nil // one large request shall not cost its memory for ever
			}
		}
	}
}

// keeper pings when nothing else was sent, and gives the connection up when the server is silent or forgets a request.
func (l *link) keeper() {
	s := l.s
	last := now()
	for {
		ping, silence := s.validity.ruleNow().pace(s.Timeout())
		timer := time.NewTimer(ping / 2)
		select {
		case <-timer.C:
		case <-l.quit:
			timer.Stop()
			return
		}
		at := now()
		late := elapsed(last, at) > ping // the process stood still: what has come in meanwhile shall be read first
		last = at
		s.mu.Lock()
		silent := elapsed(l.in.last(), at)
		stuck := s.flight.first != nil && s.link == l && elapsed(s.flight.first.sent, at) > s.timeout
		if elapsed(l.sent, at) >= ping/2 {
			l.pings = append(l.pings, at)
			l.sent = at
			l.append(&jute.RequestHeader{Xid: jute.XidPing, Op: jute.OpPing}, nil)
		}
		var t todo
		s.removeAgain(&t)
		s.mu.Unlock()
		t.run()
		switch {
		case late:
		case silent > silence:
			l.close(fmt.Errorf("%w for %v", errSilent, silent.Round(time.Millisecond)))
			return
		case stuck:
			l.close(errStuck)
			return
		}
	}
}

// noteRefusal counts servers that close the connection on our handshake. A server does that when it is not serving yet, and when we have seen more
// than it has: a lagging member, or all of them after their data was wiped. When nothing else has come for a whole session timeout, a fresh session
// is tried with no claim at all, once in a while: only a server that serves with a quorum accepts it, and only one that is behind had refused the other.
func (s *Session) noteRefusal(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var timeout net.Error
	if s.id != 0 || s.maxZxid == 0 || errors.As(err, &timeout) && timeout.Timeout() {
		return // a silent server has refused nothing
	}
	if s.refusals == 0 {
		s.refusedFrom = now()
	}
	s.refusals++
	s.probe = !s.probe && s.refusals > s.hosts.Len() && elapsed(s.refusedFrom, now()) >= s.cfg.Timeout
}

// behind asks a server that has accepted us without a claim whether its last zxid is really smaller than what we have seen.
func (s *Session) behind(conn net.Conn, in io.Reader) (bool, error) {
	h, err := s.ask(conn, in, jute.OpExists, &jute.PathWatchRequest{Path: "/"})
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return h.Zxid < s.maxZxid, nil
}

// greet begins a handshake. It is false when the session shall have none any more: it is being closed, and there has been no connection.
func (s *Session) greet() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id != 0 {
		return true
	}
	if s.closing {
		return false
	}
	s.unsure, s.greeting = true, make(chan struct{})
	return true
}

// greeted ends it.
func (s *Session) greeted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.greeting != nil {
		close(s.greeting)
		s.greeting = nil
		if s.unsure {
			s.strays++
		}
	}
}

// noStray notes that the handshake that is going on has left no session at its server.
func (s *Session) noStray() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsure = false
}

// farewell closes a new session that nobody is going to use, and says whether the server has done that. Unless Close waits for it, the answer has to come
// within the time of the attempt.
func (s *Session) farewell(conn net.Conn, in *meter) bool {
	s.mu.Lock()
	closing := s.closing
	s.mu.Unlock()
	conn.SetWriteDeadline(time.Now().Add(drainTime))
	if closing {
		conn.SetReadDeadline(time.Now().Add(s.cfg.ConnectTimeout))
	}
	h, err := s.ask(conn, in, jute.OpCloseSession)
	return err == nil && h.Err == jute.CodeOK
}

// askXid is used by no other request of a session: members match replies to sessions by (session, xid).
const askXid = firstXid + 1

const (
	// maxFences bounds what is kept of sessions that could not be closed.
	maxFences = 8
	// fenceTries is how often closing one is tried at least before it is left to expire.
	fenceTries = 3
)

// lastFences copies the newest ones.
func lastFences(fences []Fence) []Fence { return slices.Clone(fences[max(0, len(fences)-maxFences):]) }

// fence closes the sessions before this one, so that nothing of them can happen any more: a write still in a socket would be executed for as long as
// that session lives. It goes to a server that has just opened a session, and so has a quorum behind it: one that cannot hear its leader could not close
// anything, but each attempt would keep the old session alive.
func (s *Session) fence(network, addr string) error {
	if mutant.On("no fence") {
		return nil
	}
	for _, f := range s.Unfenced() {
		if f.left {
			continue
		}
		if err := s.fenced(f, s.closeOld(s.ctx, f, network, addr)); err != nil {
			return err
		}
	}
	return nil
}

// closeLeft tries once more to close the sessions before this one that were left to expire, at the server that has just closed this one. It says whether
// they are gone.
func (s *Session) closeLeft(ctx context.Context, addr string) bool {
	for _, f := range s.Unfenced() {
		if err := s.closeOld(ctx, f, "tcp", addr); err != nil {
			return false
		}
	}
	return true
}

// fenced notes what has come of closing an old session. It returns nil when the connection may go on: it is closed, or nothing of it can be under way any
// more and it has been tried often enough.
func (s *Session) fenced(f Fence, err error) error {
	err, given := s.fenceTried(f, err)
	if given != nil {
		s.log.Warn("a session before this one is not closed; it is left to expire", "old", fmt.Sprintf("%#x", f.SessionID), "err", given)
	}
	return err
}

// fenceTried is fenced, for the state. given is why the session has just been left to expire.
func (s *Session) fenceTried(f Fence, err error) (stop, given error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.fences, func(left Fence) bool { return left.SessionID == f.SessionID })
	if i < 0 {
		return nil, nil
	}
	if err != nil {
		s.fences[i].tries++
		if time.Now().Before(f.Until) || s.fences[i].tries < fenceTries {
			return err, nil
		}
		s.fences[i].left = true
		return nil, err
	}
	s.fences = slices.Delete(s.fences, i, i+1)
	return nil, nil
}

// Unfenced returns the sessions before this one that may not be closed. Once a member with a quorum has accepted this one these are those that it was not
// possible to close, and of which nothing is under way any more.
func (s *Session) Unfenced() []Fence {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.fences)
}

func (s *Session) closeOld(ctx context.Context, f Fence, network, addr string) error {
	conn, limit, err := s.dialOne(ctx, network, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	// No claim to have seen anything: a member that is behind can close a session, too. All in one write: if the answers do not come through, a
	// request that only attached the session would keep it alive instead. Only a login takes several.
	bye := append(s.credentials(), jute.Frame(&jute.RequestHeader{Xid: askXid, Op: jute.OpCloseSession})...)
	with := bye
	if s.cfg.Login != nil {
		with = nil
	}
	resp, in, err := s.exchange(conn, limit, &jute.ConnectRequest{Timeout: int32(s.cfg.Timeout / time.Millisecond), SessionID: f.SessionID, Password: f.Password,
		HasReadOnly: true}, with...)
	if err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	if resp.SessionID != 0 {
		if s.cfg.Login != nil {
			if err := s.login(conn, in, limit, addr); err != nil {
				return err
			}
			if _, err := conn.Write(bye); err != nil {
				return err
			}
		}
		h, err := answer(in)
		switch {
		case err != nil:
		case h.Err == jute.CodeSessionClosedRequireSASL:
			err = unwelcome()
		case h.Err != jute.CodeOK && h.Err != jute.CodeSessionExpired:
			err = fmt.Errorf("the server says %s", jute.CodeName(h.Err))
		}
		if err != nil {
			return fmt.Errorf("old session not closed: %w", err)
		}
	}
	return nil
}

// ask makes one request on a connection that nobody else uses yet, and waits for its reply.
func (s *Session) ask(conn net.Conn, in io.Reader, op int32, records ...jute.Record) (h jute.ReplyHeader, err error) {
	request := jute.Frame(append([]jute.Record{&jute.RequestHeader{Xid: askXid, Op: op}}, records...)...)
	if _, err := conn.Write(request); err != nil {
		return h, err
	}
	return answer(in)
}

// answer waits for the reply to the request of ask.
func answer(in io.Reader) (h jute.ReplyHeader, err error) {
	for {
		frame, err := readFrame(in, maxReply)
		if err != nil {
			return h, err
		}
		if err := jute.Unmarshal(frame, &h); err != nil || h.Xid == askXid {
			return h, err
		}
	}
}

// credentials are the frames that go first on every connection.
func (s *Session) credentials() (frames []byte) {
	for _, a := range s.cfg.Credentials {
		frames = append(frames, jute.Frame(&jute.RequestHeader{Xid: jute.XidAuth, Op: jute.OpAuth}, &jute.AuthPacket{Scheme: a.Scheme, Auth: a.Auth})...)
	}
	return frames
}

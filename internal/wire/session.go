package wire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/mutant"
	"github.com/go-zookeeper/zk"
)

// firstXid is the first xid of our own requests; they go down from here. ZooKeeper reserves small negative numbers and the library counts up.
// The counter is never reset within a session: members match replies to sessions by (session, xid), also across connections.
const firstXid int32 = -1000

// Session is one ZooKeeper session: one epoch. It connects and reconnects by itself until it ends, which it does once and for good.
// All methods are safe for concurrent use.
type Session struct {
	cfg      Config
	log      *slog.Logger
	validity *Validity
	hosts    *hosts
	zk       *zk.Conn
	ctx      context.Context // ends with the session
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	wake     chan struct{} // tells run that the patience of a queued call ends earlier than it knows

	emitting sync.Mutex // orders OnEvent, held during the (non-blocking) call
	lost     bool       // Lost has been emitted; guarded by emitting

	mu          sync.Mutex
	link        *link // primed and live, or nil
	links       uint64
	lastLink    *link // the last one made, live or not
	queue       waiting
	flight      callList
	down        time.Time // when the last connection was lost
	expires     time.Time // when run will look for calls that have waited too long; zero: it does not know of any
	byXid       map[int32]*Call
	xid         int32
	watches     registry
	lacking     map[string]map[int32]bool // operations that a server does not know
	unremoved   map[string]bool           // paths of watches that the server of this connection would not remove
	maxZxid     int64
	unarmed     bool  // the last connection has not confirmed all watches,
	gapFrom     int64 // and this is what we had seen before it
	id          int64
	password    []byte
	timeout     time.Duration
	fences      []Fence // that are not closed
	agreed      bool    // a member with a quorum has confirmed the session
	refusals    int     // handshakes refused in a row, because the process is ahead of the servers, perhaps
	refusedFrom instant
	probe       bool            // the next handshake shall claim to have seen nothing
	wary        bool            // a server has closed a connection for want of authentication
	unwanted    map[string]bool // servers that have refused our credentials since the last connection
	refused     error           // the last refusal, when that is all of them
	greeting    chan struct{}   // closed at the end of the handshake that is going on, as long as there has been no connection; nil if none is
	unsure      bool            // its server may have opened a session
	strays      int             // those that have ended so; nobody uses these sessions
	closing     bool
	closeErr    error // what Close returns
	endErr      error // set once: why the session has ended
}

// Open starts to keep a session and returns at once.
func Open(cfg Config) (*Session, error) {
	if len(cfg.Servers) == 0 {
		return nil, errors.New("wire: no servers")
	}
	if cfg.Timeout < time.Millisecond || cfg.Timeout > math.MaxInt32*time.Millisecond {
		return nil, fmt.Errorf("wire: session timeout %v", cfg.Timeout)
	}
	if cfg.Dial == nil {
		cfg.Dial = DialTCP
	}
	if cfg.MaxFrame <= 0 {
		cfg.MaxFrame = 0xfffff
	}
	if cfg.Window <= 0 {
		cfg.Window = 1000
	}
	if cfg.ConnectTimeout <= 0 {
		cfg.ConnectTimeout = 5 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.RuleFor == nil {
		cfg.RuleFor = always(cfg.Rule)
	}
	s := &Session{
		cfg: cfg, log: cfg.Logger, validity: newValidity(cfg.RuleFor, cfg.Timeout), hosts: newHosts(cfg.Servers), wake: make(chan struct{}, 1),
		byXid: map[int32]*Call{}, xid: firstXid, watches: newRegistry(), lacking: map[string]map[int32]bool{}, maxZxid: cfg.LastZxid,
		fences: lastFences(cfg.Fences),
	}
	s.hosts.limit, s.hosts.spread, s.hosts.chance = s.patience, cfg.Spread, cfg.Chance
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.mu.Lock() // the library dials at once; let it wait for s.zk
	conn, events, err := zk.Connect(cfg.Servers, cfg.Timeout,
		zk.WithDialer(s.dial), zk.WithHostProvider(s.hosts), zk.WithLogInfo(false), zk.WithLogger(libLogger{s.log}))
	s.zk = conn
	s.mu.Unlock()
	if err != nil {
		s.cancel()
		return nil, err
	}
	s.wg.Go(func() {
		for range events { // closed when the library's loop has ended
		}
		s.end(errConnClosed) // by its user: nobody would reconnect
	})
	s.wg.Go(s.run)
	return s, nil
}

var errConnClosed = errors.New("the library's connection was closed")

// libLogger passes the library's remarks on; it calls connection losses errors, which they are not. Of failed attempts to connect we tell ourselves.
type libLogger struct{ log *slog.Logger }

func (l libLogger) Printf(format string, args ...any) {
	if !strings.HasPrefix(format, "failed to connect to ") {
		l.log.Debug(fmt.Sprintf(format, args...))
	}
}

// SetServers changes the list of servers, which must not be empty. A connection to a server that is not on the list any more is given up, as if it had been
// lost; the session goes on elsewhere.
func (s *Session) SetServers(servers []string) {
	s.hosts.set(slices.Clone(servers))
	s.mu.Lock()
	l := s.link
	s.mu.Unlock()
	if l != nil && !slices.Contains(servers, l.server) {
		l.close(errNotListed)
	}
}

// Validity tells until when holds of this session are certain.
func (s *Session) Validity() *Validity { return s.validity }

// Conn is the library's connection. Its own requests share the session and its order. From then on the pauses between two passes over the servers are the
// library's, if they are long enough: that makes it fail requests of its own that nobody could send. Nothing ends such a pause, so Close, and those requests
// at the session's end, may take up to a second longer.
func (s *Session) Conn() *zk.Conn {
	s.hosts.lend()
	return s.zk
}

// Timeout is the negotiated session timeout, 0 before the first handshake.
func (s *Session) Timeout() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.timeout
}

// ID is the session's id, 0 before the first handshake.
func (s *Session) ID() int64 {
	id, _ := s.Identity()
	return id
}

// Identity is the session's id and password: whoever has them can take the session over or end it. Never log them together.
func (s *Session) Identity() (id int64, password []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id, append([]byte(nil), s.password...)
}

// Connected says whether there is a live connection.
func (s *Session) Connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.link != nil
}

// MaxZxid is the highest zxid of any reply.
func (s *Session) MaxZxid() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.maxZxid
}

// Links is how many connections the session has had so far. It has grown before the first event or reply of a new connection is delivered, so
// whoever finds it unchanged knows that everything he has seen meanwhile came over one connection.
func (s *Session) Links() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.links
}

// Done is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.ctx.Done() }

// Err says why the session has ended; nil while it has not.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endErr
}

// todo collects callbacks that are due once Session.mu is released.
type todo []func()

func (t *todo) done(c *Call, r Reply) {
	c.state = callDone
	if c.Done != nil {
		*t = append(*t, func() { c.Done(r) })
	}
}

func (t *todo) fire(ds []delivery) {
	for _, d := range ds {
		*t = append(*t, func() { d.to.Fn(d.ev) })
	}
}

func (t todo) run() {
	for _, f := range t {
		f()
	}
}

// Submit queues calls. They are written in the order of submission, but urgent ones first, as soon as there is a connection with room for them.
func (s *Session) Submit(calls ...*Call) { s.submit(false, calls...) }

func (s *Session) submit(last bool, calls ...*Call) {
	var t todo
	s.mu.Lock()
	now := time.Now()
	for _, c := range calls {
		if err := s.refuse(c, last); err != nil {
			t.done(c, Reply{Err: err})
			continue
		}
		if c.Watch != nil {
			s.watches.submitted(c.Watch)
		}
		c.state, c.queued = callQueued, now
		s.queue.push(c)
		if ends, ok := s.givesUp(c); ok && (s.expires.IsZero() || ends.Before(s.expires)) {
			s.expires = ends
			s.wakeRun()
		}
	}
	s.pump(&t)
	s.mu.Unlock()
	t.run()
}

func (s *Session) wakeRun() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// refuse says why a call cannot be accepted.
func (s *Session) refuse(c *Call, last bool) error {
	switch {
	case s.endErr != nil:
		return fmt.Errorf("%w: %w", ErrNotSent, s.ended())
	case s.closing && (!last || s.link == nil):
		return fmt.Errorf("%w: %w", ErrNotSent, ErrClosed)
	case s.refused != nil && c.Patience > 0:
		return fmt.Errorf("%w: %w", ErrNotSent, s.refused)
	case len(c.Body)+8 > s.cfg.MaxFrame:
		return fmt.Errorf("%w: %w: %d bytes, at most %d", ErrNotSent, ErrTooLarge, len(c.Body)+8, s.cfg.MaxFrame)
	}
	return nil
}

// ended is the session's end as callers see it.
func (s *Session) ended() error {
	if errors.Is(s.endErr, ErrClosed) {
		return ErrClosed
	}
	return fmt.Errorf("%w: %w", ErrSessionLost, s.endErr)
}

// pump moves calls from the queue to the connection while there is room.
func (s *Session) pump(t *todo) {
	l := s.link
	if l == nil {
		return
	}
	for s.queue.urgent.n > 0 || s.queue.others.n > 0 && l.room.free() {
		c := s.queue.pop()
		if s.lacking[l.server][c.Op] {
			if c.Watch != nil {
				t.fire(s.watches.answered(c, jute.CodeUnimplemented))
			}
			t.done(c, Reply{Code: jute.CodeUnimplemented, Link: l.n})
			continue
		}
		s.write(l, c)
	}
}

// write appends a call to the connection's output. Its time is taken first (rule R2).
func (s *Session) write(l *link, c *Call) {
	if c.Watch != nil {
		s.watches.writing(c)
	}
	c.xid = s.nextXid()
	c.state, c.sent = callWritten, now()
	l.sent = c.sent
	s.byXid[c.xid] = c
	s.flight.push(c)
	l.room.load += c.places()
	l.append(&jute.RequestHeader{Xid: c.xid, Op: c.Op}, c.Body)
}

func (s *Session) nextXid() int32 {
	for {
		if s.xid--; s.xid > firstXid { // wrapped after two billion requests
			s.xid = firstXid - 1
		}
		if s.byXid[s.xid] == nil {
			return s.xid
		}
	}
}

// Cancel takes a call back if it has not been written: then its Done is called with ErrNotSent and cause, and Cancel returns true. Otherwise the
// call goes on: the server may execute it.
func (s *Session) Cancel(c *Call, cause error) bool {
	var t todo
	s.mu.Lock()
	ok := c.state == callQueued
	if ok {
		s.unqueue(c, cause, &t)
	}
	s.mu.Unlock()
	t.run()
	return ok
}

func (s *Session) unqueue(c *Call, cause error, t *todo) {
	s.queue.remove(c)
	s.failWatch(c, t)
	t.done(c, Reply{Err: fmt.Errorf("%w: %w", ErrNotSent, cause)})
}

// failWatch forgets the watch of a call without an answer.
func (s *Session) failWatch(c *Call, t *todo) {
	if c.Watch != nil {
		s.watches.failed(c)
		s.tidy(c.Watch.Path, t)
	}
}

// tidy removes watches that nobody needs from the server.
func (s *Session) tidy(path string, t *todo) {
	calls := s.watches.unneeded(path)
	if s.link == nil || s.endErr != nil {
		return // the next connection starts without them
	}
	if s.closing {
		return // they go with the session; a write behind its close would break the connection before the answer is read
	}
	s.remove(path, t, calls...)
}

// remove queues the calls that take watches on a path off the server. What it refuses, being overloaded say, is tried again by removeAgain.
func (s *Session) remove(path string, t *todo, calls ...*Call) {
	for _, c := range calls {
		c.Done = func(r Reply) {
			if r.Err != nil || r.Code == jute.CodeOK || r.Code == jute.CodeNoWatcher || r.Code == jute.CodeUnimplemented {
				return // without an answer the connection has gone, and the watches with it
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.link != nil && s.link.n == r.Link {
				s.unremoved[path] = true
			}
		}
		c.state = callQueued
		s.queue.push(c)
	}
	s.pump(t)
}

// removeAgain takes watches off the server that it would not remove before, unless there are new ones on the same path: those would go as well, so it waits
// for their end.
func (s *Session) removeAgain(t *todo) {
	for path := range s.unremoved {
		if !s.closing && !s.watches.on(path) {
			delete(s.unremoved, path)
			s.remove(path, t, removal(path, jute.WatcherAny))
		}
	}
}

// Join attaches w to a server watch that is already armed, without a request. It returns false if there is none.
func (s *Session) Join(w *Watch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endErr == nil && s.watches.join(w)
}

// Unwatch ends w's subscription; an event that is being delivered may still come. The last subscriber of a watch takes it off the server.
func (s *Session) Unwatch(w *Watch) {
	var t todo
	s.mu.Lock()
	if !w.stopped {
		w.stopped = true
		if e := w.entry; e != nil && e.has(w) {
			s.watches.detach(w, e)
			s.tidy(w.Path, &t)
		}
	}
	s.mu.Unlock()
	t.run()
}

func (e *watchEntry) has(w *Watch) bool {
	for _, s := range e.subs {
		if s == w {
			return true
		}
	}
	return false
}

// replied handles the answer to one of our calls. It returns an error if the connection cannot go on: ErrLapsed if it came after the session had
// lapsed, errSkipped if one before it was not answered.
func (s *Session) replied(l *link, h jute.ReplyHeader, body []byte) error {
	var t todo
	s.mu.Lock()
	c := s.byXid[h.Xid]
	switch {
	case c == nil || s.link != l:
		s.mu.Unlock()
		return nil
	case c != s.flight.first:
		// A server answers in order. What it has skipped may have been the watches to be armed again, and then no answer is behind their events.
		s.mu.Unlock()
		return errSkipped
	}
	delete(s.byXid, h.Xid)
	s.flight.remove(c)
	ping, _ := s.validity.ruleNow().pace(s.timeout)
	l.room.answered(c.places(), elapsed(c.sent, now()), ping/roomShare, s.flight.n, s.queue.others.n > 0)
	if !l.readOnly && extends(h.Err) && !s.validity.answer(c.sent) {
		s.failWatch(c, &t)
		t.done(c, Reply{Err: fmt.Errorf("%w: %w", ErrConnectionLost, ErrSessionLost), Sent: c.sent.t, Link: l.n})
		s.mu.Unlock()
		t.run()
		return ErrLapsed
	}
	if h.Err == jute.CodeOK && isWrite(c.Op) {
		s.validity.committed(c.sent)
	}
	s.maxZxid = max(s.maxZxid, h.Zxid)
	if h.Err == jute.CodeUnimplemented {
		if s.lacking[l.server] == nil {
			s.lacking[l.server] = map[int32]bool{}
		}
		s.lacking[l.server][c.Op] = true
	}
	if c.Watch != nil {
		t.fire(s.watches.answered(c, h.Err))
		if c.Watch.entry == nil {
			s.tidy(c.Watch.Path, &t)
		}
	}
	t.done(c, Reply{Zxid: h.Zxid, Code: h.Err, Body: body, Sent: c.sent.t, Link: l.n})
	s.pump(&t)
	s.mu.Unlock()
	t.run()
	return nil
}

// extends says whether a reply with this code shows that the server has touched the session (rule R1).
func extends(code int32) bool {
	switch code {
	case jute.CodeSessionExpired, jute.CodeSessionMoved, jute.CodeSessionClosedRequireSASL, jute.CodeAuthFailed:
		return false
	}
	return true
}

// isWrite says whether a successful op went through the quorum.
func isWrite(op int32) bool {
	switch op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL, jute.OpDelete, jute.OpSetData, jute.OpSetACL, jute.OpMulti:
		return true
	}
	return false
}

// notified hands a watch event to its subscribers.
func (s *Session) notified(l *link, ev jute.WatcherEvent) {
	var t todo
	s.mu.Lock()
	if s.link == l {
		t.fire(s.watches.fired(ev.Type, ev.Path))
		s.tidy(ev.Path, &t) // a persistent watch may have stayed only for the one-shots
		s.tidy(parentOf(ev.Path), &t)
	}
	s.mu.Unlock()
	t.run()
}

// reset tells persistent watches that events may have been missed, if they are still there.
func (s *Session) reset(ws []*Watch) {
	s.mu.Lock()
	var t todo
	for _, w := range ws {
		if w.entry != nil && !w.stopped {
			t.fire([]delivery{{w, WatchEvent{Type: EventReset, Path: w.Path}}})
		}
	}
	s.mu.Unlock()
	t.run()
}

func (s *Session) subscribers(e *watchEntry) []*Watch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(e.subs)
}

// detached ends a link: what was in flight on it has an unknown outcome. It returns whether the session is ending, too.
func (s *Session) detached(l *link, err error) (ending bool) {
	var t todo
	s.mu.Lock()
	live := s.link == l
	if live {
		s.link, s.down = nil, time.Now()
		s.wakeRun() // those who wait begin to wait for a connection
		if mutant.On("time counted from the disconnect") {
			s.validity.answer(now())
		}
		large := s.suspicious(l, err)
		for c := s.flight.pop(); c != nil; c = s.flight.pop() {
			delete(s.byXid, c.xid)
			s.failWatch(c, &t)
			r := Reply{Err: fmt.Errorf("%w: %w", ErrConnectionLost, err), Sent: c.sent.t, Link: l.n}
			if c == large {
				r.Suspect = len(c.Body) + 8
			}
			t.done(c, r)
		}
	}
	if ending = s.closing || s.endErr != nil; ending {
		s.queue.each(func(c *Call) { s.unqueue(c, ErrClosed, &t) }) // there will be no other connection
	}
	s.mu.Unlock()
	if live {
		s.emit(Event{Kind: Disconnected, SessionID: s.ID(), Server: l.server, Err: err})
	}
	t.run()
	return ending
}

// run watches over the session's time and over calls that wait too long for a connection.
func (s *Session) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait := time.Hour
		changed := s.validity.Changed()
		if left, ok := s.validity.lapseIn(); ok {
			if left <= 0 && mutant.On("extended after a lapse") {
				left = 100 * time.Millisecond
			}
			if left <= 0 {
				s.validity.Lapsed()
				s.end(ErrLapsed)
				return
			}
			wait = min(left, s.glance())
		}
		if next, ok := s.expireQueued(time.Now()); ok {
			wait = min(wait, next)
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-changed:
		case <-s.wake:
		case <-s.ctx.Done():
			return
		}
	}
}

// glance is how often to look at the clock: a timer stands still while the machine sleeps.
func (s *Session) glance() time.Duration {
	ping, _ := s.validity.ruleNow().pace(s.Timeout())
	return max(ping/2, 50*time.Millisecond)
}

// expireQueued fails calls that have waited too long for a connection and returns when the next one will have.
func (s *Session) expireQueued(now time.Time) (next time.Duration, ok bool) {
	var t todo
	s.mu.Lock()
	s.expires = time.Time{}
	if s.link != nil {
		s.mu.Unlock()
		return 0, false
	}
	s.queue.each(func(c *Call) {
		switch ends, limited := s.givesUp(c); {
		case !limited:
		case !ends.After(now):
			s.unqueue(c, errNoConnection, &t)
		case s.expires.IsZero() || ends.Before(s.expires):
			s.expires = ends
		}
	})
	next, ok = s.expires.Sub(now), !s.expires.IsZero()
	s.mu.Unlock()
	t.run()
	return next, ok
}

// givesUp is when a queued call has waited for a connection for long enough; false if it does not wait for one, or has no limit.
func (s *Session) givesUp(c *Call) (at time.Time, limited bool) {
	if s.link != nil || c.Patience <= 0 {
		return at, false
	}
	if at = c.queued; s.down.After(at) {
		at = s.down
	}
	return at.Add(c.Patience), true
}

var errNoConnection = errors.New("no connection in time")

// emit hands an event to the owner, in order and never after Lost.
func (s *Session) emit(ev Event) {
	s.emitting.Lock()
	defer s.emitting.Unlock()
	if s.lost {
		return
	}
	s.lost = ev.Kind == Lost
	if s.cfg.OnEvent != nil {
		s.cfg.OnEvent(ev)
	}
}

// end ends the session, once: first nothing is valid any more, then the owner hears of it, then calls and watches.
func (s *Session) end(err error) {
	var t todo
	s.validity.end(err)
	s.mu.Lock()
	if s.endErr != nil {
		s.mu.Unlock()
		return
	}
	s.endErr = err
	s.wg.Add(1) // whatever else has ended by then, Wait waits for what follows
	seen := s.ended()
	l := s.link
	s.link = nil
	for c := s.flight.pop(); c != nil; c = s.flight.pop() {
		delete(s.byXid, c.xid)
		t.done(c, Reply{Err: fmt.Errorf("%w: %w", ErrConnectionLost, seen), Sent: c.sent.t, Link: l.n})
	}
	for c := s.queue.pop(); c != nil; c = s.queue.pop() {
		t.done(c, Reply{Err: fmt.Errorf("%w: %w", ErrNotSent, seen)})
	}
	var ends todo
	for _, w := range s.watches.end() {
		ends.fire([]delivery{{w, WatchEvent{Type: EventEnd, Path: w.Path, Err: seen}}})
	}
	id, last := s.id, s.lastLink
	s.mu.Unlock()
	s.emit(Event{Kind: Lost, SessionID: id, Err: err})
	s.hosts.close()
	s.cancel()
	if last != nil && last.lib.retire() {
		s.closeLibrary()
	}
	if l != nil {
		l.close(err)
	}
	s.wg.Go(func() {
		if last != nil {
			<-last.gone // it may be delivering an event at this moment: the end comes last
		}
		ends.run()
	})
	s.wg.Done()
	t.run()
}

// closeLibrary ends the library's loop. Its Close waits a second in vain if the loop ends before it has the request that Close puts into its queue. So Close
// is called while the library is held by us: on a connection that was retired, or in the dialer, which gives it one that agrees to everything. (A connection
// that was made, and not handed over any more, may have been retired as well. Then the library is on its way back into the dialer: hosts are closed by then.)
func (s *Session) closeLibrary() { s.wg.Go(s.zk.Close) }

// Abort ends the session without telling the server; its ephemeral nodes stay until its timeout. The cause is what the Lost event says.
func (s *Session) Abort(cause error) { s.end(cause) }

// Close ends the session on the server behind everything submitted before, and here in any case, and waits for every goroutine. If ctx ends
// first, or there is no connection to a member with a quorum, it returns ErrUnacknowledged. So it does when the session had ended before (a leader calls
// it expired before the others have agreed, and it lives on if they do not), or has not been able to close those before it, or has had no connection, and
// a handshake of which it does not know what the server has made of it. It waits for one that is going on. A second Close waits for the first, or for its
// own ctx.
func (s *Session) Close(ctx context.Context) error {
	s.mu.Lock()
	first := !s.closing && s.endErr == nil
	if !s.closing && s.outlives() {
		s.closeErr = ErrUnacknowledged
	}
	s.closing = true
	greeting := s.greeting
	connected := s.link != nil && !s.link.readOnly // a member without a quorum cannot close a session, whatever it answers
	server := ""
	if connected {
		server = s.link.server
	}
	s.mu.Unlock()
	switch {
	case !first:
		select {
		case <-s.ctx.Done():
		case <-ctx.Done():
		}
	case connected:
		answer := make(chan Reply, 1)
		s.submit(true, &Call{Op: jute.OpCloseSession, Done: func(r Reply) { answer <- r }})
		select {
		case r := <-answer:
			if r.Err == nil && r.Code == jute.CodeOK && s.closeLeft(ctx, server) {
				s.mu.Lock()
				s.closeErr = nil
				s.mu.Unlock()
			}
		case <-ctx.Done():
		}
	case greeting != nil: // what comes of it is closed at once
		select {
		case <-greeting:
			s.mu.Lock()
			if !s.outlives() {
				s.closeErr = nil
			}
			s.mu.Unlock()
		case <-ctx.Done():
		}
	}
	s.end(ErrClosed)
	s.wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closeErr
}

// outlives says whether something of the session, or of those before it, may be left on the server. mu is held.
func (s *Session) outlives() bool {
	return len(s.fences) > 0 || s.agreed || s.strays > 0 || s.greeting != nil && s.unsure
}

// Agreed says whether there is, or was, a session for others than a single member without a quorum.
func (s *Session) Agreed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.agreed
}

// Wait returns when the session has ended and every goroutine of it is gone.
func (s *Session) Wait() { s.wg.Wait() }

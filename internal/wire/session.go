package wire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"
)

// Session is one ZooKeeper session: one epoch. It connects and reconnects by itself until it ends, which it does once and for good.
// All methods are safe for concurrent use.
type Session struct {
	cfg      Config
	log      *slog.Logger
	validity *Validity
	hosts    *hosts
	library  func() *guest   // go-zookeeper's connection, made at the first call
	ctx      context.Context // ends with the session
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	fences   fences
	wake     chan struct{} // tells watchWaiting that the patience of a queued call ends earlier than it knows

	emitting sync.Mutex // orders OnEvent, held during the (non-blocking) call
	lost     bool       // Lost has been emitted; guarded by emitting

	mu        sync.Mutex
	link      *link         // primed and live, or nil
	up        chan struct{} // closed while there is a link
	links     uint64
	lastLink  *link  // the last one made, live or not
	guest     *guest // nil if nobody has asked for go-zookeeper's connection
	queue     waiting
	flight    callList
	down      time.Time // when the last connection was lost
	expires   time.Time // when watchWaiting will look for calls that have waited too long; zero: it knows of none
	byXid     map[int32]*Call
	xid       int32
	watches   registry
	lacking   map[string]map[int32]bool // operations that a server does not know
	unremoved map[string]bool           // paths of watches that the server of this connection would not remove
	maxZxid   int64
	unarmed   bool  // the last connection has not confirmed all watches,
	gapFrom   int64 // and this is what we had seen before it
	id        int64
	password  []byte
	timeout   time.Duration
	birth     birth
	admission admission
	closing   bool
	closeErr  error // what Close returns
	endErr    error // set once: why the session has ended
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
	if cfg.MaxReply <= 0 {
		cfg.MaxReply = defaultMaxReply
	}
	cfg.MaxReply = max(cfg.MaxReply, cfg.MaxFrame+maxPlain) // what can be written can be read
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
		cfg: cfg, log: cfg.Logger, up: make(chan struct{}), validity: newValidity(cfg.RuleFor, cfg.Timeout), hosts: newHosts(cfg.Servers), wake: make(chan struct{}, 1),
		byXid: map[int32]*Call{}, xid: firstXid, watches: newRegistry(), lacking: map[string]map[int32]bool{}, maxZxid: cfg.LastZxid,
	}
	s.fences.keep(cfg.Fences)
	s.hosts.limit, s.hosts.spread, s.hosts.chance = s.patience, cfg.Spread, cfg.Chance
	s.library = sync.OnceValue(s.invite)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	up := s.up // the first connection may be lost before that goroutine runs
	s.wg.Go(s.dial)
	s.wg.Go(s.guard)
	s.wg.Go(func() { s.watchWaiting(up) })
	return s, nil
}

// SetServers changes the list of servers, which must not be empty, and those that are asked as well when none of it can be reached. A connection to a server
// that is not on the list any more is given up, as if it had been lost; the session goes on elsewhere.
func (s *Session) SetServers(servers, further []string) {
	s.hosts.set(slices.Clone(servers), slices.Clone(further))
	s.mu.Lock()
	l := s.link
	s.mu.Unlock()
	if l != nil && !slices.Contains(servers, l.server) {
		l.close(errNotListed)
	}
}

// Validity tells until when holds of this session are certain.
func (s *Session) Validity() *Validity { return s.validity }

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

package wire

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// guest is go-zookeeper's connection, for code with calls of its own. Its requests go over the session's
// connection, and it never dials: it gets a net.Conn for each link of ours, see libConn; while there is none
// it waits in its dialer.
type guest struct {
	s         *Session
	conn      *zk.Conn
	made      chan struct{} // closed when conn is set
	news      chan struct{} // has a value if there may be a new link
	connected chan struct{} // closed when the library has had its first connection
	once      sync.Once     // for connected
	wg        sync.WaitGroup
	late      bool // it was made after the session's end

	mu       sync.Mutex
	timedOut bool // the last attempt has failed: the requests that wait in the library cannot be sent
	pausing  bool // in the pause that follows

	expired bool // the library has been told so; belongs to its dialer
}

// guestPatience is how long a request of the library's waits for a connection at most, and at least half of
// that. Then it fails with zk.ErrNoServer.
const guestPatience = 2 * time.Second

// Conn is go-zookeeper's connection, made at the first call. Its requests share the session and its order,
// and closing it ends the session.
func (s *Session) Conn() *zk.Conn { return s.library().conn }

// newGuest makes the guest. After the session's end it is one that is closed; if there is a link, it has been
// told the session's id.
func (s *Session) newGuest() *guest {
	g := &guest{s: s, made: make(chan struct{}), news: make(chan struct{}, 1), connected: make(chan struct{})}
	s.mu.Lock()
	l := s.links.live
	if g.late = s.ending.err != nil; !g.late {
		s.links.guest = g
		s.wg.Add(1)
	}
	s.mu.Unlock()
	conn, events, err := zk.Connect([]string{"session"}, s.cfg.Timeout,
		zk.WithDialer(g.dial), zk.WithHostProvider(g),
		zk.WithLogInfo(false), zk.WithLogger(libLogger{s.cfg.Logger}))
	if err != nil {
		panic(err) // it refuses only an empty list, and our own Init never fails
	}
	g.conn = conn
	close(g.made)
	drain := func() {
		for range events { // closed when the library's loop has ended
		}
		g.wg.Wait()
	}
	if g.late {
		drain()
		return g
	}
	go func() {
		defer s.wg.Done()
		drain()
		s.end(errConnClosed) // by its user
	}()
	if l != nil {
		select {
		case <-g.connected:
		case <-l.end.ctx.Done():
		}
	}
	return g
}

var errConnClosed = errors.New("go-zookeeper's connection was closed")

// dial is the library's dialer: it waits for a link.
func (g *guest) dial(_, server string, _ time.Duration) (net.Conn, error) {
	<-g.made
	g.mu.Lock()
	g.pausing = false
	g.mu.Unlock()
	patience := time.NewTimer(guestPatience)
	defer patience.Stop()
	for {
		if g.late || g.s.ctx.Err() != nil { // a late guest does not wait until others are told of the end
			return g.deadEnd(), nil
		}
		if c, err := g.take(server); c != nil || err != nil {
			return c, err
		}
		select {
		case <-g.news:
		case <-g.s.ctx.Done():
		case <-patience.C:
			g.mu.Lock()
			g.timedOut = true
			g.mu.Unlock()
			return nil, errNoConnection
		}
	}
}

var errElsewhere = errors.New("the session is connected to another server")

// take gives the library the live link. It gives none if the library has had that link before, for then it is
// about to end. The library learns the server's name by Next only.
func (g *guest) take(server string) (net.Conn, error) {
	s := g.s
	s.mu.Lock()
	defer s.mu.Unlock()
	switch l := s.links.live; {
	case l == nil || l.library.conn != nil:
		return nil, nil
	case l.server != server:
		return nil, errElsewhere
	default:
		c := newLibConn(s, l)
		l.library.conn = c
		c.welcome(s.validity.timeout(s.identity.timeout), s.identity.id)
		return c, nil
	}
}

// deadEnd is a connection to nowhere, for a library whose session has ended.
func (g *guest) deadEnd() net.Conn {
	expired := errors.Is(g.s.Err(), ErrExpired) && !g.expired // the library dials again
	if g.expired = g.expired || expired; !expired {
		g.close(&g.wg)
	}
	return g.s.deadEndConn(expired)
}

// deadEndConn returns a connection to nowhere for the library after the session's end.
func (s *Session) deadEndConn(expired bool) net.Conn {
	c, id := newLibConn(s, nil), max(s.ID(), 1)
	if expired {
		id = 0
	}
	c.welcome(s.cfg.Timeout, id)
	return c
}

// leave ends the library after the session's end; last is the session's last link.
func (g *guest) leave(last *link) {
	g.mu.Lock()
	pausing := g.pausing
	g.mu.Unlock()
	var lib *libConn
	if last != nil {
		lib = last.libConn()
	}
	if lib != nil && lib.retire() || pausing {
		g.close(&g.s.wg)
	} // else it is in its dialer, or on the way there
}

// close ends the library's loop. zk.Close blocks for a second unless the loop can still answer, so it is
// called while the library is on a connection that answers everything, or about to get one. From the
// library's pause it may take that second.
func (g *guest) close(wg *sync.WaitGroup) {
	wg.Go(func() {
		<-g.made
		g.conn.Close()
	})
}

// The library asks its host provider for a server before each call of its dialer.

func (g *guest) Init([]string) error { return nil }
func (g *guest) Len() int            { return 1 }

func (g *guest) Connected() { g.once.Do(func() { close(g.connected) }) }

// Next returns the server that we are connected to. retryStart makes the library fail the requests that
// nobody has been able to send, and sleep for a second.
func (g *guest) Next() (server string, retryStart bool) {
	if server = g.s.Server(); server == "" {
		server = g.s.cfg.Servers[0]
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pausing = g.timedOut && g.s.ctx.Err() == nil // else nobody would end the pause
	g.timedOut = false
	return server, g.pausing
}

// libLogger passes the library's remarks on as debug messages: it calls connection losses errors, which they
// are not. Failed attempts to connect are reported by the session.
type libLogger struct{ log *slog.Logger }

func (l libLogger) Printf(format string, args ...any) {
	if !strings.HasPrefix(format, "failed to connect to ") {
		l.log.Debug(fmt.Sprintf(format, args...))
	}
}

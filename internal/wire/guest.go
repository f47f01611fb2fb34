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

	"github.com/go-curator/curator/internal/jute"
)

// guest is go-zookeeper's connection, for code that has calls of its own. It is a guest of the session: its requests go over the session's connection, and it
// never dials. It gets a net.Conn for each link of ours, see libConn; while there is none it waits in its dialer.
type guest struct {
	s    *Session
	conn *zk.Conn
	made chan struct{} // closed when conn is set
	news chan struct{} // has a value if there is a new link, perhaps
	in   chan struct{} // closed when the library has had its first connection
	once sync.Once     // in
	wg   sync.WaitGroup
	late bool // it has come after the session's end

	mu     sync.Mutex
	again  bool // the last attempt was in vain: nobody can send what waits in the library
	asleep bool // in the pause that follows

	expired bool // the library has been told so; belongs to its dialer
}

// guestPatience is how long a request of the library's waits for a connection at most, and at least half of that. Then it fails with zk.ErrNoServer.
const guestPatience = 2 * time.Second

// Conn is go-zookeeper's connection, made at the first call. Its requests share the session and its order, and closing it ends the session.
func (s *Session) Conn() *zk.Conn { return s.library().conn }

// invite makes the guest. After the session's end it is one that has left; while there is a link, it has been told the session's id.
func (s *Session) invite() *guest {
	g := &guest{s: s, made: make(chan struct{}), news: make(chan struct{}, 1), in: make(chan struct{})}
	s.mu.Lock()
	ended, l := s.endErr != nil, s.link
	if g.late = ended; !ended {
		s.guest = g
		s.wg.Add(1)
	}
	s.mu.Unlock()
	conn, events, err := zk.Connect([]string{"session"}, s.cfg.Timeout,
		zk.WithDialer(g.dial), zk.WithHostProvider(g), zk.WithLogInfo(false), zk.WithLogger(libLogger{s.log}))
	if err != nil {
		panic(err) // it has nothing to complain of but an empty list, and our own Init
	}
	g.conn = conn
	close(g.made)
	drain := func() {
		for range events { // closed when the library's loop has ended
		}
		g.wg.Wait()
	}
	if ended {
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
		case <-g.in:
		case <-l.quit:
		}
	}
	return g
}

var errConnClosed = errors.New("the library's connection was closed")

// linked says that there is a new link. It does not block.
func (g *guest) linked() {
	select {
	case g.news <- struct{}{}:
	default:
	}
}

// dial is the library's dialer: it waits for a link.
func (g *guest) dial(_, server string, _ time.Duration) (net.Conn, error) {
	<-g.made
	g.awake()
	patience := time.NewTimer(guestPatience)
	defer patience.Stop()
	for {
		if g.late || g.s.ctx.Err() != nil { // who comes late does not wait for those that are still to be told of the end
			return g.farewell(), nil
		}
		if c, err := g.enter(server); c != nil || err != nil {
			return c, err
		}
		select {
		case <-g.news:
		case <-g.s.ctx.Done():
		case <-patience.C:
			g.inVain()
			return nil, errNoConnection
		}
	}
}

var errElsewhere = errors.New("the connection is to another server")

// enter takes the link there is: none, if it has been given to the library before, for then it is about to end. The library learns the server's name by Next only.
func (g *guest) enter(server string) (net.Conn, error) {
	s := g.s
	s.mu.Lock()
	defer s.mu.Unlock()
	switch l := s.link; {
	case l == nil || l.lib != nil:
		return nil, nil
	case l.server != server:
		return nil, errElsewhere
	default:
		l.lib = newLibConn(s, l)
		l.lib.deliver(&jute.ConnectResponse{Timeout: int32(s.timeout / time.Millisecond), SessionID: s.id, Password: make([]byte, 16)}) // we know the password
		return l.lib, nil
	}
}

// farewell is a connection to nowhere, for a library whose session has ended.
func (g *guest) farewell() net.Conn {
	if errors.Is(g.s.Err(), ErrExpired) && !g.expired {
		g.expired = true
		return g.s.agreeable(true) // it comes back
	}
	g.close(&g.wg)
	return g.s.agreeable(false)
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

// leave ends the library after the session's end; last is the session's last link.
func (g *guest) leave(last *link) {
	g.mu.Lock()
	asleep := g.asleep
	g.mu.Unlock()
	var lib *libConn
	if last != nil {
		lib = last.guest()
	}
	if lib != nil && lib.retire() || asleep {
		g.close(&g.s.wg)
	} // else it is in its dialer, or on the way there
}

// close ends the library's loop. Its Close waits a second in vain if the loop ends before it has the request that Close puts into its queue. So it is called
// while the library is on a connection that agrees to everything, or about to get one. From the library's pause it may be a second late.
func (g *guest) close(wg *sync.WaitGroup) {
	wg.Go(func() {
		<-g.made
		g.conn.Close()
	})
}

// The library asks its host provider for a server before each call of its dialer.

func (g *guest) Init([]string) error { return nil }
func (g *guest) Len() int            { return 1 }

func (g *guest) Connected() { g.once.Do(func() { close(g.in) }) }

// Next returns the server that we are connected to. retryStart makes the library fail what nobody has been able to send, and sleep for a second.
func (g *guest) Next() (server string, retryStart bool) {
	g.s.mu.Lock()
	server = g.s.cfg.Servers[0]
	if l := g.s.link; l != nil {
		server = l.server
	}
	g.s.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	retryStart, g.again = g.again, false
	g.asleep = retryStart && g.s.ctx.Err() == nil // else nobody would end the pause
	return server, g.asleep
}

func (g *guest) inVain() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.again = true
}

func (g *guest) awake() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asleep = false
}

// libLogger passes the library's remarks on; it calls connection losses errors, which they are not. Of failed attempts to connect we tell ourselves.
type libLogger struct{ log *slog.Logger }

func (l libLogger) Printf(format string, args ...any) {
	if !strings.HasPrefix(format, "failed to connect to ") {
		l.log.Debug(fmt.Sprintf(format, args...))
	}
}

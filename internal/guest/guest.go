// Package guest lets code that is written for go-zookeeper share a session of package wire.
//
// A [Guest] is go-zookeeper's connection, and the net.Conn that it holds (conn.go). Its requests share the session's
// connections, in one order with the session's own requests, and it never dials: its dialer returns a net.Conn for each
// connection of the session, and waits while there is none. Such a net.Conn never fails a write, never times out, and
// ends when the session's connection has ended.
//
// The session calls it through wire.Guest, and it calls the session through [Session].
package guest

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

// Session has the methods of the session that a guest calls. A connection is identified by its number.
type Session interface {
	ID() int64
	// Server is the address of the connected server, "" if none is connected.
	Server() string
	// Live calls f with the connection that is ready for requests, if there is one, and with the session's timeout and
	// id. The connection cannot end before f returns: f must not block or call the session.
	WithConnection(f func(number uint64, server string, timeout time.Duration, id int64))
	// Forward sends a request. It returns false if the connection is not live any more.
	Forward(number uint64, h jute.RequestHeader, body []byte) bool
	// Disconnect ends a connection.
	Disconnect(number uint64, why error)
	// Go runs f on a goroutine of the session, which its Wait waits for.
	Go(f func())
}

// Config has the settings that a guest shares with the session.
type Config struct {
	Server   string        // that is named while none is connected
	Timeout  time.Duration // asked for
	MaxFrame int
	Logger   *slog.Logger
}

// Guest is go-zookeeper's connection on a session.
type Guest struct {
	s             Session
	cfg           Config
	zk            *zk.Conn
	events        <-chan zk.Event
	connMade      chan struct{} // closed when zk and events are set
	newConnection chan struct{} // has a value if there may be a new connection
	connected     chan struct{} // closed when the library has had its first connection
	ended         chan struct{} // closed when the session has ended
	connectedOnce sync.Once     // for connected
	wg            sync.WaitGroup

	mu            sync.Mutex   // taken after the session's own
	lastConn      *libraryConn // the last connection that the library was given
	timedOut      bool         // the last attempt has failed: the requests that wait in the library cannot be sent
	libraryPauses bool         // the library is in its pause after that
	sessionEnded  bool         // the session has ended
	expired       bool         // a server has reported it expired

	expiryReported bool // the expiry has been reported to the library; used by its dialer
}

// maxConnWait is the longest time for which a request of the library waits for a connection; it waits at least half of
// that. Then it fails with zk.ErrNoServer.
const maxConnWait = 2 * time.Second

// New returns a guest that the session can invite. It connects when [Guest.Connect] is called.
func New(s Session, cfg Config) *Guest {
	return &Guest{s: s, cfg: cfg, connMade: make(chan struct{}), newConnection: make(chan struct{}, 1),
		connected: make(chan struct{}), ended: make(chan struct{})}
}

// Connect returns the library's connection. It takes what the session's invitation has returned: live is closed when
// the session's live connection ends, nil if there is none. If there is one, the library learns the session's id from
// it before Connect returns. If invited is false the session has ended, and the connection is closed.
func (g *Guest) Connect(live <-chan struct{}, invited bool) *zk.Conn {
	conn, events, err := zk.Connect([]string{"session"}, g.cfg.Timeout,
		zk.WithDialer(g.dialSession), zk.WithHostProvider(sessionServer{g}),
		zk.WithLogInfo(false), zk.WithLogger(debugLogger{g.cfg.Logger}))
	if err != nil {
		panic(err) // it refuses only an empty list, and our own Init never fails
	}
	g.zk, g.events = conn, events
	close(g.connMade)
	switch {
	case !invited:
		g.Serve()
	case live != nil:
		select {
		case <-g.connected:
		case <-live:
		}
	}
	return conn
}

// Serve returns when the library has ended: its user has closed it, or the session has ended.
func (g *Guest) Serve() {
	<-g.connMade
	for range g.events { // closed when the library's loop has ended
	}
	g.wg.Wait()
}

// dialSession is the library's dialer: it waits for a connection of the session.
func (g *Guest) dialSession(_, server string, _ time.Duration) (net.Conn, error) {
	<-g.connMade
	g.mu.Lock()
	g.libraryPauses = false
	g.mu.Unlock()
	timer := time.NewTimer(maxConnWait)
	defer timer.Stop()
	for {
		select {
		case <-g.ended:
			return g.connAfterEnd(), nil
		default:
		}
		if c, err := g.takeConn(server); c != nil || err != nil {
			return c, err
		}
		select {
		case <-g.newConnection:
		case <-g.ended:
		case <-timer.C:
			g.mu.Lock()
			g.timedOut = true
			g.mu.Unlock()
			return nil, errNoConnection
		}
	}
}

var (
	errElsewhere    = errors.New("the session is connected to another server")
	errNoConnection = errors.New("no connection in time")
)

// takeConn returns a net.Conn on the live connection. It returns none if the library has had that connection before,
// for then it is about to end. The library learns the server's name by Next only.
func (g *Guest) takeConn(server string) (taken net.Conn, err error) {
	g.s.WithConnection(func(number uint64, at string, timeout time.Duration, id int64) {
		g.mu.Lock()
		defer g.mu.Unlock()
		switch {
		case g.lastConn != nil && g.lastConn.number == number:
		case at != server:
			err = errElsewhere
		default:
			g.lastConn = newLibraryConn(g, number)
			g.lastConn.replyConnect(timeout, id)
			taken = g.lastConn
		}
	})
	return taken, err
}

// connAfterEnd returns a connection to nowhere, for a library whose session has ended. If the session has expired, the
// library gets a connection that reports that first, and dials again.
func (g *Guest) connAfterEnd() net.Conn {
	g.mu.Lock()
	report := g.expired && !g.expiryReported
	g.mu.Unlock()
	if report {
		g.expiryReported = true
	} else {
		g.closeLibrary(g.wg.Go)
	}
	return g.retiredConn(report)
}

// retiredConn returns a connection that replies to each request itself, or that reports the session expired.
func (g *Guest) retiredConn(expired bool) *libraryConn {
	c, id := newLibraryConn(g, 0), int64(0)
	c.retireConn()
	if !expired {
		id = max(g.s.ID(), 1)
	}
	c.replyConnect(g.cfg.Timeout, id)
	return c
}

// closeLibrary ends the library's loop, on a goroutine that begins with spawn. zk.Close blocks for a second unless it gets
// a reply, so it is called while the library has a retired connection, or is about to get one. In the library's pause it
// may take that second.
func (g *Guest) closeLibrary(spawn func(func())) {
	spawn(func() {
		<-g.connMade
		g.zk.Close()
	})
}

// The session calls the methods below.

// NewConnection is called when there is another connection. It does not block or call the session.
func (g *Guest) NewConnection() {
	select {
	case g.newConnection <- struct{}{}:
	default:
	}
}

// connOf returns the library's connection if it belongs to this connection of the session, otherwise nil.
func (g *Guest) connOf(number uint64) *libraryConn {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lastConn == nil || g.lastConn.number != number {
		return nil
	}
	return g.lastConn
}

// OperationOf returns the operation of a library's request in flight. It does not block or call the session.
func (g *Guest) OperationOf(number uint64, xid int32) (op int32, known bool) {
	if c := g.connOf(number); c != nil {
		return c.operationOf(xid)
	}
	return 0, false
}

// DeliverReply passes a reply to the library; skipped means that it was too large to be read. It returns an error for a reply
// that the library would not survive.
func (g *Guest) DeliverReply(number uint64, h jute.ReplyHeader, body []byte, skipped bool) error {
	if c := g.connOf(number); c != nil {
		return c.passReply(h, body, skipped)
	}
	return nil
}

// DeliverEvent delivers a watch event to the library. It returns an error if the library is too far behind.
func (g *Guest) DeliverEvent(number uint64, h jute.ReplyHeader, ev jute.WatcherEvent) error {
	if c := g.connOf(number); c != nil && !c.pushFrame(maxBacklog, &h, &ev) {
		return errBacklog
	}
	return nil
}

var errBacklog = errors.New("go-zookeeper does not keep up with the watch events")

// maxBacklog limits the bytes of events that the library has not read. It gets all events again after a reconnect.
const maxBacklog = 16 << 20

// noticeTime limits the wait until the library notices that a connection has ended, which usually takes no time.
const noticeTime = 100 * time.Millisecond

// Disconnected ends the library's connection with the session's; if last, there will be no other. It returns when the
// library has noticed: its requests before that are lost, even if the session is connected again.
func (g *Guest) Disconnected(number uint64, why error, last bool) {
	c := g.connOf(number)
	if c == nil {
		return
	}
	if last {
		c.retireConn()
	} else {
		c.failReads(why)
	}
	timer := time.NewTimer(noticeTime)
	defer timer.Stop()
	select {
	case <-c.abandoned:
	case <-timer.C:
	case <-g.ended:
	}
}

// Ended ends the library after the session's end; expired means that a server has reported it expired.
func (g *Guest) Ended(expired bool) {
	g.mu.Lock()
	g.sessionEnded, g.expired = true, expired
	c, pausing := g.lastConn, g.libraryPauses
	g.mu.Unlock()
	close(g.ended)
	if c != nil && c.retireConn() || pausing {
		g.closeLibrary(g.s.Go)
	} // else it is in its dialer, or on the way there
}

// sessionServer is the library's host provider, which it asks for a server before each call of its dialer.
type sessionServer struct{ g *Guest }

func (p sessionServer) Init([]string) error { return nil }
func (p sessionServer) Len() int            { return 1 }

func (p sessionServer) Connected() { p.g.connectedOnce.Do(func() { close(p.g.connected) }) }

// Next returns the server that the session is connected to. retryStart makes the library fail the requests that have
// not been sent, and sleep for a second.
func (p sessionServer) Next() (server string, retryStart bool) {
	g := p.g
	if server = g.s.Server(); server == "" {
		server = g.cfg.Server
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.libraryPauses = g.timedOut && !g.sessionEnded // else nothing would end the pause
	g.timedOut = false
	return server, g.libraryPauses
}

// debugLogger passes the library's remarks on as debug messages: it calls connection losses errors, which they are not.
// Failed attempts to connect are reported by the session.
type debugLogger struct{ log *slog.Logger }

func (l debugLogger) Printf(format string, args ...any) {
	if !strings.HasPrefix(format, "failed to connect to ") {
		l.log.Debug(fmt.Sprintf(format, args...))
	}
}

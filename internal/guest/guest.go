// Package guest lets code that is written for go-zookeeper, "the library", share a session of package wire.
//
// A [Guest] has the library's client, a zk.Conn. The library's requests are sent on the session's connections, in one
// order with the session's own requests, and the library never dials: the dialer that it is given returns a net.Conn
// (libraryConn, in conn.go) for each connection of the session, and waits while there is none. A libraryConn never
// fails a write and never times out, and its reads fail when the session's connection has ended.
//
// The session calls the guest through wire.Guest, and the guest calls the session through [Session].
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
	// Server returns the address of the connected server, "" if none is connected.
	Server() string
	// WithConnection calls f with the live connection, which is the one that is ready for requests, if there is one,
	// and with the session's timeout and id. The connection cannot end before f returns, so f must not block or call
	// the session.
	WithConnection(f func(number uint64, server string, timeout time.Duration, id int64))
	// Forward sends a request. It returns false, and sends nothing, if the connection is not live any more.
	Forward(number uint64, h jute.RequestHeader, body []byte) bool
	// Disconnect ends a connection.
	Disconnect(number uint64, why error)
	// Go runs f on a goroutine that the session's Wait waits for.
	Go(f func())
}

// Config has the settings that a guest shares with the session.
type Config struct {
	Server   string        // the library's server while none is connected
	Timeout  time.Duration // the session timeout that the client requests
	MaxFrame int
	Logger   *slog.Logger
}

// Guest has the library's client on a session.
type Guest struct {
	session       Session
	cfg           Config
	zk            *zk.Conn
	events        <-chan zk.Event
	connMade      chan struct{} // closed when zk and events are set
	newConnection chan struct{} // has a value if there may be a new connection
	connected     chan struct{} // closed when the library has had its first connection
	ended         chan struct{} // closed when the session has ended
	connectedOnce sync.Once     // for connected
	wg            sync.WaitGroup

	mu            sync.Mutex   // locked after the session's mutex, if both are; guards the fields up to expired
	lastConn      *libraryConn // the last that dialSession has returned for a connection of the session
	timedOut      bool         // the last call of dialSession has failed: the requests that wait in the library must fail
	libraryPauses bool         // the library sleeps for a second after that
	sessionEnded  bool
	expired       bool // a server has reported the session expired

	expiryReported bool // the expiry has been reported to the library; only dialSession's goroutine uses it
}

// maxConnWait is how long dialSession waits for a connection. Then the requests that wait in the library fail with
// zk.ErrNoServer. The library sleeps for a second before it dials again, so a request waits for three seconds at most.
const maxConnWait = 2 * time.Second

// New returns a guest for the session's Invite. [Guest.Connect] has to be called next.
func New(s Session, cfg Config) *Guest {
	return &Guest{session: s, cfg: cfg, connMade: make(chan struct{}), newConnection: make(chan struct{}, 1),
		connected: make(chan struct{}), ended: make(chan struct{})}
}

// Connect makes the library's client and returns it. The arguments are the results of the session's Invite: live is
// closed when the live connection ends, nil if there is none; invited is false if the session has ended. If there is a
// live connection, Connect waits until the library has used it once, so that the client has the session's id. If the
// session has ended, the client is closed.
func (g *Guest) Connect(live <-chan struct{}, invited bool) *zk.Conn {
	conn, events, err := zk.Connect([]string{"session"}, g.cfg.Timeout,
		zk.WithDialer(g.dialSession), zk.WithHostProvider(sessionServer{g}),
		zk.WithLogInfo(false), zk.WithLogger(debugLogger{g.cfg.Logger}))
	if err != nil {
		panic(err) // zk.Connect fails for an empty list of servers, or if Init fails, and here neither is possible
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

// Serve returns when the library's client has ended: its user has closed it, or the session has ended.
func (g *Guest) Serve() {
	<-g.connMade
	for range g.events { // closed when the library's loop has ended
	}
	g.wg.Wait()
}

// dialSession is the library's dialer. It waits for a connection of the session that the library has not had yet.
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
	errOtherServer  = errors.New("the session is connected to another server")
	errNoConnection = errors.New("no connection in time")
)

// takeConn returns a net.Conn on the live connection, nil if there is none. It also returns nil if the library has had
// that connection before: the library dials only after it has given a connection up, so that connection is about to
// end. server is the name that the library got from Next: if another server is connected, the error makes the library
// call Next again.
func (g *Guest) takeConn(server string) (taken net.Conn, err error) {
	g.session.WithConnection(func(number uint64, at string, timeout time.Duration, id int64) {
		g.mu.Lock()
		defer g.mu.Unlock()
		switch {
		case g.lastConn != nil && g.lastConn.number == number:
		case at != server:
			err = errOtherServer
		default:
			g.lastConn = newLibraryConn(g, number)
			g.lastConn.replyConnect(timeout, id)
			taken = g.lastConn
		}
	})
	return taken, err
}

// connAfterEnd returns a retired connection, since the session has ended, and closes the library's client. If the
// session has expired, the first call instead returns a connection that reports that, after which the library dials
// again.
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

// retiredConn returns a connection without a server: it replies to each request itself. If expired is true, its reply
// to the library's handshake reports that the session has expired.
func (g *Guest) retiredConn(expired bool) *libraryConn {
	c, id := newLibraryConn(g, 0), int64(0)
	c.retireConn()
	if !expired {
		id = max(g.session.ID(), 1) // 0 would mean expired
	}
	c.replyConnect(g.cfg.Timeout, id)
	return c
}

// closeLibrary closes the library's client, on a goroutine that it starts with spawn. zk.Conn.Close sends a
// closeSession and waits up to a second for the reply. So closeLibrary is called when the library has a retired
// connection, or is about to get one; only if the library pauses may Close take that second.
func (g *Guest) closeLibrary(spawn func(func())) {
	spawn(func() {
		<-g.connMade
		g.zk.Close()
	})
}

// The session calls the methods below; wire.Guest documents them, too.

// NewConnection reports that there is another connection. It does not block or call the session.
func (g *Guest) NewConnection() {
	select {
	case g.newConnection <- struct{}{}:
	default:
	}
}

// connOf returns the library's last connection if it is on this connection of the session, otherwise nil.
func (g *Guest) connOf(number uint64) *libraryConn {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lastConn == nil || g.lastConn.number != number {
		return nil
	}
	return g.lastConn
}

// OperationOf returns the operation of a request of the library that is in flight. It does not block or call the
// session.
func (g *Guest) OperationOf(number uint64, xid int32) (op int32, known bool) {
	if c := g.connOf(number); c != nil {
		return c.operationOf(xid)
	}
	return 0, false
}

// DeliverReply passes a reply to the library; skipped means that it was larger than the client's limit, and not read.
// It returns an error if the reply is malformed, and could make the library panic.
func (g *Guest) DeliverReply(number uint64, h jute.ReplyHeader, body []byte, skipped bool) error {
	if c := g.connOf(number); c != nil {
		return c.passReply(h, body, skipped)
	}
	return nil
}

// DeliverEvent passes a watch event to the library. It returns an error if more than maxBacklog bytes would be unread.
func (g *Guest) DeliverEvent(number uint64, h jute.ReplyHeader, ev jute.WatcherEvent) error {
	if c := g.connOf(number); c != nil && !c.pushFrame(maxBacklog, &h, &ev) {
		return errBacklog
	}
	return nil
}

var errBacklog = errors.New("go-zookeeper does not keep up with the watch events")

// maxBacklog limits the bytes that the library has not read. If it is exceeded the session's connection ends: after the
// reconnect the library sets its watches again, and gets the events that it has missed.
const maxBacklog = 16 << 20

// maxNoticeWait limits how long Disconnected waits for the library, which usually takes no time.
const maxNoticeWait = 100 * time.Millisecond

// Disconnected ends the library's connection, since the session's connection has ended; last means that there will be
// no other. It returns when the library has given its connection up, or after maxNoticeWait: until then the library's
// requests may still be for the ended connection, and must not be sent on the next.
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
	timer := time.NewTimer(maxNoticeWait)
	defer timer.Stop()
	select {
	case <-c.abandoned:
	case <-timer.C:
	case <-g.ended:
	}
}

// Ended closes the library's client, since the session has ended; expired means that a server has reported it expired.
func (g *Guest) Ended(expired bool) {
	g.mu.Lock()
	g.sessionEnded, g.expired = true, expired
	c, pausing := g.lastConn, g.libraryPauses
	g.mu.Unlock()
	close(g.ended)
	if c != nil && c.retireConn() || pausing {
		g.closeLibrary(g.session.Go)
	} // else the library is in dialSession, or will call it next: connAfterEnd closes it
}

// sessionServer is the library's zk.HostProvider: the library calls Next before each call of its dialer, and Connected
// after each successful handshake.
type sessionServer struct{ guest *Guest }

func (p sessionServer) Init([]string) error { return nil }
func (p sessionServer) Len() int            { return 1 }

func (p sessionServer) Connected() { p.guest.connectedOnce.Do(func() { close(p.guest.connected) }) }

// Next returns the server that the session is connected to. retryStart makes the library fail the requests that wait in
// it, and sleep for a second.
func (p sessionServer) Next() (server string, retryStart bool) {
	g := p.guest
	if server = g.session.Server(); server == "" {
		server = g.cfg.Server
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.libraryPauses = g.timedOut && !g.sessionEnded // after Ended nothing would end the pause early
	g.timedOut = false
	return server, g.libraryPauses
}

// debugLogger logs the library's lines at DEBUG: the library calls a lost connection an error, which it is not for this
// client. It drops failed attempts to connect, since the session logs its own.
type debugLogger struct{ log *slog.Logger }

func (l debugLogger) Printf(format string, args ...any) {
	if !strings.HasPrefix(format, "failed to connect to ") {
		l.log.Debug(fmt.Sprintf(format, args...))
	}
}

package guest

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/zktest"
)

// These tests check the assumptions of package guest about go-zookeeper v1.0.4, without a guest. A new version of the
// library must pass them first.

// library is a client of go-zookeeper alone, with a record of the calls of its hooks.
type library struct {
	*zk.Conn
	t      *testing.T
	mu     sync.Mutex
	log    []string // next, dial, write, close, connected, event, in order
	writes [][]byte
	events <-chan zk.Event
	start  func(n int) bool // the result of Next
	next   int
}

func (l *library) note(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log = append(l.log, fmt.Sprintf(format, args...))
}

func (l *library) logged() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.log...)
}

func (l *library) frames() [][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([][]byte(nil), l.writes...)
}

func (l *library) Init(servers []string) error { l.note("init %s", servers[0]); return nil }
func (l *library) Len() int                    { return 1 }
func (l *library) Connected()                  { l.note("connected") }

func (l *library) Next() (string, bool) {
	l.mu.Lock()
	l.next++
	n := l.next
	l.mu.Unlock()
	start := l.start != nil && l.start(n)
	l.note("next")
	return "one:2181", start
}

func (l *library) Printf(string, ...any) {}

// noted is a connection that records the library's calls.
type noted struct {
	net.Conn
	l *library
}

func (c *noted) Write(b []byte) (int, error) {
	c.l.mu.Lock()
	c.l.writes = append(c.l.writes, append([]byte(nil), b...))
	c.l.mu.Unlock()
	return c.Conn.Write(b)
}

func (c *noted) Close() error {
	c.l.note("close")
	return c.Conn.Close()
}

// alone starts the library on dial.
func alone(t *testing.T, dial func(ctx context.Context, network, addr string) (net.Conn, error),
	start func(n int) bool) *library {
	t.Helper()
	l := &library{t: t, start: start}
	conn, events, err := zk.Connect([]string{"one"}, 9*time.Second, zk.WithHostProvider(l), zk.WithLogger(l),
		zk.WithLogInfo(false),
		zk.WithEventCallback(func(ev zk.Event) {
			if ev.Type == zk.EventSession {
				l.note("%s", ev.State)
			}
		}),
		zk.WithDialer(func(network, addr string, timeout time.Duration) (net.Conn, error) {
			l.note("dial %s %s %s", network, addr, timeout)
			c, err := dial(context.Background(), network, addr)
			if err != nil {
				return nil, err
			}
			return &noted{c, l}, nil
		}))
	require.NoError(t, err)
	l.Conn, l.events = conn, events
	return l
}

// end closes the library, ended waits for the end of its loop.
func (l *library) end() {
	l.Close()
	l.ended()
}

func (l *library) ended() {
	for range l.events {
	}
}

func assumed(t *testing.T, f func(t *testing.T, srv *zktest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, zktest.RunT(t)) })
}

func TestAssumeOneFramePerWriteAndTheHandshakeFirst(t *testing.T) {
	assumed(t, func(t *testing.T, srv *zktest.Server) {
		l := alone(t, srv.Dial, nil)
		_, err := l.Create("/a", make([]byte, 100_000), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { _, _, _ = l.Get("/a") })
		}
		wg.Wait()
		_, _ = l.Multi(&zk.CheckVersionRequest{Path: "/a", Version: -1})
		require.NoError(t, l.AddAuth("digest", []byte("u:p")))
		time.Sleep(time.Minute)
		l.end()
		pings := 0
		for i, b := range l.frames() {
			require.Equal(t, len(b)-4, int(binary.BigEndian.Uint32(b)), "write %d", i)
			if i == 0 {
				var r jute.ConnectRequest
				require.NoError(t, jute.Unmarshal(b[4:], &r))
				assert.Equal(t, jute.ConnectRequest{Timeout: 9000, Password: make([]byte, 16)}, r)
				continue
			}
			var h jute.RequestHeader
			require.NoError(t, jute.Unmarshal(b[4:], &h))
			if h.Op == jute.OpPing {
				pings++
				assert.Equal(t, jute.XidPing, h.Xid)
				continue
			}
			assert.Positive(t, h.Xid, "its xids count up from 1; also of its credentials")
			assert.Less(t, h.Xid, int32(100))
		}
		assert.InDelta(t, 20, pings, 2, "every third of the timeout")
	})
}

func TestAssumeTheOrderOfItsHooks(t *testing.T) {
	assumed(t, func(t *testing.T, srv *zktest.Server) {
		l := alone(t, srv.Dial, nil)
		_, _, err := l.Get("/")
		require.NoError(t, err)
		srv.Cut(0)
		synctest.Wait()
		_, _, err = l.Get("/")
		require.NoError(t, err)
		l.end()
		synctest.Wait()
		// A connection may be closed only after the next one has been dialled.
		closed := 0
		notes := slices.DeleteFunc(l.logged(), func(note string) bool {
			if note == "close" {
				closed++
			}
			return note == "close"
		})
		once := []string{"next", "StateConnecting", "dial tcp one:2181 1s", "StateConnected", "StateHasSession",
			"connected", "StateDisconnected"}
		assert.Equal(t, append(append([]string{"init one:2181"}, once...), once...), notes,
			"one Next per dial; no pause but what the dialer makes")
		assert.Equal(t, 2, closed, "each connection is closed, and once")
	})
}

func TestAssumeXidsAndZxidGoOnAcrossConnections(t *testing.T) {
	assumed(t, func(t *testing.T, srv *zktest.Server) {
		l := alone(t, srv.Dial, nil)
		_, err := l.Create("/a", nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		id := l.SessionID()
		srv.Cut(0)
		synctest.Wait()
		_, _, err = l.Get("/")
		require.NoError(t, err)
		frames := l.frames()
		var r jute.ConnectRequest
		require.NoError(t, jute.Unmarshal(frames[2][4:], &r))
		assert.Equal(t, id, r.SessionID)
		assert.NotZero(t, r.LastZxidSeen)
		var h jute.RequestHeader
		require.NoError(t, jute.Unmarshal(frames[3][4:], &h))
		assert.EqualValues(t, 2, h.Xid)
		l.end()
	})
}

func TestAssumeRetryStartCostsASecondAndFailsWhatWaits(t *testing.T) {
	assumed(t, func(t *testing.T, srv *zktest.Server) {
		l := alone(t, srv.Dial, func(n int) bool { return n == 2 })
		_, _, err := l.Get("/")
		require.NoError(t, err)
		srv.Cut(0)
		synctest.Wait()
		start := time.Now()
		_, _, err = l.Get("/")
		require.NoError(t, err, "it waits through the pause")
		assert.Equal(t, time.Second, time.Since(start))
		l.end()
	})
	synctest.Test(t, func(t *testing.T) {
		l := alone(t, func(context.Context, string, string) (net.Conn, error) {
			time.Sleep(time.Second)
			return nil, io.EOF
		}, func(n int) bool { return n%2 == 0 })
		start := time.Now()
		_, _, err := l.Get("/")
		require.ErrorIs(t, err, zk.ErrNoServer)
		assert.Equal(t, time.Second, time.Since(start), "failed when retryStart is said")
		l.end()
	})
}

// Without retryStart a dialling library cannot be stopped: so the dialer has to return a connection that makes it stop.
func TestAssumeCloseDoesNotEndDialling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		dials, agree := 0, false
		l := alone(t, func(context.Context, string, string) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			dials++
			if !agree {
				mu.Unlock()
				time.Sleep(100 * time.Millisecond)
				mu.Lock()
				return nil, io.EOF
			}
			return New(&session{}, Config{Timeout: time.Second, MaxFrame: 100}).retiredConn(false), nil
		}, nil)
		time.Sleep(time.Second)
		start := time.Now()
		l.Close()
		assert.Equal(t, time.Second, time.Since(start), "it gives up waiting")
		time.Sleep(time.Minute)
		mu.Lock()
		assert.Greater(t, dials, 500, "and dials on")
		agree = true
		mu.Unlock()
		l.ended()
	})
}

func TestAssumeAConnectionThatAnswersEverythingEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(&session{}, Config{Timeout: 9 * time.Second, MaxFrame: 100})
		l := alone(t, func(context.Context, string, string) (net.Conn, error) { return g.retiredConn(false), nil },
			nil)
		time.Sleep(time.Minute)
		_, _, err := l.Get("/")
		require.ErrorIs(t, err, zk.ErrSessionExpired)
		start := time.Now()
		l.end()
		assert.Zero(t, time.Since(start))
		synctest.Wait() // the connection may be closed behind
		assert.ElementsMatch(t, []string{"close", "StateDisconnected"}, l.logged()[len(l.logged())-2:])
	})
}

// After a reply with session 0 the library dials again, and does not close its connection.
func TestAssumeSessionZeroMeansExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		n := 0
		g := New(&session{}, Config{Timeout: 9 * time.Second, MaxFrame: 100})
		l := alone(t, func(context.Context, string, string) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			n++
			return g.retiredConn(n == 1), nil
		}, nil)
		time.Sleep(time.Second)
		assert.Equal(t, []string{"init one:2181", "next", "StateConnecting", "dial tcp one:2181 1s",
			"StateConnected", "StateExpired", "StateDisconnected",
			"next", "StateConnecting", "dial tcp one:2181 1s", "StateConnected", "StateHasSession", "connected"},
			l.logged())
		l.end()
	})
}

// The session's own replies never reach the library, but if one did the library would only log it.
func TestAssumeForeignXidsAreIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &session{}
		g := New(s, Config{Timeout: 9 * time.Second, MaxFrame: 100})
		c := newLibraryConn(g, 1)
		c.replyConnect(9*time.Second, 7)
		s.answer = func(h jute.RequestHeader) {
			c.deliverFrame(&jute.ReplyHeader{Xid: -1001})
			c.deliverFrame(&jute.ReplyHeader{Xid: 4711})
			c.deliverFrame(&jute.ReplyHeader{Xid: h.Xid, Zxid: 1}, &jute.GetDataResponse{})
		}
		l := alone(t, func(context.Context, string, string) (net.Conn, error) { return c, nil }, nil)
		_, _, err := l.Get("/")
		require.NoError(t, err)
		c.retireConn()
		l.end()
	})
}

// Credentials come before anything else, watches after the requests that were waiting.
func TestAssumeWhatItSendsAgain(t *testing.T) {
	assumed(t, func(t *testing.T, srv *zktest.Server) {
		l := alone(t, srv.Dial, func(n int) bool { return false })
		require.NoError(t, l.AddAuth("digest", []byte("u:p")))
		_, _, _, err := l.GetW("/")
		require.NoError(t, err)
		before := len(l.frames())
		srv.Cut(0)
		synctest.Wait()
		time.Sleep(time.Second)
		var ops []int32
		for _, b := range l.frames()[before+1:] {
			var h jute.RequestHeader
			require.NoError(t, jute.Unmarshal(b[4:], &h))
			assert.Positive(t, h.Xid)
			ops = append(ops, h.Op)
		}
		assert.Equal(t, []int32{jute.OpAuth, jute.OpSetWatches}, ops)
		l.end()
	})
}

// If a read fails, the library closes the connection and dials again.
func TestAssumeAReadErrorMeansANewConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(&session{}, Config{Timeout: 9 * time.Second, MaxFrame: 100})
		dials := make(chan bool, 10)
		l := alone(t, func(context.Context, string, string) (net.Conn, error) {
			if dials <- true; len(dials) > 1 {
				return g.retiredConn(false), nil
			}
			c := newLibraryConn(g, 1)
			c.replyConnect(9*time.Second, 7)
			c.failReads(io.EOF)
			return c, nil
		}, nil)
		time.Sleep(time.Second)
		assert.Len(t, dials, 2)
		assert.Contains(t, l.logged(), "close")
		l.end()
	})
}

package zktest

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
)

const bigNode = 500_000

// greedy creates a big node and reads it again and again, without reading the replies.
func greedy(t *testing.T, c *raw, times int) {
	t.Helper()
	big := &jute.CreateRequest{Path: "/big", Data: make([]byte, bigNode), ACL: openACL}
	require.Equal(t, ok, c.code(jute.OpCreate, big))
	for range times {
		c.send(jute.OpGetData, at("/big"))
	}
}

// heap returns the heap in use after a collection.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestAClientThatDoesNotReadIsNotReadEither(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t)
		c := newRaw(t, s, 10*time.Second)
		before := heap()
		const times = 200
		greedy(t, c, times)
		synctest.Wait()
		assert.Less(t, heap()-before, int64(30<<20), "a hundred megabytes are asked for")
		assert.Less(t, s.Counts()["getData"], 30)

		other := newRaw(t, s, 10*time.Second)
		assert.Equal(t, ok, other.code(jute.OpExists, at("/big")), "the others are served")

		// A client that reads again gets everything, in order.
		for range times {
			r, err := c.recv()
			require.NoError(t, err)
			assert.Greater(t, len(r.body), bigNode)
		}
		assert.Equal(t, ok, c.code(jute.OpPing))
	})
}

// A connection that is not read ends like any other: by its client, a fault, its session's expiry, or the server's end.
func TestAClientThatDoesNotReadGoes(t *testing.T) {
	for name, end := range map[string]func(*Server, *raw){
		"the client closes":   func(_ *Server, c *raw) { _ = c.nc.Close() },
		"cut":                 func(s *Server, c *raw) { s.Cut(c.hello.SessionID) },
		"expired by hand":     func(s *Server, c *raw) { s.Expire(c.hello.SessionID) },
		"expires by itself":   func(*Server, *raw) { time.Sleep(15 * time.Second) },
		"the server stops":    func(s *Server, _ *raw) { s.Stop() },
		"the server restarts": func(s *Server, _ *raw) { _ = s.Restart() },
		"the server closes":   func(s *Server, _ *raw) { s.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := RunT(t)
				c := newRaw(t, s, 10*time.Second)
				greedy(t, c, 100)
				synctest.Wait()
				end(s, c)
				synctest.Wait()
				s.mu.Lock()
				defer s.mu.Unlock()
				assert.Empty(t, s.conns)
				assert.Empty(t, s.running, "its goroutines")
			})
		})
	}
}

func TestAClientThatDoesNotReadOverTCP(t *testing.T) {
	s := RunT(t, Config{Listen: "127.0.0.1:0"})
	nc, err := net.Dial("tcp", s.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = nc.Close() })
	c := &raw{t: t, nc: nc}
	require.NoError(t, c.shake(&jute.ConnectRequest{Timeout: 10000, HasReadOnly: true}))
	const times = 400
	greedy(t, c, times)
	for i := range times {
		r, err := c.recv()
		require.NoError(t, err)
		require.Greater(t, len(r.body), bigNode)
		taken := s.CountsOf(c.hello.SessionID)["getData"]
		require.Less(t, taken, i+100, "no more than are answered, and a few on their way")
	}
	assert.Equal(t, ok, c.code(jute.OpPing))
}

// At a member requests after a write wait for it, and all get their replies when it is executed: so no more than a
// thousand may wait.
func TestRequestsThatWaitForTheLogAreNotReadWithoutEnd(t *testing.T) {
	bubble(t, 3, Config{PeerDelay: time.Second}, func(t *testing.T, e *Ensemble) {
		_, followers := roles(e)
		s := followers[0]
		c := newRaw(t, s, 30*time.Second)
		const times = 5000
		c.send(jute.OpCreate2, mk("/a", 0))
		for range times {
			c.send(jute.OpGetData, at("/a"))
		}
		synctest.Wait()
		assert.LessOrEqual(t, s.Counts()["getData"], parkLimit)
		for range times + 1 {
			r, err := c.recv()
			require.NoError(t, err)
			require.Equal(t, int32(0), r.Err)
		}
	})
}

// A length costs nothing until its bytes arrive.
func TestALengthThatIsOnlyClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t, Config{MaxFrame: 32 << 20})
		before := heap()
		var claims []*raw
		for range 20 {
			c, d := dialRaw(t, s), newRaw(t, s, 10*time.Second)
			c.write([]byte{1, 0xff, 0xff, 0xff, 0, 0})
			d.write([]byte{1, 0xff, 0xff, 0xff, 0, 0})
			claims = append(claims, c, d)
		}
		synctest.Wait()
		assert.Less(t, heap()-before, int64(20<<20), "twelve hundred megabytes are claimed")
		runtime.KeepAlive(claims)

		// A frame that arrives in any pieces is accepted.
		c := newRaw(t, s, 10*time.Second)
		const size = 5_000_000
		data := bytes.Repeat([]byte("0123456789"), size/10)
		request := jute.Frame(
			&jute.RequestHeader{Xid: 1, Op: jute.OpCreate},
			&jute.CreateRequest{Path: "/big", Data: data, ACL: openACL},
		)
		for len(request) > 0 {
			n := min(len(request), 99_999)
			c.write(request[:n])
			request = request[n:]
		}
		r, err := c.recv()
		require.NoError(t, err)
		require.Equal(t, int32(0), r.Err)
		assert.Equal(t, data, s.Tree()["/big"].Data)
	})
}

// Events are caused by other clients, and no operation waits until they are read: a client that reads none is
// disconnected before its events take all the memory.
func TestEventsThatNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t)
		deaf, busy := newRaw(t, s, 40*time.Second), newRaw(t, s, 40*time.Second)
		path := "/" + strings.Repeat("x", 500_000)
		busy.create(path, 0)
		watch := &jute.PathIntRequest{Path: path, Value: jute.WatchPersistentRecursive}
		require.Equal(t, ok, deaf.code(jute.OpAddWatch, watch))
		before := heap()
		for range 400 {
			require.Equal(t, ok, busy.code(jute.OpSetData, put(path, "")))
		}
		synctest.Wait()
		assert.Less(t, heap()-before, int64(drownLimit+20<<20), "two hundred megabytes of events")
		s.mu.Lock()
		defer s.mu.Unlock()
		assert.Len(t, s.conns, 1, "the one that reads")
	})
}

// The server does not wait for ever for a client that closes its session and does not read its replies.
func TestALastAnswerThatNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t)
		c := newRaw(t, s, 10*time.Second)
		greedy(t, c, pipeLimit/bigNode+5)
		c.send(jute.OpCloseSession)
		time.Sleep(lingerTime + time.Second)
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		assert.Empty(t, s.running, "its goroutines")
	})
}

// A reply that a fault delays is not too late for its client.
func TestALastAnswerThatIsDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t)
		c := newRaw(t, s, 40*time.Second)
		s.Delay(c.hello.SessionID, 3*lingerTime)
		assert.Equal(t, ok, c.code(jute.OpCloseSession))
	})
}

// A short request reads a large node again and again.
func TestAMultiReadThatAsksForTooMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		s := RunT(t, Config{Logger: slog.New(slog.NewTextHandler(&said, nil))})
		c := newRaw(t, s, 10*time.Second)
		greedy(t, c, 0)
		many := &jute.MultiRequest{}
		for range drownLimit/bigNode - 1 {
			many.Ops = append(many.Ops, jute.MultiOp{Op: jute.OpGetData, Request: at("/big")})
		}
		assert.Equal(t, ok, c.code(jute.OpMultiRead, many))
		many.Ops = append(many.Ops, many.Ops...)
		c.send(jute.OpMultiRead, many)
		c.closed()
		synctest.Wait()
		// It is refused before the reply is built.
		assert.Contains(t, said.String(), "the answer to a multiRead would be too long")
		assert.Equal(t, ok, newRaw(t, s, 10*time.Second).code(jute.OpPing))
	})
}

// askingHandler is a log handler that calls the server.
type askingHandler struct {
	slog.Handler
	ask func()
}

func (h askingHandler) Handle(ctx context.Context, r slog.Record) error {
	h.ask()
	return h.Handler.Handle(ctx, r)
}

// No lock is held while the server logs.
func TestALoggerThatAsksTheServer(t *testing.T) {
	var log bytes.Buffer
	var s *Server
	h := askingHandler{slog.NewTextHandler(&log, nil), func() { _ = s.Zxid() }}
	synctest.Test(t, func(t *testing.T) {
		s = RunT(t, Config{Logger: slog.New(h)})
		c := newRaw(t, s, 10*time.Second)
		greedy(t, c, 0)
		req := &jute.MultiRequest{}
		for range drownLimit/bigNode + 1 {
			req.Ops = append(req.Ops, jute.MultiOp{Op: jute.OpGetData, Request: at("/big")})
		}
		c.send(jute.OpMultiRead, req)
		_, err := c.recv()
		require.Error(t, err)
		synctest.Wait()
	})
	assert.Contains(t, log.String(), "too long")
}

// A connection that sends no handshake, or sends it byte by byte, is closed as by the real server; with a session there
// is no such limit.
func TestAConnectionWithoutAHandshakeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t)
		session := newRaw(t, s, 40*time.Second)
		silent, err := s.Dial(t.Context(), "tcp", "")
		require.NoError(t, err)
		defer silent.Close()
		slow, err := s.Dial(t.Context(), "tcp", "")
		require.NoError(t, err)
		defer slow.Close()
		go func() {
			for _, b := range []byte{0, 0, 0, 44, 0, 0, 0, 0, 0, 0, 0, 0, 0} {
				if _, err := slow.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}()
		began := time.Now()
		for _, nc := range []net.Conn{silent, slow} {
			_, err = nc.Read(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF)
			require.Equal(t, greetTime, time.Since(began))
		}
		time.Sleep(20 * time.Second)
		assert.Equal(t, ok, session.code(jute.OpPing))
	})
}

package framework

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
)

// An idle client has the goroutines that it needs, and not go-zookeeper's.
func TestAnIdleClientCostsLittle(t *testing.T) {
	goroutines, heap := idle(t, 20)
	t.Logf("%d goroutines and %d bytes of heap each", goroutines, heap)
	assert.LessOrEqual(t, goroutines, 5)
	assert.LessOrEqual(t, heap, 64<<10)
}

// The cost of an idle client:
//
//	go test ./framework -run '^$' -bench IdleClient -benchtime 1x
func BenchmarkIdleClient(b *testing.B) {
	for b.Loop() {
		goroutines, heap := idle(b, 100)
		b.ReportMetric(float64(goroutines), "goroutines/client")
		b.ReportMetric(float64(heap), "heap-bytes/client")
	}
}

// idle returns the number of goroutines and of bytes on the heap per client, for n connected clients without requests.
func idle(t testing.TB, n int) (goroutines, heap int) {
	open := func() *Client {
		c, err := New("server:2181", WithDialer(func(context.Context, string, string) (net.Conn, error) {
			return newStub(), nil
		}))
		require.NoError(t, err)
		require.NoError(t, c.WaitConnected(t.Context()))
		return c
	}
	require.NoError(t, open().Close()) // allocates everything that the clients share
	goroutinesBefore, heapBefore := runtime.NumGoroutine(), heapInUse()
	var clients []*Client
	for range n {
		clients = append(clients, open())
	}
	goroutines, heap = (runtime.NumGoroutine()-goroutinesBefore)/n, (heapInUse()-heapBefore)/n
	for _, c := range clients {
		_ = c.Close()
	}
	return goroutines, heap
}

func heapInUse() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the second frees the contents of pools
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// stub is a connection to a server that costs next to nothing: it grants a session, replies to pings, and has no nodes.
type stub struct {
	mu    sync.Mutex
	more  *sync.Cond
	in    []byte // for the client
	hello bool
	ended bool
}

func newStub() *stub {
	s := &stub{}
	s.more = sync.NewCond(&s.mu)
	return s
}

func (s *stub) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for rest := b; len(rest) > 0; {
		size := int(binary.BigEndian.Uint32(rest))
		s.answer(rest[4 : 4+size])
		rest = rest[4+size:]
	}
	s.more.Broadcast()
	return len(b), nil
}

func (s *stub) answer(request []byte) {
	if !s.hello {
		s.hello = true
		s.in = append(s.in, jute.Frame(&jute.ConnectResponse{Timeout: 15_000, SessionID: 1,
			Password: make([]byte, 16)})...)
		return
	}
	var h jute.RequestHeader
	_ = jute.Unmarshal(request, &h)
	reply := &jute.ReplyHeader{Xid: h.Xid, Zxid: 1, Err: jute.CodeNoNode}
	if h.Op == jute.OpPing || h.Op == jute.OpCloseSession {
		reply.Err = jute.CodeOK
	}
	s.in = append(s.in, jute.Frame(reply)...)
}

func (s *stub) Read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.in) == 0 && !s.ended {
		s.more.Wait()
	}
	if s.ended {
		return 0, io.EOF
	}
	n := copy(b, s.in)
	s.in = s.in[n:]
	return n, nil
}

func (s *stub) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.more.Broadcast()
	return nil
}

func (s *stub) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (s *stub) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (s *stub) SetDeadline(time.Time) error      { return nil }
func (s *stub) SetReadDeadline(time.Time) error  { return nil }
func (s *stub) SetWriteDeadline(time.Time) error { return nil }

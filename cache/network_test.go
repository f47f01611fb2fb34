package cache_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/zktest"
)

type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// meter measures the frames that a server sends.
type meter struct {
	dial dialer

	mu    sync.Mutex
	sizes []int
}

func (m *meter) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return rewriting(m.dial, func(frame []byte) []byte {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.sizes = append(m.sizes, len(frame))
		return frame
	})(ctx, network, addr)
}

func (m *meter) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sizes = nil
}

func (m *meter) largest() (size int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.sizes {
		size = max(size, n)
	}
	return size
}

func (m *meter) total() (size int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.sizes {
		size += n
	}
	return size
}

// lying reports the events of recursive watches for the path of the watch, as some servers do, except for the
// paths of other watches.
func lying(srv *zktest.Server, watch string, others ...string) dialer {
	return rewriting(srv.Dial, func(frame []byte) []byte {
		var h jute.ReplyHeader
		var ev jute.WatcherEvent
		if jute.Unmarshal(frame, &h) != nil || h.Xid != jute.XidNotification ||
			jute.Unmarshal(frame[16:], &ev) != nil {
			return frame
		}
		if slices.Contains(kinds(srv), zktest.RecursiveWatch) && !slices.Contains(others, ev.Path) {
			ev.Path = watch
		}
		return jute.Marshal(&h, &ev)
	})
}

// rewriting passes every frame from the server through f.
func rewriting(dial dialer, f func(frame []byte) []byte) dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &rewritten{Conn: conn, in: bufio.NewReader(conn), f: f}, nil
	}
}

type rewritten struct {
	net.Conn
	in  *bufio.Reader
	out bytes.Buffer
	f   func([]byte) []byte
}

func (r *rewritten) Read(b []byte) (int, error) {
	if r.out.Len() == 0 {
		var size [4]byte
		if _, err := io.ReadFull(r.in, size[:]); err != nil {
			return 0, err
		}
		frame := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(r.in, frame); err != nil {
			return 0, err
		}
		frame = r.f(frame)
		r.out.Write(binary.BigEndian.AppendUint32(nil, uint32(len(frame))))
		r.out.Write(frame)
	}
	return r.out.Read(b)
}

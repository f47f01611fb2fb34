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
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
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

// rewriting applies f to every frame from the server.
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

// meddler dials a server, and can change its frames and add others.
type meddler struct {
	srv     *zktest.Server
	edit    func([]byte) []byte // applied to the server's frames before the client reads them
	wg      sync.WaitGroup
	mu      sync.Mutex
	clients []net.Conn
}

func (m *meddler) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	server, err := m.srv.Dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	ours, theirs := net.Pipe()
	m.mu.Lock()
	m.clients = append(m.clients, ours)
	m.mu.Unlock()
	m.wg.Go(func() { _, _ = io.Copy(server, ours); server.Close() })
	m.wg.Go(func() {
		defer ours.Close()
		for b := make([]byte, 1<<20); ; {
			n, err := server.Read(b)
			if err != nil {
				return
			}
			if _, err := ours.Write(m.edit(b[:n])); err != nil {
				return
			}
		}
	})
	return theirs, nil
}

// say sends a frame to the client, on the latest connection, when no other frame is on its way.
func (m *meddler) say(frame []byte) {
	synctest.Wait()
	m.mu.Lock()
	c := m.clients[len(m.clients)-1]
	m.mu.Unlock()
	_, _ = c.Write(frame)
}

func as(b []byte) []byte { return b }

// meddled runs f with a client of a server behind a meddler.
func meddled(t *testing.T, edit func([]byte) []byte, f func(t *testing.T, m *meddler, c *framework.Client)) {
	synctest.Test(t, func(t *testing.T) {
		m := &meddler{srv: zktest.RunT(t), edit: edit}
		for _, path := range []string{"/r", "/r/a", "/r/a/b"} {
			require.NoError(t, m.srv.Create(path, nil))
		}
		c := dial(t, m.srv, framework.WithDialer(m.dial))
		f(t, m, c)
		require.NoError(t, c.Close())
		m.wg.Wait()
	})
}

// A server may send events of nodes with impossible paths. They could never be read, so the cache would keep them as
// failures for good.
func TestAnEventOfANodeThatCannotBe(t *testing.T) {
	meddled(t, as, func(t *testing.T, m *meddler, c *framework.Client) {
		tree := open(t, c, "/r")
		for _, path := range []string{"/r/\x00", "/r/..", "/r/a/\x1b[31m"} {
			for _, what := range []int32{jute.EventNodeCreated, jute.EventNodeDataChanged, jute.EventNodeDeleted} {
				m.say(jute.Frame(&jute.ReplyHeader{Xid: jute.XidNotification, Zxid: -1},
					&jute.WatcherEvent{Type: what, State: jute.StateSyncConnected, Path: path}))
			}
		}
		time.Sleep(10 * time.Second)
		for path, err := range tree.Failures() {
			assert.NoError(t, err, "%q", path)
		}
		same(t, m.srv, tree)
	})
}

// A child's name with a slash would put a node in two places of the tree.
func TestAListWithAPathForAName(t *testing.T) {
	rename := func(b []byte) []byte { return bytes.ReplaceAll(slices.Clone(b), []byte("a_b"), []byte("a/b")) }
	meddled(t, rename, func(t *testing.T, m *meddler, c *framework.Client) {
		require.NoError(t, m.srv.Create("/r/a_b", nil))
		tree := open(t, c, "/r")
		settle()
		assert.Equal(t, []string{"/r", "/r/a", "/r/a/b"}, keys(tree.All()))
	})
}

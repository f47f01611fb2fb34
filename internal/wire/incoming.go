package wire

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// A server can be broken or hostile, and others share the network to it. So no frame is trusted: the request of a
// reply, and the largest size that fits it, are known before its body is read.
const (
	// defaultMaxReply bounds an answer with data or a list: half a million children with names of sixty
	// bytes.
	defaultMaxReply = 32 << 20
	// maxPlain bounds all other replies, not counting a path, and the handshake's: a header of 16 bytes, a Stat of 68,
	// a session's password.
	maxPlain = 4 << 10
	// maxPath is the longest path that is believed, unless MaxFrame is larger: a node was created by a
	// request with the path in it, and a server takes requests of a MiB, its jute.maxbuffer.
	maxPath = 1 << 20
)

// Reasons to end a connection, all of them ErrProtocol.
var (
	errUnasked  = fmt.Errorf("%w: an answer to no request of this client", ErrProtocol)
	errOversize = fmt.Errorf("%w: a frame larger than any valid answer", ErrProtocol)
	errNoPath   = fmt.Errorf("%w: an event with an invalid path", ErrProtocol)
)

// replyHeaderSize is the size of a reply without a body.
const replyHeaderSize = 16

// incoming is a frame that comes after the handshake.
type incoming struct {
	head    jute.ReplyHeader
	body    []byte
	skipped int // the frame's size, if it exceeds the limit: then body is nil
}

// receive reads a frame. A reply that is too large is skipped, and the connection continues, if its size depends on the
// tree.
func (l *link) receive() (in incoming, err error) {
	b, err := l.in.Peek(4)
	if err != nil {
		return in, err
	}
	size := int(int32(binary.BigEndian.Uint32(b)))
	if size < 0 {
		return in, notZooKeeper([4]byte(b), l.s.cfg.MaxReply)
	}
	if size < replyHeaderSize {
		return in, fmt.Errorf("%w: a frame of %d bytes is too short", ErrProtocol, size)
	}
	if b, err = l.in.Peek(4 + replyHeaderSize); err == nil {
		err = jute.Decode(b[4:], in.head.Fields)
	}
	if err != nil {
		return in, err
	}
	l.in.Discard(len(b))
	most, anySize, err := l.limit(in.head.Xid)
	if size > slowFrame {
		l.in.expect(size - replyHeaderSize)
		defer l.in.expect(0)
	}
	switch {
	case err != nil:
		return in, err
	case size <= most:
		in.body, err = readBody(l.in, size-replyHeaderSize)
	case anySize:
		in.skipped = size
		_, err = l.in.Discard(size - replyHeaderSize)
	default:
		err = fmt.Errorf("%w: it has %d bytes, and the limit is %d", errOversize, size, most)
	}
	return in, err
}

// limit returns the largest size of a frame with this xid. anySize means that the reply has data or a list, whose size
// depends on the tree.
func (l *link) limit(xid int32) (most int, anySize bool, err error) {
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	var code int32
	switch {
	case xid == jute.XidNotification:
		return maxPlain + s.cfg.longestPath, false, nil
	case xid >= 0:
		known := false
		if s.links.guest != nil {
			code, known = s.links.guest.Asked(l.n, xid)
		}
		if !known {
			return 0, false, errUnasked
		}
	case xid < firstXid:
		c := s.calls.flight.first
		for c != nil && c.xid != xid {
			c = c.next
		}
		switch {
		case s.links.live != l: // the session has ended, and this connection with it
			return 0, false, ErrClosed
		case c == nil:
			return 0, false, errUnasked
		}
		code = c.Op
	default:
		return maxPlain, false, nil
	}
	if ops[code].large {
		return s.cfg.MaxReply, true, nil
	}
	return min(maxPlain+s.cfg.longestPath, s.cfg.MaxReply), false, nil
}

// checkPath returns an error for a path that a server of no version sends. It does not look at characters: versions
// disagree about them.
func (cfg *Config) checkPath(path string) error {
	switch {
	case len(path) > cfg.longestPath:
		return fmt.Errorf("%w: it has %d bytes, and the limit is %d", errNoPath, len(path), cfg.longestPath)
	case path == "/":
		return nil
	case path == "" || path[0] != '/' || path[len(path)-1] == '/' || strings.Contains(path, "//") ||
		strings.IndexByte(path, 0) >= 0:
		return fmt.Errorf("%w: %.100q", errNoPath, path)
	}
	return nil
}

// meter reads a connection, and measures the time of the last read and the pace of the current frame.
type meter struct {
	*bufio.Reader
	conn net.Conn
	mu   sync.Mutex
	at   instant
	// The current frame: the time of its announcement, the bytes missing then, and those read since.
	begun     instant
	want, got int
}

func newMeter(conn net.Conn) *meter {
	m := &meter{conn: conn, at: now()}
	m.Reader = bufio.NewReaderSize(progress{m}, 16<<10)
	return m
}

// last returns the time of the last read.
func (m *meter) last() instant {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at
}

// expect announces the bytes of a frame that are still missing; 0 means that it is complete. A frame that is shorter
// than slowFrame need not be announced.
func (m *meter) expect(bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begun, m.want, m.got = now(), max(bytes-m.Buffered(), 0), 0
}

// slowFrame is the size in bytes from which a frame is a reason to wait for it.
const slowFrame = 64 << 10

// rest returns the time from at until the current frame is complete, at its present pace. It returns false without such
// a frame, if no byte of it has come, or if it is short.
func (m *meter) rest(at instant) (time.Duration, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.want < slowFrame || m.got == 0 {
		return 0, false
	}
	return time.Duration(float64(elapsed(m.begun, at)) * float64(max(m.want-m.got, 0)) / float64(m.got)), true
}

// progress is the connection as the meter's buffer reads it: every byte counts, since a server that sends a large reply
// over a slow network is not silent. (Whether the frame is ever complete is for the keeper to judge.)
type progress struct{ m *meter }

func (p progress) Read(b []byte) (int, error) {
	n, err := p.m.conn.Read(b)
	if n > 0 {
		p.m.mu.Lock()
		p.m.at = now()
		p.m.got += n
		p.m.mu.Unlock()
	}
	return n, err
}

// readFrame reads one frame.
func readFrame(r io.Reader, limit int) ([]byte, error) {
	var h [4]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return nil, err
	}
	n := int(int32(binary.BigEndian.Uint32(h[:])))
	if n < 0 || n > limit {
		return nil, notZooKeeper(h, limit)
	}
	return readBody(r, n)
}

// believed limits the bytes that are allocated for a frame's announced length alone. Beyond that, memory grows as bytes
// come in. A list of ten thousand waiters takes half of it.
const believed = 1 << 20

// readBody reads n bytes.
func readBody(r io.Reader, n int) ([]byte, error) {
	b := make([]byte, 0, min(n, believed))
	for len(b) < n {
		if len(b) == cap(b) {
			b = append(make([]byte, 0, min(n, 2*len(b))), b...)
		}
		got, err := io.ReadFull(r, b[len(b):cap(b)])
		if b = b[:len(b)+got]; err != nil {
			return nil, err
		}
	}
	return b, nil
}

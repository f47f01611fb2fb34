package wire

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// replyHeaderSize is the size of a reply without a body.
const replyHeaderSize = 16

// incoming is a frame that comes after the handshake.
type incoming struct {
	head    jute.ReplyHeader
	body    []byte
	skipped int // the frame's size, if it exceeds the limit: then body is nil
}

// sizeLimit is the largest size of a frame. anySize means that the reply has data or a list, whose size depends on the
// tree: if it is larger it is skipped, and the connection continues.
type sizeLimit struct {
	most    int
	anySize bool
}

// receiveFrame reads a frame, whose limit depends on its xid. maxReply is named in the error about another protocol.
func (m *meter) receiveFrame(maxReply int, limitOf func(xid int32) (sizeLimit, error)) (in incoming, err error) {
	b, err := m.Peek(4)
	if err != nil {
		return in, err
	}
	size := int(int32(binary.BigEndian.Uint32(b)))
	if size < 0 {
		return in, notZooKeeper([4]byte(b), maxReply)
	}
	if size < replyHeaderSize {
		return in, fmt.Errorf("%w: a frame of %d bytes is too short", ErrProtocol, size)
	}
	if b, err = m.Peek(4 + replyHeaderSize); err == nil {
		err = jute.Decode(b[4:], in.head.Fields)
	}
	if err != nil {
		return in, err
	}
	m.Discard(len(b))
	limit, err := limitOf(in.head.Xid)
	if size > slowFrame {
		m.expect(size - replyHeaderSize)
		defer m.expect(0)
	}
	switch {
	case err != nil:
		return in, err
	case size <= limit.most:
		in.body, err = readBody(m, size-replyHeaderSize)
	case limit.anySize:
		in.skipped = size
		_, err = m.Discard(size - replyHeaderSize)
	default:
		err = fmt.Errorf("%w: it has %d bytes, and the limit is %d", errOversize, size, limit.most)
	}
	return in, err
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

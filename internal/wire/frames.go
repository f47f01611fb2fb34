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

// incomingFrame is a frame that comes after the handshake.
type incomingFrame struct {
	head    jute.ReplyHeader
	body    []byte
	skipped int // the frame's size, if it exceeds the limit: then body is nil
}

// receiveFrame reads a frame. limitOf returns its limit by its xid; anySize means that the reply has data or a list, whose
// size depends on the tree: if it is too large it is skipped, and the connection continues. An error about the length
// may name maxReply.
func (m *meteredReader) receiveFrame(maxReply int, limitOf func(xid int32) (most int, anySize bool, err error)) (
	in incomingFrame, err error) {
	b, err := m.Peek(4)
	if err != nil {
		return in, err
	}
	size := int(int32(binary.BigEndian.Uint32(b)))
	if size < 0 {
		return in, notZooKeeperError([4]byte(b), maxReply)
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
	most, anySize, err := limitOf(in.head.Xid)
	if size > slowFrame {
		m.expectBytes(size - replyHeaderSize)
		defer m.expectBytes(0)
	}
	switch {
	case err != nil:
		return in, err
	case size <= most:
		in.body, err = readBody(m, size-replyHeaderSize)
	case anySize:
		in.skipped = size
		_, err = m.Discard(size - replyHeaderSize)
	default:
		err = fmt.Errorf("%w: it has %d bytes, and the limit is %d", errOversize, size, most)
	}
	return in, err
}

// meteredReader reads a connection, and records the time of the last read and the pace of the current frame.
type meteredReader struct {
	*bufio.Reader
	conn   net.Conn
	mu     sync.Mutex
	readAt clockReading
	// The current frame: the time of its announcement, the bytes missing then, and those read since.
	frameBegun              clockReading
	frameMissing, frameRead int
}

func newMeteredReader(conn net.Conn) *meteredReader {
	m := &meteredReader{conn: conn, readAt: readClock()}
	m.Reader = bufio.NewReaderSize(progressReader{m}, 16<<10)
	return m
}

// lastRead returns the time of the last read.
func (m *meteredReader) lastRead() clockReading {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.readAt
}

// expectBytes announces the bytes of a frame that are still missing; 0 means that it is complete. A frame that is
// shorter than slowFrame need not be announced.
func (m *meteredReader) expectBytes(bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frameBegun, m.frameMissing, m.frameRead = readClock(), max(bytes-m.Buffered(), 0), 0
}

// slowFrame is the least number of missing bytes of a frame whose pace counts: see isWorthWaiting.
const slowFrame = 64 << 10

// timeToComplete returns how long after at the current frame is complete, at its present pace. It returns false
// without such a frame, if no byte of it has come, or if it is short.
func (m *meteredReader) timeToComplete(at clockReading) (time.Duration, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.frameMissing < slowFrame || m.frameRead == 0 {
		return 0, false
	}
	missing := max(m.frameMissing-m.frameRead, 0)
	return time.Duration(float64(elapsed(m.frameBegun, at)) * float64(missing) / float64(m.frameRead)), true
}

// progressReader reads the connection for the buffer of a meteredReader, and records each read: a server that sends a
// large reply over a slow network is not silent. (checkPulse limits the time without a whole reply.)
type progressReader struct{ m *meteredReader }

func (p progressReader) Read(b []byte) (int, error) {
	n, err := p.m.conn.Read(b)
	if n > 0 {
		p.m.mu.Lock()
		p.m.readAt = readClock()
		p.m.frameRead += n
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
		return nil, notZooKeeperError(h, limit)
	}
	return readBody(r, n)
}

// trustedLength limits the bytes that are allocated for a frame's announced length alone. Beyond that, memory grows as
// bytes come in. A list of ten thousand waiters takes half of it.
const trustedLength = 1 << 20

// readBody reads n bytes.
func readBody(r io.Reader, n int) ([]byte, error) {
	b := make([]byte, 0, min(n, trustedLength))
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

package wire

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"
)

// meter reads a connection and knows when something came in last, and how fast a frame does.
type meter struct {
	*bufio.Reader
	conn net.Conn
	mu   sync.Mutex
	at   instant
	// The frame that is coming in: since when, how many bytes were not here yet then, and how many of them are.
	begun     instant
	want, got int
}

func newMeter(conn net.Conn) *meter {
	m := &meter{conn: conn, at: now()}
	m.Reader = bufio.NewReaderSize(progress{m}, 16<<10)
	return m
}

// last is when something came in last.
func (m *meter) last() instant {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at
}

// expect notes that so many bytes of a frame are to come; 0 says that it is complete.
func (m *meter) expect(bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begun, m.want, m.got = now(), max(bytes-m.Buffered(), 0), 0
}

// slowFrame is how many bytes a frame must have to be a reason to wait for it.
const slowFrame = 64 << 10

// rest is how long the frame that is coming in takes from at on, at its present pace. It is false if none is
// coming in, nothing of it has come, or it is short.
func (m *meter) rest(at instant) (time.Duration, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.want < slowFrame || m.got == 0 {
		return 0, false
	}
	return time.Duration(float64(elapsed(m.begun, at)) * float64(max(m.want-m.got, 0)) / float64(m.got)), true
}

// progress is the connection as the meter's buffer reads it: every byte counts, since a large reply on a slow
// network is no silence. (Whether the frame is ever complete is for the keeper to judge.)
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

// readFrame reads one frame. It allocates as bytes come in, not as the length says.
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

// readBody reads n bytes. It allocates as they come in.
func readBody(r io.Reader, n int) ([]byte, error) {
	b := make([]byte, 0, min(n, 64<<10))
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

package zktest

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// pipeLimit is the number of bytes that a direction of an in-memory connection buffers before a write blocks, like the
// socket buffers of a TCP connection.
const pipeLimit = 4 << 20

// newPipe returns the two ends of an in-memory connection. Unlike net.Pipe both directions are buffered, and
// bytes written before a Close can still be read. All waits are on a sync.Cond, so that they count as blocked
// in a testing/synctest bubble.
func newPipe(client, server net.Addr) (clientEnd, serverEnd net.Conn) {
	up, down := newPipeDirection(), newPipeDirection()
	clientEnd = &pipeEndpoint{in: down, out: up, local: client, remote: server}
	serverEnd = &pipeEndpoint{in: up, out: down, local: server, remote: client}
	return clientEnd, serverEnd
}

type pipeEndpoint struct {
	in, out       *pipeDirection
	local, remote net.Addr
}

func (p *pipeEndpoint) Read(b []byte) (int, error) {
	n, err := p.in.read(b)
	return n, p.wrapTimeout("read", err)
}

func (p *pipeEndpoint) Write(b []byte) (int, error) {
	n, err := p.out.write(b)
	return n, p.wrapTimeout("write", err)
}

func (p *pipeEndpoint) wrapTimeout(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &net.OpError{Op: op, Net: "tcp", Source: p.local, Addr: p.remote, Err: err}
}

func (p *pipeEndpoint) Close() error {
	p.in.close(func(h *pipeDirection) { h.readerGone, h.buf = true, nil })
	p.out.close(func(h *pipeDirection) { h.writerGone = true })
	return nil
}

func (p *pipeEndpoint) LocalAddr() net.Addr  { return p.local }
func (p *pipeEndpoint) RemoteAddr() net.Addr { return p.remote }

func (p *pipeEndpoint) SetDeadline(t time.Time) error {
	p.in.setDeadline(&p.in.readBy, t)
	p.out.setDeadline(&p.out.writeBy, t)
	return nil
}

func (p *pipeEndpoint) SetReadDeadline(t time.Time) error {
	p.in.setDeadline(&p.in.readBy, t)
	return nil
}

func (p *pipeEndpoint) SetWriteDeadline(t time.Time) error {
	p.out.setDeadline(&p.out.writeBy, t)
	return nil
}

// pipeDirection is one direction.
type pipeDirection struct {
	mu                     sync.Mutex
	changed                sync.Cond
	buf                    []byte
	off                    int // buf[:off] has been read
	readerGone, writerGone bool
	readBy, writeBy        pipeDeadline
}

func newPipeDirection() *pipeDirection {
	h := &pipeDirection{}
	h.changed.L = &h.mu
	return h
}

func (h *pipeDirection) read(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.readerGone:
			return 0, net.ErrClosed
		case h.readBy.hasPassed():
			return 0, os.ErrDeadlineExceeded
		case len(b) == 0:
			return 0, nil
		case h.off < len(h.buf):
			n := copy(b, h.buf[h.off:])
			if h.off += n; h.off == len(h.buf) {
				h.buf, h.off = h.buf[:0], 0
			}
			h.changed.Broadcast()
			return n, nil
		case h.writerGone:
			return 0, io.EOF
		}
		h.changed.Wait()
	}
}

func (h *pipeDirection) write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	done := 0
	for {
		switch {
		case h.writerGone:
			return done, net.ErrClosed
		case h.readerGone:
			return done, syscall.EPIPE
		case h.writeBy.hasPassed():
			return done, os.ErrDeadlineExceeded
		}
		if room := pipeLimit - (len(h.buf) - h.off); room > 0 {
			if h.off > 0 && len(h.buf)+len(b) > cap(h.buf) {
				h.buf, h.off = h.buf[:copy(h.buf, h.buf[h.off:])], 0
			}
			n := min(room, len(b))
			h.buf = append(h.buf, b[:n]...)
			b, done = b[n:], done+n
			h.changed.Broadcast()
		}
		if len(b) == 0 {
			return done, nil
		}
		h.changed.Wait()
	}
}

func (h *pipeDirection) close(mark func(*pipeDirection)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	mark(h)
	if h.readerGone {
		h.off = 0
		h.readBy.stopTimer()
	}
	if h.writerGone {
		h.writeBy.stopTimer()
	}
	h.changed.Broadcast()
}

// pipeDeadline is a moment and the timer that wakes the waiters when it comes.
type pipeDeadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *pipeDeadline) hasPassed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (d *pipeDeadline) stopTimer() {
	if d.timer != nil {
		d.timer.Stop()
	}
}

func (h *pipeDirection) setDeadline(d *pipeDeadline, t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d.stopTimer()
	if d.at = t; (d == &h.readBy && h.readerGone) || (d == &h.writeBy && h.writerGone) {
		return
	}
	if wait := time.Until(t); !t.IsZero() && wait > 0 {
		if d.timer == nil {
			d.timer = time.AfterFunc(wait, func() {
				h.mu.Lock()
				h.changed.Broadcast()
				h.mu.Unlock()
			})
		} else {
			d.timer.Reset(wait)
		}
	}
	h.changed.Broadcast()
}

package zktest

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Direction is a direction of a connection, or both.
type Direction uint8

// Directions, as the server sees them.
const (
	FromClient Direction = 1 << iota
	ToClient
	Both = FromClient | ToClient
)

// clientConn is a client's connection: a reader that executes requests one after the other, and a writer. The
// server's lock guards all fields that are not immutable, atomic or a channel; out has a lock of its own.
type clientConn struct {
	s    *Server
	id   int64    // immutable; grows with each connection
	nc   net.Conn // immutable
	host string   // immutable; the client's address without the port
	from *Host    // immutable; nil: not from a Host

	session   *sessionRecord // nil before the handshake and after the session's end
	sessionID int64          // kept for the trace after the session's end
	timeout   int64          // negotiated, milliseconds
	old       bool           // the client's handshake has no read-only field
	auth      []provedIdentity
	closed    bool // no further request is executed, nothing further is sent
	blocked   Direction
	delay     time.Duration
	mute      bool          // replies and events are lost: an injected fault
	drowned   bool          // too many bytes are unsent: nothing more is queued, and the connection ends
	holding   *Injection    // replies and events wait for its release
	late      time.Duration // added to the delay of replies and events
	received  int64
	sent      int64
	since     time.Time
	answered  time.Time        // when the last reply was sent
	nonce     string           // of a SASL login in progress
	pending   []*clientRequest // at a member: a write that waits for the log, and all requests after it
	parked    atomic.Int64     // len(pending), to be read without the lock
	lastXid   int32
	lastZxid  int64

	done chan struct{} // closed when closed is set
	cut  chan struct{} // closed when the connection ends without sending the queue
	out  outgoingQueue
}

// The server reads no further request of a connection while more than outLimit bytes wait for its client to read
// them, or parkLimit requests wait for the ensemble's log. The replies of requests already read may exceed outLimit.
//
// A connection with more than drownLimit unsent bytes is closed (events count, although other clients cause them), and
// so is a connection whose multiRead has a longer reply.
const (
	outLimit   = 4 << 20
	parkLimit  = 1000
	drownLimit = 64 << 20
)

// greetTime is the limit for the first frame of a connection, as in the real server
// (zookeeper.nio.sessionlessCnxnTimeout). After that the session's timeout counts.
const greetTime = 10 * time.Second

// lingerTime is the time that a client has to read each piece (about 64 KiB) of the queue after the server has ended
// the connection; then the rest is dropped.
const lingerTime = 10 * time.Second

// readAhead bounds the memory allocated for a frame beyond the bytes that have arrived: at most readAhead or the number
// of bytes that have arrived, whichever is larger.
const readAhead = 16 << 10

// outgoingQueue is the queue of replies and events to be written. While the connection lives, none of them is
// dropped. It is bounded in two ways: the connection's requests are not read while it is full, and the
// connection ends at drownLimit. It also has its own lock, so that the writer does not contend for the server's.
type outgoingQueue struct {
	mu     sync.Mutex
	items  []outgoingFrame
	unsent int           // bytes queued, and taken by the writer but not written yet
	ended  bool          // nothing more is queued
	last   bool          // ended, and the queue is still sent
	wake   chan struct{} // of capacity 1
	room   chan struct{} // of capacity 1: wakes the reader
}

type outgoingFrame struct {
	frame []byte
	at    time.Time  // earliest time of the write
	hold  *Injection // whose release the write waits for
}

func (s *Server) newClientConn(nc net.Conn) *clientConn {
	host, _, err := net.SplitHostPort(nc.RemoteAddr().String())
	if err != nil {
		host = nc.RemoteAddr().String()
	}
	s.lastConn++
	return &clientConn{
		s: s, since: time.Now(), id: s.lastConn, nc: nc, host: host,
		auth: []provedIdentity{{Scheme: "ip", User: host}},
		done: make(chan struct{}), cut: make(chan struct{}),
		out: outgoingQueue{wake: make(chan struct{}, 1), room: make(chan struct{}, 1)},
	}
}

// queueFrame queues a frame. It never blocks.
func (c *clientConn) queueFrame(frame []byte) {
	if c.closed || c.mute || c.drowned {
		return
	}
	item := outgoingFrame{frame: frame, hold: c.holding}
	d := max(c.delay, c.s.delayAll)
	if c.from != nil {
		d = max(d, c.from.delay)
	}
	if d += c.late; d > 0 {
		item.at = time.Now().Add(d)
	}
	c.sent++
	c.s.sent++
	c.s.bytesOut += int64(len(frame))
	c.out.mu.Lock()
	c.out.items = append(c.out.items, item)
	c.out.unsent += len(frame)
	unsent := c.out.unsent
	c.out.mu.Unlock()
	if unsent > drownLimit {
		c.closeOverfull(unsent)
	}
	wakeWaiter(c.out.wake)
}

// closeOverfull makes the writer close the connection, since too much is unsent. It does not close it here: the
// caller may be iterating over the watches, which closing changes.
func (c *clientConn) closeOverfull(unsent int) {
	c.drowned = true
	c.s.logWarning("closing the connection: its client does not read the answers",
		"conn", c.id, "bytes", unsent)
	_ = c.nc.SetWriteDeadline(time.Now())
}

// wakeWaiter wakes the goroutine that waits for c, or will wait for it.
func wakeWaiter(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// subtractWritten subtracts n written bytes.
func (o *outgoingQueue) subtractWritten(n int) {
	o.mu.Lock()
	o.unsent -= n
	o.mu.Unlock()
	wakeWaiter(o.room)
}

// isDraining reports whether the connection has ended but queued frames are still being sent.
func (o *outgoingQueue) isDraining() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last
}

func (o *outgoingQueue) isFull() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.unsent > outLimit
}

// setParked sets the requests that wait for the log.
func (c *clientConn) setParked(pending []*clientRequest) {
	c.pending = pending
	c.parked.Store(int64(len(pending)))
	wakeWaiter(c.out.room)
}

// awaitRoom waits until the connection's next request may be read. It returns false if the connection or the server
// ends first.
func (c *clientConn) awaitRoom() bool {
	for c.out.isFull() || c.parked.Load() >= parkLimit {
		select {
		case <-c.out.room:
		case <-c.done:
			return false
		case <-c.s.quit:
			return false
		}
	}
	return true
}

// closeConn closes the connection, with flush after the queue is sent, else immediately. The session stays.
func (c *clientConn) closeConn(flush bool) {
	if c.closed {
		return
	}
	c.closed = true
	c.setParked(nil)
	close(c.done)
	c.s.removeConn(c)
	c.out.mu.Lock()
	c.out.ended, c.out.last = true, flush
	if !flush {
		c.out.items = nil
	}
	c.out.mu.Unlock()
	if flush {
		_ = c.nc.SetWriteDeadline(time.Now().Add(lingerTime))
	} else {
		close(c.cut)
		_ = c.nc.SetWriteDeadline(time.Now()) // frees a writer whose peer does not read
	}
	wakeWaiter(c.out.wake)
}

// writeLoop writes the queue until the connection ends, and closes the network connection.
func (c *clientConn) writeLoop() {
	defer c.s.loopEnded(c)
	defer func() { _ = c.nc.Close() }()
	if c.writeQueued() {
		c.s.awaitOpen(c, ToClient, nil) // a black hole also swallows the FIN
	}
}

// writeQueued writes queued frames, several in one write, until the connection ends. It returns false if a write
// failed: then the network connection is closed without waiting for the end of a black hole.
func (c *clientConn) writeQueued() bool {
	var buf []byte
	pace := c.s.cfg.Pace
	var next time.Time // the earliest instant for another frame
	for {
		items, ended := c.awaitFrames()
		for len(items) > 0 {
			if items[0].at.Before(next) {
				items[0].at = next
			}
			if !c.awaitDue(items[0]) || !c.s.awaitOpen(c, ToClient, c.cut) {
				return true
			}
			buf = buf[:0]
			for now := time.Now(); ; {
				buf = append(buf, items[0].frame...)
				items = items[1:]
				if len(items) == 0 || pace > 0 || len(buf) >= 64<<10 {
					break
				}
				if items[0].hold != nil || items[0].at.After(now) {
					break
				}
			}
			if c.out.isDraining() {
				_ = c.nc.SetWriteDeadline(time.Now().Add(lingerTime))
			}
			if _, err := c.nc.Write(buf); err != nil {
				c.s.connectionEnded(c)
				return false
			}
			c.out.subtractWritten(len(buf))
			if pace > 0 {
				next = time.Now().Add(pace)
			}
		}
		if ended {
			return true
		}
	}
}

// awaitFrames waits for queued items, or for the end.
func (c *clientConn) awaitFrames() (items []outgoingFrame, ended bool) {
	for {
		c.out.mu.Lock()
		items, c.out.items, ended = c.out.items, nil, c.out.ended
		c.out.mu.Unlock()
		if len(items) > 0 || ended {
			return items, ended
		}
		select {
		case <-c.out.wake:
		case <-c.s.quit:
			return nil, true
		}
	}
}

// awaitDue waits until the item's delay or hold is over. It returns false if the connection is cut or the server
// ends first.
func (c *clientConn) awaitDue(item outgoingFrame) bool {
	if item.hold != nil {
		select {
		case <-item.hold.released:
		case <-c.cut:
			return false
		case <-c.s.quit:
			return false
		}
	}
	wait := time.Until(item.at)
	if item.at.IsZero() || wait <= 0 {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.cut:
	case <-c.s.quit:
	}
	return false
}

// readLoop reads frames and executes them, until the connection ends.
func (c *clientConn) readLoop() {
	defer c.s.loopEnded(c)
	defer c.s.connectionEnded(c)
	r := bufio.NewReaderSize(c.nc, 8<<10)
	var buf []byte
	_ = c.nc.SetReadDeadline(time.Now().Add(greetTime))
	for first := true; c.awaitRoom(); first = false {
		frame, word, err := c.readFrame(r, &buf, first)
		if first {
			_ = c.nc.SetReadDeadline(time.Time{})
		}
		if !c.s.awaitOpen(c, FromClient, c.done) || err != nil {
			return
		}
		switch {
		case word != "":
			c.s.serveFourLetterWord(c, word)
			return
		case first:
			if !c.s.handshake(c, frame) {
				return
			}
		default:
			if !c.s.handleFrame(c, frame) {
				return
			}
		}
	}
}

// readFrame reads one frame into *buf. In a connection's first four bytes a four-letter word may stand
// instead of a length.
func (c *clientConn) readFrame(r *bufio.Reader, buf *[]byte, first bool) (frame []byte, word string, err error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, "", err
	}
	if first && isFourLetterWord(string(head[:])) {
		return nil, string(head[:]), nil
	}
	n := int(int32(binary.BigEndian.Uint32(head[:])))
	if n < 0 || n > c.s.cfg.MaxFrame {
		c.s.cfg.Logger.Warn("closing the connection: frame length out of range", "conn", c.id, "length", n)
		return nil, "", io.ErrUnexpectedEOF
	}
	frame, err = appendBytes(r, (*buf)[:0], n)
	*buf = frame
	return frame, "", err
}

// appendBytes appends n bytes to the empty frame. It makes room as bytes arrive, not as the client claims.
func appendBytes(r io.Reader, frame []byte, n int) ([]byte, error) {
	for len(frame) < n {
		have := len(frame)
		if have == cap(frame) {
			frame = slices.Grow(frame, min(n-have, max(have, readAhead)))
		}
		frame = frame[:min(cap(frame), n)]
		if got, err := io.ReadFull(r, frame[have:]); err != nil {
			return frame[:have+got], err
		}
	}
	return frame, nil
}

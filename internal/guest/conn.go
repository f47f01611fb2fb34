package guest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// libraryConn is the net.Conn that the library has. Writes never fail and never block, and deadlines have no effect:
// when the session's connection ends, Read returns an error, which is enough for the library. (A write error at the
// wrong moment would deadlock it.)
//
// After the session has ended the connection is retired: it replies to each request itself, so that the library's Close
// returns immediately instead of waiting for a server that it cannot reach.
type libraryConn struct {
	guest  *Guest
	number uint64 // of the session's connection; 0 if there is none

	mu          sync.Mutex // guards the fields up to connectSeen
	readable    *sync.Cond // readBuffer has bytes, or readErr is set
	retired     bool
	readBuffer  []byte // for the library to read
	writeBuffer []byte // written by the library, not yet a whole frame
	readErr     error
	inFlight    map[int32]libraryRequest // the library's requests without a reply, by xid
	missed      []jute.RequestHeader     // of requests that were not sent, or may get no reply
	connectSeen bool                     // the library's connect request has been read

	closeOnce sync.Once     // for abandoned
	abandoned chan struct{} // closed when the library has closed this connection
}

// libraryRequest describes a request of the library.
type libraryRequest struct {
	op  int32
	ops []int32 // the operations of a multi or multiRead, otherwise nil
}

func newLibraryConn(g *Guest, number uint64) *libraryConn {
	c := &libraryConn{guest: g, number: number, inFlight: map[int32]libraryRequest{}, abandoned: make(chan struct{})}
	c.readable = sync.NewCond(&c.mu)
	return c
}

// replyConnect delivers the reply to the library's connect request. It has a password of zeros: the library needs none,
// since the session attaches the connections.
func (c *libraryConn) replyConnect(timeout time.Duration, id int64) {
	ms := int32(timeout / time.Millisecond)
	c.deliverFrame(&jute.ConnectResponse{Timeout: ms, SessionID: id, Password: make([]byte, 16)})
}

// deliverFrame appends a frame for the library to read.
func (c *libraryConn) deliverFrame(records ...jute.Record) { c.pushFrame(math.MaxInt, records...) }

// pushFrame appends a frame for the library to read. It returns false, and appends nothing, if more than most bytes
// would be unread.
func (c *libraryConn) pushFrame(most int, records ...jute.Record) bool {
	frame := jute.Frame(records...)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.readBuffer)+len(frame) > most {
		return false
	}
	c.readBuffer = append(c.readBuffer, frame...)
	c.readable.Signal()
	return true
}

// failReads makes Read return err after the bytes that are there, unless the connection is retired.
func (c *libraryConn) failReads(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.retired {
		c.endReads(err)
	}
}

// endReads makes Read return err, or the error of an earlier call, after the bytes that are there. mu is held.
func (c *libraryConn) endReads(err error) {
	if c.readErr == nil {
		c.readErr = err
	}
	c.readable.Broadcast()
}

// retireConn makes the connection reply to each request itself, also to the requests in missed. It reports whether the
// library continues to use the connection: it does unless Read fails.
func (c *libraryConn) retireConn() (used bool) {
	c.mu.Lock()
	c.retired = true
	used = c.readErr == nil
	missed := c.missed
	c.missed = nil
	c.mu.Unlock()
	for _, h := range missed {
		c.replyEnded(h)
	}
	return used
}

// recordMissed records a request that retireConn has to reply to: the library waits until it gets a reply, or until the
// connection ends. If the connection is retired already, the reply is delivered immediately.
func (c *libraryConn) recordMissed(h jute.RequestHeader) {
	c.mu.Lock()
	retired := c.retired
	if !retired {
		c.missed = append(c.missed, h)
	}
	c.mu.Unlock()
	if retired {
		c.replyEnded(h)
	}
}

// replyEnded delivers the reply of a retired connection to a request. closeSession succeeds, and so do credentials: the
// library presents them first, and would close a connection that refuses them.
func (c *libraryConn) replyEnded(h jute.RequestHeader) {
	code := jute.CodeSessionExpired
	if h.Op == jute.OpCloseSession || h.Op == jute.OpAuth {
		code = jute.CodeOK
	}
	c.deliverFrame(&jute.ReplyHeader{Xid: h.Xid, Err: code})
}

func (c *libraryConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.readBuffer) == 0 {
		if c.readErr != nil {
			return 0, c.readErr
		}
		c.readable.Wait()
	}
	n := copy(p, c.readBuffer)
	if c.readBuffer = c.readBuffer[n:]; len(c.readBuffer) == 0 {
		c.readBuffer = nil
	}
	return n, nil
}

func (c *libraryConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.writeBuffer = append(c.writeBuffer, p...)
	var frames [][]byte
	for len(c.writeBuffer) >= 4 {
		n := 4 + int(binary.BigEndian.Uint32(c.writeBuffer))
		if len(c.writeBuffer) < n {
			break
		}
		frames = append(frames, append([]byte(nil), c.writeBuffer[4:n]...))
		c.writeBuffer = c.writeBuffer[n:]
	}
	first := !c.connectSeen
	c.connectSeen = c.connectSeen || len(frames) > 0
	retired := c.retired
	c.mu.Unlock()
	for i, f := range frames {
		if first && i == 0 {
			if err := c.checkConnect(f, retired); err != nil {
				return 0, err
			}
			continue
		}
		c.handleRequest(f, retired)
	}
	return len(p), nil
}

// checkConnect returns an error, and ends the session's connection, if the library's connect request is for another
// session (promise P2). The request itself is not sent: the connection is attached to the session already.
func (c *libraryConn) checkConnect(frame []byte, retired bool) error {
	var r jute.ConnectRequest
	if err := jute.Unmarshal(frame, &r); err != nil {
		return err
	}
	if id := c.guest.session.ID(); !retired && r.SessionID != 0 && r.SessionID != id {
		err := fmt.Errorf("wire: go-zookeeper asked for session %#x on a connection of session %#x",
			r.SessionID, id)
		c.guest.session.Disconnect(c.number, err)
		return err
	}
	return nil
}

// handleRequest sends a request of the library, or replies to it itself.
func (c *libraryConn) handleRequest(frame []byte, retired bool) {
	var h jute.RequestHeader
	if err := jute.Unmarshal(frame, &h); err != nil || h.Xid == jute.XidPing {
		return // the session pings at its own pace
	}
	switch {
	case retired:
		c.replyEnded(h)
	case len(frame) > c.guest.cfg.MaxFrame:
		// The server would close the connection.
		c.deliverFrame(&jute.ReplyHeader{Xid: h.Xid, Err: jute.CodeMarshallingError})
	default:
		c.rememberRequest(h, frame[8:])
		if !c.guest.session.Forward(c.number, h, frame[8:]) || h.Op == jute.OpCloseSession {
			c.recordMissed(h) // also a closeSession that was sent: its reply may never come, and the library waits for it
		}
	}
}

// rememberRequest records a request that is sent, so that its reply can be checked.
func (c *libraryConn) rememberRequest(h jute.RequestHeader, body []byte) {
	q := libraryRequest{op: h.Op}
	if h.Op == jute.OpMulti || h.Op == jute.OpMultiRead {
		var r jute.MultiRequest
		if jute.Unmarshal(body, &r) == nil {
			for _, one := range r.Ops {
				q.ops = append(q.ops, one.Op)
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inFlight[h.Xid] = q
}

// operationOf returns the operation of a request in flight.
func (c *libraryConn) operationOf(xid int32) (op int32, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q, known := c.inFlight[xid]
	return q.op, known
}

// passReply delivers a reply to the library. It returns an error for a malformed reply: the library would trust the
// counts in it, and could panic.
func (c *libraryConn) passReply(h jute.ReplyHeader, body []byte, skipped bool) error {
	c.mu.Lock()
	q := c.inFlight[h.Xid]
	delete(c.inFlight, h.Xid)
	c.mu.Unlock()
	h.Zxid = 0 // the library stores zxids without a lock, and Forward replaces them in its requests
	switch {
	case skipped:
		h.Err = jute.CodeMarshallingError // as for a request that is too large
	case h.Err != jute.CodeOK:
		body = nil // the library does not read it
	default:
		if err := jute.CheckReply(q.op, q.ops, body); err != nil {
			return err
		}
	}
	c.deliverFrame(&h, rawRecord(body))
	return nil
}

// rawRecord is a record that is encoded already.
type rawRecord []byte

func (r rawRecord) Fields(c *jute.Coder) { c.Raw(r) }

// Close is called by the library. Unless the connection is retired, it also ends the session's connection.
func (c *libraryConn) Close() error {
	c.mu.Lock()
	retired := c.retired
	c.endReads(net.ErrClosed)
	c.mu.Unlock()
	c.closeOnce.Do(func() { close(c.abandoned) })
	if !retired {
		c.guest.session.Disconnect(c.number, errClosed)
	}
	return nil
}

var errClosed = errors.New("go-zookeeper closed its connection")

func (c *libraryConn) LocalAddr() net.Addr              { return fixedAddress }
func (c *libraryConn) RemoteAddr() net.Addr             { return fixedAddress }
func (c *libraryConn) SetDeadline(time.Time) error      { return nil }
func (c *libraryConn) SetReadDeadline(time.Time) error  { return nil }
func (c *libraryConn) SetWriteDeadline(time.Time) error { return nil }

var fixedAddress = &net.UnixAddr{Net: "curator", Name: "curator"}

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

// libraryConn is the connection that the library holds. Writes never fail and never block, deadlines do not count: when
// the session's connection ends, Read returns an error, which is enough for the library. (A write error at the wrong
// moment deadlocks the library.)
//
// After the session has ended libraryConn itself replies to each request, so that the library's Close returns
// immediately instead of waiting for a server that it cannot reach.
type libraryConn struct {
	g      *Guest
	number uint64 // the session's connection; 0 if there is none

	mu           sync.Mutex
	readable     *sync.Cond
	sessionEnded bool
	readBuffer   []byte // for the library to read
	writeBuffer  []byte // written by the library, not yet a whole frame
	readErr      error
	unanswered   map[int32]libraryRequest // the library's requests without a reply, by xid
	missed       []jute.RequestHeader     // written when the session's connection was gone
	connectSeen  bool                     // the library's connect request has been seen
	closeOnce    sync.Once                // for abandoned
	abandoned    chan struct{}            // closed when the library has given up this connection for another
}

// libraryRequest describes a request of the library.
type libraryRequest struct {
	op  int32
	ops []int32 // of a multi: the operations that it consists of
}

func newLibraryConn(g *Guest, number uint64) *libraryConn {
	c := &libraryConn{g: g, number: number, unanswered: map[int32]libraryRequest{}, abandoned: make(chan struct{})}
	c.readable = sync.NewCond(&c.mu)
	return c
}

// replyConnect replies to the library's connect request. Its password is not the session's.
func (c *libraryConn) replyConnect(timeout time.Duration, id int64) {
	ms := int32(timeout / time.Millisecond)
	c.deliverFrame(&jute.ConnectResponse{Timeout: ms, SessionID: id, Password: make([]byte, 16)})
}

// deliverFrame appends a frame for the library to read.
func (c *libraryConn) deliverFrame(records ...jute.Record) { c.pushFrame(math.MaxInt, records...) }

// pushFrame is deliverFrame, but it returns false, and delivers nothing, if more than most bytes would be unread.
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

// failReads makes Read return err when it has nothing else. A retired connection does not fail.
func (c *libraryConn) failReads(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.sessionEnded {
		c.endReads(err)
	}
}

// endReads is the end for the library's reader. mu is held.
func (c *libraryConn) endReads(err error) {
	if c.readErr == nil {
		c.readErr = err
	}
	c.readable.Broadcast()
}

// retireConn makes the connection reply to each request itself, also to those that were written after the session's
// connection had ended. It reports whether the library keeps using it (false if it had failed).
func (c *libraryConn) retireConn() (stays bool) {
	c.mu.Lock()
	c.sessionEnded = true
	stays = c.readErr == nil
	missed := c.missed
	c.missed = nil
	c.mu.Unlock()
	for _, h := range missed {
		c.replyEnded(h)
	}
	return stays
}

// keepMissed keeps a request that came too late for the session's connection: the library waits for a reply or for
// the connection's end.
func (c *libraryConn) keepMissed(h jute.RequestHeader) {
	c.mu.Lock()
	ended := c.sessionEnded
	if !ended {
		c.missed = append(c.missed, h)
	}
	c.mu.Unlock()
	if ended {
		c.replyEnded(h)
	}
}

// replyEnded replies to a request after the session's end. The library presents its credentials first, and gives up a
// connection that refuses them.
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
	ended := c.sessionEnded
	c.mu.Unlock()
	for i, f := range frames {
		if first && i == 0 {
			if err := c.checkConnect(f, ended); err != nil {
				return 0, err
			}
			continue
		}
		c.handleRequest(f, ended)
	}
	return len(p), nil
}

// checkConnect checks that the library's connect request means the same session (promise P2). Ours was sent and
// answered before the library got this connection.
func (c *libraryConn) checkConnect(frame []byte, ended bool) error {
	var r jute.ConnectRequest
	if err := jute.Unmarshal(frame, &r); err != nil {
		return err
	}
	if id := c.g.s.ID(); !ended && r.SessionID != 0 && r.SessionID != id {
		err := fmt.Errorf("wire: go-zookeeper asked for session %#x on a connection of session %#x",
			r.SessionID, id)
		c.g.s.Disconnect(c.number, err)
		return err
	}
	return nil
}

func (c *libraryConn) handleRequest(frame []byte, ended bool) {
	var h jute.RequestHeader
	if err := jute.Unmarshal(frame, &h); err != nil || h.Xid == jute.XidPing {
		return // the session pings at its own pace
	}
	switch {
	case ended:
		c.replyEnded(h)
	case len(frame) > c.g.cfg.MaxFrame:
		// The server would close the connection on it.
		c.deliverFrame(&jute.ReplyHeader{Xid: h.Xid, Err: jute.CodeMarshallingError})
	default:
		c.rememberRequest(h, frame[8:])
		if !c.g.s.Forward(c.number, h, frame[8:]) || h.Op == jute.OpCloseSession {
			c.keepMissed(h) // the reply to closeSession may never come, and the library waits for it without limit
		}
	}
}

// rememberRequest records a request, so that its reply can be checked.
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
	c.unanswered[h.Xid] = q
}

// operationOf returns the operation of a request that has no answer yet.
func (c *libraryConn) operationOf(xid int32) (op int32, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q, known := c.unanswered[xid]
	return q.op, known
}

// passReply delivers a reply to the library, which does not check the counts in it: so it is checked here.
func (c *libraryConn) passReply(h jute.ReplyHeader, body []byte, skipped bool) error {
	c.mu.Lock()
	q := c.unanswered[h.Xid]
	delete(c.unanswered, h.Xid)
	c.mu.Unlock()
	h.Zxid = 0 // the library keeps zxids without a lock, and has no use for them here
	switch {
	case skipped:
		h.Err = jute.CodeMarshallingError // as for a request that is too large
	case h.Err != jute.CodeOK:
		body = nil // it does not look at it
	default:
		if err := jute.CheckReply(q.op, q.ops, body); err != nil {
			return err
		}
	}
	c.deliverFrame(&h, rawRecord(body))
	return nil
}

// rawRecord is bytes that are encoded already.
type rawRecord []byte

func (r rawRecord) Fields(c *jute.Coder) { c.Raw(r) }

// Close is called by the library when it gives the connection up.
func (c *libraryConn) Close() error {
	c.mu.Lock()
	ended := c.sessionEnded
	c.endReads(net.ErrClosed)
	c.mu.Unlock()
	c.closeOnce.Do(func() { close(c.abandoned) })
	if !ended {
		c.g.s.Disconnect(c.number, errClosed)
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

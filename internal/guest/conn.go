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

// conn is the connection that the library holds. Writes never fail and never block, deadlines do not count: when the
// session's connection ends, Read returns an error, which is enough for the library. (A write error at the wrong moment
// deadlocks the library.)
//
// After the session has ended conn plays a server that answers everything, so that the library's Close returns
// immediately instead of waiting for a server that it cannot reach.
type conn struct {
	g    *Guest
	link uint64 // the session's connection; 0 if there is none

	mu     sync.Mutex
	more   *sync.Cond
	ended  bool   // the session has
	in     []byte // for the library to read
	out    []byte // written by the library, not yet a whole frame
	err    error
	asked  map[int32]asked      // the library's requests without an answer, by xid
	missed []jute.RequestHeader // written when the session's connection was gone
	hello  bool                 // the library's connect request has been seen
	once   sync.Once            // for left
	left   chan struct{}        // closed when the library has given up this connection for another
}

// asked describes a request of the library.
type asked struct {
	op  int32
	ops []int32 // of a multi: the operations that it consists of
}

func newConn(g *Guest, link uint64) *conn {
	c := &conn{g: g, link: link, asked: map[int32]asked{}, left: make(chan struct{})}
	c.more = sync.NewCond(&c.mu)
	return c
}

// welcome answers the library's connect request. Only the session knows its password.
func (c *conn) welcome(timeout time.Duration, id int64) {
	ms := int32(timeout / time.Millisecond)
	c.deliver(&jute.ConnectResponse{Timeout: ms, SessionID: id, Password: make([]byte, 16)})
}

// deliver appends a frame for the library to read.
func (c *conn) deliver(records ...jute.Record) { c.push(math.MaxInt, records...) }

// push is deliver, but it returns false, and delivers nothing, if the library would be behind by more than
// most bytes.
func (c *conn) push(most int, records ...jute.Record) bool {
	frame := jute.Frame(records...)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.in)+len(frame) > most {
		return false
	}
	c.in = append(c.in, frame...)
	c.more.Signal()
	return true
}

// fail makes Read return err when it has nothing else. A retired connection does not fail.
func (c *conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.finish(err)
	}
}

// finish is the end for the library's reader. mu is held.
func (c *conn) finish(err error) {
	if c.err == nil {
		c.err = err
	}
	c.more.Broadcast()
}

// retire turns the connection into one that answers everything, including requests that were written when the session's
// connection was gone already. It reports whether the library keeps using it (false if it had failed).
func (c *conn) retire() (stays bool) {
	c.mu.Lock()
	c.ended = true
	stays = c.err == nil
	missed := c.missed
	c.missed = nil
	c.mu.Unlock()
	for _, h := range missed {
		c.answerEnded(h)
	}
	return stays
}

// miss keeps a request that came too late for the session's connection: the library waits for an answer or for the
// connection's end.
func (c *conn) miss(h jute.RequestHeader) {
	c.mu.Lock()
	ended := c.ended
	if !ended {
		c.missed = append(c.missed, h)
	}
	c.mu.Unlock()
	if ended {
		c.answerEnded(h)
	}
}

// answerEnded answers a request after the session's end. The library presents its credentials before anything
// else, and gives up a connection that refuses them.
func (c *conn) answerEnded(h jute.RequestHeader) {
	code := jute.CodeSessionExpired
	if h.Op == jute.OpCloseSession || h.Op == jute.OpAuth {
		code = jute.CodeOK
	}
	c.deliver(&jute.ReplyHeader{Xid: h.Xid, Err: code})
}

func (c *conn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.in) == 0 {
		if c.err != nil {
			return 0, c.err
		}
		c.more.Wait()
	}
	n := copy(p, c.in)
	if c.in = c.in[n:]; len(c.in) == 0 {
		c.in = nil
	}
	return n, nil
}

func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.out = append(c.out, p...)
	var frames [][]byte
	for len(c.out) >= 4 {
		n := 4 + int(binary.BigEndian.Uint32(c.out))
		if len(c.out) < n {
			break
		}
		frames = append(frames, append([]byte(nil), c.out[4:n]...))
		c.out = c.out[n:]
	}
	first := !c.hello
	c.hello = c.hello || len(frames) > 0
	ended := c.ended
	c.mu.Unlock()
	for i, f := range frames {
		if first && i == 0 {
			if err := c.connect(f, ended); err != nil {
				return 0, err
			}
			continue
		}
		c.request(f, ended)
	}
	return len(p), nil
}

// connect checks that the library's connect request means the same session (promise P2). Ours was sent and
// answered before the library got this connection.
func (c *conn) connect(frame []byte, ended bool) error {
	var r jute.ConnectRequest
	if err := jute.Unmarshal(frame, &r); err != nil {
		return err
	}
	if id := c.g.s.ID(); !ended && r.SessionID != 0 && r.SessionID != id {
		err := fmt.Errorf("wire: go-zookeeper asked for session %#x on a connection of session %#x",
			r.SessionID, id)
		c.g.s.Disconnect(c.link, err)
		return err
	}
	return nil
}

func (c *conn) request(frame []byte, ended bool) {
	var h jute.RequestHeader
	if err := jute.Unmarshal(frame, &h); err != nil || h.Xid == jute.XidPing {
		return // the session pings at its own pace
	}
	switch {
	case ended:
		c.answerEnded(h)
	case len(frame) > c.g.cfg.MaxFrame:
		// The server would close the connection on it.
		c.deliver(&jute.ReplyHeader{Xid: h.Xid, Err: jute.CodeMarshallingError})
	default:
		c.remember(h, frame[8:])
		if !c.g.s.Forward(c.link, h, frame[8:]) || h.Op == jute.OpCloseSession {
			c.miss(h) // the reply to closeSession may never come, and the library waits for it without limit
		}
	}
}

// remember records a request, so that its answer can be checked.
func (c *conn) remember(h jute.RequestHeader, body []byte) {
	q := asked{op: h.Op}
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
	c.asked[h.Xid] = q
}

// operation returns the operation of a request that has no answer yet.
func (c *conn) operation(xid int32) (op int32, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q, known := c.asked[xid]
	return q.op, known
}

// answer hands an answer to the library, which believes every count in it.
func (c *conn) answer(h jute.ReplyHeader, body []byte, skipped bool) error {
	c.mu.Lock()
	q := c.asked[h.Xid]
	delete(c.asked, h.Xid)
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
	c.deliver(&h, rawRecord(body))
	return nil
}

// rawRecord is bytes that are encoded already.
type rawRecord []byte

func (r rawRecord) Fields(c *jute.Coder) { c.Raw(r) }

// Close is called by the library when it gives the connection up.
func (c *conn) Close() error {
	c.mu.Lock()
	ended := c.ended
	c.finish(net.ErrClosed)
	c.mu.Unlock()
	c.once.Do(func() { close(c.left) })
	if !ended {
		c.g.s.Disconnect(c.link, errClosed)
	}
	return nil
}

var errClosed = errors.New("go-zookeeper closed its connection")

func (c *conn) LocalAddr() net.Addr              { return address }
func (c *conn) RemoteAddr() net.Addr             { return address }
func (c *conn) SetDeadline(time.Time) error      { return nil }
func (c *conn) SetReadDeadline(time.Time) error  { return nil }
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

var address = &net.UnixAddr{Net: "curator", Name: "curator"}

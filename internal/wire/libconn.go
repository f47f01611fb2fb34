package wire

import (
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// libConn is the connection that the library holds. Writes never fail and never block, deadlines do not count: when the link behind it ends, Read
// says so, and that is all the library needs to know. (A write error at the wrong moment deadlocks it for ever.)
//
// After the session has ended there is no link. Then libConn plays a server that agrees to everything, so that the library's Close comes to its
// end at once instead of waiting for a server that it cannot reach.
type libConn struct {
	s *Session

	mu     sync.Mutex
	more   *sync.Cond
	l      *link  // nil after the session's end
	in     []byte // for the library to read
	out    []byte // written by the library, not yet a whole frame
	err    error
	missed []jute.RequestHeader // written when the link was gone
	hello  bool                 // the library's connect request has been seen
	once   sync.Once            // left
	left   chan struct{}        // closed when the library has given the connection up: what it sends from now on goes over another
}

func newLibConn(s *Session, l *link) *libConn {
	c := &libConn{s: s, l: l, left: make(chan struct{})}
	c.more = sync.NewCond(&c.mu)
	return c
}

// deliver appends a frame for the library to read.
func (c *libConn) deliver(records ...jute.Record) { c.deliverFrame(jute.Frame(records...)) }

func (c *libConn) deliverFrame(frame []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.in = append(c.in, frame...)
	c.more.Signal()
}

// deliverEvent is deliver for what nobody has asked for. It returns false, and delivers nothing, if the library is too far behind.
func (c *libConn) deliverEvent(records ...jute.Record) bool {
	frame := jute.Frame(records...)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.in)+len(frame) > libBacklog {
		return false
	}
	c.in = append(c.in, frame...)
	c.more.Signal()
	return true
}

// fail makes Read return err when it has nothing else. What was retired does not fail.
func (c *libConn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.l != nil {
		c.finish(err)
	}
}

// finish is the end for the library's reader. mu is held.
func (c *libConn) finish(err error) {
	if c.err == nil {
		c.err = err
	}
	c.more.Broadcast()
}

// retire turns the connection into one that agrees to everything, also to what was written when the link was gone already. It says whether the library
// stays on it: not if it has failed before.
func (c *libConn) retire() (stays bool) {
	c.mu.Lock()
	c.l = nil
	stays = c.err == nil
	missed := c.missed
	c.missed = nil
	c.mu.Unlock()
	for _, h := range missed {
		c.agree(h)
	}
	return stays
}

// miss keeps a request that came too late for its link: the library waits for an answer or for the connection's end.
func (c *libConn) miss(h jute.RequestHeader) {
	c.mu.Lock()
	live := c.l != nil
	if live {
		c.missed = append(c.missed, h)
	}
	c.mu.Unlock()
	if !live {
		c.agree(h)
	}
}

// agree is the answer to a request after the session's end. The library repeats its credentials before anything else, and gives up a connection that refuses
// them.
func (c *libConn) agree(h jute.RequestHeader) {
	code := jute.CodeSessionExpired
	if h.Op == jute.OpCloseSession || h.Op == jute.OpAuth {
		code = jute.CodeOK
	}
	c.deliver(&jute.ReplyHeader{Xid: h.Xid, Err: code})
}

func (c *libConn) Read(p []byte) (int, error) {
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

func (c *libConn) Write(p []byte) (int, error) {
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
	l := c.l
	c.mu.Unlock()
	for i, f := range frames {
		if first && i == 0 {
			if err := c.connect(l, f); err != nil {
				return 0, err
			}
			continue
		}
		c.request(l, f)
	}
	return len(p), nil
}

// connect checks the library's connect request. Ours was sent and answered before the library got this connection; what is left to see to is that
// the library means the same session (promise P2).
func (c *libConn) connect(l *link, frame []byte) error {
	var r jute.ConnectRequest
	if err := jute.Unmarshal(frame, &r); err != nil {
		return err
	}
	if id := c.s.ID(); l != nil && r.SessionID != 0 && r.SessionID != id {
		err := fmt.Errorf("wire: connect request for session %#x on a connection of session %#x", r.SessionID, id)
		l.close(err)
		return err
	}
	return nil
}

func (c *libConn) request(l *link, frame []byte) {
	var h jute.RequestHeader
	if err := jute.Unmarshal(frame, &h); err != nil || h.Xid == jute.XidPing {
		return // we ping at our own pace
	}
	switch {
	case l == nil:
		c.agree(h)
	case len(frame) > c.s.cfg.MaxFrame:
		c.deliver(&jute.ReplyHeader{Xid: h.Xid, Err: jute.CodeMarshallingError}) // the server would close the connection on it
	case !l.forward(h, frame), h.Op == jute.OpCloseSession:
		c.miss(h) // the answer to a farewell may never come, and the library waits for it without end
	}
}

// Close is called by the library when it gives the connection up.
func (c *libConn) Close() error {
	c.mu.Lock()
	l := c.l
	c.finish(net.ErrClosed)
	c.mu.Unlock()
	c.once.Do(func() { close(c.left) })
	if l != nil {
		l.close(errLibraryClosed)
	}
	return nil
}

func (c *libConn) LocalAddr() net.Addr              { return libAddr{} }
func (c *libConn) RemoteAddr() net.Addr             { return libAddr{} }
func (c *libConn) SetDeadline(time.Time) error      { return nil }
func (c *libConn) SetReadDeadline(time.Time) error  { return nil }
func (c *libConn) SetWriteDeadline(time.Time) error { return nil }

type libAddr struct{}

func (libAddr) Network() string { return "curator" }
func (libAddr) String() string  { return "curator" }

// forward writes a frame of the library's. A watch of its own on a path where we have a persistent one would replace ours on servers before 3.9,
// so ours is armed again behind it. It returns false if the link is gone.
func (l *link) forward(h jute.RequestHeader, frame []byte) bool {
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link != l {
		return false
	}
	var again []*watchEntry
	switch h.Op {
	case jute.OpExists, jute.OpGetData, jute.OpGetChildren, jute.OpGetChildren2:
		var r jute.PathWatchRequest
		if jute.Unmarshal(frame[8:], &r) == nil && r.Watch {
			l.libWatches = true
			kind := Data
			if h.Op == jute.OpGetChildren || h.Op == jute.OpGetChildren2 {
				kind = Child
			}
			again = s.watches.shared(again, kind, r.Path)
		}
	case jute.OpSetWatches:
		var r jute.SetWatches
		if jute.Unmarshal(frame[8:], &r) == nil {
			l.libWatches = true
			again = s.watches.shared(again, Data, append(r.Data, r.Exist...)...)
			again = s.watches.shared(again, Child, r.Child...)
			// The library's zxid may be that of a reply on this connection, and changes in the gap would be lost.
			binary.BigEndian.PutUint64(frame[8:], uint64(l.since))
		}
	}
	l.remember(h, frame)
	l.append(&h, frame[8:])
	for _, e := range again {
		c := &Call{Op: jute.OpAddWatch, Body: jute.Marshal(&jute.PathIntRequest{Path: e.key.path, Value: e.mode})}
		c.Done = func(r Reply) {
			if r.Err == nil {
				s.reset(s.subscribers(e)) // between the two anything may have happened
			}
		}
		s.write(l, c)
	}
	return true
}

// guest is what the library holds of this link, nil if it does not.
func (l *link) guest() *libConn {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	return l.lib
}

// rawRecord is bytes that are encoded already.
type rawRecord []byte

func (r rawRecord) Encode(e *jute.Encoder) { e.Raw(r) }

// answerLibrary hands an answer to the library, if it is one.
func (l *link) answerLibrary(in incoming) error {
	s := l.s
	s.mu.Lock()
	s.maxZxid = max(s.maxZxid, in.head.Zxid)
	q := l.asked[in.head.Xid]
	delete(l.asked, in.head.Xid)
	l.heard = now()
	s.mu.Unlock()
	in.head.Zxid = 0 // the library keeps zxids without a lock, and has no use for them here
	switch {
	case in.skipped > 0:
		in.head.Err = jute.CodeMarshallingError // as for a request that is too large
	case in.head.Err != jute.CodeOK:
		in.body = nil // it does not look at it
	default:
		if err := jute.CheckReply(q.op, q.ops, in.body); err != nil {
			return fmt.Errorf("%w: the answer to %s: %w", ErrProtocol, jute.OpName(q.op), err)
		}
	}
	l.lib.deliver(&in.head, rawRecord(in.body))
	return nil
}

// remember notes a request of the library's, so that its answer can be judged. Session.mu is held.
func (l *link) remember(h jute.RequestHeader, frame []byte) {
	q := asked{op: h.Op}
	if h.Op == jute.OpMulti || h.Op == jute.OpMultiRead {
		var r jute.MultiRequest
		if jute.Unmarshal(frame[8:], &r) == nil {
			for _, one := range r.Ops {
				q.ops = append(q.ops, one.Op)
			}
		}
	}
	if l.asked == nil {
		l.asked = map[int32]asked{}
	}
	l.asked[h.Xid] = q
}

// asked is a request of the library's.
type asked struct {
	op  int32
	ops []int32 // of a multi: the operations that it consists of
}

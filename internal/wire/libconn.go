package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"sync"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// libConn is the connection that the library holds. Writes never fail and never block, deadlines do not
// count: when its link ends, Read says so, and that is all the library needs to know. (A write
// error at the wrong moment deadlocks the library.)
//
// After the session has ended there is no link. Then libConn plays a server that answers everything, so that
// the library's Close returns at once instead of waiting for a server that it cannot reach.
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
	once   sync.Once            // for left
	left   chan struct{}        // closed when the library has left: what it sends now goes over another
}

func newLibConn(s *Session, l *link) *libConn {
	c := &libConn{s: s, l: l, left: make(chan struct{})}
	c.more = sync.NewCond(&c.mu)
	return c
}

// welcome answers the library's connect request. Only the session knows its password.
func (c *libConn) welcome(timeout time.Duration, id int64) {
	ms := int32(timeout / time.Millisecond)
	c.deliver(&jute.ConnectResponse{Timeout: ms, SessionID: id, Password: make([]byte, 16)})
}

// deliver appends a frame for the library to read.
func (c *libConn) deliver(records ...jute.Record) { c.push(math.MaxInt, records...) }

// push is deliver, but it returns false, and delivers nothing, if the library would be behind by more than
// most bytes.
func (c *libConn) push(most int, records ...jute.Record) bool {
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

// retire turns the connection into one that answers everything, including requests that were written when the
// link was gone already. It says whether the library stays on it: not if it has failed before.
func (c *libConn) retire() (stays bool) {
	c.mu.Lock()
	c.l = nil
	stays = c.err == nil
	missed := c.missed
	c.missed = nil
	c.mu.Unlock()
	for _, h := range missed {
		c.answerEnded(h)
	}
	return stays
}

// miss keeps a request that came too late for its link: the library waits for an answer or for the
// connection's end.
func (c *libConn) miss(h jute.RequestHeader) {
	c.mu.Lock()
	live := c.l != nil
	if live {
		c.missed = append(c.missed, h)
	}
	c.mu.Unlock()
	if !live {
		c.answerEnded(h)
	}
}

// answerEnded answers a request after the session's end. The library presents its credentials before anything
// else, and gives up a connection that refuses them.
func (c *libConn) answerEnded(h jute.RequestHeader) {
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

// connect checks that the library's connect request means the same session (promise P2). Ours was sent and
// answered before the library got this connection.
func (c *libConn) connect(l *link, frame []byte) error {
	var r jute.ConnectRequest
	if err := jute.Unmarshal(frame, &r); err != nil {
		return err
	}
	if id := c.s.ID(); l != nil && r.SessionID != 0 && r.SessionID != id {
		err := fmt.Errorf("wire: go-zookeeper asked for session %#x on a connection of session %#x",
			r.SessionID, id)
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
		c.answerEnded(h)
	case len(frame) > c.s.cfg.MaxFrame:
		// The server would close the connection on it.
		c.deliver(&jute.ReplyHeader{Xid: h.Xid, Err: jute.CodeMarshallingError})
	case !l.forward(h, frame), h.Op == jute.OpCloseSession:
		c.miss(h) // the answer to closeSession may never come, and the library waits for it without limit
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

func (c *libConn) LocalAddr() net.Addr              { return libAddr }
func (c *libConn) RemoteAddr() net.Addr             { return libAddr }
func (c *libConn) SetDeadline(time.Time) error      { return nil }
func (c *libConn) SetReadDeadline(time.Time) error  { return nil }
func (c *libConn) SetWriteDeadline(time.Time) error { return nil }

var libAddr = &net.UnixAddr{Net: "curator", Name: "curator"}

// share is what the library has on a link. Session.mu guards it.
type share struct {
	conn    *libConn // the connection that the library holds; nil if it holds none
	watches bool     // it has watches of its own: it gets the events, too
	asked   map[int32]asked
}

// asked is a request of the library's.
type asked struct {
	op  int32
	ops []int32 // of a multi: the operations that it consists of
}

// libConn is the connection that the library holds of this link, nil if it holds none.
func (l *link) libConn() *libConn {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	return l.library.conn
}

// forward writes a frame of the library's. A watch of its own on a path with a persistent one of ours would
// replace ours on servers before 3.9, so ours is armed again after it. It returns false if the link is gone.
func (l *link) forward(h jute.RequestHeader, frame []byte) bool {
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.links.live != l {
		return false
	}
	var again []*watchEntry
	switch kind := ops[h.Op].arms; {
	case kind == Data, kind == Child:
		var r jute.PathWatchRequest
		if jute.Unmarshal(frame[8:], &r) == nil && r.Watch {
			l.library.watches = true
			again = s.watches.shared(again, kind, r.Path)
		}
	case h.Op == jute.OpSetWatches:
		var r jute.SetWatches
		if jute.Unmarshal(frame[8:], &r) == nil {
			l.library.watches = true
			again = s.watches.shared(again, Data, append(r.Data, r.Exist...)...)
			again = s.watches.shared(again, Child, r.Child...)
			// The library's zxid may be that of a reply on this connection, and changes in the gap would be
			// lost.
			binary.BigEndian.PutUint64(frame[8:], uint64(l.since))
		}
	}
	l.library.remember(h, frame)
	l.output.add(h.Xid, h.Op, frame[8:])
	for _, e := range again {
		body := jute.Marshal(&jute.PathIntRequest{Path: e.key.path, Value: int32(e.mode)})
		c := &Call{Op: jute.OpAddWatch, Body: body}
		c.Done = func(r Reply) {
			s.locked(func() (t todo) {
				if r.Err == nil {
					t.reset(e.subs) // between the two anything may have happened
				}
				return t
			})
		}
		s.write(l, c)
	}
	return true
}

// remember notes a request, so that its answer can be checked.
func (sh *share) remember(h jute.RequestHeader, frame []byte) {
	q := asked{op: h.Op}
	if h.Op == jute.OpMulti || h.Op == jute.OpMultiRead {
		var r jute.MultiRequest
		if jute.Unmarshal(frame[8:], &r) == nil {
			for _, one := range r.Ops {
				q.ops = append(q.ops, one.Op)
			}
		}
	}
	if sh.asked == nil {
		sh.asked = map[int32]asked{}
	}
	sh.asked[h.Xid] = q
}

// rawRecord is bytes that are encoded already.
type rawRecord []byte

func (r rawRecord) Fields(c *jute.Coder) { c.Raw(r) }

// answerLibrary hands an answer to the library.
func (l *link) answerLibrary(in incoming) error {
	s := l.s
	s.mu.Lock()
	s.identity.saw(in.head.Zxid)
	q, lib := l.library.asked[in.head.Xid], l.library.conn
	delete(l.library.asked, in.head.Xid)
	l.hears(now())
	s.mu.Unlock()
	in.head.Zxid = 0 // the library keeps zxids without a lock, and has no use for them here
	switch {
	case in.skipped > 0:
		in.head.Err = jute.CodeMarshallingError // as for a request that is too large
	case in.head.Err != jute.CodeOK:
		in.body = nil // it does not look at it
	default:
		if err := jute.CheckReply(q.op, q.ops, in.body); err != nil {
			return fmt.Errorf("%w: cannot decode the answer to %s: %w", ErrProtocol, OpName(q.op), err)
		}
	}
	lib.deliver(&in.head, rawRecord(in.body))
	return nil
}

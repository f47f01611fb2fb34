package hostile

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// trick is a change that the man in the middle makes to a frame.
type trick byte

const (
	flip trick = iota
	truncate
	lengthen
	wrongLength
	duplicate
	swap
	drop
	delay
	replay
	changeXid
	changeZxid
	changeCode
	setInt
	injectEvent
	injectReply
	injectPong
	injectAuth
	changeConnect
	oversize
	trickle
	hangUp
	halfOnly
	silence
	dropRequests
	repeatRequests
	noise
	flood
	refuseDials
	answerFor
	manyStrings
	tricks
)

var trickNames = [tricks]string{
	"flip", "truncate", "lengthen", "wrong length", "duplicate", "swap", "drop", "delay", "replay",
	"change xid", "change zxid", "change code", "set int",
	"inject event", "inject reply", "inject pong", "inject auth", "change connect response",
	"oversize", "trickle", "hang up", "half only", "silence",
	"drop requests", "repeat requests", "noise", "flood", "refuse dials", "answer for", "many strings",
}

// lying holds the tricks that count as lies about holds, whatever their result.
var lying = [tricks]bool{
	flip: true, changeXid: true, changeCode: true, setInt: true,
	injectEvent: true, injectPong: true, changeConnect: true,
	repeatRequests: true, answerFor: true, manyStrings: true,
}

// withholding holds the tricks that do not deliver the frame, so that it proves nothing to the client.
var withholding = [tricks]bool{truncate: true, swap: true, drop: true, halfOnly: true, silence: true}

// table holds the code of the tricks. An error ends the connection.
var table [tricks]struct {
	do func(l *line, f said, p step) error
}

func init() {
	set := func(k trick, do func(l *line, f said, p step) error) {
		table[k].do = func(l *line, f said, p step) error {
			if lying[k] {
				l.m.lie(aboutHolds | aboutState)
			}
			return do(l, f, p)
		}
	}
	set(flip, func(l *line, f said, p step) error {
		body := slices.Clone(f.body)
		if len(body) > 0 {
			body[(int(p.a)|int(p.c)<<8)%len(body)] ^= max(p.b, 1)
		}
		return l.say(framed(body))
	})
	set(truncate, func(l *line, f said, p step) error {
		return l.say(framed(f.body[:len(f.body)*int(p.a)/256]))
	})
	set(lengthen, func(l *line, f said, p step) error {
		return l.say(framed(slices.Concat(f.body, bytes.Repeat([]byte{p.b}, 1+int(p.a)*16))))
	})
	set(wrongLength, func(l *line, f said, p step) error {
		b := framed(f.body)
		right, off := int32(len(f.body)), int32(p.b)
		binary.BigEndian.PutUint32(b, uint32(pick(p.a, right-off, right+off, off, -1, math.MinInt32)))
		return l.say(b)
	})
	set(duplicate, func(l *line, f said, p step) error {
		l.again(f, f)
		for range 1 + int(p.a)%3 {
			if err := l.say(framed(f.body)); err != nil {
				return err
			}
		}
		return l.say(framed(f.body))
	})
	set(swap, func(l *line, f said, p step) error {
		l.m.lie(aboutState) // an event after the reply that it should precede
		l.held, l.heldAsked = f.body, f.asked
		return nil
	})
	set(drop, func(l *line, f said, p step) error {
		if f.xid == jute.XidNotification && !f.first {
			l.m.lie(aboutState)
		}
		return nil
	})
	set(delay, func(l *line, f said, p step) error {
		late := time.Duration(int(p.a)*int(p.b%4+1)) * 25 * time.Millisecond // up to 25 s
		if err := l.wait(late); err != nil {
			return err
		}
		return l.say(framed(f.body))
	})
	set(replay, func(l *line, f said, p step) error {
		old := l.m.older(int(p.a))
		l.again(old, f)
		if err := l.say(framed(old.body)); err != nil {
			return err
		}
		return l.say(framed(f.body))
	})
	set(changeXid, func(l *line, f said, p step) error {
		return l.patch(f, func(h *jute.ReplyHeader) { h.Xid = l.someXid(p) })
	})
	set(changeZxid, func(l *line, f said, p step) error {
		l.m.lie(aboutState) // with its zxid a client asks for the events that it has missed
		return l.patch(f, func(h *jute.ReplyHeader) {
			h.Zxid = pick(p.a, 0, -1, h.Zxid+1, h.Zxid-1, h.Zxid+1<<32,
				1<<62, math.MaxInt64, math.MinInt64, int64(p.b))
		})
	})
	set(changeCode, func(l *line, f said, p step) error {
		return l.patch(f, func(h *jute.ReplyHeader) { h.Err = someCode(p.a) })
	})
	set(setInt, func(l *line, f said, p step) error {
		body := slices.Clone(f.body)
		if at := 16 + pick(p.b&3, 0, 0, int(p.b>>2), int(p.b>>2)*4); at+4 <= len(body) {
			v := pick(p.a, -1, -2, math.MaxInt32, math.MinInt32, 0, 1, 2, 1000, 1<<20, 1<<28, 0x0fffffff,
				int32(len(body)), int32(p.c))
			binary.BigEndian.PutUint32(body[at:], uint32(v))
		}
		return l.say(framed(body))
	})
	set(injectEvent, func(l *line, f said, p step) error {
		zxid := pick[int64](p.c>>4, -1, 0, 1<<40)
		return l.inFront(f, &jute.ReplyHeader{Xid: jute.XidNotification, Zxid: zxid}, someEvent(p))
	})
	set(injectReply, func(l *line, f said, p step) error {
		xid := pick[int32](p.b, -5, -100, -999, -1000, math.MinInt32, -1_000_000_000)
		header := &jute.ReplyHeader{Xid: xid, Zxid: -int64(p.c & 1), Err: someCode(p.a)}
		return l.inFront(f, header, rest{p.c, p.b})
	})
	set(injectPong, func(l *line, f said, p step) error {
		code := pick(p.a, 0, 0, someCode(p.b))
		return l.inFront(f, &jute.ReplyHeader{Xid: jute.XidPing, Zxid: -1, Err: code})
	})
	set(injectAuth, func(l *line, f said, p step) error {
		xid := pick(p.b, jute.XidAuth, jute.XidSetWatches)
		code := pick(p.a, 0, jute.CodeAuthFailed, someCode(p.a))
		return l.inFront(f, &jute.ReplyHeader{Xid: xid, Err: code})
	})
	set(changeConnect, func(l *line, f said, p step) error {
		var r jute.ConnectResponse
		if !f.first || jute.Unmarshal(f.body, &r) != nil {
			r = jute.ConnectResponse{
				Timeout: 10_000, SessionID: 1, Password: make([]byte, 16), HasReadOnly: true,
			}
		}
		switch p.a % 8 {
		case 0:
			r.SessionID = pick[int64](p.b, 0, -1, r.SessionID+1, math.MaxInt64, math.MinInt64)
		case 1:
			r.Timeout = pick[int32](p.b, 0, -5, 1, 10, 100, 1000, 4000, 60_000, math.MaxInt32, math.MinInt32)
		case 2:
			long, longer := bytes.Repeat([]byte("0123456789abcdef"), 60), make([]byte, 4000)
			r.Password = pick(p.b, nil, []byte{}, []byte("short"), longer, long)
		case 3:
			r.ReadOnly = !r.ReadOnly
		case 4:
			r.HasReadOnly = false
		case 5:
			r.ProtocolVersion = int32(p.b) << 24
		case 6:
			r.SessionID, r.Timeout = 0, 0
		case 7:
			r.SessionID, r.Timeout, r.ReadOnly = int64(p.b)<<32, int32(p.c)*100, p.c%2 == 0
		}
		if err := l.say(jute.Frame(&r)); err != nil || f.first {
			return err
		}
		return l.say(framed(f.body))
	})
	set(oversize, func(l *line, f said, p step) error {
		n := pick(p.a, 256<<20, 256<<20+1, math.MaxInt32, 64<<20, 4097, 1<<24)
		if err := l.say(binary.BigEndian.AppendUint32(nil, uint32(n))); err != nil {
			return err
		}
		if err := l.say(f.body); err != nil {
			return err
		}
		return l.wait(time.Duration(p.b) * 100 * time.Millisecond)
	})
	set(trickle, func(l *line, f said, p step) error {
		b, n := framed(f.body), 1+int(p.b%16)
		for len(b) > 0 {
			n = min(n, len(b))
			if err := l.say(b[:n]); err != nil {
				return err
			}
			b = b[n:]
			between := time.Duration(p.a) * 10 * time.Millisecond // up to 2.5 s
			if err := l.wait(between); err != nil {
				return err
			}
		}
		return nil
	})
	set(hangUp, func(l *line, f said, p step) error {
		if p.a%2 == 0 {
			_ = l.say(framed(f.body))
		}
		return io.EOF
	})
	set(halfOnly, func(l *line, f said, p step) error {
		b := framed(f.body)
		if err := l.say(b[:len(b)*int(p.a)/256]); err != nil {
			return err
		}
		if p.b%2 == 0 {
			return io.EOF
		}
		<-l.done // this connection delivers nothing more
		return io.EOF
	})
	set(silence, func(l *line, f said, p step) error {
		if p.b%2 == 0 {
			<-l.done
		}
		return l.wait(time.Duration(p.a) * time.Second)
	})
	set(dropRequests, func(l *line, f said, p step) error {
		l.mu.Lock()
		l.drop = 1 + int(p.a%4)
		l.mu.Unlock()
		return l.say(framed(f.body))
	})
	set(repeatRequests, func(l *line, f said, p step) error {
		l.mu.Lock()
		l.twice = 1 + int(p.a%4)
		l.mu.Unlock()
		return l.say(framed(f.body))
	})
	set(noise, func(l *line, f said, p step) error {
		if f.first {
			l.m.lie(aboutHolds | aboutState) // the client may read it as a session
		}
		r, b := rand.New(rand.NewPCG(uint64(p.a), uint64(p.b))), make([]byte, 1+int(p.c))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		if p.b%2 == 0 {
			b = framed(b)
		}
		if err := l.say(b); err != nil {
			return err
		}
		return l.say(framed(f.body))
	})
	set(flood, func(l *line, f said, p step) error {
		what := jute.EventNodeDataChanged
		if p.b%2 == 0 {
			what = jute.EventNodeChildrenChanged
		}
		b := jute.Frame(
			&jute.ReplyHeader{Xid: jute.XidNotification, Zxid: -1},
			&jute.WatcherEvent{Type: what, State: jute.StateSyncConnected, Path: somePath(p.c & 7)},
		)
		return l.say(append(bytes.Repeat(b, 1+int(p.a)*8), framed(f.body)...))
	})
	set(refuseDials, func(l *line, f said, p step) error {
		l.m.mu.Lock()
		l.m.refuse = int(int8(p.a)) / 8
		l.m.mu.Unlock()
		return io.EOF
	})
	set(answerFor, func(l *line, f said, p step) error {
		l.mu.Lock()
		var r request
		if len(l.waiting) > 0 {
			r = l.waiting[0]
		}
		l.mu.Unlock()
		header := &jute.ReplyHeader{Xid: r.xid, Zxid: int64(p.c), Err: pick(p.a, 0, 0, someCode(p.a))}
		return l.inFront(f, header, rest{p.c, p.b})
	})
	set(manyStrings, func(l *line, f said, p step) error {
		n := int(p.a) << (p.b % 9) // up to 65,000
		name := pick(p.c, "", "x", "a/b", "\x00", "..", "lock-0000000001")
		list := jute.Children2Response{Children: slices.Repeat([]string{name}, n)}
		return l.say(framed(slices.Concat(f.body[:min(16, len(f.body))], jute.Marshal(&list))))
	})
}

// again records the lies that a repetition of old on the line of f may amount to. A surplus pong counts as the reply to a
// later ping, and replies of another session may have this session's xids.
func (l *line) again(old, f said) {
	switch {
	case f.first && old.line != f.line: // any earlier session
		l.m.lie(aboutHolds | aboutState)
	case old.first: // a connect response in place of a reply reads as a reply with an odd zxid
		l.m.lie(aboutState)
	case old.xid == jute.XidPing, old.xid >= 0:
		l.m.lie(aboutHolds | aboutState)
	case old.line != f.line && old.xid <= -1000:
		l.m.lie(aboutHolds | aboutState)
	}
}

// patch sends a frame with another header.
func (l *line) patch(f said, change func(*jute.ReplyHeader)) error {
	var h jute.ReplyHeader
	if len(f.body) < 16 || jute.Unmarshal(f.body, &h) != nil {
		return l.say(framed(f.body))
	}
	change(&h)
	return l.say(framed(slices.Concat(jute.Marshal(&h), f.body[16:])))
}

// inFront sends a frame of its own, and then the frame. Before a connect response the client takes it for that response.
func (l *line) inFront(f said, records ...jute.Record) error {
	if err := l.say(jute.Frame(records...)); err != nil {
		return err
	}
	return l.say(framed(f.body))
}

func (l *line) someXid(p step) int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.a%2 == 0 && len(l.waiting) > 0 {
		return l.waiting[int(p.b)%len(l.waiting)].xid
	}
	return pick(p.b,
		jute.XidNotification, jute.XidPing, jute.XidAuth, jute.XidSetWatches,
		0, 1, -1000, -1001, -1002, math.MinInt32, math.MaxInt32)
}

func someCode(n byte) int32 {
	return pick(n,
		0, jute.CodeNoNode, jute.CodeNodeExists, jute.CodeSessionExpired, jute.CodeSessionClosedRequireSASL,
		jute.CodeAuthFailed, jute.CodeUnimplemented, jute.CodeNoAuth, jute.CodeSessionMoved,
		jute.CodeNotReadOnly, jute.CodeThrottledOp, jute.CodeConnectionLoss, jute.CodeBadVersion,
		jute.CodeMarshallingError, jute.CodeInvalidACL, jute.CodeOperationTimeout,
		1<<30, math.MinInt32, 7)
}

func someEvent(p step) *jute.WatcherEvent {
	return &jute.WatcherEvent{
		Type: pick(p.a,
			jute.EventNodeCreated, jute.EventNodeDeleted,
			jute.EventNodeDataChanged, jute.EventNodeChildrenChanged,
			jute.EventDataWatchRemoved, jute.EventChildWatchRemoved, jute.EventPersistentRemoved,
			jute.EventNone, 0, 99, math.MinInt32),
		State: pick(p.b,
			jute.StateSyncConnected, jute.StateDisconnected, jute.StateAuthFailed,
			jute.StateConnectedReadOnly, jute.StateExpired, 77),
		Path: somePath(p.c),
	}
}

// somePath returns a path that the client uses, or one that does not exist.
func somePath(n byte) string {
	return pick(n&15,
		"/tree", "/tree/3", "/tree/3/1", "/node", "/lock", "/lease/leases", "/many", "/",
		"", "tree", "/tree/", "/tree//3", "/tree/../x", "/tree/\x00\x1b[31m",
		strings.Repeat("/long", 400), "/tree/none")
}

// rest is a body of sorts.
type rest struct{ fill, n byte }

func (r rest) Fields(c *jute.Coder) { c.Raw(bytes.Repeat([]byte{r.fill}, int(r.n))) }

func pick[T any, N byte](n N, of ...T) T { return of[int(n)%len(of)] }

package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/go-curator/curator/internal/jute"
)

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
	switch h.Op {
	case jute.OpExists, jute.OpGetData, jute.OpGetChildren, jute.OpGetChildren2:
		var r jute.PathWatchRequest
		if jute.Unmarshal(frame[8:], &r) == nil && r.Watch {
			l.library.watches = true
			kind := Data
			if h.Op == jute.OpGetChildren || h.Op == jute.OpGetChildren2 {
				kind = Child
			}
			again = s.watches.shared(again, kind, r.Path)
		}
	case jute.OpSetWatches:
		var r jute.SetWatches
		if jute.Unmarshal(frame[8:], &r) == nil {
			l.library.watches = true
			again = s.watches.shared(again, Data, append(r.Data, r.Exist...)...)
			again = s.watches.shared(again, Child, r.Child...)
			// The library's zxid may be that of a reply on this connection, and changes in the gap would be lost.
			binary.BigEndian.PutUint64(frame[8:], uint64(l.since))
		}
	}
	l.library.remember(h, frame)
	l.output.add(h.Xid, h.Op, frame[8:])
	for _, e := range again {
		c := &Call{Op: jute.OpAddWatch, Body: jute.Marshal(&jute.PathIntRequest{Path: e.key.path, Value: e.mode})}
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
	s.identity.zxid = max(s.identity.zxid, in.head.Zxid)
	q, lib := l.library.asked[in.head.Xid], l.library.conn
	delete(l.library.asked, in.head.Xid)
	l.pulse.heard = now()
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
	lib.deliver(&in.head, rawRecord(in.body))
	return nil
}

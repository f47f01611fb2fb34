package wire

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// The requests and watches of the Guest (session.go), which is go-zookeeper.

var errGuestEnded = errors.New("go-zookeeper's connection was closed")

// Invite makes g the session's guest; call it once. live is closed when the live connection ends, nil if there is none.
// invited is false if the session has ended; then g.Ended was called.
func (s *Session) Invite(g Guest) (live <-chan struct{}, invited bool) {
	s.mu.Lock()
	err, l := s.ending.err, s.connections.live
	if err == nil {
		s.connections.guest = g
		s.wg.Go(func() {
			g.Serve()
			s.endSession(errGuestEnded)
		})
	}
	s.mu.Unlock()
	switch {
	case err != nil:
		g.Ended(errors.Is(err, ErrExpired))
		return nil, false
	case l != nil:
		live = l.end.ctx.Done()
	}
	return live, true
}

// WithConnection calls f with Session.mu held, if there is a live connection: with its number and server, and the session's
// timeout and id.
func (s *Session) WithConnection(f func(number uint64, server string, timeout time.Duration, id int64)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.connections.live; l != nil {
		f(l.number, l.server, s.effectiveTimeout(), s.identity.id)
	}
}

// Disconnect ends a connection, if it is the live one.
func (s *Session) Disconnect(number uint64, why error) {
	if l := s.liveConnection(); l != nil && l.number == number {
		l.closeWith(why)
	}
}

// Go runs f on a goroutine that Wait waits for. It is for the guest, until Ended has returned.
func (s *Session) Go(f func()) { s.wg.Go(f) }

// Forward writes a guest's request, and returns false if the connection is not the live one. On servers before 3.9 a
// guest's watch replaces the session's persistent watch on the same path, so that is armed again after it.
func (s *Session) Forward(number uint64, h jute.RequestHeader, body []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.connections.live
	if l == nil || l.number != number {
		return false
	}
	var replaced []*watchEntry
	switch kind := operations[h.Op].arms; {
	case kind == Data, kind == Child:
		var r jute.PathWatchRequest
		if jute.Unmarshal(body, &r) == nil && r.Watch {
			l.guestWatches = true
			replaced = s.watches.recordGuestWatches(replaced, kind, r.Path)
		}
	case h.Op == jute.OpSetWatches:
		var r jute.SetWatches
		if jute.Unmarshal(body, &r) == nil {
			l.guestWatches = true
			replaced = s.watches.recordGuestWatches(replaced, Data, append(r.Data, r.Exist...)...)
			replaced = s.watches.recordGuestWatches(replaced, Child, r.Child...)
			// The guest's zxid may be of a reply on this connection. Then no watch would fire for the gap before it.
			binary.BigEndian.PutUint64(body, uint64(l.gapZxid))
		}
	}
	l.output.addFrame(h.Xid, h.Op, body)
	for _, e := range replaced {
		body := jute.Marshal(&jute.PathIntRequest{Path: e.key.path, Value: int32(e.mode)})
		c := &Call{Op: jute.OpAddWatch, Body: body}
		c.Done = func(r Reply) {
			s.withLock(func() (t callbackList) {
				if r.Err == nil {
					t.addGapEvents(e.subscribers) // changes between the guest's request and this have no event
				}
				return t
			})
		}
		s.writeCall(l, c)
	}
	return true
}

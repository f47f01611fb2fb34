package wire

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

var errGuestEnded = errors.New("go-zookeeper's connection was closed")

// Invite makes g the session's guest, once. live ends with the live connection, nil if there is none. invited is false
// if the session has ended, which is reported to g.
func (s *Session) Invite(g Guest) (live <-chan struct{}, invited bool) {
	s.mu.Lock()
	err, l := s.ending.err, s.links.live
	if err == nil {
		s.links.guest = g
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

// Live calls f with the live connection, if there is one, and with the session's timeout and id. Session.mu is held.
func (s *Session) Live(f func(link uint64, server string, timeout time.Duration, id int64)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.links.live; l != nil {
		f(l.number, l.server, s.effectiveTimeout(), s.identity.id)
	}
}

// Disconnect ends a connection, if it is the live one.
func (s *Session) Disconnect(link uint64, why error) {
	if l := s.liveLink(); l != nil && l.number == link {
		l.closeWith(why)
	}
}

// Go runs f on a goroutine that Wait waits for. It is for the guest, until Ended has returned.
func (s *Session) Go(f func()) { s.wg.Go(f) }

// Forward writes a guest's request, and returns false if the connection is not the live one. On servers before 3.9 a
// guest's watch replaces the session's persistent watch on the same path, so that is armed again after it.
func (s *Session) Forward(link uint64, h jute.RequestHeader, body []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.links.live
	if l == nil || l.number != link {
		return false
	}
	var again []*watchEntry
	switch kind := operations[h.Op].arms; {
	case kind == Data, kind == Child:
		var r jute.PathWatchRequest
		if jute.Unmarshal(body, &r) == nil && r.Watch {
			l.guestWatches = true
			again = s.watches.shareWithGuest(again, kind, r.Path)
		}
	case h.Op == jute.OpSetWatches:
		var r jute.SetWatches
		if jute.Unmarshal(body, &r) == nil {
			l.guestWatches = true
			again = s.watches.shareWithGuest(again, Data, append(r.Data, r.Exist...)...)
			again = s.watches.shareWithGuest(again, Child, r.Child...)
			// The guest's zxid may come from a reply on this connection, and changes in the gap would be lost.
			binary.BigEndian.PutUint64(body, uint64(l.watchZxid))
		}
	}
	l.output.addFrame(h.Xid, h.Op, body)
	for _, e := range again {
		body := jute.Marshal(&jute.PathIntRequest{Path: e.key.path, Value: int32(e.mode)})
		c := &Call{Op: jute.OpAddWatch, Body: body}
		c.Done = func(r Reply) {
			s.withLock(func() (t callbackList) {
				if r.Err == nil {
					t.addResets(e.subscribers) // between the two anything may have happened
				}
				return t
			})
		}
		s.writeCall(l, c)
	}
	return true
}

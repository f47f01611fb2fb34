package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// Guest is another client library that shares the session (internal/guest). Its requests share the session's
// connections, with xids from 0 up, and it never opens one. The methods identify a connection by its number.
type Guest interface {
	// Serve returns when the guest has ended. If the session has not, it ends then.
	Serve()
	// NewLink is called for each new connection. Session.mu is held.
	NewLink()
	// Asked returns the operation of a guest's request in flight. Session.mu is held.
	Asked(link uint64, xid int32) (code int32, known bool)
	// Answer delivers the reply to a request that the guest has asked; skipped: it was larger than allowed. With an error the
	// reply is malformed.
	Answer(link uint64, h jute.ReplyHeader, body []byte, skipped bool) error
	// Event delivers a watch event. With an error the guest is too far behind.
	Event(link uint64, h jute.ReplyHeader, ev jute.WatcherEvent) error
	// Disconnected reports that a connection has ended, and why. last means that there will be no other. It returns
	// when the guest sends nothing for that connection any more, after a short time at most.
	Disconnected(link uint64, why error, last bool)
	// Ended reports that the session has ended; expired means that a server has reported it expired.
	Ended(expired bool)
}

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
			s.end(errGuestEnded)
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
		f(l.n, l.server, s.validity.timeout(s.identity.timeout), s.identity.id)
	}
}

// Disconnect ends a connection, if it is the live one.
func (s *Session) Disconnect(link uint64, why error) {
	if l := s.live(); l != nil && l.n == link {
		l.close(why)
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
	if l == nil || l.n != link {
		return false
	}
	var again []*watchEntry
	switch kind := ops[h.Op].arms; {
	case kind == Data, kind == Child:
		var r jute.PathWatchRequest
		if jute.Unmarshal(body, &r) == nil && r.Watch {
			l.guestWatches = true
			again = s.watches.shared(again, kind, r.Path)
		}
	case h.Op == jute.OpSetWatches:
		var r jute.SetWatches
		if jute.Unmarshal(body, &r) == nil {
			l.guestWatches = true
			again = s.watches.shared(again, Data, append(r.Data, r.Exist...)...)
			again = s.watches.shared(again, Child, r.Child...)
			// The guest's zxid may come from a reply on this connection, and changes in the gap would be lost.
			binary.BigEndian.PutUint64(body, uint64(l.since))
		}
	}
	l.output.add(h.Xid, h.Op, body)
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

// answerGuest handles the reply to a request of the guest's.
func (l *link) answerGuest(in incoming) error {
	s := l.s
	s.mu.Lock()
	s.identity.saw(in.head.Zxid)
	l.hears(now())
	g := s.links.guest
	code, _ := g.Asked(l.n, in.head.Xid)
	s.mu.Unlock()
	if err := g.Answer(l.n, in.head, in.body, in.skipped > 0); err != nil {
		return fmt.Errorf("%w: cannot decode the answer to %s: %w", ErrProtocol, OpName(code), err)
	}
	return nil
}

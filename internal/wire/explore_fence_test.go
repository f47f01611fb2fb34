package wire

import (
	"errors"
	"testing"
	"time"

	"github.com/go-curator/curator/internal/explore"
)

// The model of a client's earlier sessions, and of what may be left of them. It calls openFences.keepNewest, dueForClosing
// and recordTry, and sessionIdentity.beginHandshake, endHandshake, recordConnection and mayOutlive; it simulates the
// servers, the network, closeEarlierSessions, Session.Close and the owner, who passes the sessions that have ended to the
// next one (framework's onSessionLost).
//
// Bounds: three sessions, three handshakes whose reply is lost, three attempts to close a session that fail (executed or
// not), one member without a quorum. A request that was written to a connection is executed at any time while its session
// lives, and no later than Fence.Until, by the definition of that. A session ends at the servers when it was not connected
// for its timeout, or was closed; a leader that has lost its quorum may also report it expired while it lives on.
//
// Not modelled: more than maxFences sessions, logins, calls (each belongs to the Session that it was submitted to).
//
// Never: a write is executed after a write of a later session; a session is announced while an earlier one lives that was
// not left to expire, or while a request of an earlier one may still be executed; Close returns nil while a session may be
// left. Always possible: a connected session, or Close.

const sessions = 3

type linkPhase int8

const (
	down linkPhase = iota
	greeting
	fencing // a server has accepted the session, and earlier ones are closed
	up
	upReadOnly
	ended // by Close
)

// ours is a session of the client at the servers.
type ours struct {
	lives   bool
	written bool // a write of the session is in a socket
	past    bool // Until has passed: no write is in a socket any more
}

// left is an entry of openFences.
type left struct {
	is, abandoned bool
	tries         int8
}

type fenceState struct {
	n     int8 // the client's session, from 0
	phase linkPhase
	all   [sessions]ours
	// stray: a handshake whose reply was lost has opened a session that lives. Nothing was sent in it. Close reports it as
	// long as the client's session has had no connection to a quorum.
	stray bool
	left  [sessions]left

	// identity:
	known, local    bool // it has an id; only a member without a quorum has the session
	agreed, unsure  bool
	handshaking     bool
	strays          int8
	writer          int8 // the latest session that had a write executed
	lost, fails, ro int8 // how many lost replies, failures, and members without a quorum are left
	fault           string
}

var errFence = errors.New("no answer")

// identity returns the client's identity, as a value of the library's own type.
func (s *fenceState) identity() *sessionIdentity {
	i := &sessionIdentity{quorumConfirmed: s.agreed, maybeOpened: s.unsure, straySessions: int(s.strays)}
	if s.known {
		i.id = int64(s.n) + 1
	}
	if s.handshaking {
		i.handshake = make(chan struct{})
	}
	return i
}

// with applies f to the identity.
func (s *fenceState) with(f func(i *sessionIdentity)) {
	i := s.identity()
	f(i)
	s.known, s.agreed, s.unsure = i.id != 0, i.quorumConfirmed, i.maybeOpened
	s.handshaking, s.strays = i.handshake != nil, int8(min(i.straySessions, 2))
}

// until returns Fence.Until: 1 if it is still to come, -1 if it has passed. Now is 0.
func (s *fenceState) until(n int8) time.Time {
	if s.all[n].past {
		return time.Unix(-1, 0)
	}
	return time.Unix(1, 0)
}

func (s *fenceState) fences() *openFences {
	f := &openFences{}
	for n, l := range s.left {
		if l.is {
			f.open = append(f.open, Fence{
				SessionID: int64(n) + 1, Until: s.until(int8(n)), tries: int(l.tries), abandoned: l.abandoned,
			})
		}
	}
	return f
}

func (s *fenceState) keep(f *openFences) {
	s.left = [sessions]left{}
	for _, old := range f.open {
		s.left[old.SessionID-1] = left{true, old.abandoned, int8(min(old.tries, fenceTries))}
	}
}

// due returns the next session to close, or -1.
func (s *fenceState) due() int8 {
	if due := s.fences().dueForClosing(); len(due) > 0 {
		return int8(due[0].SessionID) - 1
	}
	return -1
}

// goes ends a session at the servers, with its write in flight.
func (s *fenceState) goes(n int8) { s.all[n].lives, s.all[n].written = false, false }

func (s *fenceState) execute(n int8) {
	if s.all[n].written = false; n < s.writer {
		s.fault = "a write is executed after one of a later session"
	}
	s.writer = n
}

// fail ends an attempt to connect.
func (s *fenceState) fail() {
	if s.phase = down; !s.known && s.all[s.n].lives { // the session that was opened is not used
		s.goes(s.n)
		s.stray = true
	}
	s.with((*sessionIdentity).endHandshake)
}

// connect announces the session, as accept does after the earlier sessions are closed.
func (s *fenceState) connect() {
	for n, old := range s.all[:s.n] {
		switch {
		case old.written:
			s.fault = "a session is announced, and a request of an earlier one may still be executed"
		case old.lives && !s.left[n].abandoned:
			s.fault = "a session is announced, and an earlier one lives"
		}
	}
	s.phase = up
	s.with(func(i *sessionIdentity) { i.recordConnection(int64(s.n)+1, nil, 0, true) })
	s.with((*sessionIdentity).endHandshake)
}

// over makes the client open its next session.
func (s *fenceState) over() {
	f := s.fences()
	all := f.listOpen()
	if s.agreed {
		all = append(all, Fence{SessionID: int64(s.n) + 1})
	}
	f.keepNewest(all)
	s.keep(f)
	s.stray = false
	s.phase, s.known, s.local, s.agreed, s.unsure, s.handshaking, s.strays = down, false, false, false, false, false, 0
	s.n++
}

// closed ends Close.
func (s *fenceState) closed(clean bool) {
	s.phase = ended
	if !clean {
		return
	}
	for n := range s.n + 1 {
		if s.all[n].lives {
			s.fault = "Close says that nothing is left, and a session lives"
		}
	}
	if s.stray && !s.agreed {
		s.fault = "Close says that nothing is left, and a handshake has left a session"
	}
}

func (s fenceState) next(step func(string, fenceState)) {
	do := func(what string, f func(s *fenceState)) {
		next := s
		f(&next)
		step(what, next)
	}
	for n := range s.n + 1 {
		if s.all[n].written {
			do("a write is executed", func(s *fenceState) { s.execute(n) })
		}
		if s.all[n].lives && (n < s.n || s.phase == down || s.phase == ended) {
			do("a session expires", func(s *fenceState) { s.goes(n) })
		}
		if n < s.n && !s.all[n].past {
			do("nothing of a session can be under way any more", func(s *fenceState) {
				s.all[n].written, s.all[n].past = false, true
			})
		}
	}
	s.handshake(do)
	switch s.phase {
	case fencing:
		s.fence(do)
	case up:
		if !s.all[s.n].written {
			do("writes", func(s *fenceState) { s.all[s.n].written = true })
		}
	}
	if s.phase == up || s.phase == upReadOnly {
		do("loses the connection", func(s *fenceState) { s.phase = down })
	}
	if s.phase != ended && s.known && s.n+1 < sessions {
		do("its session's time is over", func(s *fenceState) { s.over() })
	}
	s.close(do)
}

func (s fenceState) handshake(do func(string, func(s *fenceState))) {
	switch s.phase {
	case down:
		do("begins a handshake", func(s *fenceState) {
			s.phase = greeting
			s.with((*sessionIdentity).beginHandshake)
		})
	case greeting:
		do("the request is not sent", func(s *fenceState) {
			s.unsure = false // clearStray
			s.fail()
		})
		if s.lost > 0 {
			do("the request is lost", func(s *fenceState) { s.lost--; s.fail() })
			if !s.known {
				do("a session is opened, and the answer lost", func(s *fenceState) {
					s.lost--
					s.stray = true
					s.fail()
				})
			}
		}
		if s.ro > 0 {
			do("a member without a quorum answers", func(s *fenceState) {
				s.ro--
				s.local = !s.known
				s.unsure = false // clearStray
				s.phase = upReadOnly
				s.with(func(i *sessionIdentity) { i.recordConnection(int64(s.n)+1, nil, 0, false) })
				s.with((*sessionIdentity).endHandshake)
			})
		}
		switch {
		case !s.known:
			do("a session is opened", func(s *fenceState) {
				s.all[s.n].lives = true
				s.phase = fencing
			})
		case s.all[s.n].lives:
			do("the session is confirmed", func(s *fenceState) { s.phase = fencing })
		}
		if s.known && s.n+1 < sessions {
			do("the session is called expired", func(s *fenceState) { s.over() }) // also if the session lives on
		}
		if s.known && s.n+1 == sessions && !s.all[s.n].lives {
			do("the last session has expired", func(s *fenceState) { s.closed(false) })
		}
	}
}

// fence closes the sessions that are due, one at a time.
func (s fenceState) fence(do func(string, func(s *fenceState))) {
	n := s.due()
	if n < 0 {
		do("connected", func(s *fenceState) { s.connect() })
		return
	}
	try := func(s *fenceState, err error) (stop error) {
		f := s.fences()
		stop, _ = f.recordTry(Fence{SessionID: int64(n) + 1, Until: s.until(n)}, err, time.Unix(0, 0))
		s.keep(f)
		return stop
	}
	do("closes an earlier session", func(s *fenceState) {
		s.goes(n)
		_ = try(s, nil)
	})
	if s.fails == 0 && !s.left[n].abandoned && s.left[n].tries == 0 {
		return
	}
	for _, executed := range []bool{false, true} {
		do("cannot close an earlier session", func(s *fenceState) {
			s.fails = max(s.fails-1, 0)
			if executed {
				s.goes(n)
			}
			if try(s, errFence) != nil {
				s.fail()
			}
		})
	}
}

// close steps through Session.Close.
func (s fenceState) close(do func(string, func(s *fenceState))) {
	nothing := func(s *fenceState) bool { return len(s.fences().listOpen()) == 0 && !s.identity().mayOutlive() }
	switch s.phase {
	case up:
		do("Close, acknowledged", func(s *fenceState) {
			if s.all[s.n].written {
				s.execute(s.n)
			}
			s.goes(s.n)
			s.closed(len(s.fences().listOpen()) == 0)
		})
		if len(s.fences().listOpen()) > 0 {
			do("Close, acknowledged, and so for those left to expire", func(s *fenceState) {
				for _, f := range s.fences().listOpen() {
					s.goes(int8(f.SessionID) - 1)
				}
				s.goes(s.n)
				s.closed(true)
			})
		}
	case down, upReadOnly, greeting:
		do("Close, without a connection to a quorum", func(s *fenceState) { s.closed(nothing(s)) })
	}
}

func leftOver() explore.Model[fenceState] {
	return explore.Model[fenceState]{
		Start: []fenceState{{lost: 2, fails: 4, ro: 1}},
		Next:  func(s fenceState, step func(string, fenceState)) { s.next(step) },
		Wrong: func(s fenceState) string { return s.fault },
		Final: func(s fenceState) bool { return s.phase == up || s.phase == ended },
	}
}

func TestExploreFence(t *testing.T) {
	explore.Test(t, leftOver(), "no fence", "a handshake without an answer is forgotten")
}

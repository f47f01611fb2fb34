package counter

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/explore"
	"github.com/go-curator/curator/recipes/internal/mark"
)

// The model of Add: two clients add to one number, each one at a time, with marks. It calls mark.Meaning,
// unknownTries.afterWriteAttempt, afterRead, afterMarkLoss and finalError, and lostRace; it simulates the requests, the servers,
// sessions, and an administrator that deletes marks.
//
// Bounds: adds per client, connections that are lost with a write in flight (which is executed, or not, or later, until the
// client is connected again), sessions that expire, marks that the administrator deletes, and calls whose context ends. The
// member that replies to reads lags by at most one change, but not behind the changes that the client has seen.
//
// Not modelled: the node's deletion, marks that other clients write to, creates of marks with lost replies, overflow.
//
// Never: a call is executed twice; a call returns nil and was not executed; a call returns an error that does not match
// ErrOutcomeUnknown, and was executed or is executed later. If only replies are lost, no outcome is unknown. So the
// administrator's delete of a mark makes an outcome unknown, but never the number wrong. Always possible: each call returns.

const adders = 2

type phase int8

const (
	atRest phase = iota
	toRead
	trying  // about to send the write
	sent    // it is in flight
	away    // its connection is lost
	goneOff // the call's context has ended, and its write may still be executed
)

// adding is a client.
type adding struct {
	phase   phase
	left    int8 // adds left, with this one
	from    int8 // the version that was read; it implies the value while all clients add 1
	seen    int8 // the highest version seen
	made    bool // the mark is created, as far as the client knows
	marked  bool // the mark exists
	ahead   int8 // the mark's version minus the one that the next write expects
	none    bool // no mark is possible
	renewed bool // the session is another than in the last try
	later   int8 // a write that may still be executed: 0 none, 1 with the mark, 2 without one
	d       unknownTries
	done    int8 // how often this call is executed
}

type addsState struct {
	version int8
	a       [adders]adding
	left    struct{ cuts, losses, deletions, leaving int8 }
	blame   bool // a fault has happened that may make an outcome unknown
	fault   string
}

func refusedAt(index int, err error) error {
	return &framework.TransactionError{Index: index, Op: "setData", Err: err}
}

var (
	markGone     = refusedAt(0, framework.ErrNoNode)
	markChanged  = refusedAt(0, framework.ErrBadVersion)
	nodeChanged  = refusedAt(1, framework.ErrBadVersion)
	onlyChanged  = refusedAt(0, framework.ErrBadVersion) // without a mark
	errReplyLost = fmt.Errorf("%w: %w", framework.ErrConnectionLoss, framework.ErrOutcomeUnknown)
)

// execute plays the execution of a client's write, and returns the reply.
func (s *addsState) execute(i int, marked bool) error {
	a := &s.a[i]
	switch {
	case marked && !a.marked:
		return markGone
	case marked && a.ahead != 0:
		return markChanged
	case s.version != a.from && marked:
		return nodeChanged
	case s.version != a.from:
		return onlyChanged
	case marked:
		a.ahead++
	}
	s.version++
	if a.done++; a.done > 1 {
		s.fault = "executed twice"
	}
	return nil
}

// stat returns the node's properties at a version.
func stat(version int8) framework.Stat {
	return framework.Stat{Version: int32(version), Mzxid: int64(version) + 1, Czxid: 1}
}

// try starts a try: it reads the node first if the session is a new one.
func (s *addsState) try(i int, read int8) {
	a := &s.a[i]
	a.later = 0
	if a.renewed {
		a.renewed = false
		a.d = a.d.afterMarkLoss()
		if err := s.compare(i, read); err != nil {
			s.ends(i, err)
			return
		}
	}
	if !a.none && !a.made {
		a.made, a.marked, a.ahead = true, true, 0
	}
	a.phase = sent
}

func (s *addsState) compare(i int, read int8) (err error) {
	a := &s.a[i]
	a.seen = max(a.seen, read)
	a.d, err = a.d.afterRead(stat(a.from), []byte{byte(a.from) + 1}, nodeContent{[]byte{byte(read)}, stat(read)})
	return err
}

// answered plays a client's handling of the reply to its write. The client's member has executed it, and so all writes before.
func (s *addsState) answered(i int, err error) {
	a := &s.a[i]
	m := mark.Mark{Forbidden: a.none}
	var then nextWriteStep
	a.d, then = a.d.afterWriteAttempt(m.OutcomeOf(err, a.d.withMark), err, a.none)
	switch then {
	case writeExecuted:
		a.ahead = 0
		s.ends(i, nil)
	case attemptEnds:
		if errors.Is(err, framework.ErrConnectionLoss) {
			a.phase = away
			return
		}
		s.ends(i, err)
	case comparesNode:
		if err := s.compare(i, s.version); err != nil {
			s.ends(i, err)
		} else {
			s.ends(i, errUndecided)
		}
	case forgetsMark:
		a.made, a.marked = false, false
		s.ends(i, errMarkGone)
	}
}

// ends plays the end of a write with the error of its last try.
func (s *addsState) ends(i int, err error) {
	a := &s.a[i]
	err = a.d.finalError(err)
	if a.d.withMark {
		a.made, a.marked = false, false // forgotten
	}
	unknown := errors.Is(err, framework.ErrOutcomeUnknown)
	switch {
	case err == nil && a.done != 1:
		s.fault = "it says that it has added, and was not executed"
	case err != nil && !unknown && (a.done > 0 || a.later != 0):
		s.fault = "it says that it has not added, and was executed, or may be"
	case unknown && !s.blame && !a.none:
		s.fault = "the outcome is unknown, although only a reply was lost"
	}
	a.d, a.renewed = unknownTries{}, false
	switch {
	case err == nil, unknown:
		a.phase, a.done, a.from = atRest, 0, 0
		a.left--
	case lostRace(err):
		a.phase, a.done, a.from = toRead, 0, 0
	default:
		s.fault = "an unexpected error: " + err.Error()
	}
}

// reads calls f with every version that client i may read.
func (s addsState) reads(i int, f func(version int8)) {
	f(s.version)
	if s.version > 0 && s.version-1 >= s.a[i].seen {
		f(s.version - 1)
	}
}

func (s addsState) next(step func(string, addsState)) {
	for i := range s.a {
		a := s.a[i]
		do := func(what string, f func(s *addsState, a *adding)) {
			next := s
			f(&next, &next.a[i])
			step([adders]string{"A ", "B "}[i]+what, next)
		}
		if a.later != 0 {
			do("is executed after its connection has ended", func(s *addsState, a *adding) {
				later := a.later
				a.later = 0
				_ = s.execute(i, later == 1)
			})
		}
		switch a.phase {
		case atRest:
			if a.left > 0 {
				do("begins", func(_ *addsState, a *adding) { a.phase = toRead })
			}
		case toRead:
			s.reads(i, func(version int8) {
				do("reads", func(_ *addsState, a *adding) {
					a.from, a.seen, a.phase = version, version, trying
				})
			})
		case trying:
			s.reads(i, func(version int8) {
				do("sends", func(s *addsState, _ *adding) { s.try(i, version) })
			})
		case sent:
			do("is answered", func(s *addsState, a *adding) { s.answered(i, s.execute(i, !a.none)) })
			if s.left.cuts > 0 {
				do("is executed, and the reply is lost", func(s *addsState, a *adding) {
					s.left.cuts--
					_ = s.execute(i, !a.none)
					s.answered(i, errReplyLost)
				})
				do("loses the connection before", func(s *addsState, a *adding) {
					s.left.cuts--
					if a.later = 1; a.none {
						a.later = 2
					}
					s.answered(i, errReplyLost)
				})
			}
		case away:
			s.reads(i, func(version int8) {
				do("is connected again", func(s *addsState, _ *adding) { s.try(i, version) })
			})
			if s.left.losses > 0 {
				do("is in the next session", func(s *addsState, a *adding) {
					s.left.losses--
					s.blame = true
					a.later, a.made, a.marked, a.ahead = 0, false, false, 0
					a.renewed, a.phase = true, trying
				})
			}
			if s.left.leaving > 0 {
				do("is given up", func(s *addsState, a *adding) {
					s.left.leaving--
					s.blame = true
					a.phase = goneOff
				})
			}
		case goneOff: // its write may be executed until the client has another session or connection
			do("is connected again, after it was given up", func(s *addsState, a *adding) {
				a.later = 0
				s.ends(i, errReplyLost)
			})
		}
		if a.marked && s.left.deletions > 0 {
			do("loses its mark", func(s *addsState, a *adding) {
				s.left.deletions--
				s.blame = true
				a.marked = false
			})
		}
	}
}

func adds(without bool, each, cuts, losses, deletions, leaving int8) explore.Model[addsState] {
	var s addsState
	for i := range s.a {
		s.a[i].left = each
	}
	s.a[0].none = without
	s.left.cuts, s.left.losses, s.left.deletions, s.left.leaving = cuts, losses, deletions, leaving
	return explore.Model[addsState]{
		Start: []addsState{s},
		Next:  func(s addsState, step func(string, addsState)) { s.next(step) },
		Wrong: func(s addsState) string { return s.fault },
		Final: func(s addsState) bool {
			for _, a := range s.a {
				if a.left > 0 || a.phase != atRest {
					return false
				}
			}
			return true
		},
	}
}

func TestExploreAdd(t *testing.T) {
	m := adds(false, 2, 3, 2, 1, 1)
	if os.Getenv("LONG") != "" {
		m = adds(false, 3, 4, 2, 2, 1)
	}
	explore.Test(t, m, "a write repeated blindly after a lost reply")
}

func TestExploreAddWithLostRepliesOnly(t *testing.T) {
	explore.Test(t, adds(false, 3, 4, 0, 0, 0), "a write repeated blindly after a lost reply")
}

// One of the two may have no mark: if it cannot know an outcome, it reports it as unknown.
func TestExploreAddWithoutAMark(t *testing.T) {
	explore.Test(t, adds(true, 2, 3, 1, 0, 1), "a write repeated blindly after a lost reply")
}

package queue

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/explore"
	"github.com/go-curator/curator/recipes/internal/mark"
)

// The model of a queue without a lock path: a producer puts items, and two consumers take them off, each with a mark. It calls
// mark.Meaning, afterWriteAttempt, finalError and takeOutcome; it simulates the requests, the servers, sessions, and an
// administrator that deletes marks.
//
// Bounds: items, connections that are lost with a write in flight (which is executed, or not, or later, until the client is
// connected again), sessions that expire, marks that are deleted, puts whose context ends, and consumers that die. One of the
// clients may have no mark, since it lacks a right.
//
// Not modelled: several items in a node, failing handlers, marks that other clients write to, creates of marks with lost replies.
//
// Never: a put is executed twice, or returns nil and was not executed, or returns "not executed" and was, or will be; an item is
// handled twice; an item is neither on the queue nor handled nor reported, unless its consumer has died. If only replies are
// lost, no outcome is unknown. Always possible: all items are handled.

type phase int8

const (
	atRest  phase = iota
	trying        // about to send the write
	sent          // it is in flight
	away          // its connection is lost
	goneOff       // the put's context has ended, and it may still be executed
	dead
)

const (
	producer = iota // the consumers follow
	clients  = 3
	items    = 2
)

// writing is a client, with its write.
type writing struct {
	phase   phase
	item    int8
	made    bool // the mark is created, as far as the client knows
	marked  bool // the mark exists
	none    bool // no mark is possible
	renewed bool // the session is another than in the last try
	doubt   bool
	later   bool // the write may still be executed, with the mark if there is one
	ahead   int8 // the mark's version minus the one that the next write expects
	done    int8 // how often this write is executed
}

// thing is an item.
type thing struct {
	put, handled int8
	there        bool
	reported     bool
	excused      bool // a consumer has died with it
}

type onceState struct {
	next  int8 // the next item to put
	c     [clients]writing
	items [items]thing
	left  struct{ cuts, losses, deletions, leaving, deaths int8 }
	blame bool // a fault has happened that may make an outcome unknown
	fault string
}

func refusedAt(index int, err error) error {
	return &framework.TransactionError{Index: index, Op: "delete", Err: err}
}

var (
	markGone     = refusedAt(0, framework.ErrNoNode)
	markChanged  = refusedAt(0, framework.ErrBadVersion)
	firstGone    = refusedAt(0, framework.ErrNoNode)
	secondGone   = refusedAt(1, framework.ErrNoNode)
	errReplyLost = fmt.Errorf("%w: %w", framework.ErrConnectionLoss, framework.ErrOutcomeUnknown)
)

// execute plays the execution of a client's write, and returns the reply.
func (s *onceState) execute(i int) error {
	c := &s.c[i]
	it := &s.items[c.item]
	switch {
	case !c.none && !c.marked:
		return markGone
	case !c.none && c.ahead != 0:
		return markChanged
	case i != producer && !it.there && c.none:
		return firstGone
	case i != producer && !it.there:
		return secondGone
	}
	if !c.none {
		c.ahead++
	}
	c.done++
	if i != producer {
		it.there = false
		return nil
	}
	if it.there = true; it.put > 0 {
		s.fault = "an item is put twice"
	}
	it.put++
	return nil
}

// try starts a try.
func (s *onceState) try(i int) {
	c := &s.c[i]
	c.later = false
	if c.renewed {
		c.renewed = false
		if c.doubt {
			s.ends(i, errMarkGone)
			return
		}
	}
	if !c.none && !c.made {
		c.made, c.marked, c.ahead = true, true, 0
	}
	c.phase = sent
}

// answered plays a client's handling of the reply to its write.
func (s *onceState) answered(i int, err error) {
	c := &s.c[i]
	m := mark.Mark{Forbidden: c.none}
	var then nextWriteStep
	c.doubt, then, err = afterWriteAttempt(m.OutcomeOf(err, c.doubt), err, c.doubt, c.none)
	switch {
	case then == writeExecuted:
		c.ahead = 0
		s.ends(i, nil)
	case then == replacesMark:
		c.made, c.marked = false, false
		c.phase = trying
	case errors.Is(err, framework.ErrConnectionLoss):
		c.phase = away
	default:
		s.ends(i, err)
	}
}

// ends plays the end of a write with the error of its last try.
func (s *onceState) ends(i int, err error) {
	c := &s.c[i]
	it := &s.items[c.item]
	err = finalError(err, c.doubt)
	if c.doubt {
		c.made, c.marked = false, false // forgotten
	}
	unknown := errors.Is(err, framework.ErrOutcomeUnknown)
	switch {
	case unknown && !s.blame && !c.none:
		s.fault = "the outcome is unknown, although only a reply was lost"
	case err == nil && c.done != 1:
		s.fault = "it says that it was executed, and was not once"
	case err != nil && !unknown && (c.done > 0 || c.later):
		s.fault = "it says that it was not executed, and was, or may be"
	}
	if i == producer {
		s.next++
	} else if mine, perhaps := takeOutcome(err); mine {
		if it.handled++; it.handled > 1 {
			s.fault = "an item is handled twice"
		}
	} else if perhaps {
		it.reported = true
	}
	*c = writing{made: c.made, marked: c.marked, none: c.none, ahead: c.ahead}
}

func (s onceState) step(step func(string, onceState)) {
	for i := range s.c {
		c := s.c[i]
		do := func(what string, f func(s *onceState, c *writing)) {
			next := s
			f(&next, &next.c[i])
			step([clients]string{"producer ", "A ", "B "}[i]+what, next)
		}
		if c.later {
			do("is executed after its connection has ended", func(s *onceState, c *writing) {
				c.later = false
				_ = s.execute(i)
			})
		}
		switch c.phase {
		case atRest:
			if i == producer && s.next < items {
				do("puts", func(s *onceState, c *writing) { c.item, c.phase = s.next, trying })
			}
			for n := range s.items {
				if i != producer && s.items[n].there {
					do("reads an item", func(_ *onceState, c *writing) { c.item, c.phase = int8(n), trying })
				}
			}
		case trying:
			do("sends", func(s *onceState, _ *writing) { s.try(i) })
		case sent:
			do("is answered", func(s *onceState, _ *writing) { s.answered(i, s.execute(i)) })
			if s.left.cuts > 0 {
				do("is executed, and the reply is lost", func(s *onceState, _ *writing) {
					s.left.cuts--
					_ = s.execute(i)
					s.answered(i, errReplyLost)
				})
				do("loses the connection before", func(s *onceState, c *writing) {
					s.left.cuts--
					c.later = true
					later := *c
					if s.answered(i, errReplyLost); c.phase != away { // decided immediately, without a mark
						c.later, c.item, c.done, c.phase = true, later.item, later.done, goneOff
					}
				})
			}
		case away:
			do("is connected again", func(s *onceState, _ *writing) { s.try(i) })
			if s.left.losses > 0 {
				do("is in the next session", func(s *onceState, c *writing) {
					s.left.losses--
					s.blame = true
					c.later, c.made, c.marked, c.ahead = false, false, false, 0
					c.renewed, c.phase = true, trying
				})
			}
			if s.left.leaving > 0 {
				do("is given up", func(s *onceState, c *writing) {
					s.left.leaving--
					s.blame = true
					later := *c
					s.ends(i, errReplyLost)
					*c = later // the mark is deleted at the next connection
					c.phase, c.made = goneOff, false
				})
			}
		case goneOff: // its request may still be executed, until the client has another connection
			do("is connected again, after it has ended", func(_ *onceState, c *writing) {
				*c = writing{none: c.none}
			})
		}
		if i != producer && c.phase != dead && s.left.deaths > 0 {
			do("dies", func(s *onceState, c *writing) {
				s.left.deaths--
				s.items[c.item].excused = s.items[c.item].excused || c.phase != atRest
				c.phase, c.later = dead, c.later || c.phase == sent
			})
		}
		if c.phase == dead && (c.later || c.marked) {
			do("its session expires", func(_ *onceState, c *writing) { *c = writing{phase: dead} })
		}
		if c.marked && s.left.deletions > 0 {
			do("loses its mark", func(s *onceState, c *writing) {
				s.left.deletions--
				s.blame = true
				c.marked = false
			})
		}
	}
}

func (s onceState) wrong() string {
	for n, it := range s.items {
		held := false
		for i, c := range s.c {
			held = held || i != producer && c.phase != atRest && c.phase != dead && int(c.item) == n && c.done > 0
		}
		if it.put > 0 && !it.there && it.handled == 0 && !it.reported && !it.excused && !held {
			return "an item is lost"
		}
	}
	return s.fault
}

func (s onceState) final() bool {
	idle, all := true, s.next == items
	for i, c := range s.c {
		idle = idle && (c.phase == atRest || c.phase == dead && !c.later && !c.marked)
		all = all && (i == producer || c.phase == dead)
	}
	for _, it := range s.items {
		if it.there && !all {
			return false
		}
	}
	return idle && s.next == items
}

func once(without bool, cuts, losses, deletions, leaving, deaths int8) explore.Model[onceState] {
	var s onceState
	s.c[producer].none, s.c[1].none = without, without
	s.left.cuts, s.left.losses, s.left.deletions, s.left.leaving, s.left.deaths = cuts, losses, deletions, leaving, deaths
	return explore.Model[onceState]{
		Start: []onceState{s},
		Next:  func(s onceState, step func(string, onceState)) { s.step(step) },
		Wrong: onceState.wrong,
		Final: onceState.final,
	}
}

func TestExploreAtMostOnce(t *testing.T) {
	m := once(false, 2, 1, 1, 1, 1)
	if os.Getenv("LONG") != "" {
		m = once(false, 3, 2, 1, 1, 1)
	}
	explore.Test(t, m, "an item put again after a lost reply", "who loses the race for an item handles it, too")
}

func TestExploreAtMostOnceWithMarksDeleted(t *testing.T) {
	explore.Test(t, once(false, 2, 0, 2, 0, 0), "an item put again after a lost reply")
}

// The producer and one of the consumers have no mark: if they cannot know an outcome, they report it as unknown.
func TestExploreAtMostOnceWithoutMarks(t *testing.T) {
	explore.Test(t, once(true, 2, 1, 0, 1, 0), "who loses the race for an item handles it, too")
}

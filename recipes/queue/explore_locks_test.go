package queue

import (
	"errors"
	"os"
	"testing"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/explore"
	"github.com/go-curator/curator/recipes/internal/mark"
)

// The model of an item with a lock path: two consumers, which lock it, handle it, and take it off together with its lock. It
// calls afterLockCreate, itemLock.hasOwnGUID, afterLockDelete, mayDeleteUnread, mark.Meaning and afterWriteAttempt; it simulates
// the requests, the servers and sessions.
//
// Bounds: one item, connections that are lost with a request in flight (which is executed, or not, or later, until the client is
// connected again), sessions that expire, consumers that leave (their context ends, so their lock is released), and consumers
// that die. As promised elsewhere, a hold is lost before its session expires at the servers.
//
// Not modelled: an administrator who deletes locks or marks, several items, Requeue and Delete after a failure.
// Never: two consumers handle the item at a time; it is off the queue, and its handler has not returned; another consumer's lock
// is deleted while the item is there; it is handled twice although no session has expired and no consumer has died. Always
// possible: the item is off the queue, or no consumer is left, and no lock is left.

type lockPhase int8

const (
	looksFor  lockPhase = iota
	hasListed           // the item, which may be deleted by now
	claims              // the create is in flight
	mayHave             // its connection is lost
	asksWhose           // the lock is read
	handles
	finishes // the delete of lock and item is in flight
	mayFinish
	settles     // the claim ended with outcome unknown: its create is retried, so that the lock can be deleted
	removes     // reads whether the lock is its own, to delete it
	deletes     // the lock, with a mark
	mayDelete   // its connection is lost
	deletesAny  // the lock of an item that is deleted, until the lock is deleted too
	mayDeleteIt // its connection is lost
	hasLeft
	hasDied
)

// locking is a consumer.
type locking struct {
	phase   lockPhase
	guid    int8 // of its claim, one of two in turn
	session int8
	doubt   bool
	ahead   int8 // the version of the mark of its delete, minus the one that the next try expects
	leaves  bool // ends when its lock is deleted
	// later is the phase of a request that may still be executed, although its connection is lost.
	later lockPhase
}

const consumers = 2

type lockState struct {
	item  bool
	lock  struct{ who, session, guid int8 } // who counts from 1
	c     [consumers]locking
	done  int8 // handlers that have returned
	left  struct{ cuts, losses, leaving, deaths int8 }
	blame bool // a session has expired, or a consumer has died
	fault string
}

// guids has the GUIDs of each consumer's claims: two in turn in each session.
var guids = [consumers][8]string{
	{"A0", "A1", "A2", "A3", "A4", "A5", "A6", "A7"},
	{"B0", "B1", "B2", "B3", "B4", "B5", "B6", "B7"},
}

// mine reports whether the existing lock is that of consumer i's claim, as its client sees it.
func (s *lockState) mine(i int) bool {
	if s.lock.who == 0 {
		return false
	}
	c := itemLock{guid: guids[i][s.c[i].guid+2*s.c[i].session]}
	return c.hasOwnGUID([]byte(guids[s.lock.who-1][s.lock.guid+2*s.lock.session]))
}

// unlock deletes the lock for consumer i.
func (s *lockState) unlock(i int) {
	if int(s.lock.who) != i+1 && s.item {
		s.fault = "another's lock is deleted"
	}
	s.lock.who, s.lock.session, s.lock.guid = 0, 0, 0
}

// execute plays the execution of consumer i's request, and returns the reply.
func (s *lockState) execute(i int, phase lockPhase) error {
	c := &s.c[i]
	switch phase {
	case claims, settles:
		if s.lock.who != 0 {
			return framework.ErrNodeExists
		}
		s.lock.who, s.lock.session, s.lock.guid = int8(i+1), c.session, c.guid
	case finishes:
		switch {
		case s.lock.who == 0:
			return firstGone
		case !s.item:
			return secondGone
		}
		s.unlock(i)
		if s.item = false; s.done == 0 {
			s.fault = "the item is off the queue, and was not handled"
		}
	case deletes:
		switch {
		case c.ahead != 0:
			return markChanged
		case s.lock.who == 0:
			return secondGone
		}
		s.unlock(i)
		c.ahead++
	case deletesAny:
		if s.lock.who != 0 {
			s.unlock(i)
		}
	}
	return nil
}

// answered plays consumer i's handling of the reply to its request.
func (s *lockState) answered(i int, err error) {
	c := &s.c[i]
	lost := errors.Is(err, framework.ErrConnectionLoss)
	switch c.phase {
	case claims:
		var then lockCreateStep
		c.doubt, then = afterLockCreate(err, c.doubt)
		switch {
		case then == lockCreated:
			s.got(i)
		case then == readLockOwner:
			c.phase = asksWhose
		case lost:
			c.phase = mayHave
		default:
			s.idle(i)
		}
	case settles:
		if !lost {
			c.phase, c.later = removes, looksFor
		}
	case finishes:
		c.doubt, err = afterLockDelete(err, c.doubt)
		switch {
		case err == nil:
			s.idle(i)
		case lost:
			c.phase = mayFinish
		case errors.Is(err, framework.ErrNodeDeleted):
			s.fault = "a lock is lost that was not deleted"
		default:
			s.giveBack(i, err)
		}
	case deletes:
		var then nextWriteStep
		m := mark.Mark{}
		c.doubt, then, err = afterWriteAttempt(m.OutcomeOf(err, c.doubt), err, c.doubt, false)
		switch {
		case lost:
			c.phase = mayDelete
		case then == writeExecuted, isUnavailable(err):
			s.idle(i)
		default:
			s.fault = "a lock is not deleted: " + err.Error()
		}
	case deletesAny:
		if c.phase = mayDeleteIt; !lost {
			s.idle(i)
		}
	}
}

// got plays a claim whose lock was created: the item was read in the same flight.
func (s *lockState) got(i int) {
	if s.c[i].doubt = false; s.item {
		s.c[i].phase = handles
	} else {
		s.giveBack(i, framework.ErrNoNode)
	}
}

func (s *lockState) giveBack(i int, err error) {
	c := &s.c[i]
	c.doubt, c.ahead = false, 0
	if c.phase = removes; mayDeleteUnread(err) {
		c.phase = deletesAny
	}
}

// idle makes consumer i look for items, or leave.
func (s *lockState) idle(i int) {
	c := &s.c[i]
	phase := looksFor
	if c.leaves {
		phase = hasLeft
	}
	*c = locking{phase: phase, session: c.session, guid: 1 - c.guid}
}

func (s lockState) step(step func(string, lockState)) {
	for i := range s.c {
		c := s.c[i]
		underWay := sentIn[c.phase] == c.phase && c.phase != looksFor
		do := func(what string, f func(s *lockState, c *locking)) {
			next := s
			f(&next, &next.c[i])
			step([consumers]string{"A ", "B "}[i]+what, next)
		}
		if c.later != looksFor {
			do("has its request executed after its connection has ended", func(s *lockState, c *locking) {
				later := c.later
				c.later = looksFor
				_ = s.execute(i, later)
			})
		}
		theirs := s.lock.who == int8(i+1)
		if theirs && s.lock.session != c.session || c.phase == hasDied && (theirs || c.later != looksFor) {
			do("has its session end at the servers", func(s *lockState, c *locking) {
				if theirs {
					s.lock.who, s.lock.session, s.lock.guid = 0, 0, 0
				}
				if c.phase == hasDied {
					*c = locking{phase: hasDied}
				}
			})
		}
		switch c.phase {
		case looksFor:
			if s.item {
				do("lists", func(_ *lockState, c *locking) { c.phase = hasListed })
			}
		case hasListed:
			do("makes a lock", func(_ *lockState, c *locking) { c.phase = claims })
		case claims, finishes, deletes, deletesAny, settles:
			do("is answered", func(s *lockState, c *locking) { s.answered(i, s.execute(i, c.phase)) })
		case asksWhose:
			do("reads the lock", func(s *lockState, _ *locking) {
				if s.mine(i) {
					s.got(i)
				} else {
					s.idle(i)
				}
			})
		case removes:
			do("reads the lock", func(s *lockState, c *locking) {
				if c.phase = deletes; !s.mine(i) {
					s.idle(i)
				}
			})
		case handles:
			do("has handled the item", func(s *lockState, c *locking) {
				if s.done++; s.done > 1 && !s.blame {
					s.fault = "an item is handled twice"
				}
				s.done = min(s.done, 2)
				c.phase = finishes
			})
		case mayHave, mayFinish, mayDelete, mayDeleteIt:
			do("is connected again", func(_ *lockState, c *locking) { c.phase, c.later = sentIn[c.phase], looksFor })
		}
		if underWay && s.left.cuts > 0 {
			do("has its request executed, and the reply lost", func(s *lockState, c *locking) {
				s.left.cuts--
				_ = s.execute(i, c.phase)
				s.answered(i, errReplyLost)
			})
			do("loses the connection before", func(s *lockState, c *locking) {
				s.left.cuts--
				c.later = c.phase
				s.answered(i, errReplyLost)
			})
		}
		if c.phase != looksFor && c.phase < hasLeft && s.left.losses > 0 {
			do("has its session end", func(s *lockState, c *locking) {
				s.left.losses--
				s.blame = true
				c.session++
				s.idle(i)
			})
		}
		if (c.phase == handles || c.phase == mayHave) && s.left.leaving > 0 {
			do("leaves", func(s *lockState, c *locking) {
				s.left.leaving--
				if c.phase == handles {
					s.giveBack(i, nil)
				} else {
					c.phase = settles
				}
				c.leaves = true
			})
		}
		if c.phase < hasLeft && s.left.deaths > 0 {
			do("dies", func(s *lockState, c *locking) {
				s.left.deaths--
				s.blame = true
				if underWay {
					c.later = c.phase
				}
				c.phase, c.leaves, c.doubt = hasDied, false, false
			})
		}
	}
}

// sentIn returns the phase in which a request is sent, for each phase with a request in flight or a lost connection.
var sentIn = map[lockPhase]lockPhase{claims: claims, settles: settles, finishes: finishes, deletes: deletes,
	deletesAny: deletesAny, mayHave: claims, mayFinish: finishes, mayDelete: deletes, mayDeleteIt: deletesAny}

func (s lockState) wrong() string {
	if s.c[0].phase == handles && s.c[1].phase == handles {
		return "two consumers handle the item at a time"
	}
	return s.fault
}

func (s lockState) final() bool {
	left := false
	for _, c := range s.c {
		switch {
		case c.phase == looksFor:
			left = true
		case c.phase < hasLeft, c.later != looksFor:
			return false
		}
	}
	return s.lock.who == 0 && (!s.item || !left)
}

func locks(cuts, losses, leaving, deaths int8) explore.Model[lockState] {
	s := lockState{item: true}
	s.left.cuts, s.left.losses, s.left.leaving, s.left.deaths = cuts, losses, leaving, deaths
	return explore.Model[lockState]{
		Start: []lockState{s},
		Next:  func(s lockState, step func(string, lockState)) { s.step(step) },
		Wrong: lockState.wrong,
		Final: lockState.final,
	}
}

func TestExploreAtLeastOnce(t *testing.T) {
	m := locks(4, 2, 1, 1)
	if os.Getenv("LONG") != "" {
		m = locks(5, 3, 2, 1)
	}
	explore.Test(t, m, "an item's lock taken for one's own", "an item's lock deleted until it is gone")
}

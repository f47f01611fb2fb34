package line

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/go-curator/curator/internal/explore"
)

// The model of a [Front] whose callers hold the lock together (rwlock.Readers). It calls Limits.next and Front.recordTurnEnd; it
// simulates the code around them (front.go), the servers and a writer of another client.
//
// Bounds: three callers at a time, which contend repeatedly, with Acquire or TryAcquire, and so does the writer; two nodes at a
// time, three for a night; one caller may join a node that holds the lock, within one unit of time; two faults. A fault is one
// of: a session is lost; a hold is lost in a session that lives, or before the waiting callers have it; an attempt fails; an
// administrator deletes a node; a client asks for the release of one. Grants and deletes are late.
//
// A lost session's nodes are deleted after its readers have stopped, and the next are created after that. Readers whose hold is
// lost in a session that lives may work until they release.
//
// Not modelled: how the line is read (TestExploreLineOfReaders), the order of the callers in line, downgrades, re-entry, hooks.
//
// Wrong: a reader works while the writer holds the lock, unless an administrator has deleted the node; a reader begins with a
// hold that has ended; a caller joins after the bounds, or after a request to release; a waiting caller is forgotten; a node
// stays that no caller wants. Final: no node is left. If no caller gives up, it is reached only when each has had the lock or an
// error.
func TestExploreReaders(t *testing.T) {
	explore.Test(t, modelOfReaders(), "readers join without end", "the last but one takes the node along",
		"one that gives up takes the others along", "joined after a request")
}

// The model reaches the rare states, and finds readers that stop too late after a loss.
func TestExploreReadersFinds(t *testing.T) {
	reach := func(rare func(readersState) bool) {
		t.Helper()
		m := modelOfReaders()
		m.Final, m.Wrong = nil, func(r readersState) string {
			if rare(r) {
				return "reached"
			}
			return ""
		}
		explore.Finds(t, m)
	}
	reach(func(r readersState) bool { return r.phase == nodeFree && r.turns == 1 && r.users == 3 })
	reach(func(r readersState) bool {
		return slices.ContainsFunc(r.all[:], func(b readerNode) bool { return b.users == 2 && b.hold == holdLost })
	})
	reach(func(r readersState) bool { return r.trying && r.tries > r.newer && r.newer > 0 && r.waits > 0 })
	reach(func(r readersState) bool { return r.phase == nodeComing && r.behind && r.tries == 0 && r.waits == 2 })
	reach(func(r readersState) bool { // a node ahead of the writer that no caller may join, and one behind it
		return r.own == 2 && r.all[0].users > 0 && r.line == [4]int8{1, aWriter, 2}
	})
	m := modelOfReaders()
	m.Start = []readersState{{hasty: true, faults: 1}}
	explore.Finds(t, m)
}

type (
	attemptProgress int8
	holdState       int8
	nodePresence    int8
)

const (
	noAttempt attemptProgress = iota
	enters                    // a node is to be created
	queued                    // it is created
	arrived                   // the hold has begun, and the waiting callers do not have it yet
	deletes                   // the owner is about to delete the node
)

const (
	unheld   holdState = iota
	isHeld             // live
	holdLost           // lost, and the session lives
	holdGone           // lost with the session, or the node
)

const (
	nodeAbsent  nodePresence = iota
	nodePresent              //
	nodeDeleted              // its delete is in flight
	nodeDoomed               // its session is lost
)

// aWriter is the other client's writer in the line.
const aWriter int8 = 9

// readerNode is a node, and its readers.
type readerNode struct {
	reads  int8 // callers, by their own view
	users  int8 // of a node that the Front has retired
	asked  bool
	robbed bool // an administrator has deleted the node
	hold   holdState
	node   nodePresence
}

// readersState is a state of the model.
type readersState struct {
	// The result of Limits.next. The time is relative to now.
	phase             frontPhase
	users, turns, age int8
	behind, asked     bool

	waits, tries int8 // callers in line
	newer        int8 // tries that have arrived since the attempt began
	at           attemptProgress
	trying       bool // the attempt does not wait for writers
	unwanted     bool // the attempt should be stopped

	all  [3]readerNode
	own  int8    // the place in all, from 1, of the node that is acquired, or that callers may join
	line [4]int8 // places in all, from 1, or aWriter
	lost bool    // the session is lost, and there is no other yet

	patient bool // no caller gives up
	hasty   bool // the servers delete a lost session's nodes before its readers have stopped
	faults  int8
	wrong   readersMistake
}

type readersMistake int8

const (
	noMistake readersMistake = iota
	afterLoss
	tooMany
	tooLate
	afterRequest
)

type readersModel struct {
	limits  Limits
	callers int8
	nodes   int
}

func modelOfReaders() explore.Model[readersState] {
	m, faults := readersModel{Limits{Turns: 1, Period: 1}, 3, 2}, int8(2)
	if os.Getenv("LONG") != "" {
		m.nodes = 3
	}
	return explore.Model[readersState]{
		Start: []readersState{{faults: faults}, {faults: faults, patient: true}}, Next: m.next,
		Wrong: readersState.describeWrong,
		Final: func(r readersState) bool {
			return r.all == [3]readerNode{} && r.line == [4]int8{} && r.at == noAttempt && r.waits+r.tries == 0
		},
	}
}

func (r readersState) describeWrong() string {
	if r.waits+r.tries > 0 && (r.phase == nodeNone || r.phase == nodeFree) {
		return "one who waits is forgotten"
	}
	for i, b := range r.all {
		own := r.own == int8(i+1)
		switch {
		case b.reads > 0 && r.line[0] == aWriter && !b.robbed:
			return "a reader is at work, and a writer has the lock"
		case b.node == nodePresent && b.reads == 0 && (!own || r.at == noAttempt):
			return "a node stays that nobody wants"
		case b.users > 0 && b.users != b.reads || own && r.phase == nodeFree && r.users != b.reads:
			return "the readers are miscounted"
		}
	}
	return [...]string{"", "a reader begins with a hold that has ended", "too many join", "one joins too late",
		"one joins a node that was asked for"}[r.wrong]
}

func (r *readersState) removeEntry(who int8) {
	if i := slices.Index(r.line[:], who); i >= 0 {
		copy(r.line[i:], r.line[i+1:])
		r.line[len(r.line)-1] = 0
	}
}

func (r *readersState) joinLine(who int8) { r.line[slices.Index(r.line[:], 0)] = who }

// modelledState returns the state for Limits.next.
func (r *readersState) modelledState() frontState {
	s := frontState{
		phase: r.phase, users: int(r.users), turns: int(r.turns), grantedAt: now.Add(-time.Duration(r.age)), revoked: r.asked,
	}
	if r.behind {
		s.others = othersSome
	}
	return s
}

// applyEvent plays Front.next.
func (m readersModel) applyEvent(r *readersState, e frontEvent, more int8, try bool) frontAction {
	x := frontFacts{waiting: int(r.waits + r.tries + more), try: try, now: now}
	if r.own > 0 && (r.at == noAttempt || r.at == arrived) {
		x.valid = r.all[r.own-1].hold == isHeld
	}
	before := r.users
	s, todo := m.limits.next(r.modelledState(), e, x)
	r.storeState(s)
	switch todo {
	case startOwner:
		r.beginAttempt()
	case stopOwner:
		r.unwanted = true
	case serveCallers:
		b := &r.all[r.own-1]
		switch { // the rules for new readers
		case b.hold != isHeld:
			r.wrong = afterLoss
		case e == onArrival && s.turns > m.limits.Turns:
			r.wrong = tooMany
		case e == onArrival && now.Sub(s.grantedAt) >= m.limits.Period:
			r.wrong = tooLate
		case e == onArrival && b.asked:
			r.wrong = afterRequest
		}
		b.reads += r.waits + r.tries + more
		r.waits, r.tries, r.newer = 0, 0, 0
	case retireNode:
		if s.phase == nodeEnding {
			break
		}
		r.all[r.own-1].users, r.own = before, 0
		if s.phase == nodeComing {
			r.beginAttempt()
		}
	case refuseTries:
		if e != onArrival {
			r.tries, r.newer = 0, 0
			m.applyEvent(r, onGiveUp, 0, false)
		}
	}
	return todo
}

// storeState stores the result of Limits.next.
func (r *readersState) storeState(s frontState) {
	r.phase, r.users, r.turns, r.behind, r.asked, r.age = s.phase, int8(s.users), int8(min(s.turns, 2)), s.others == othersSome, s.revoked, 0
	if s.phase == nodeFree {
		r.age = int8(min(now.Sub(s.grantedAt), 1))
	}
}

// beginAttempt plays Front.beginAcquire, except for the kind of the attempt.
func (r *readersState) beginAttempt() {
	r.at, r.newer, r.unwanted, r.trying = enters, 0, r.waits+r.tries < 0, false
}

// failAttempt plays the end of Front.acquireNode after an error: a writer is ahead, or another error.
func (m readersModel) failAttempt(r *readersState, ahead bool) {
	switch {
	case r.unwanted:
	case ahead:
		r.tries = r.newer
	case r.trying:
		r.tries = 0
	default:
		r.waits, r.tries = 0, 0
	}
	r.at, r.newer, r.unwanted, r.trying = noAttempt, 0, false, false
	if r.own > 0 {
		r.all[r.own-1].releaseReaders()
		r.own = 0
	}
	m.applyEvent(r, onFailure, 0, false)
}

// releaseReader plays Turn.endTurn of a reader of all[i].
func (m readersModel) releaseReader(r *readersState, i int) {
	b := &r.all[i]
	f := &Front{limits: m.limits, state: r.modelledState()}
	n := &frontNode{Grant: &Grant{}, front: f, users: int(b.users)}
	if r.own == int8(i+1) {
		f.node = n
	}
	last, _ := f.recordTurnEnd(n, time.Time{}, now)
	b.users = int8(n.users)
	if r.own == int8(i+1) {
		if r.storeState(f.state); last {
			b.users, r.own = 0, 0
		}
	}
	if last {
		b.releaseReaders()
	}
}

func (b *readerNode) releaseReaders() {
	b.hold = unheld
	if b.node == nodePresent {
		b.node = nodeDeleted
	}
}

// normalized returns r with its nodes in the order of the line: their identity makes no difference.
func (r readersState) normalized() readersState {
	places := []int8{1, 2, 3}
	first := func(p int8) int {
		if i := slices.Index(r.line[:], p); i >= 0 {
			return i
		}
		b := r.all[p-1]
		n := 1000 - 100*int(b.node) - 10*int(b.hold) - int(b.reads)
		if p == r.own {
			n -= 500
		}
		return n
	}
	slices.SortStableFunc(places, func(a, b int8) int { return first(a) - first(b) })
	is := [10]int8{aWriter: aWriter} // the new place of each node
	n := r
	for i, p := range places {
		is[p], n.all[i] = int8(i+1), r.all[p-1]
	}
	for i := range n.line {
		n.line[i] = is[r.line[i]]
	}
	n.own = is[r.own]
	return n
}

func (m readersModel) next(r readersState, each func(string, readersState)) {
	try := func(may bool, what string, f func(r *readersState)) {
		if !may {
			return
		}
		next := r
		f(&next)
		for i, b := range next.all {
			if next.own != int8(i+1) && b.node == nodeAbsent && b.reads == 0 {
				next.all[i] = readerNode{}
			}
		}
		each(what, next.normalized())
	}
	callers := r.waits + r.tries
	for _, b := range r.all {
		callers += b.reads
	}
	try(callers < m.callers, "a caller comes", func(r *readersState) { m.addCaller(r, false) })
	try(callers < m.callers, "a caller tries", func(r *readersState) { m.addCaller(r, true) })
	try(r.waits > 0 && !r.patient, "one that waits gives up", func(r *readersState) {
		r.waits--
		m.applyEvent(r, onGiveUp, 0, false)
	})
	try(r.tries > 0 && !r.patient, "one that tries gives up", func(r *readersState) {
		r.tries--
		r.newer = min(r.newer, r.tries)
		m.applyEvent(r, onGiveUp, 0, false)
	})
	waits := slices.Contains(r.line[:], aWriter)
	try(!waits && r.line[3] == 0, "a writer comes", func(r *readersState) { r.joinLine(aWriter) })
	try(waits && (r.line[0] == aWriter || !r.patient), "the writer goes", func(r *readersState) { r.removeEntry(aWriter) })
	try(r.faults > 0 && !r.lost, "the session is lost", func(r *readersState) {
		r.faults--
		r.lost = true
		for i := range r.all {
			b := &r.all[i]
			if b.hold != unheld {
				b.hold = holdGone
			}
			if b.node != nodeAbsent {
				b.node = nodeDoomed
			}
		}
	})
	try(r.lost && !slices.ContainsFunc(r.all[:], func(b readerNode) bool { return b.node == nodeDoomed }),
		"there is another session", func(r *readersState) { r.lost = false })
	try(r.phase == nodeFree, "time passes", func(r *readersState) { r.age = 1 })
	m.attemptSteps(r, try)
	for i := range r.all {
		m.nodeSteps(r, i, func(may bool, what string, f func(r *readersState, b *readerNode)) {
			try(may, fmt.Sprintf("%d: %s", i+1, what), func(r *readersState) { f(r, &r.all[i]) })
		})
	}
}

// addCaller plays Front.admitCaller.
func (m readersModel) addCaller(r *readersState, try bool) {
	if r.phase == nodeFree && r.all[r.own-1].asked {
		m.applyEvent(r, onRevocation, 0, false)
	}
	switch m.applyEvent(r, onArrival, 1, try) {
	case serveCallers, refuseTries:
		return
	}
	if !try {
		r.waits++
		return
	}
	r.tries++
	if r.at != enters {
		r.newer++ // in the model the attempt has begun
	}
}

// attemptSteps plays the events of the owner.
func (m readersModel) attemptSteps(r readersState, try func(may bool, what string, f func(r *readersState))) {
	blocked := false // by the writer
	var b readerNode
	if r.own > 0 {
		b = r.all[r.own-1]
		place := slices.Index(r.line[:], r.own)
		blocked = place < 0 || slices.Contains(r.line[:max(place, 0)], aWriter)
	}
	slot := slices.IndexFunc(r.all[:m.nodes], func(b readerNode) bool { return b == readerNode{} })
	for _, trying := range []bool{false, true} {
		may := r.at == enters && !r.lost && r.line[3] == 0 && slot >= 0 && !r.unwanted && r.own == 0
		may = may && (trying && r.tries > 0 || !trying && r.waits > 0)
		try(may, fmt.Sprint("the node is made, of a try: ", trying), func(r *readersState) {
			r.at, r.trying, r.own = queued, trying, int8(slot+1)
			r.joinLine(r.own)
			r.all[slot].node = nodePresent
		})
	}
	try(r.at == queued && b.node != nodePresent && !r.unwanted, "the place is lost", func(r *readersState) {
		r.at, r.own, r.newer = enters, 0, 0
	})
	try((r.at == enters || r.at == queued) && (r.unwanted || r.waits+r.tries == 0), "the wait ends", func(r *readersState) {
		r.unwanted = true
		m.failAttempt(r, false)
	})
	try(r.at == queued && r.trying && blocked && b.node == nodePresent, "a writer is ahead of a try", func(r *readersState) { m.failAttempt(r, true) })
	try(r.at == queued && !r.trying && blocked && b.node == nodePresent && !r.behind, "a writer is ahead", func(r *readersState) {
		m.applyEvent(r, onOthers, 0, false)
	})
	try(r.faults > 0 && r.at == enters, "no node can be made", func(r *readersState) {
		r.faults--
		m.failAttempt(r, false)
	})
	try(r.at == queued && b.node == nodePresent && !blocked, "it is its turn", func(r *readersState) {
		r.at, r.all[r.own-1].hold = arrived, isHeld
	})
	try(r.at == arrived, "those who wait have the lock", func(r *readersState) {
		todo := m.applyEvent(r, onGrant, 0, false)
		if r.at, r.unwanted, r.trying = noAttempt, false, false; todo == retireNode {
			r.at = deletes
		}
	})
	try(r.at == deletes, "the owner deletes the node", func(r *readersState) {
		r.all[r.own-1].releaseReaders()
		r.at, r.own = noAttempt, 0
		m.applyEvent(r, onDeletion, 0, false)
	})
}

// nodeSteps plays the events of a node.
func (m readersModel) nodeSteps(r readersState, i int, try func(may bool, what string, f func(r *readersState, b *readerNode))) {
	b, who := r.all[i], int8(i+1)
	try(b.reads > 0, "a reader releases", func(r *readersState, b *readerNode) {
		b.reads--
		m.releaseReader(r, i)
	})
	try(r.faults > 0 && b.hold == isHeld, "the hold is lost", func(r *readersState, b *readerNode) {
		r.faults--
		b.hold = holdLost
	})
	try(r.faults > 0 && b.hold == isHeld && !b.asked, "somebody asks for the lock", func(r *readersState, b *readerNode) {
		r.faults--
		b.asked = true
	})
	try(r.faults > 0 && b.node == nodePresent, "an administrator deletes the node", func(r *readersState, b *readerNode) {
		r.faults--
		r.removeEntry(who)
		b.node, b.robbed = nodeAbsent, true
	})
	try(b.hold == isHeld && b.node == nodeAbsent, "the hold ends with its node", func(r *readersState, b *readerNode) { b.hold = holdGone })
	try(b.node == nodeDeleted, "the delete is executed", func(r *readersState, b *readerNode) {
		r.removeEntry(who)
		b.node = nodeAbsent
	})
	try(b.node == nodeDoomed && (b.reads == 0 || r.hasty), "the servers remove the node", func(r *readersState, b *readerNode) {
		r.removeEntry(who)
		b.node = nodeAbsent
	})
	try(b.hold == holdGone && b.reads > 0, "the readers stop", func(r *readersState, b *readerNode) {
		for b.reads > 0 { // they also release, which they may do later as well
			b.reads--
			m.releaseReader(r, i)
		}
	})
}

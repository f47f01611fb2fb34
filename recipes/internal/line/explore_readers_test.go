package line

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/go-curator/curator/internal/explore"
)

// The model of a [Front] whose callers have the lock together (rwlock.Readers). Called are Limits.next and Front.releaseTurn; what
// else is around them (front.go), the servers and a writer of another client are played.
//
// Bounds: three callers at a time, who come again and again, with or without the wish to wait, and so does the writer;
// two nodes at a time, three for a night; one caller may join a node that has the lock, within one unit of time; two faults: a session
// is lost, a hold is lost in a session that continues, or before those who wait have it, an attempt fails, an administrator
// deletes a node, or somebody asks for one to be given up. Grants and deletes come late.
//
// A lost session's nodes are removed after its readers have stopped, and the next are made after that. Readers whose
// hold was lost in a session that continues may be at work until they release.
//
// Not modelled: how the line is read (TestExploreLineOfReaders), the order of the callers in line, downgrades, re-entry, hooks.
//
// Wrong: a reader is at work while the writer has the lock, unless an administrator has deleted the node; a reader begins
// with a hold that has ended; one joins after the bounds, or when the lock was asked for; one who waits is forgotten; a
// node stays that nobody wants. Final: nothing is left. If nobody gives up, it is reached only when each has had the
// lock or an error.
func TestExploreReaders(t *testing.T) {
	explore.Test(t, modelOfReaders(), "readers join without end", "the last but one takes the node along",
		"one that gives up takes the others along", "joined after a request")
}

// What is rare is reached, and readers that stop too late after a loss are found.
func TestExploreReadersFinds(t *testing.T) {
	reach := func(rare func(readers) bool) {
		t.Helper()
		m := modelOfReaders()
		m.Final, m.Wrong = nil, func(r readers) string {
			if rare(r) {
				return "reached"
			}
			return ""
		}
		explore.Finds(t, m)
	}
	reach(func(r readers) bool { return r.phase == nodeFree && r.turns == 1 && r.users == 3 })
	reach(func(r readers) bool {
		return slices.ContainsFunc(r.all[:], func(b bunch) bool { return b.users == 2 && b.hold == holdLost })
	})
	reach(func(r readers) bool { return r.trying && r.tries > r.newer && r.newer > 0 && r.waits > 0 })
	reach(func(r readers) bool { return r.phase == nodeComing && r.behind && r.tries == 0 && r.waits == 2 })
	reach(func(r readers) bool { // one ahead of the writer that nobody may join, and one behind it
		return r.own == 2 && r.all[0].users > 0 && r.line == [4]int8{1, aWriter, 2}
	})
	m := modelOfReaders()
	m.Start = []readers{{hasty: true, faults: 1}}
	explore.Finds(t, m)
}

type (
	progress int8
	holding  int8
	presence int8
)

const (
	noAttempt progress = iota
	enters             // a node is to be made
	queued             // it is made
	arrived            // the hold has begun, and those who wait do not have it yet
	deletes            // the owner is to delete the node
)

const (
	unheld   holding = iota
	isHeld           // live
	holdLost         // and the session continues
	holdGone         // lost with the session, or the node
)

const (
	nodeAbsent  presence = iota
	nodePresent          //
	nodeDeleted          // its delete is on its way
	nodeDoomed           // its session is lost
)

// aWriter stands in the line for the other client.
const aWriter int8 = 9

// bunch is a node, and its readers.
type bunch struct {
	reads  int8 // callers, as they see it themselves
	users  int8 // of a node that the Front has retired
	asked  bool
	robbed bool // an administrator has deleted the node
	hold   holding
	node   presence
}

// readers is a state of the model.
type readers struct {
	// What Limits.next has returned. The time is relative to now.
	phase             frontPhase
	users, turns, age int8
	behind, asked     bool

	waits, tries int8 // callers in line
	newer        int8 // tries that have come since the attempt began
	at           progress
	trying       bool // the attempt does not wait for writers
	unwanted     bool // the attempt is to be stopped

	all  [3]bunch
	own  int8    // the place in all of the node that is acquired, or that callers may join, from 1 on
	line [4]int8 // places in all, from 1 on, or aWriter
	lost bool    // the session is, and there is no other yet

	patient bool // nobody gives up
	hasty   bool // the servers end a session before its readers have stopped
	faults  int8
	wrong   mistake
}

type mistake int8

const (
	noMistake mistake = iota
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

func modelOfReaders() explore.Model[readers] {
	m, faults := readersModel{Limits{Turns: 1, Period: 1}, 3, 2}, int8(2)
	if os.Getenv("LONG") != "" {
		m.nodes = 3
	}
	return explore.Model[readers]{
		Start: []readers{{faults: faults}, {faults: faults, patient: true}}, Next: m.next,
		Wrong: readers.why,
		Final: func(r readers) bool {
			return r.all == [3]bunch{} && r.line == [4]int8{} && r.at == noAttempt && r.waits+r.tries == 0
		},
	}
}

func (r readers) why() string {
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

func (r *readers) remove(who int8) {
	if i := slices.Index(r.line[:], who); i >= 0 {
		copy(r.line[i:], r.line[i+1:])
		r.line[len(r.line)-1] = 0
	}
}

func (r *readers) join(who int8) { r.line[slices.Index(r.line[:], 0)] = who }

// state is what Limits.next has returned.
func (r *readers) state() frontState {
	s := frontState{
		phase: r.phase, users: int(r.users), turns: int(r.turns), grantedAt: now.Add(-time.Duration(r.age)), revoked: r.asked,
	}
	if r.behind {
		s.others = othersSome
	}
	return s
}

// on is Front.next.
func (m readersModel) on(r *readers, e frontEvent, more int8, try bool) frontAction {
	x := frontFacts{waiting: int(r.waits + r.tries + more), try: try, now: now}
	if r.own > 0 && (r.at == noAttempt || r.at == arrived) {
		x.valid = r.all[r.own-1].hold == isHeld
	}
	before := r.users
	s, todo := m.limits.next(r.state(), e, x)
	r.set(s)
	switch todo {
	case startOwner:
		r.begin()
	case stopOwner:
		r.unwanted = true
	case serveCallers:
		b := &r.all[r.own-1]
		switch { // who reads now
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
			r.begin()
		}
	case refuseTries:
		if e != onArrival {
			r.tries, r.newer = 0, 0
			m.on(r, onGiveUp, 0, false)
		}
	}
	return todo
}

// set keeps what Limits.next has returned.
func (r *readers) set(s frontState) {
	r.phase, r.users, r.turns, r.behind, r.asked, r.age = s.phase, int8(s.users), int8(min(s.turns, 2)), s.others == othersSome, s.revoked, 0
	if s.phase == nodeFree {
		r.age = int8(min(now.Sub(s.grantedAt), 1))
	}
}

// begin is Front.begin, except for the kind of the attempt.
func (r *readers) begin() {
	r.at, r.newer, r.unwanted, r.trying = enters, 0, r.waits+r.tries < 0, false
}

// fail is the end of Front.acquireNode after an error: a writer is ahead, or another one.
func (m readersModel) fail(r *readers, ahead bool) {
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
		r.all[r.own-1].abandon()
		r.own = 0
	}
	m.on(r, onFailure, 0, false)
}

// release is Turn.end, of a reader of all[i].
func (m readersModel) release(r *readers, i int) {
	b := &r.all[i]
	f := &Front{limits: m.limits, state: r.state()}
	n := &frontNode{Grant: &Grant{}, front: f, users: int(b.users)}
	if r.own == int8(i+1) {
		f.node = n
	}
	last, _ := f.releaseTurn(n, time.Time{}, now)
	b.users = int8(n.users)
	if r.own == int8(i+1) {
		if r.set(f.state); last {
			b.users, r.own = 0, 0
		}
	}
	if last {
		b.abandon()
	}
}

func (b *bunch) abandon() {
	b.hold = unheld
	if b.node == nodePresent {
		b.node = nodeDeleted
	}
}

// normal returns r with its nodes in the order of the line: which is which makes no difference.
func (r readers) normal() readers {
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
	is := [10]int8{aWriter: aWriter} // the new place of each
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

func (m readersModel) next(r readers, each func(string, readers)) {
	try := func(may bool, what string, f func(r *readers)) {
		if !may {
			return
		}
		next := r
		f(&next)
		for i, b := range next.all {
			if next.own != int8(i+1) && b.node == nodeAbsent && b.reads == 0 {
				next.all[i] = bunch{}
			}
		}
		each(what, next.normal())
	}
	callers := r.waits + r.tries
	for _, b := range r.all {
		callers += b.reads
	}
	try(callers < m.callers, "a caller comes", func(r *readers) { m.arrive(r, false) })
	try(callers < m.callers, "a caller tries", func(r *readers) { m.arrive(r, true) })
	try(r.waits > 0 && !r.patient, "one that waits gives up", func(r *readers) {
		r.waits--
		m.on(r, onGiveUp, 0, false)
	})
	try(r.tries > 0 && !r.patient, "one that tries gives up", func(r *readers) {
		r.tries--
		r.newer = min(r.newer, r.tries)
		m.on(r, onGiveUp, 0, false)
	})
	waits := slices.Contains(r.line[:], aWriter)
	try(!waits && r.line[3] == 0, "a writer comes", func(r *readers) { r.join(aWriter) })
	try(waits && (r.line[0] == aWriter || !r.patient), "the writer goes", func(r *readers) { r.remove(aWriter) })
	try(r.faults > 0 && !r.lost, "the session is lost", func(r *readers) {
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
	try(r.lost && !slices.ContainsFunc(r.all[:], func(b bunch) bool { return b.node == nodeDoomed }),
		"there is another session", func(r *readers) { r.lost = false })
	try(r.phase == nodeFree, "time passes", func(r *readers) { r.age = 1 })
	m.attempt(r, try)
	for i := range r.all {
		m.node(r, i, func(may bool, what string, f func(r *readers, b *bunch)) {
			try(may, fmt.Sprintf("%d: %s", i+1, what), func(r *readers) { f(r, &r.all[i]) })
		})
	}
}

// arrive is Front.arrive.
func (m readersModel) arrive(r *readers, try bool) {
	if r.phase == nodeFree && r.all[r.own-1].asked {
		m.on(r, onRevocation, 0, false)
	}
	switch m.on(r, onArrival, 1, try) {
	case serveCallers, refuseTries:
		return
	}
	if !try {
		r.waits++
		return
	}
	r.tries++
	if r.at != enters {
		r.newer++ // the attempt has begun, for all that the model knows
	}
}

// attempt is what happens to the owner.
func (m readersModel) attempt(r readers, try func(may bool, what string, f func(r *readers))) {
	blocked := false // by the writer
	var b bunch
	if r.own > 0 {
		b = r.all[r.own-1]
		place := slices.Index(r.line[:], r.own)
		blocked = place < 0 || slices.Contains(r.line[:max(place, 0)], aWriter)
	}
	slot := slices.IndexFunc(r.all[:m.nodes], func(b bunch) bool { return b == bunch{} })
	for _, trying := range []bool{false, true} {
		may := r.at == enters && !r.lost && r.line[3] == 0 && slot >= 0 && !r.unwanted && r.own == 0
		may = may && (trying && r.tries > 0 || !trying && r.waits > 0)
		try(may, fmt.Sprint("the node is made, of a try: ", trying), func(r *readers) {
			r.at, r.trying, r.own = queued, trying, int8(slot+1)
			r.join(r.own)
			r.all[slot].node = nodePresent
		})
	}
	try(r.at == queued && b.node != nodePresent && !r.unwanted, "the place is lost", func(r *readers) {
		r.at, r.own, r.newer = enters, 0, 0
	})
	try((r.at == enters || r.at == queued) && (r.unwanted || r.waits+r.tries == 0), "the wait ends", func(r *readers) {
		r.unwanted = true
		m.fail(r, false)
	})
	try(r.at == queued && r.trying && blocked && b.node == nodePresent, "a writer is ahead of a try", func(r *readers) { m.fail(r, true) })
	try(r.at == queued && !r.trying && blocked && b.node == nodePresent && !r.behind, "a writer is ahead", func(r *readers) {
		m.on(r, onOthers, 0, false)
	})
	try(r.faults > 0 && r.at == enters, "no node can be made", func(r *readers) {
		r.faults--
		m.fail(r, false)
	})
	try(r.at == queued && b.node == nodePresent && !blocked, "it is its turn", func(r *readers) {
		r.at, r.all[r.own-1].hold = arrived, isHeld
	})
	try(r.at == arrived, "those who wait have the lock", func(r *readers) {
		todo := m.on(r, onGrant, 0, false)
		if r.at, r.unwanted, r.trying = noAttempt, false, false; todo == retireNode {
			r.at = deletes
		}
	})
	try(r.at == deletes, "the owner deletes the node", func(r *readers) {
		r.all[r.own-1].abandon()
		r.at, r.own = noAttempt, 0
		m.on(r, onDeletion, 0, false)
	})
}

// node is what happens to a node.
func (m readersModel) node(r readers, i int, try func(may bool, what string, f func(r *readers, b *bunch))) {
	b, who := r.all[i], int8(i+1)
	try(b.reads > 0, "a reader releases", func(r *readers, b *bunch) {
		b.reads--
		m.release(r, i)
	})
	try(r.faults > 0 && b.hold == isHeld, "the hold is lost", func(r *readers, b *bunch) {
		r.faults--
		b.hold = holdLost
	})
	try(r.faults > 0 && b.hold == isHeld && !b.asked, "somebody asks for the lock", func(r *readers, b *bunch) {
		r.faults--
		b.asked = true
	})
	try(r.faults > 0 && b.node == nodePresent, "an administrator deletes the node", func(r *readers, b *bunch) {
		r.faults--
		r.remove(who)
		b.node, b.robbed = nodeAbsent, true
	})
	try(b.hold == isHeld && b.node == nodeAbsent, "the hold ends with its node", func(r *readers, b *bunch) { b.hold = holdGone })
	try(b.node == nodeDeleted, "the delete is executed", func(r *readers, b *bunch) {
		r.remove(who)
		b.node = nodeAbsent
	})
	try(b.node == nodeDoomed && (b.reads == 0 || r.hasty), "the servers remove the node", func(r *readers, b *bunch) {
		r.remove(who)
		b.node = nodeAbsent
	})
	try(b.hold == holdGone && b.reads > 0, "the readers stop", func(r *readers, b *bunch) {
		for b.reads > 0 { // and release, which they may do later as well
			b.reads--
			m.release(r, i)
		}
	})
}

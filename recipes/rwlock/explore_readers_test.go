package rwlock

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/go-curator/curator/internal/explore"
)

// The model of the groups of a [Readers]. Called is limits.next; what is around it (readers.go, readers_group.go), the
// servers and a writer of another client are played.
//
// Bounds: three callers at a time, who come again and again, with or without the wish to wait, and so does the writer;
// two groups at a time, three for a night; one caller may join a group that has the lock, within one unit of time; two faults: a session
// is lost, a hold is lost in a session that goes on, or before those who wait have it, an attempt fails, an administrator
// deletes a node, or somebody asks for one to be given up. Grants and deletes come late.
//
// A lost session's nodes are removed after its readers have stopped, and the next are made after that. Readers whose
// hold was lost in a session that goes on may be at work until they release.
//
// Not modelled: how the line is read (TestExploreReadWriteLine), downgrades, re-entry, hooks.
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
	with := func(is func(bunch) bool) func(readers) bool {
		return func(r readers) bool { return slices.ContainsFunc(r.all[:], is) }
	}
	reach(with(func(b bunch) bool { return b.phase == open && b.joins == 1 && b.reads == 3 }))
	reach(with(func(b bunch) bool { return b.phase == closed && b.hold == suspended && b.reads == 2 }))
	reach(with(func(b bunch) bool { return b.try && b.phase == over && b.node == leaving }))
	reach(func(r readers) bool { // one ahead of the writer that nobody may join, and one behind it
		return r.newest == 2 && r.all[0].phase == closed && r.line == [4]int8{1, writer, 2}
	})
	m := modelOfReaders()
	m.Start = []readers{{hasty: true, faults: 1}}
	explore.Finds(t, m)
}

type (
	progress int8
	hold     int8
	node     int8
)

const (
	nobody   progress = iota // it is no group
	enters                   // a node is to be made
	queued                   // it is made
	arrived                  // the hold has begun, and those who wait do not have it yet
	complete                 // the attempt is over
)

const (
	unheld hold = iota
	live
	suspended // lost, and the session goes on
	gone      // lost with the session, or the node
)

const (
	absent  node = iota
	present      //
	leaving      // its delete is on its way
	doomed       // its session is lost
)

// writer stands in the line for the other client.
const writer int8 = 9

// bunch is a group.
type bunch struct {
	// What limits.next has returned. The time is relative to now.
	phase          phase
	try            bool
	waiting, joins int8
	readers        int8
	age            int8

	waits, reads int8 // callers, as they see it themselves
	at           progress
	unwanted     bool // the attempt is to be stopped
	asked        bool
	robbed       bool // an administrator has deleted the node
	hold         hold
	node         node
}

// readers is a state of the model.
type readers struct {
	all            [3]bunch
	newest, trying int8    // places in all, from 1 on
	line           [4]int8 // places in all, from 1 on, or writer
	lost           bool    // the session is, and there is no other yet

	patient bool // nobody gives up
	hasty   bool // the servers end a session before its readers have stopped
	faults  int8
	wrong   mistake
}

type mistake int8

const (
	none mistake = iota
	afterLoss
	tooMany
	tooLate
	afterRequest
)

type readersModel struct {
	limits  limits
	callers int8
	groups  int
}

func modelOfReaders() explore.Model[readers] {
	m, faults := readersModel{limits{joins: 1, howLong: 1}, 3, 2}, int8(2)
	if os.Getenv("LONG") != "" {
		m.groups = 3
	}
	return explore.Model[readers]{
		Start: []readers{{faults: faults}, {faults: faults, patient: true}}, Next: m.next,
		Wrong: readers.why,
		Final: func(r readers) bool { return r.all == [3]bunch{} && r.line == [4]int8{} },
	}
}

func (r readers) why() string {
	for _, b := range r.all {
		switch {
		case b.reads > 0 && r.line[0] == writer && !b.robbed:
			return "a reader is at work, and a writer has the lock"
		case b.waits > 0 && b.phase != coming:
			return "one who waits is forgotten"
		case b.at == complete && b.node == present && b.phase == over:
			return "a node stays that nobody wants"
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

var now = time.Unix(1000, 0)

// on is local.next.
func (m readersModel) on(r *readers, i int, e event) action {
	b := &r.all[i]
	s := state{
		phase: b.phase, try: b.try, waiting: int(b.waiting), readers: int(b.readers), joins: int(b.joins),
		granted: now.Add(-time.Duration(b.age)),
	}
	f := facts{now: now}
	if b.hold != unheld && e != onLeave {
		f.certain, f.asked = b.hold == live, b.asked
	}
	s, todo := m.limits.next(s, e, f)
	age := int8(min(now.Sub(s.granted), m.limits.howLong))
	if s.phase == over || s.phase == coming {
		age = 0
	}
	b.phase, b.try, b.waiting, b.readers, b.joins, b.age =
		s.phase, s.try, int8(s.waiting), int8(s.readers), int8(min(s.joins, m.limits.joins+1)), age
	switch { // who reads now
	case todo != read:
	case b.hold != live:
		r.wrong = afterLoss
	case e != onGrant && s.joins > m.limits.joins:
		r.wrong = tooMany
	case e != onGrant && now.Sub(s.granted) >= m.limits.howLong:
		r.wrong = tooLate
	case e != onGrant && b.asked:
		r.wrong = afterRequest
	}
	if s.phase == closed || s.phase == over {
		r.forget(i)
	}
	return todo
}

func (r *readers) forget(i int) {
	if r.newest == int8(i+1) {
		r.newest = 0
	}
	if r.trying == int8(i+1) {
		r.trying = 0
	}
}

// leave is group.leave, and what follows from it.
func (m readersModel) leave(r *readers, i int) {
	switch b := &r.all[i]; m.on(r, i, onLeave) {
	case stop:
		b.unwanted = true
	case end:
		b.abandon()
	}
}

func (b *bunch) abandon() {
	b.hold = unheld
	if b.node == present {
		b.node = leaving
	}
}

// failed is group.failed.
func (m readersModel) failed(r *readers, i int) {
	b := &r.all[i]
	if b.at = complete; b.phase == coming {
		m.on(r, i, onFailure)
		b.waits = 0
	}
	b.abandon()
}

// begin is group.begin.
func (m readersModel) begin(r *readers, i int) {
	b := &r.all[i]
	if b.at = enters; b.phase != coming {
		b.at = complete
	}
}

// normal returns r with its groups in the order of their nodes: which is which makes no difference.
func (r readers) normal() readers {
	places := []int8{1, 2, 3}
	first := func(p int8) int {
		if i := slices.Index(r.line[:], p); i >= 0 {
			return i
		}
		b := r.all[p-1]
		return 1000 - 100*int(b.at) - 10*int(b.phase) - int(b.waits) - int(b.reads)
	}
	slices.SortStableFunc(places, func(a, b int8) int { return first(a) - first(b) })
	is := [10]int8{writer: writer} // the new place of each
	n := r
	for i, p := range places {
		is[p], n.all[i] = int8(i+1), r.all[p-1]
	}
	for i := range n.line {
		n.line[i] = is[r.line[i]]
	}
	n.newest, n.trying = is[r.newest], is[r.trying]
	return n
}

func (m readersModel) next(r readers, each func(string, readers)) {
	try := func(may bool, what string, f func(r *readers)) {
		if !may {
			return
		}
		next := r
		f(&next)
		for i, b := range next.all { // what is over is no group any more
			if b.phase == over && b.at == complete && b.node == absent && b.waits+b.reads == 0 {
				next.all[i] = bunch{}
			}
		}
		each(what, next.normal())
	}
	callers := int8(0)
	for _, b := range r.all {
		callers += b.waits + b.reads
	}
	try(callers < m.callers, "a caller comes", func(r *readers) { m.arrive(r, onArrival) })
	try(callers < m.callers, "a caller tries", func(r *readers) { m.arrive(r, onTry) })
	waits := slices.Contains(r.line[:], writer)
	try(!waits && r.line[3] == 0, "a writer comes", func(r *readers) { r.join(writer) })
	try(waits && (r.line[0] == writer || !r.patient), "the writer goes", func(r *readers) { r.remove(writer) })
	try(r.faults > 0 && !r.lost, "the session is lost", func(r *readers) {
		r.faults--
		r.lost = true
		for i := range r.all {
			b := &r.all[i]
			if b.hold != unheld {
				b.hold = gone
			}
			if b.node != absent {
				b.node = doomed
			}
		}
	})
	try(r.lost && !slices.ContainsFunc(r.all[:], func(b bunch) bool { return b.node == doomed }),
		"there is another session", func(r *readers) { r.lost = false })
	try(true, "time passes", func(r *readers) {
		for i := range r.all {
			if b := &r.all[i]; b.phase == open || b.phase == closed {
				b.age = min(b.age+1, int8(m.limits.howLong))
			}
		}
	})
	for i, b := range r.all {
		if b.at != nobody {
			m.group(r, i, func(may bool, what string, f func(r *readers, b *bunch)) {
				try(may, fmt.Sprintf("%d: %s", i+1, what), func(r *readers) { f(r, &r.all[i]) })
			})
		}
	}
}

// arrive is local.arrive.
func (m readersModel) arrive(r *readers, e event) {
	for _, g := range []int8{r.newest, r.trying} {
		if g == 0 {
			continue
		}
		b := &r.all[g-1]
		switch m.on(r, int(g-1), e) {
		case read:
			b.reads++
			return
		case wait:
			b.waits++
			return
		}
	}
	i := slices.IndexFunc(r.all[:], func(b bunch) bool { return b.at == nobody })
	if i < 0 || i >= m.groups {
		return
	}
	r.all[i] = bunch{try: e == onTry, waiting: 1, waits: 1, at: enters}
	if e == onTry {
		r.trying = int8(i + 1)
	} else {
		r.newest = int8(i + 1)
	}
}

// group is what happens to a group.
func (m readersModel) group(r readers, i int, try func(may bool, what string, f func(r *readers, b *bunch))) {
	b, who := r.all[i], int8(i+1)
	place := slices.Index(r.line[:], who)
	blocked := place < 0 || slices.Contains(r.line[:max(place, 0)], writer)

	try(b.waits > 0 && !r.patient, "one who waits gives up", func(r *readers, b *bunch) {
		b.waits--
		m.leave(r, i)
	})
	try(b.reads > 0, "a reader releases", func(r *readers, b *bunch) {
		b.reads--
		m.leave(r, i)
	})
	try(b.at == enters && !r.lost && b.node == absent && r.line[3] == 0, "the node is made", func(r *readers, b *bunch) {
		r.join(who)
		b.at, b.node, b.robbed = queued, present, false
	})
	try(b.at == queued && b.node != present && !b.unwanted, "the place is lost", func(r *readers, b *bunch) { b.at = enters })
	try((b.at == enters || b.at == queued) && b.unwanted, "the wait ends", func(r *readers, b *bunch) { m.failed(r, i) })
	try(b.at == queued && b.try && blocked && b.node == present, "a writer is ahead", func(r *readers, b *bunch) { m.failed(r, i) })
	try(r.faults > 0 && b.at == enters, "no node can be made", func(r *readers, b *bunch) {
		r.faults--
		m.failed(r, i)
	})
	try(b.at == queued && b.node == present && !blocked, "it is its turn", func(r *readers, b *bunch) {
		b.at, b.hold = arrived, live
	})
	try(b.at == arrived, "those who wait have the lock", func(r *readers, b *bunch) { // group.granted
		if b.at = complete; m.on(r, i, onGrant) != read {
			b.abandon()
			m.begin(r, i)
			return
		}
		r.forget(i)
		if b.reads, b.waits = b.waits, 0; r.newest == 0 {
			r.newest = who
		}
	})
	try(r.faults > 0 && b.hold == live, "the hold is lost", func(r *readers, b *bunch) {
		r.faults--
		b.hold = suspended
	})
	try(r.faults > 0 && b.hold == live && !b.asked, "somebody asks for the lock", func(r *readers, b *bunch) {
		r.faults--
		b.asked = true
	})
	try(r.faults > 0 && b.node == present, "an administrator deletes the node", func(r *readers, b *bunch) {
		r.faults--
		r.remove(who)
		b.node, b.robbed = absent, true
	})
	try(b.hold == live && b.node == absent, "the hold ends with its node", func(r *readers, b *bunch) { b.hold = gone })
	try(b.node == leaving, "the delete is executed", func(r *readers, b *bunch) {
		r.remove(who)
		b.node = absent
	})
	try(b.node == doomed && (b.reads == 0 || r.hasty), "the servers remove the node", func(r *readers, b *bunch) {
		r.remove(who)
		b.node = absent
	})
	try(b.hold == gone && b.reads > 0, "the readers stop", func(r *readers, b *bunch) {
		for ; b.reads > 0; b.reads-- { // and release, which they may do later as well
			m.leave(r, i)
		}
	})
}

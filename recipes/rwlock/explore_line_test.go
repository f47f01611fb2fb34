package rwlock

import (
	"fmt"
	"slices"
	"testing"

	"github.com/go-curator/curator/internal/explore"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/line"
)

// The model of the line of readers and writers, with downgrades. It calls Decide of the line.Order that [New] gives to each side;
// it simulates servers, events and the steps of a waiter (line.waiter, Side.acquireDowngraded).
//
// Bounds: three clients, each with one caller at a time, which contends repeatedly as a reader or a writer; two faults. A fault
// is one of: a session is lost; a hold is lost in a session that lives; an administrator deletes a node; a connection is lost,
// with a reply or watch that a caller waits for. Replies, events and deletes are late. Two nodes with the same number are listed
// in either order.
//
// A lost session's nodes are deleted after its user has stopped, and its client contends again after that: the margin and the
// grace ensure this. A user whose hold is lost in a session that lives may work until it releases.
//
// Not modelled: nodes of Curator for Java up to 5.4, TryAcquire, foreign children, re-entry.
//
// Wrong: a writer works at the same time as another client's holder, unless an administrator has deleted the node of one of them;
// a reader is granted behind a waiting writer; a waiter watches another node than its predecessor's. Final: no node is left. If
// no waiter gives up, it is reached only when each caller has held its lock.
func TestExploreReadWriteLine(t *testing.T) {
	explore.Test(t, modelOfLine(), "no list in a read-write lock", "a reader passes writers")
}

// The model reaches the rare states, and finds that a downgrade without a check of the write lock's node is not safe.
func TestExploreReadWriteLineFinds(t *testing.T) {
	is := func(c contender, at where, kind Kind) bool { return c.at == at && c.kind == kind }
	for _, rare := range []func(first, second, third contender) bool{
		func(a, b, c contender) bool { return a.both && is(b, waits, Write) && is(c, waits, Read) },
		func(a, b, c contender) bool { return a.lowered && is(b, holds, Read) && is(c, told, Write) },
		func(a, b, c contender) bool { return is(a, lapsed, Read) && is(b, arms, Write) && is(c, arms, Read) },
		func(a, b, c contender) bool { return is(a, holds, Write) && is(c, holds, Write) && c.robbed },
		func(a, b, c contender) bool { return is(a, loses, Read) && is(b, holds, Read) && is(c, granted, Read) },
	} {
		m := modelOfLine()
		m.Final, m.Wrong = nil, func(l lineState) string {
			if rare(l.all[0], l.all[1], l.all[2]) {
				return "reached"
			}
			return ""
		}
		explore.Finds(t, m)
	}
	m := modelOfLine()
	m.Start = []lineState{{unchecked: true, faults: 1}}
	explore.Finds(t, m)
}

type where int8

const (
	out     where = iota // it may contend
	lists                // its node is created; a list is requested
	granted              // it is the first, by a list or an event
	arms                 // the list has its predecessor; the watch is requested
	waits                // the watch is armed
	told                 // the event is in flight
	holds                //
	loses                // the hold is lost, and not released
	lapsed               // the session is lost, and the user works
	fenced               // the session is lost, and the user has stopped
)

// entry is a node in the line.
type entry struct {
	who  int8 // the client, from 1; 0: no node
	kind Kind
	old  bool // its delete is in flight, or its session is lost
}

// contender is a client with its caller.
type contender struct {
	at          where
	kind        Kind
	both        bool  // holds: the write lock and the read lock under it
	lowered     bool  // holds: the read lock of a downgrade
	ahead       entry // its predecessor, from arms on
	onlyAhead   bool  // Decision.OnlyAhead
	orderAgreed bool  // Decision.OrderAgreed
	marked      bool  // the mark of its predecessor has arrived
	robbed      bool  // an administrator has deleted its node
}

// lineState is a state of the model. The number of a node is its place in order; the two nodes of a downgrade have one number.
type lineState struct {
	order [4]entry
	all   [3]contender

	patient   bool // no waiter gives up
	unchecked bool // a downgrade does not check the write lock's node
	faults    int8 // how many are left
	fault     fault
}

type fault int8

const (
	fine fault = iota
	passesWriter
	notTheNearest
	notInTheList
)

func modelOfLine() explore.Model[lineState] {
	start := lineState{faults: 3}
	patient := start
	patient.patient = true
	m := lineModel{}
	rw := New(nil, "/lock")
	m.orders = [...]line.Order{Read: rw.read.line.Order, Write: rw.write.line.Order}
	for i := range m.guids {
		m.guids[i] = fmt.Sprintf("%08d-0000-0000-0000-000000000000", i)
	}
	return explore.Model[lineState]{
		Start: []lineState{start, patient}, Next: m.next, Most: 3_000_000,
		Wrong: func(l lineState) string { return l.wrong() },
		Final: func(l lineState) bool {
			idle := !slices.ContainsFunc(l.all[:], func(c contender) bool { return c.at != out })
			return idle && l.order == [4]entry{}
		},
	}
}

type lineModel struct {
	orders [3]line.Order
	guids  [4]string
}

func (c contender) works() bool { return c.at == holds || c.at == loses || c.at == lapsed }

func (l lineState) wrong() string {
	for i, a := range l.all {
		for j, b := range l.all {
			if i != j && a.works() && b.works() && !a.robbed && !b.robbed && (a.kind == Write || a.both) {
				return "a writer is at work, and so is another client"
			}
		}
	}
	return [...]string{"", "a reader is granted behind a writer", "a waiter watches another node than the nearest",
		"a list with the node is taken for one without"}[l.fault]
}

func (l *lineState) remove(e entry) {
	i := slices.Index(l.order[:], e)
	copy(l.order[i:], l.order[i+1:])
	l.order[len(l.order)-1] = entry{}
	for j := range l.all {
		c := &l.all[j]
		if !c.ahead.same(e) {
			continue
		}
		if c.ahead = (entry{}); c.at == waits { // otherwise the watch will not be armed
			c.at = told
		}
	}
}

func (e entry) same(o entry) bool { return e.who == o.who && e.kind == o.kind }

// release sends the delete of a node.
func (l *lineState) release(who int8, kind Kind) {
	if i := l.find(who, kind); i >= 0 {
		l.order[i].old = true
	}
}

func (l *lineState) find(who int8, kind Kind) int {
	return slices.Index(l.order[:], entry{who, kind, false})
}

func (l *lineState) size() int {
	if n := slices.Index(l.order[:], entry{}); n >= 0 {
		return n
	}
	return len(l.order)
}

// names returns the nodes' names in the order of a list, and their entries. The numbers are those of the places.
func (m lineModel) names(l lineState) (names []string, at []entry) {
	number := 0
	for i, e := range l.order[:l.size()] {
		if i == 0 || !l.pair(i-1) {
			number++
		}
		name := readName
		if e.kind == Write {
			name = writeName
		}
		names = append(names, zkpath.Protect(m.guids[e.who], fmt.Sprintf("%s%010d", name, number)))
		at = append(at, e)
	}
	return names, at
}

// pair reports whether the nodes at i and i+1 are those of a downgrade.
func (l lineState) pair(i int) bool {
	a, b := l.order[i], l.order[i+1]
	return a.who == b.who && a.kind == Write && b.kind == Read
}

// normal returns l with its clients in the order of their first nodes: their identity makes no difference.
func (l lineState) normal() lineState {
	who := []int8{1, 2, 3}
	first := func(w int8) int {
		if i := slices.IndexFunc(l.order[:], func(e entry) bool { return e.who == w }); i >= 0 {
			return i
		}
		return len(l.order) + int(l.all[w-1].at)
	}
	slices.SortStableFunc(who, func(a, b int8) int { return first(a) - first(b) })
	var is [4]int8 // the new number of each client
	n := l
	for i, w := range who {
		is[w] = int8(i + 1)
		n.all[i] = l.all[w-1]
	}
	for i := range n.order {
		n.order[i].who = is[l.order[i].who]
	}
	for i := range n.all {
		n.all[i].ahead.who = is[n.all[i].ahead.who]
	}
	return n
}

func (m lineModel) next(l lineState, each func(string, lineState)) {
	step := func(what string, next lineState) { each(what, next.normal()) }
	try := func(may bool, who int, what string, f func(l *lineState, c *contender)) {
		if may {
			next := l
			f(&next, &next.all[who])
			step(fmt.Sprintf("%d: %s", who+1, what), next)
		}
	}
	for i, c := range l.all {
		who := int8(i + 1)
		room := l.size() < len(l.order)
		join := func(kind Kind) func(*lineState, *contender) {
			return func(l *lineState, c *contender) {
				*c = contender{at: lists, kind: kind}
				l.order[l.size()] = entry{who, kind, false}
			}
		}
		none := !slices.ContainsFunc(l.order[:], func(e entry) bool { return e.who == who })
		switch c.at {
		case out:
			try(none && room, i, "a reader joins", join(Read))
			try(none && room, i, "a writer joins", join(Write))
		case lists:
			m.lists(l, i, step)
		case arms:
			try(true, i, "the watch is armed", func(l *lineState, c *contender) {
				if c.at = waits; c.ahead == (entry{}) {
					*c = contender{at: lists, kind: c.kind}
				}
			})
		case told:
			try(true, i, "the event", func(l *lineState, c *contender) {
				at := lists
				if (c.onlyAhead || c.orderAgreed && c.marked) && l.find(who, c.kind) >= 0 {
					at = granted
				}
				*c = contender{at: at, kind: c.kind}
			})
		case granted:
			try(true, i, "the hold begins", func(l *lineState, c *contender) {
				*c = contender{at: holds, kind: c.kind, robbed: l.find(who, c.kind) < 0}
				at := l.find(who, c.kind)
				for j := range l.order[:max(at, 0)] {
					if e := l.order[j]; e.who != who && e.kind == Write && !e.old && c.kind == Read {
						l.fault = passesWriter
					}
				}
			})
		case holds:
			try(c.kind == Write && !c.both && room && !slices.ContainsFunc(l.order[:], entry{who: who, kind: Read}.same), i, "downgrade", func(l *lineState, c *contender) {
				at := l.find(who, Write)
				if at < 0 && !l.unchecked {
					*c = contender{} // the hold ends
					return
				}
				if at < 0 {
					at = -1
				}
				*c = contender{at: holds, kind: Write, both: true}
				copy(l.order[at+2:], l.order[at+1:])
				l.order[at+1] = entry{who, Read, false}
			})
			try(c.both, i, "the write lock is released", func(l *lineState, c *contender) {
				l.release(who, Write)
				*c = contender{at: holds, kind: Read, lowered: true, robbed: c.robbed}
			})
			try(c.both, i, "the read lock is released", func(l *lineState, c *contender) {
				l.release(who, Read)
				c.both = false
			})
			try(c.robbed, i, "the hold ends with its node", func(l *lineState, c *contender) {
				if c.both && l.find(who, Read) >= 0 { // the lost node was the write lock's
					*c = contender{at: holds, kind: Read, lowered: true}
					return
				}
				l.release(who, Write)
				l.release(who, Read)
				*c = contender{}
			})
			try(l.faults > 0, i, "the hold is lost", func(l *lineState, c *contender) {
				l.faults--
				c.at = loses
			})
		case lapsed:
			try(true, i, "the user stops", func(l *lineState, c *contender) { *c = contender{at: fenced} })
		case fenced:
			try(none, i, "there is another session", func(l *lineState, c *contender) { *c = contender{} })
		}
		// Releases, and waiters that give up.
		gives := c.at == holds && !c.both || c.at == loses || c.at > out && c.at < holds && !l.patient
		try(gives, i, "goes", func(l *lineState, c *contender) {
			for j := range l.all {
				if o := &l.all[j]; c.at == holds && o.ahead.same(entry{who, c.kind, false}) {
					o.marked = true
				}
			}
			l.release(who, Read)
			l.release(who, Write)
			*c = contender{}
		})
		try(l.faults > 0 && c.at > out && c.at < loses, i, "the session is lost", func(l *lineState, c *contender) {
			l.faults--
			l.release(who, Read)
			l.release(who, Write)
			if c.at == holds {
				c.at = lapsed
			} else {
				*c = contender{at: fenced}
			}
		})
		try(l.faults > 0 && c.at > lists && c.at < holds, i, "the connection is lost", func(l *lineState, c *contender) {
			l.faults--
			*c = contender{at: lists, kind: c.kind}
		})
	}
	for _, e := range l.order[:l.size()] {
		by := int(e.who - 1)
		c := l.all[by]
		try(e.old && c.at != lapsed, by, "a node is deleted", func(l *lineState, c *contender) { l.remove(e) })
		try(l.faults > 0 && !e.old && c.at != lapsed, by, "an administrator deletes "+e.kind.String(),
			func(l *lineState, c *contender) {
				l.faults--
				l.remove(e)
				c.robbed = c.robbed || c.works()
			})
	}
}

// lists plays a list of the directory, read by the server, and the decision of Decide.
func (m lineModel) lists(l lineState, i int, step func(string, lineState)) {
	names, at := m.names(l)
	c, own := l.all[i], ""
	place := l.find(int8(i+1), c.kind)
	if place < 0 {
		c = contender{}
		l.all[i] = c
		step(fmt.Sprintf("%d: the node is not there", i+1), l)
		return
	}
	own = names[place]
	m.decided(l, i, place, own, names, at, step)
	for j := range names[:len(names)-1] {
		if l.pair(j) {
			names[j], names[j+1] = names[j+1], names[j]
			at[j], at[j+1] = at[j+1], at[j]
			m.decided(l, i, place, own, names, at, step)
			names[j], names[j+1] = names[j+1], names[j]
			at[j], at[j+1] = at[j+1], at[j]
		}
	}
}

func (m lineModel) decided(
	l lineState, i, place int, own string, names []string, at []entry, step func(string, lineState),
) {
	c := &l.all[i]
	switch d := m.orders[c.kind].Decide(own, names); d.Verdict {
	case line.Granted:
		c.at = granted
	case line.Wait:
		ahead := at[slices.Index(names, d.Predecessor)]
		*c = contender{at: arms, kind: c.kind, ahead: entry{ahead.who, ahead.kind, false}, onlyAhead: d.OnlyAhead, orderAgreed: d.OrderAgreed}
		nearest := 0
		for j, e := range l.order[:place] {
			if c.kind == Write || e.kind == Write {
				nearest = j
			}
		}
		if !l.order[nearest].same(ahead) && !(nearest > 0 && l.pair(nearest-1) && l.order[nearest-1].same(ahead)) {
			l.fault = notTheNearest
		}
	default:
		l.fault = notInTheList
	}
	step(fmt.Sprintf("%d: the list is read", i+1), l)
}

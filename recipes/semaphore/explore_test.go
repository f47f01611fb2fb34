package semaphore

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/explore"
	"github.com/go-curator/curator/internal/zkpath"
)

// The model of leases: with a fixed limit, and with a shared count that changes. It calls leaseSnapshot.checkRoom,
// leaseSnapshot.judgeNodes, leaseSnapshot.lacksOneLease, Semaphore.judgeByCount, Semaphore.movesFromLine and
// Semaphore.canMoveFromLine; it simulates the code around them (take.go, move.go, line.go), the servers and the client that
// changes the count.
//
// Bounds: three clients, each with one caller at a time, which repeatedly wants one lease or two; a limit of one or two, or a
// count that changes twice between one and two, or once between two and three. With a limit, and callers that want one lease,
// there is one fault, and for a night one more everywhere. A fault is one of: a session is lost; a reply is lost with its
// connection; an administrator deletes the node of a lease or of a waiter. Each request is executed at some time, and its reply
// arrives at some later time. The leases and the count are read one after the other, and several leases are created one after the
// other.
//
// A lost session's nodes are deleted after its user has stopped, and its client contends again after that.
//
// A waiter sends the transaction without having seen the leases at any time, also when it is not the first in the line: the
// number of leases does not depend on the proof that it is (move.go).
//
// Not modelled: how the line is read, Curator for Java, TryAcquire, foreign children.
//
// Wrong: more leases are taken than the count was at the grant of the newest, the lease with the largest number; leases whose
// node an administrator has deleted do not count. With a fixed limit that means: never more than the limit. If a count shrinks,
// no more is promised: holders keep their leases, and a later caller gets none until enough of them are released. Final: no lease
// is taken and no caller waits. If no caller gives up, it is reached only when each has had its leases.
func TestExploreLeases(t *testing.T) {
	eachSemaphore(t, func(t *testing.T, m leaseModel) {
		bugs := []string{"one lease too many"}
		if m.s.count == nil {
			bugs = append(bugs, "the transaction is taken for a grant")
		}
		explore.Test(t, m.model(), bugs...)
	})
}

func eachSemaphore(t *testing.T, f func(t *testing.T, m leaseModel)) {
	more := int8(0)
	if os.Getenv("LONG") != "" {
		more = 1
	}
	one, two := [2]int8{1, 2}, [2]int8{2, 3}
	for name, m := range map[string]leaseModel{
		"limit 1":           {s: &Semaphore{max: 1}, wants: 1, faults: 1 + more},
		"limit 2, one each": {s: &Semaphore{max: 2}, wants: 1, faults: 1 + more},
		"limit 2":           {s: &Semaphore{max: 2}, wants: 2, faults: more},
		"count, one each":   {s: &Semaphore{count: new(Count)}, counts: one, wants: 1, changes: 2, faults: more},
		"count": {s: &Semaphore{count: new(Count)}, counts: two, wants: 2, changes: 1 + more, faults: more,
			patient: more == 0},
	} {
		t.Run(name, func(t *testing.T) { f(t, m) })
	}
}

// The model reaches a rare state: after the count has shrunk, a caller is granted a lease that it has created before, so that for
// a while there are more leases than the count.
func TestExploreLeasesFinds(t *testing.T) {
	m := leaseModel{s: &Semaphore{count: new(Count)}, counts: [2]int8{1, 2}, wants: 1, changes: 1}
	reach := func(m leaseModel, rare func(leases) bool) {
		t.Helper()
		model := m.model()
		model.Final, model.Wrong = nil, func(l leases) string {
			if rare(l) {
				return "reached"
			}
			return ""
		}
		explore.Finds(t, model)
	}
	reach(m, func(l leases) bool {
		return l.count == 1 && l.all[0].at == holds && l.all[1].at == holds && min(l.all[0].limit, l.all[1].limit) == 1
	})
	m = leaseModel{s: &Semaphore{max: 1}, wants: 1, faults: 1}
	for _, at := range []where{stays, moves, fenced, lapsed} {
		reach(m, func(l leases) bool {
			return slices.ContainsFunc(l.all[:], func(c caller) bool { return c.at == at }) && l.all[2].at == waits
		})
	}
}

type where int8

const (
	out     where = iota
	looks         // a list is requested, before any lease is created
	counts        // and the count
	creates       // some of the leases are created
	lists         // all are created; a list is requested
	recount       // and the count
	stays         // it waits with its lease, out of the line
	lines         // its place in the line is to be created
	waits         // its place is created
	moves         // the transaction that turns its place into a lease is sent
	begins        // its hold is about to begin
	holds
	lapsed // the session is lost, and the user works
	fenced // the session is lost, and the user has stopped
)

// watchState is the state of a caller's watches.
type watchState int8

const (
	unwatched watchState = iota
	armed                // no event
	released             // a lease was created or deleted
	changes              // the count has changed
)

// caller is a client with its caller.
type caller struct {
	at     where
	wants  int8
	made   int8            // how many leases it has created
	first  bool            // with looks and counts: it is the first in the line
	room   [4]bool         // by the list, for each count: there is room for its leases
	judged [4]leaseVerdict // by the list, for each count: the verdict on its leases
	few    bool            // one more free lease would be enough
	stays  bool            // it is not in the line any more
	fresh  bool            // this list is not its first
	watch  watchState      // of the first in the line, or of a caller that stays
	limit  int8            // the count at its grant
	robbed bool            // an administrator has deleted one of its leases
}

// node is a child of "leases".
type node struct {
	who int8 // the client, from 1; 0: no node
	old bool // its delete is in flight, or its session is lost
}

// leases is a state of the model.
type leases struct {
	nodes [6]node // in the order of their numbers
	queue [3]int8 // of clients, in order
	count int8
	all   [3]caller

	patient         bool // no caller gives up
	faults, changes int8 // how many are left
}

// limits returns the limits that may be in force.
func (m leaseModel) limits() []int {
	if m.s.count == nil {
		return []int{m.s.max}
	}
	return []int{int(m.counts[0]), int(m.counts[1])}
}

type leaseModel struct {
	s      *Semaphore
	counts [2]int8 // the two values of the count
	wants  int8    // the largest number that a caller wants

	faults, changes int8
	patient         bool // no caller gives up
}

func (m leaseModel) model() explore.Model[leases] {
	start := leases{count: int8(m.s.max), faults: m.faults}
	if m.s.count != nil {
		start.count, start.changes = m.counts[1], m.changes
	}
	starts := []leases{start, start}
	if starts[1].patient = true; m.patient {
		starts = starts[1:]
	}
	return explore.Model[leases]{
		Start: starts, Next: m.next, Wrong: leases.wrong, Most: 3_000_000,
		Final: func(l leases) bool {
			return l.nodes == [6]node{} && l.queue == [3]int8{} &&
				!slices.ContainsFunc(l.all[:], func(c caller) bool { return c.at != out })
		},
	}
}

func (l leases) wrong() string {
	taken, newest := int8(0), int8(0)
	for i, c := range l.all {
		if (c.at == holds || c.at == lapsed) && !c.robbed {
			taken += c.wants
			if newest == 0 || l.last(int8(i+1)) > l.last(newest) {
				newest = int8(i + 1)
			}
		}
	}
	if newest > 0 && taken > l.all[newest-1].limit {
		return "more leases than the count when the newest was granted"
	}
	return ""
}

// last returns the index of a client's last node.
func (l leases) last(who int8) (last int) {
	for i, n := range l.nodes {
		if n.who == who {
			last = i
		}
	}
	return last
}

// snapshot returns a list of the leases, and the names of the client's leases that are not being deleted.
func (l leases) snapshot(who int8, max int) (seen leaseSnapshot, own []string) {
	seen.max, seen.dir = max, framework.Stat{Czxid: 1}
	for i, n := range l.nodes {
		if n.who == 0 {
			continue
		}
		name := zkpath.Protect(guids[n.who], fmt.Sprintf("%s%010d", leaseName, i))
		if seen.children = append(seen.children, name); n == (node{who, false}) {
			own = append(own, name)
		}
	}
	seen.dir.NumChildren = int32(len(seen.children))
	return seen, own
}

var guids = [4]string{
	"", "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002",
	"00000000-0000-0000-0000-000000000003",
}

// fire fires the watches.
func (l *leases) fire(what watchState) {
	for i := range l.all {
		if c := &l.all[i]; c.watch == armed {
			c.watch = what
		}
	}
}

// create creates a lease; there must be room.
func (l *leases) create(who int8) {
	l.nodes[slices.Index(l.nodes[:], node{})] = node{who, false}
	l.fire(released)
}

func (l *leases) remove(i int) {
	copy(l.nodes[i:], l.nodes[i+1:])
	l.nodes[len(l.nodes)-1] = node{}
	l.fire(released)
}

// giveUp starts the deletes of a client's leases.
func (l *leases) giveUp(who int8) {
	for i, n := range l.nodes {
		if n.who == who {
			l.nodes[i].old = true
		}
	}
}

func (l *leases) dequeue(who int8) {
	if i := slices.Index(l.queue[:], who); i >= 0 {
		copy(l.queue[i:], l.queue[i+1:])
		l.queue[len(l.queue)-1] = 0
	}
}

// normal returns l with its clients in an order that does not depend on their identity.
func (l leases) normal() leases {
	who := []int8{1, 2, 3}
	first := func(w int8) int {
		if i := slices.IndexFunc(l.nodes[:], func(n node) bool { return n.who == w }); i >= 0 {
			return i
		}
		if i := slices.Index(l.queue[:], w); i >= 0 {
			return 10 + i
		}
		return 20 + int(l.all[w-1].at)
	}
	slices.SortStableFunc(who, func(a, b int8) int { return first(a) - first(b) })
	var is [4]int8 // the new number of each client
	n := l
	for i, w := range who {
		is[w] = int8(i + 1)
		n.all[i] = l.all[w-1]
	}
	for i := range n.nodes {
		n.nodes[i].who = is[l.nodes[i].who]
	}
	for i := range n.queue {
		n.queue[i] = is[l.queue[i]]
	}
	return n
}

func (m leaseModel) next(l leases, each func(string, leases)) {
	try := func(may bool, who int, what string, f func(l *leases, c *caller)) {
		if may {
			next := l
			f(&next, &next.all[who])
			each(fmt.Sprintf("%d: %s", who+1, what), next.normal())
		}
	}
	for i, c := range l.all {
		m.waits(l, i, try)
		m.takes(l, i, try)
		who := int8(i + 1)
		gone := !slices.ContainsFunc(l.nodes[:], func(n node) bool { return n.who == who })
		release := func(l *leases, c *caller) {
			l.giveUp(who)
			l.dequeue(who)
			*c = caller{}
		}
		try(c.at == holds, i, "it releases", release)
		try(c.at != out && c.at < begins && c.at != moves && !l.patient, i, "it gives up", release)
		try(c.robbed && c.at == holds, i, "the hold ends with a node", release)
		try(c.at == lapsed, i, "the user stops", func(l *leases, c *caller) { *c = caller{at: fenced} })
		try(c.at == fenced && gone, i, "there is another session", func(l *leases, c *caller) { *c = caller{} })
		try(l.faults > 0 && c.at != out && c.at < lapsed, i, "the session is lost", func(l *leases, c *caller) {
			held := *c
			release(l, c)
			if l.faults--; held.at == holds {
				*c = caller{at: lapsed, wants: held.wants, limit: held.limit, robbed: held.robbed}
			} else {
				c.at = fenced
			}
		})
	}
	for i, n := range l.nodes {
		if n.who == 0 {
			continue
		}
		by := int(n.who - 1)
		try(n.old && l.all[by].at != lapsed, by, "a node is deleted", func(l *leases, _ *caller) { l.remove(i) })
		try(!n.old && l.faults > 0, by, "an administrator deletes a lease", func(l *leases, c *caller) {
			l.faults--
			l.remove(i)
			c.robbed = true
		})
	}
	try(l.changes > 0, 0, "the count is changed", func(l *leases, _ *caller) {
		l.changes--
		l.count = m.counts[0] + m.counts[1] - l.count
		l.fire(changes)
	})
}

// waits plays a client's steps to its leases: Semaphore.tryWithoutLine and Semaphore.waitInLine.
func (m leaseModel) waits(l leases, i int, try func(bool, int, string, func(*leases, *caller))) {
	c, who := l.all[i], int8(i+1)
	gone := !slices.ContainsFunc(l.nodes[:], func(n node) bool { return n.who == who })
	for wants := int8(1); wants <= m.wants; wants++ {
		try(c.at == out && gone, i, "it comes", func(l *leases, c *caller) { *c = caller{at: looks, wants: wants} })
	}
	try(c.at == looks, i, "the leases are read", func(l *leases, c *caller) {
		for _, limit := range m.limits() {
			seen, _ := l.snapshot(who, limit)
			c.room[limit] = seen.checkRoom(int(c.wants)) == nil && (c.first || l.queue == [3]int8{})
		}
		seen, _ := l.snapshot(who, m.s.max)
		if c.at = counts; c.first {
			c.watch, c.few = armed, seen.lacksOneLease(int(c.wants)) && m.s.canMoveFromLine(seen, int(c.wants))
		}
	})
	try(c.at == counts, i, "the count is read", func(l *leases, c *caller) {
		room := c.room[l.count]
		c.room = [4]bool{}
		seen, _ := l.snapshot(who, m.s.max)
		switch {
		case room && c.first && m.s.canMoveFromLine(seen, int(c.wants)):
			*c = caller{at: moves, wants: c.wants, first: true}
		case room:
			*c = caller{at: creates, wants: c.wants, first: c.first}
		case c.first:
			c.at = waits
		default:
			*c = caller{at: lines, wants: c.wants}
		}
	})
	try(c.at == lines, i, "its place is made", func(l *leases, c *caller) {
		l.queue[slices.Index(l.queue[:], 0)] = who
		c.at = waits
	})
	first := l.queue[0] == who
	try(c.at == waits && !c.first && first, i, "it is the first", func(l *leases, c *caller) { c.at, c.first = looks, true })
	try(c.at == waits && c.first && c.watch > armed, i, "the event", func(l *leases, c *caller) {
		at := looks
		if c.watch == released && c.few {
			at = moves
		}
		*c = caller{at: at, wants: c.wants, first: true}
	})
	try(l.faults > 0 && slices.Contains(l.queue[:], who), i, "an administrator deletes the place",
		func(l *leases, c *caller) {
			l.faults--
			l.dequeue(who)
		})
	try(c.at == waits && !slices.Contains(l.queue[:], who), i, "the place is lost", func(l *leases, c *caller) {
		*c = caller{at: lines, wants: c.wants}
	})
	inLine := slices.Contains(l.queue[:], who)
	try(c.at == waits && !c.first && inLine && m.s.movesFromLine(int(c.wants)), i, "it does not look", func(l *leases, c *caller) {
		c.at = moves
	})
	try(c.at == moves && !c.first && inLine, i, "the transaction is refused", func(l *leases, c *caller) { c.at = waits })
	room := l.nodes[len(l.nodes)-1] == node{}                                                 // room in the model
	try(c.at == moves && room, i, "the transaction is executed", func(l *leases, c *caller) { // Semaphore.move
		if !inLine { // its place does not exist any more
			*c = caller{at: lines, wants: c.wants}
			return
		}
		l.dequeue(who)
		l.create(who)
		seen, own := l.snapshot(who, m.s.max)
		v := m.s.judgeByCount(own[0], seen.dir)
		*c = caller{at: recount, wants: c.wants}
		c.judged[m.s.max] = v
		c.stays = true
	})
}

// takes plays Semaphore.createLeases and Semaphore.settleLeases.
func (m leaseModel) takes(l leases, i int, try func(bool, int, string, func(*leases, *caller))) {
	c, who := l.all[i], int8(i+1)
	room := l.nodes[len(l.nodes)-1] == node{} // room in the model
	try(c.at == creates && room, i, "a lease is created", func(l *leases, c *caller) {
		l.create(who)
		if c.made++; c.made == c.wants {
			c.at, c.made = lists, 0
		}
	})
	try(c.at == lists, i, "the leases are read", func(l *leases, c *caller) {
		for _, limit := range m.limits() {
			seen, own := l.snapshot(who, limit)
			for len(own) < int(c.wants) { // the client does not know of the deletion
				own = append(own, zkpath.Protect(guids[who], leaseName+"0000000000"))
			}
			c.judged[limit] = seen.judgeNodes(own)
		}
		if c.at = recount; c.stays && c.watch == unwatched && c.fresh {
			c.watch = armed
		}
	})
	try(c.at == recount, i, "the count is read", func(l *leases, c *caller) {
		v, keeps := c.judged[l.count], c.stays
		c.judged = [4]leaseVerdict{}
		switch {
		case v == granted:
			*c = caller{at: begins, wants: c.wants, limit: l.count, robbed: c.robbed}
		case v == overLimit && keeps && c.watch != unwatched:
			c.at = stays
		case v == overLimit && keeps: // list again, with a watch
			c.at, c.fresh = lists, true
		case v == nodeMissing && !c.fresh:
			c.at, c.fresh = lists, true
		default: // other callers were faster, or an administrator has deleted a node
			l.giveUp(who)
			if slices.Contains(l.queue[:], who) && v == overLimit {
				*c = caller{at: looks, wants: c.wants, first: true}
				return
			}
			l.dequeue(who)
			*c = caller{at: lines, wants: c.wants}
		}
	})
	try(c.at == stays && c.watch > armed, i, "the event", func(l *leases, c *caller) {
		c.at, c.watch, c.fresh = lists, unwatched, true
	})
	try(l.faults > 0 && (c.at == lists || c.at == recount), i, "an answer is lost", func(l *leases, c *caller) {
		l.faults--
		c.at, c.fresh, c.watch, c.judged = lists, true, unwatched, [4]leaseVerdict{}
	})
	try(c.at == begins, i, "it holds", func(l *leases, c *caller) {
		l.dequeue(who)
		*c = caller{at: holds, wants: c.wants, limit: c.limit, robbed: c.robbed}
	})
}

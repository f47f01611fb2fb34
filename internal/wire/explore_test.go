package wire

import (
	"os"
	"testing"
	"time"

	"github.com/go-curator/curator/internal/explore"
)

// Promise P1, the proof of one touch. The model asks for one moment, chosen by the adversary: may Liveness ever count a
// touch that was sent at that moment or later, although the authority (the leader with a quorum) has no touch from then or
// later, and gets none? If not, each touch that Liveness counts has reached the authority, and no hold lasts longer than
// the session, whatever the session timeout and however often a client sends: these cancel out.
//
// Modelled, in discrete time and every order of events: a client with two requests in flight, with any delay; a member with
// its table of touches; its leader, whose pings come each half tick, up to j late; both with packets in flight for up to
// delta, including the handling; a member that gives up its leader up to jf late; a link that is cut at any moment both
// ways, or one way only (cuts); a leader that leads, or is deposed and has not noticed (mode). The library's own Liveness
// decides whether a reply counts the touch.
//
// Left out: reconnects, session timeouts, Left (explore_session_test.go); clocks that run apart; a touch lost in the
// member's table; observer masters.
//
// Wrong: a touch counts that the authority does not have. The model has no states that must stay reachable.
type proof struct {
	tick, limit   int // a tick, and syncLimit, in units
	j, jf, delta  int
	cuts          cuts
	mode          mode
	atLeader      bool // the client is connected to the leader
	writes        bool // it writes, too
	stale, report int  // Servers.Stale and Servers.Report
}

// cuts determines how the link between member and leader may fail, at any moment and for good.
type cuts int8

const (
	bothWays  cuts = iota // at the same time
	oneOrBoth             // or one way only
	oneByOne              // each way at a moment of its own
)

// mode determines which leader is the authority.
type mode int8

const (
	leads      mode = iota // the leader: it keeps its quorum
	cutOff                 // another leader, which has begun one unit before the moment; leader and member are cut from the others
	steppedOff             // another leader; the old one has stepped down, unseen by its member
)

// A request or reply is a kind with flags.
const (
	localRequest = 1 + iota
	writeRequest
	kindOfRequest = 3
	isTouch       = 4 // it is the touch in question
	isProof       = 8 // its reply counts the touch
)

// A packet between leader and member is a kind, and its age in bits 3 and up.
const (
	leaderPing = 1 + iota
	leaderReply
	leaderEnds
	tableWith // the reply to a ping, with the session in it
	tableWithout
	forwarded // a write
)

type packets [6]uint8

func (q *packets) add(p uint8) {
	for i := range q {
		if q[i] == 0 {
			q[i] = p
			return
		}
	}
	panic("too many packets under way")
}

func (q *packets) pop() (p uint8) {
	p = q[0]
	copy(q[:], q[1:])
	q[len(q)-1] = 0
	return p
}

func (q *packets) older() {
	for i := range q {
		if q[i] != 0 {
			q[i] += 8
		}
	}
}

type proofState struct {
	timer                    int8  // until the leader's next round of pings
	reign                    int8  // how long the leader serves without a quorum; -1: it has one
	sinceLeader, sinceMember uint8 // since the member has received a packet from the leader, and the reverse
	down, up                 bool  // cut: from the leader, to the leader
	dead, dropped            bool  // the member has stopped serving; the leader has given it up
	toMember, toLeader       packets
	table                    bool    // the session is in the member's table
	answer, waits            uint8   // the reply to a ping that is not written yet; the request that waits for the leader
	requests, replies        packets // of the client, in flight
	passed, touched, counted bool    // the moment has passed; the touch was sent; it is counted
	age                      uint8   // of the touch's reply, plus one; 0: there is none
}

// counts returns whether the library's Liveness, on the reply to a request that is sent now, counts a touch whose reply was
// received age units ago.
func (m proof) counts(kind Proof, age uint8) bool {
	const touched = 10 * unit // its reply came immediately
	l := Liveness{lowestTimeout: time.Hour}
	l.Assume(Servers{Report: time.Duration(m.report) * unit, Stale: time.Duration(m.stale) * unit})
	l.RecordConnected(Instant{}, Instant{}, time.Hour, false)
	at := func(d time.Duration) Instant { return Instant{d, d} }
	l.RecordReply(Local, at(touched), at(touched))
	sent := at(touched + time.Duration(age)*unit)
	l.RecordReply(kind, sent, sent)
	return l.HoldLeft(sent) >= touched+time.Hour-sent.Boot
}

func (m proof) model() explore.Model[proofState] {
	return explore.Model[proofState]{
		Start: []proofState{{timer: int8(m.tick / 2), reign: -1}},
		Next: func(s proofState, step func(string, proofState)) {
			m.next(s, func(what string, n proofState) {
				if n.down || n.dead {
					n.timer, n.sinceMember = 0, 0
				}
				if n.up || n.dead {
					n.table = false
				}
				step(what, n)
			})
		},
		Wrong: func(s proofState) string {
			if s.counted {
				return "a touch counts that the authority does not have"
			}
			return ""
		},
	}
}

func (m proof) next(s proofState, step func(string, proofState)) {
	if s.dead && s.replies[0] == 0 {
		return
	}
	busy := int(min(s.waits, 1))
	for i := range s.requests {
		busy += int(min(s.requests[i], 1) + min(s.replies[i], 1))
	}
	if busy < 2 && !s.dead { // two at a time are enough: no rule uses more
		for kind, name := range []string{localRequest: "ping", writeRequest: "write"} {
			if kind == 0 || kind == writeRequest && !m.writes {
				continue
			}
			n, q := s, uint8(kind)
			if s.age > 0 && m.counts(Proof(kind-1), s.age-1) {
				q |= isProof
			}
			if s.passed && !s.touched {
				n.touched = true
				q |= isTouch
			}
			n.requests.add(q)
			step("the client sends a "+name, n)
		}
	}
	if s.replies[0] != 0 {
		n := s
		q := n.replies.pop()
		if q&isTouch != 0 {
			n.age = 1
		}
		n.counted = n.counted || q&isProof != 0
		step("the client reads a reply", n)
	}
	if m.atLeader {
		m.atTheLeader(s, step)
	} else {
		m.member(s, step)
		m.leader(s, step)
	}
	m.time(s, step)
}

func (m proof) member(s proofState, step func(string, proofState)) {
	if s.dead {
		return
	}
	if s.requests[0] != 0 && s.waits == 0 {
		n := s
		n.table = true
		if q := n.requests.pop(); q&kindOfRequest == localRequest {
			n.replies.add(q)
		} else if n.waits = q; !n.up {
			n.toLeader.add(forwarded)
		}
		step("the member handles a request", n)
	}
	if s.answer != 0 {
		n := s
		if n.answer = 0; !n.up {
			n.toLeader.add(s.answer & 7)
		}
		step("the member writes its answer to the leader's ping", n)
	}
	if s.toMember[0] != 0 && s.answer == 0 {
		n := s
		n.sinceLeader = 0
		switch n.toMember.pop() & 7 {
		case leaderPing:
			n.answer = tableWithout
			if n.table {
				n.answer = tableWith
			}
			if n.table = false; m.delta == 0 {
				if !n.up {
					n.toLeader.add(n.answer)
				}
				n.answer = 0
			}
			step("the member reads a ping of the leader, takes its table", n)
		case leaderReply:
			if n.waits != 0 {
				n.replies.add(n.waits)
				n.waits = 0
				step("the member reads the leader's reply", n)
			}
		case leaderEnds:
			n.dead = true
			step("the member's connection ends", n)
		}
	}
	if int(s.sinceLeader) >= m.limit {
		n := s
		n.dead, n.requests, n.waits, n.toMember, n.toLeader, n.answer = true, packets{}, 0, packets{}, packets{}, 0
		step("the member gives up its leader", n)
	}
	cut := func(down, up bool, what string) {
		n := s
		if down {
			n.down, n.toMember = true, packets{}
		}
		if up {
			n.up, n.toLeader = true, packets{}
		}
		step("CUT "+what, n)
	}
	if !s.down && !s.up {
		cut(true, true, "both ways")
	}
	if m.cuts != bothWays && !s.down && (!s.up || m.cuts == oneByOne) {
		cut(true, false, "from the leader")
	}
	if m.cuts != bothWays && !s.up && (!s.down || m.cuts == oneByOne) {
		cut(false, true, "to the leader")
	}
}

// atTheLeader: the client's server is the leader, which touches sessions itself.
func (m proof) atTheLeader(s proofState, step func(string, proofState)) {
	if s.dead || s.requests[0] == 0 || s.waits != 0 || s.reign < 0 && s.passed {
		return
	}
	n := s
	if q := n.requests.pop(); s.reign < 0 || q&kindOfRequest == localRequest {
		n.replies.add(q)
	} else {
		n.waits = q // it gets no quorum
	}
	step("the leader handles a request", n)
}

func (m proof) leader(s proofState, step func(string, proofState)) {
	if s.reign == 0 || s.dropped {
		return
	}
	reaches := !s.down && !s.dead
	if s.timer <= 0 && reaches {
		n := s
		n.timer = int8(m.tick / 2)
		n.toMember.add(leaderPing)
		step("the leader pings", n)
	}
	if s.toLeader[0] != 0 {
		n := s
		n.sinceMember = 0
		switch kind := n.toLeader.pop() & 7; {
		case kind == tableWith && s.passed && s.reign < 0:
			// the authority has touched the session: from now on no touch can be counted wrongly
		case kind == tableWith, kind == tableWithout:
			step("the leader reads a table", n)
		default:
			if s.reign < 0 && reaches {
				n.toMember.add(leaderReply)
			}
			step("the leader reads a write", n)
		}
	}
	if m.cuts != bothWays && !s.down && int(s.sinceMember) >= m.limit {
		n := s
		if n.dropped, n.toLeader = true, (packets{}); reaches {
			n.toMember.add(leaderEnds)
		}
		step("the leader gives up the member", n)
	}
}

// time lets a unit of time pass if nothing is due. The moment in question may be now.
func (m proof) time(s proofState, step func(string, proofState)) {
	due := func(p uint8) bool { return p != 0 && int(p>>3) >= m.delta }
	lives, serves := s.reign != 0 && !s.dropped && !m.atLeader, !s.dead && !m.atLeader
	switch {
	case serves && (due(s.toMember[0]) || due(s.answer)),
		serves && int(s.sinceLeader) >= m.limit+m.jf,
		lives && due(s.toLeader[0]),
		lives && !s.down && !s.dead && int(s.timer) <= -m.j,
		lives && !s.down && m.cuts != bothWays && int(s.sinceMember) >= m.limit+m.j:
		return
	}
	n := s
	if lives {
		if n.timer--; m.cuts != bothWays {
			n.sinceMember++
		}
	}
	if serves {
		n.sinceLeader++
	}
	if s.answer != 0 {
		n.answer += 8
	}
	n.toMember.older()
	n.toLeader.older()
	if n.age > 0 && int(n.age) < max(m.stale, m.report)+2 {
		n.age++
	}
	if n.reign > 0 {
		if n.reign--; n.reign == 0 {
			n.toLeader, n.dead = packets{}, n.dead || m.atLeader
			if !m.atLeader && !n.down && !n.dead {
				n.toMember.add(leaderEnds)
			}
		}
	}
	step("a unit of time passes", n)
	if s.passed {
		return
	}
	n.passed = true
	switch m.mode {
	case cutOff: // it had its quorum until one unit ago
		n.reign = int8(m.limit + m.tick + m.j - 1)
	case steppedOff:
		n.reign, n.down, n.up, n.toMember, n.toLeader = 0, true, true, packets{}, packets{}
	}
	step("a unit of time passes: the moment is now", n)
}

// bound returns m with the Stale of such servers: (syncLimit + 1.5) ticks.
func (m proof) bound() proof {
	m.stale = m.limit + m.tick*3/2
	return m
}

// syncLimits returns some values, in units of a quarter of a tick.
func syncLimits() []int {
	if os.Getenv("LONG") != "" {
		return []int{8, 20, 40}
	}
	return []int{8}
}

// Pings, reads and syncs as proofs: Stale covers lateness (j + jf + 3·delta) of up to a tick.
func TestExploreAProofByPings(t *testing.T) {
	for _, limit := range syncLimits() {
		m := proof{tick: 4, limit: limit, cuts: oneOrBoth}.bound()
		for _, late := range [][3]int{{2, 2, 0}, {0, 4, 0}, {1, 0, 1}, {0, 1, 1}} {
			m.j, m.jf, m.delta = late[0], late[1], late[2]
			explore.Test(t, m.model(), "slow pings at rest with the old rule")
		}
		m.delta, m.cuts = 0, bothWays
		m.j, m.jf, m.mode = 0, 4, steppedOff
		explore.Test(t, m.model())
		m.j, m.jf, m.mode, m.atLeader = 2, 2, cutOff, true
		explore.Test(t, m.model())
	}
	// If a link fails one way and later the other, or a deposed leader's member is cut from it, Stale must be 2·syncLimit
	// and more.
	for _, mode := range []mode{leads, cutOff, steppedOff} {
		explore.Test(t, proof{tick: 4, limit: 8, j: 1, jf: 1, cuts: oneByOne, mode: mode, stale: 2*8 + 6}.model())
	}
}

// Committed writes as proofs: however links fail, Report covers a leader's pause and the delays between members.
func TestExploreAProofByWrites(t *testing.T) {
	lateness := [][2]int{{0, 0}, {1, 0}, {0, 1}}
	if os.Getenv("LONG") != "" {
		lateness = append(lateness, [2]int{2, 0}, [2]int{1, 1})
	}
	for _, late := range lateness {
		m := proof{tick: 4, limit: 4, j: late[0], delta: late[1], cuts: oneByOne, writes: true}
		m.report = m.tick/2 + m.j + 2*m.delta
		explore.Test(t, m.model(), "a write proves what was sent just before it")
		m.report--
		explore.Finds(t, m.model())
	}
	for _, mode := range []mode{cutOff, steppedOff} { // no other leader has begun before a commit
		explore.Test(t, proof{tick: 4, limit: 8, j: 1, jf: 1, cuts: oneByOne, mode: mode, writes: true, report: -1}.model())
	}
	if os.Getenv("LONG") != "" {
		for _, limit := range []int{20, 40} {
			explore.Test(t, proof{tick: 4, limit: limit, j: 1, writes: true, report: 3}.model())
		}
	}
}

// The limits of the assumptions.
func TestExploreAProofBeyondItsAssumptions(t *testing.T) {
	for _, limit := range syncLimits() {
		for _, late := range [][3]int{{3, 2, 0}, {0, 5, 0}, {2, 0, 1}} { // more than a tick
			explore.Finds(t, proof{tick: 4, limit: limit, j: late[0], jf: late[1], delta: late[2]}.bound().model())
		}
		m := proof{tick: 4, limit: limit, cuts: oneOrBoth}
		m.stale = limit + 2 // no lateness at all: half a tick more than syncLimit is enough
		explore.Test(t, m.model())
		m.stale--
		explore.Finds(t, m.model())
		explore.Finds(t, proof{tick: 4, limit: limit, mode: cutOff}.bound().model()) // a deposed leader's member is cut from it
	}
	explore.Finds(t, proof{tick: 4, limit: 16, cuts: oneByOne}.bound().model()) // one way and later the other
}

package line

import (
	"fmt"
	"math/bits"
	"os"
	"testing"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/explore"
	"github.com/go-curator/curator/internal/zkpath"
)

// The model of a line. Contenders join, wait, hold, release, give up and join again, in sessions whose members lag.
//
// It calls the shipped functions: Order.Decide and the meaning of its Decision (isNodeLost), the watches of a waiter
// (armInput.watchesToArm), the meaning of an event of its own node and of a recheck (handleOwnEvent, decideRecheck), other
// grants (grantEvidence.provesFirst), and the mark of a release (waiter.leavesReleaseMark). It simulates
//
//   - the leader: a log of creates, deletions, deletions with a mark, and writes to a node;
//   - a member for each session, which applies the log transaction by transaction. Its position is that of the replies and
//     events sent to the client: a delay between them is a member that lags. One-shot watches fire when it passes the
//     transaction, before any reply that shows it. A write is replied to when the member has applied it;
//   - lost connections: requests without a reply fail; a create or a deletion may still be executed as long as the session
//     is not attached elsewhere, and no longer. The next member may lag, but not behind the last position. setWatches
//     fires for nodes that it shows as deleted or written to; marks are missed. After a lost create the client reads whether
//     the node exists, when the member has applied a later write, and retries the create if it does not, as a protected
//     create does (framework has a model of that). A deletion is retried, without a mark;
//   - lapsed sessions: the client ends their holds, and the leader deletes their nodes some time later. The contenders
//     join again in the next session, or the process is dead;
//   - Java's contender: it lists, waits for the next lower child by getData with a watch, and lists again after its event
//     or a lost connection;
//   - the administrator, who deletes a node or writes to it.
//
// Numbers of nodes that no member has any more are used again, since only their order matters.
//
// Not modelled: a directory that cannot be read or is missing, events that servers do not send and the read after a
// session timeout that replaces them (no rule may depend on it), lists that waiters of one client share, children with
// unusual names other than one that always exists, a create whose reply is lost twice, requests of an old session after
// its lapse, errors of a Java client, the clock of a hold (framework has models of it).
//
// Never: a grant whose node is deleted for its client, or that is behind another node that blocks it; two holders, except
// if the administrator has deleted the node of one and its client has not been sent the event; a place given up whose node
// exists. From each state all contenders can finish, and then no node is left. That needs no fault, no administrator and
// no contender that gives up, since there are starts without them.

// lineKind is a kind of contender.
type lineKind byte

const (
	ours lineKind = iota
	java
	reader
	writer
	kinds
)

const (
	mostNodes = 6
	mostTxns  = 6
)

// lineModel has the bounds of a model.
type lineModel struct {
	kinds    [3]lineKind
	sessions [3]uint8      // of the contenders
	comes    [3]uint8      // how often each contends
	spare    []faultBudget // one start for each
	odd      bool          // there is a child with an unusual name
	unarmed  bool          // watches cannot be armed any more: lists only
	markAll  bool          // a rule that is too weak: a contender that gives up leaves a mark, too
	deaf     bool          // a rule that is too weak: after a reconnect no watches are armed again
}

// faultBudget counts the faults that may still happen.
type faultBudget struct {
	Losses  uint8 // of connections
	Lapses  uint8 // of sessions
	Leaves  uint8 // of contenders, before their grant
	Deletes uint8 // by the administrator
	Writes  uint8 // by the administrator
}

// lineState is a state. Positions count the transactions of the log that a member has applied. Sets of nodes are bits.
type lineState struct {
	Spare   faultBudget
	Base    uint8 // the nodes before the log
	Written uint8 // nodes written to before the log
	Killed  uint8 // nodes that the administrator has deleted
	Orphans uint8 // nodes of lapsed sessions
	Made    uint8 // how many numbers are in use
	Log     [mostTxns]transaction
	Txns    uint8
	Owner   [mostNodes]uint8
	S       [3]lineSession
	C       [3]contenderState
	Bad     lineFault
}

// lineFault is an error made by a step.
type lineFault uint8

const (
	placeGivenUp lineFault = iota + 1
	grantedGone
	grantedBehind
	numberRefused
)

func (f lineFault) String() string {
	return [...]string{
		"", "a place was given up whose node is there", "a grant whose node was gone", "a grant behind another",
		"a number was refused",
	}[f]
}

type lineSession struct {
	At   uint8 // position
	Lost bool  // no connection
}

type lineStep uint8

const (
	stepAway      lineStep = iota
	stepCreating           // the create is in flight
	stepDoubtful           // its outcome is unknown
	stepListing            // a list is in flight
	stepArmingOwn          // the read of the own node that arms its watch
	stepArming             // setWatches
	stepReading            // of the predecessor's node, which arms its watch
	stepWaiting
	stepHolding
	stepDeleting
)

func (s lineStep) String() string {
	return [...]string{"away", "creating", "doubtful", "listing", "armingOwn", "arming", "reading", "waiting", "holding", "deleting"}[s]
}

type watchState uint8

const (
	unwatched watchState = iota
	armed
	goneSoon // shown by setWatches, and not yet sent to the client
	changedSoon
	gone    // fired: the node is deleted; of a mark: it was created
	changed // fired: the node was written to
)

type contenderState struct {
	Step             lineStep
	Comes            uint8 // how often it will still contend
	Node, Pred       uint8 // number + 1
	Own, Ahead, Mark watchState
	OnlyAhead        bool
	ArmOwn, ArmMark  bool // the watches that setWatches is about to arm
	Waited, Changed  bool
	SameConnection   bool // the connection has not changed since the list
	Confirmed        bool // the list was requested after the create was confirmed
	Looking          bool
	Leaves           bool // it has given up while its create is in flight
	Marking, Done    bool // the deletion leaves a mark; it was executed
}

// transaction is a kind and a set of nodes.
type transaction uint8

const (
	created transaction = iota << 6
	deleted
	deletedWithMark
	written
	txnKind transaction = 3 << 6
)

func (t transaction) nodeSet() uint8 { return uint8(t &^ txnKind) }

// applyTo returns the nodes after t.
func (t transaction) applyTo(nodes uint8) uint8 {
	switch t & txnKind {
	case created:
		return nodes | t.nodeSet()
	case deleted, deletedWithMark:
		return nodes &^ t.nodeSet()
	}
	return nodes
}

// nodesAt returns the nodes at a position.
func (s *lineState) nodesAt(at uint8) uint8 {
	set := s.Base
	for _, t := range s.Log[:at] {
		set = t.applyTo(set)
	}
	return set
}

// latestNodes returns the nodes at the leader.
func (s *lineState) latestNodes() uint8 { return s.nodesAt(s.Txns) }

func (s *lineState) appendTransaction(t transaction) { s.Log[s.Txns], s.Txns = t, s.Txns+1 }

// writtenAt reports whether a node was written to before a position.
func (s *lineState) writtenAt(node uint8, at uint8) bool {
	is := s.Written&node != 0
	for _, t := range s.Log[:at] {
		is = is || t&txnKind == written && t.nodeSet() == node
	}
	return is
}

// positionOf returns the position of a contender's client.
func (m *lineModel) positionOf(s *lineState, c int) uint8 { return s.S[m.sessions[c]].At }

func bit(number uint8) uint8 { return 1 << (number - 1) }

// lineNames has the nodes' names by number and kind.
var lineNames = func() (names [mostNodes][kinds]string) {
	for i := range names {
		for kind, name := range [...]string{"lock-", "lock-", "__READ__", "__WRIT__"} {
			version := "8"
			if lineKind(kind) == java {
				version = "4"
			}
			guid := fmt.Sprintf("%08d-0000-%s000-8000-000000000000", i, version)
			names[i][kind] = fmt.Sprintf("_c_%s-%s%010d", guid, name, i)
			if zkpath.IsOurs(names[i][kind]) != (lineKind(kind) != java) {
				panic(names[i][kind])
			}
		}
	}
	return names
}()

func numberOf(name string) uint8 { return name[len(name)-1] - '0' + 1 }

var linePlaces = [kinds]*waiter{
	ours:   {Line: &Line{Order: Order{Names: []string{"lock-"}}}},
	reader: {Line: &Line{Order: Order{Names: []string{"__READ__", "__WRIT__"}, Blockers: "__WRIT__"}}},
	writer: {Line: &Line{Order: Order{Names: []string{"__READ__", "__WRIT__"}}}},
}

// children returns the names of a set of nodes.
func (m *lineModel) children(s *lineState, set uint8) []string {
	var buf [mostNodes + 1]string
	names := buf[:0]
	for ; set != 0; set &= set - 1 {
		i := bits.TrailingZeros8(set)
		names = append(names, lineNames[i][m.kinds[s.Owner[i]]])
	}
	if m.odd {
		names = append(names, "unusual")
	}
	return append([]string(nil), names...)
}

// blockersOf returns those nodes of a set that must be deleted before node number may be granted.
func (m *lineModel) blockersOf(s *lineState, set, number uint8) (ahead uint8) {
	own := m.kinds[s.Owner[number-1]]
	for i := uint8(1); i < number; i++ {
		if set&bit(i) != 0 && !(own == reader && m.kinds[s.Owner[i-1]] == reader) {
			ahead |= bit(i)
		}
	}
	return ahead
}

func (m *lineModel) next(s lineState, step func(string, lineState)) {
	if s.Bad != 0 {
		return
	}
	done := func(what string, next lineState) {
		m.normalizeState(&next)
		step(what, next)
	}
	for i := range s.C {
		m.contenderSteps(s, i, done)
	}
	for i := uint8(0); i < 3; i++ {
		if m.isUsed(i) {
			m.sessionSteps(s, i, done)
		}
	}
	all := s.latestNodes()
	for n := uint8(1); n <= s.Made && s.Txns < mostTxns; n++ {
		if all&bit(n) == 0 {
			continue
		}
		if s.Spare.Deletes > 0 {
			next := s
			next.Spare.Deletes--
			next.Killed |= bit(n)
			next.appendTransaction(deleted | transaction(bit(n)))
			done(administrates[0][n-1], next)
		}
		if s.Spare.Writes > 0 {
			next := s
			next.Spare.Writes--
			next.appendTransaction(written | transaction(bit(n)))
			done(administrates[1][n-1], next)
		}
	}
}

var administrates = func() (what [2][mostNodes]string) {
	for i := range mostNodes {
		what[0][i] = fmt.Sprintf("the administrator deletes node %d", i+1)
		what[1][i] = fmt.Sprintf("the administrator writes to node %d", i+1)
	}
	return what
}()

func (m *lineModel) isUsed(session uint8) bool {
	for c := range m.sessions {
		if m.sessions[c] == session && (m.comes[c] > 0) {
			return true
		}
	}
	return false
}

// sessionSteps plays the steps of a session and its member.
func (m *lineModel) sessionSteps(s lineState, i uint8, step func(string, lineState)) {
	who := "session " + string('A'+rune(i)) + ": "
	se := s.S[i]
	rearming := m.isRearming(&s, i)
	if rearming && !se.Lost {
		for j := range s.C {
			if m.sessions[j] != i {
				continue
			}
			if s.C[j].Own.isPending() {
				next := s
				next.C[j].Own += gone - goneSoon
				step(who+"setWatches has the event of an own node", next)
			}
			if s.C[j].Ahead.isPending() {
				next := s
				next.C[j].Ahead += gone - goneSoon
				step(who+"setWatches has the event of a node ahead", next)
			}
		}
	}
	if !se.Lost && !rearming && se.At < s.Txns {
		next := s
		next.S[i].At++
		m.deliverEvents(&next, i, s.Log[se.At])
		step(who+"the member applies a transaction", next)
	}
	if !se.Lost && s.Spare.Losses > 0 {
		next := s
		next.Spare.Losses--
		next.S[i].Lost = true
		m.loseConnection(&next, i)
		step(who+"the connection is lost", next)
	}
	if se.Lost {
		for at := se.At; at <= s.Txns; at++ {
			next := s
			next.S[i] = lineSession{At: at}
			m.attachSession(&next, i, se.At)
			step(who+"attached to another member", next)
		}
	}
	if se.Lost && s.Spare.Lapses > 0 {
		next := s
		next.Spare.Lapses--
		next.S[i].Lost = false
		m.expireSession(&next, i, false)
		step(who+"lapses, and another begins", next)
		m.expireSession(&next, i, true)
		step(who+"its process is dead", next)
	}
	var dead uint8
	for n := range mostNodes {
		if m.sessions[s.Owner[n]] == i {
			dead |= 1 << n
		}
	}
	if dead &= s.Orphans & s.latestNodes(); dead != 0 && s.Txns < mostTxns {
		next := s
		next.appendTransaction(deleted | transaction(dead))
		step(who+"the leader deletes the nodes of a lapsed session", next)
	}
}

func (w watchState) isPending() bool { return w == goneSoon || w == changedSoon }

// isRearming reports whether there are events that setWatches has not yet sent to a session. They arrive one by one.
func (m *lineModel) isRearming(s *lineState, session uint8) bool {
	for i := range s.C {
		if c := &s.C[i]; m.sessions[i] == session && (c.Own.isPending() || c.Ahead.isPending()) {
			return true
		}
	}
	return false
}

// deliverEvents delivers the events of a transaction to the contenders of a session.
func (m *lineModel) deliverEvents(s *lineState, session uint8, t transaction) {
	kind := t & txnKind
	for i := range s.C {
		c := &s.C[i]
		if m.sessions[i] != session {
			continue
		}
		fire := func(w *watchState, number uint8) {
			switch {
			case number == 0 || *w != armed || t.nodeSet()&bit(number) == 0:
			case kind == deleted, kind == deletedWithMark:
				*w = gone
			case kind == written:
				*w = changed
			}
		}
		if kind == deletedWithMark && c.Mark == armed && t.nodeSet() == bit(c.Pred) {
			c.Mark = gone
		}
		fire(&c.Own, c.Node)
		fire(&c.Ahead, c.Pred)
		if c.Step == stepHolding && (kind == deleted || kind == deletedWithMark) && t.nodeSet()&bit(c.Node) != 0 {
			c.endTurn() // the hold is lost
		}
	}
}

// endTurn ends a contender's turn completely.
func (c *contenderState) endTurn() { *c = contenderState{Comes: c.Comes} }

// joinAgain joins the line again, at its end.
func (c *contenderState) joinAgain() { *c = contenderState{Comes: c.Comes, Step: stepCreating} }

// loseConnection plays the loss of a session's connection.
func (m *lineModel) loseConnection(s *lineState, session uint8) {
	for i := range s.C {
		c := &s.C[i]
		if m.sessions[i] != session {
			continue
		}
		switch c.Step {
		case stepCreating:
			c.Step = stepDoubtful
		case stepListing:
			c.Confirmed = true // the next list is another one
		case stepArmingOwn, stepArming, stepReading:
			c.requestList()
		case stepWaiting:
			if c.Looking = false; m.kinds[i] == java {
				c.requestList() // its watcher gets an event for the loss
			}
		}
	}
}

// requestList starts a list.
func (c *contenderState) requestList() {
	c.Step, c.SameConnection, c.Confirmed = stepListing, true, true
	c.Pred, c.Ahead, c.Mark, c.OnlyAhead, c.Looking, c.ArmOwn, c.ArmMark = 0, unwatched, unwatched, false, false, false, false
}

// attachSession continues a session at another member.
func (m *lineModel) attachSession(s *lineState, session, before uint8) {
	at := s.S[session].At
	there := s.nodesAt(at)
	for i := range s.C {
		c := &s.C[i]
		if m.sessions[i] != session {
			continue
		}
		rearm := func(w *watchState, number uint8) {
			if number == 0 || m.deaf || *w != armed && !w.isPending() {
				return
			}
			switch {
			case there&bit(number) == 0:
				*w = goneSoon
			default:
				for _, t := range s.Log[before:at] {
					if t == written|transaction(bit(number)) {
						*w = changedSoon
					}
				}
			}
		}
		rearm(&c.Own, c.Node)
		rearm(&c.Ahead, c.Pred)
		switch c.Step {
		case stepListing: // the list is requested now
			c.SameConnection = true
		case stepHolding:
			if there&bit(c.Node) == 0 {
				c.endTurn()
			}
		case stepDeleting:
			c.Marking = false // the deletion is retried
		default:
			c.SameConnection = false
		}
	}
}

// expireSession plays the expiry of a session.
func (m *lineModel) expireSession(s *lineState, session uint8, dead bool) {
	for i := range s.C {
		c := &s.C[i]
		if m.sessions[i] != session {
			continue
		}
		if c.Node != 0 {
			s.Orphans |= bit(c.Node) & s.latestNodes()
		}
		switch {
		case dead:
			*c = contenderState{}
		case c.Step == stepAway, c.Step == stepHolding, c.Step == stepDeleting, c.Leaves:
			c.endTurn()
		default:
			c.joinAgain()
		}
	}
}

// contenderSteps plays the steps of a contender.
func (m *lineModel) contenderSteps(s lineState, i int, step func(string, lineState)) {
	c, kind, at := s.C[i], m.kinds[i], m.positionOf(&s, i)
	who := string('a'+rune(i)) + ": "
	down := s.S[m.sessions[i]].Lost
	lost := down || m.isRearming(&s, m.sessions[i]) // no reply arrives
	// to applies f to the contender in a copy of the state.
	to := func(what string, f func(s *lineState, c *contenderState)) {
		next := s
		f(&next, &next.C[i])
		step(who+what, next)
	}
	if s.Spare.Leaves > 0 && c.Step != stepAway && c.Step < stepHolding && !c.Leaves {
		to("gives up", func(s *lineState, c *contenderState) {
			s.Spare.Leaves--
			if c.Step == stepCreating || c.Step == stepDoubtful {
				c.Leaves = true
				return
			}
			m.removeNode(c, m.markAll && kind != java)
		})
	}
	create := func(s *lineState, c *contenderState) {
		s.Owner[s.Made] = uint8(i)
		s.Made++
		c.Node = s.Made
		s.appendTransaction(created | transaction(bit(c.Node)))
	}
	room := s.Txns < mostTxns && s.Made < mostNodes
	switch c.Step {
	case stepAway:
		if c.Comes > 0 && !lost {
			to("comes", func(_ *lineState, c *contenderState) { c.Comes--; c.joinAgain() })
		}
		return
	case stepCreating:
		switch {
		case c.Node == 0 && room:
			to("its create is executed", create)
		case c.Node != 0 && !lost && !m.hasBlocker(&s, c.Node, at):
			m.handleCreated(s, i, to)
		}
		return
	case stepDoubtful:
		switch {
		case down && c.Node == 0 && room:
			to("its create is executed late", create)
		case lost || at < s.Txns:
		case c.Node == 0 && c.Leaves:
			to("its node is not found", func(_ *lineState, c *contenderState) { c.endTurn() })
		case c.Node == 0:
			to("its node is not found, and created again", func(_ *lineState, c *contenderState) { c.Step = stepCreating })
		case c.Leaves:
			to("its node is found", func(_ *lineState, c *contenderState) { m.removeNode(c, false) })
		default:
			to("its node is found", func(_ *lineState, c *contenderState) { c.requestList() })
		}
		return
	case stepHolding:
		to("releases", func(_ *lineState, c *contenderState) {
			marks := false
			if p := linePlaces[kind]; p != nil {
				if p.decision = nil; c.Waited {
					p.decision = new(Decision)
				}
				marks = p.leavesReleaseMark()
			}
			m.removeNode(c, marks)
		})
		return
	case stepDeleting:
		there := s.latestNodes()&bit(c.Node) != 0
		switch {
		case there && s.Txns < mostTxns:
			to("its deletion is executed", func(s *lineState, c *contenderState) {
				kind := deleted
				if c.Marking {
					kind = deletedWithMark
				}
				s.appendTransaction(kind | transaction(bit(c.Node)))
			})
		case !there && !lost && at == s.Txns:
			to("its deletion is confirmed", func(_ *lineState, c *contenderState) { c.endTurn() })
		}
		return
	}
	if lost && c.Step != stepWaiting {
		return
	}
	there := s.nodesAt(at)
	switch c.Step {
	case stepListing:
		m.handleList(s, i, there, to)
	case stepArmingOwn:
		to("its own node is read", func(s *lineState, c *contenderState) {
			switch {
			case there&bit(c.Node) == 0:
				m.handleLost(s, c)
			case c.ArmMark:
				c.Own, c.Step = armed, stepArming
			default:
				c.Own, c.Step = armed, stepReading
			}
		})
	case stepArming:
		to("its watches are armed", func(s *lineState, c *contenderState) {
			switch {
			case !c.ArmOwn:
			case there&bit(c.Node) == 0:
				c.Own = gone
			case s.writtenAt(bit(c.Node), at):
				c.Own = changed
			default:
				c.Own = armed
			}
			if c.ArmMark {
				c.Mark = armed
			}
			c.ArmOwn, c.ArmMark, c.Step = false, false, stepReading
		})
	case stepReading:
		to("the node ahead is read", func(s *lineState, c *contenderState) {
			switch {
			case there&bit(c.Pred) != 0:
				c.Ahead, c.Step = armed, stepWaiting
			case kind == java:
				c.requestList()
			default:
				m.decideTurn(s, c, at, grantEvidence{markCreated: c.Mark == gone})
			}
		})
	case stepWaiting:
		m.waitingSteps(s, i, lost, to)
	}
}

// hasBlocker reports whether the create of a node is still ahead of a position.
func (m *lineModel) hasBlocker(s *lineState, number, at uint8) bool {
	for _, t := range s.Log[at:s.Txns] {
		if t == created|transaction(bit(number)) {
			return true
		}
	}
	return false
}

type changeStep = func(what string, f func(s *lineState, c *contenderState))

// handleCreated plays the reply to a create.
func (m *lineModel) handleCreated(s lineState, i int, to changeStep) {
	if s.C[i].Leaves {
		to("its create is answered too late", func(_ *lineState, c *contenderState) { m.removeNode(c, false) })
		return
	}
	to("its create is answered", func(_ *lineState, c *contenderState) { c.requestList(); c.Confirmed = false })
	if m.kinds[i] != java {
		to("its create is answered after the list", func(s *lineState, c *contenderState) {
			d := linePlaces[m.kinds[i]].Order.Decide(m.name(s, c.Node), nil)
			if c.requestList(); d.isNodeLost(false) {
				m.handleLost(s, c)
			}
		})
	}
}

func (m *lineModel) name(s *lineState, number uint8) string {
	return lineNames[number-1][m.kinds[s.Owner[number-1]]]
}

// removeNode starts the deletion of a contender's node.
func (m *lineModel) removeNode(c *contenderState, marking bool) {
	*c = contenderState{Comes: c.Comes, Step: stepDeleting, Node: c.Node, Marking: marking}
}

// handleLost plays the end of a place whose node is lost. There must be no node to delete.
func (m *lineModel) handleLost(s *lineState, c *contenderState) {
	if s.latestNodes()&bit(c.Node) != 0 {
		s.Bad = placeGivenUp
	}
	c.joinAgain()
}

// recordGrant makes a contender a holder.
func (m *lineModel) recordGrant(s *lineState, c *contenderState, at uint8) {
	there := s.nodesAt(at)
	switch {
	case there&bit(c.Node) == 0:
		s.Bad = grantedGone
	case m.blockersOf(s, there, c.Node) != 0:
		s.Bad = grantedBehind
	}
	*c = contenderState{Comes: c.Comes, Step: stepHolding, Node: c.Node, Waited: c.Waited}
}

// handleList plays a contender's handling of a list.
func (m *lineModel) handleList(s lineState, i int, there uint8, to changeStep) {
	c, kind, at := s.C[i], m.kinds[i], m.positionOf(&s, i)
	if kind == java {
		to("lists", func(s *lineState, c *contenderState) {
			ahead := there & (bit(c.Node) - 1)
			switch {
			case there&bit(c.Node) == 0:
				m.handleLost(s, c)
			case ahead == 0:
				m.recordGrant(s, c, at)
			default:
				c.Step, c.Pred = stepReading, uint8(bits.Len8(ahead))
			}
		})
		return
	}
	p := linePlaces[kind]
	d := p.Order.Decide(m.name(&s, c.Node), m.children(&s, there))
	to("is listed: "+d.Verdict.String(), func(s *lineState, c *contenderState) {
		switch d.Verdict {
		case Granted:
			m.recordGrant(s, c, at)
		case Missing:
			lost := d.isNodeLost(c.Confirmed)
			if c.requestList(); lost {
				m.handleLost(s, c)
			}
		case Wait:
			b := armInput{
				Decision: d, usesMarks: p.usesReleaseMarks(), ownWatched: c.Own != unwatched, ownChanged: c.Changed,
				mayRead: func() bool { return true },
			}
			if m.unarmed {
				b.failures = maxArmFailures + 1
			}
			w := b.watchesToArm()
			c.Waited, c.Pred, c.OnlyAhead = true, numberOf(d.Predecessor), d.OnlyAhead
			c.ArmOwn, c.ArmMark = w.own == armedUnread, w.mark
			switch {
			case w.own == armedByRead:
				c.Step = stepArmingOwn
			case c.ArmOwn, c.ArmMark:
				c.Step = stepArming
			default:
				c.Step = stepReading
			}
		default:
			s.Bad = numberRefused
		}
	})
}

// waitingSteps plays the events that a waiter may handle.
func (m *lineModel) waitingSteps(s lineState, i int, lost bool, to changeStep) {
	c, at := s.C[i], m.positionOf(&s, i)
	if m.kinds[i] == java {
		if c.Ahead >= gone {
			to("gets the event of the node ahead", func(_ *lineState, c *contenderState) { c.requestList() })
		}
		return
	}
	if c.Own >= gone {
		to("gets the event of its own node", func(s *lineState, c *contenderState) {
			if !m.ownEvent(s, c) {
				c.Looking = true
			}
		})
	}
	if c.Mark == gone {
		to("gets the event of the mark", func(s *lineState, c *contenderState) { m.decideTurn(s, c, at, grantEvidence{markCreated: true}) })
	}
	if c.Ahead >= gone {
		to("gets the event of the node ahead", func(s *lineState, c *contenderState) {
			isGone := c.Ahead == gone
			m.decideTurn(s, c, at, grantEvidence{deletionEvent: isGone, onlyAhead: c.OnlyAhead, markCreated: isGone && c.Mark == gone})
		})
	}
	if c.Looking && !lost {
		there := s.nodesAt(at)
		to("has looked", func(s *lineState, c *contenderState) {
			again, err := decideRecheck(there&bit(c.Node) == 0, there&bit(c.Pred) == 0)
			switch c.Looking = false; {
			case err != nil:
				m.handleLost(s, c)
			case again:
				c.requestList()
			}
		})
	}
}

// ownEvent plays a waiter's handling of its own node's event. It reports whether the place is lost.
func (m *lineModel) ownEvent(s *lineState, c *contenderState) (lost bool) {
	p, ev := waiter{}, framework.Event{Type: framework.EventNodeDataChanged}
	if c.Own == gone {
		ev.Type = framework.EventNodeDeleted
	}
	err := p.handleOwnEvent(ev)
	c.Own, c.Changed = unwatched, p.ownChanged
	if err != nil {
		m.handleLost(s, c)
	}
	return err != nil
}

// decideTurn plays a waiter's conclusion from an event.
func (m *lineModel) decideTurn(s *lineState, c *contenderState, at uint8, e grantEvidence) {
	if c.Own >= gone { // waiter.afterEvent handles it first
		if !m.ownEvent(s, c) {
			c.requestList()
		}
		return
	}
	if e.ownWatched, e.sameConnection = c.Own != unwatched, c.SameConnection; e.provesFirst() {
		m.recordGrant(s, c, at)
		return
	}
	c.requestList()
}

// normalizeState removes differences that have no effect any more.
func (m *lineModel) normalizeState(s *lineState) {
	for i := uint8(0); i < 3; i++ { // a session without contenders
		idle := true
		for c := range s.C {
			idle = idle && (m.sessions[c] != i || s.C[c].Step == stepAway && s.C[c].Comes == 0)
		}
		if idle {
			s.S[i] = lineSession{At: s.Txns}
		}
	}
	for s.Txns > 0 && s.S[0].At > 0 && s.S[1].At > 0 && s.S[2].At > 0 {
		if t := s.Log[0]; t&txnKind == written {
			s.Written |= t.nodeSet()
		}
		s.Base = s.Log[0].applyTo(s.Base)
		copy(s.Log[:], s.Log[1:s.Txns])
		s.Txns--
		s.Log[s.Txns] = 0
		for i := range s.S {
			s.S[i].At--
		}
	}
	used := s.Base
	for _, t := range s.Log[:s.Txns] {
		used |= t.nodeSet()
	}
	for _, c := range s.C {
		for _, n := range [...]uint8{c.Node, c.Pred} {
			if n != 0 {
				used |= bit(n)
			}
		}
	}
	for n := s.Made; n > 0; n-- {
		if used&bit(n) == 0 {
			m.forgetNode(s, n)
		}
	}
}

// forgetNode removes number n, and renumbers the nodes after it.
func (m *lineModel) forgetNode(s *lineState, n uint8) {
	low := bit(n) - 1
	squeeze := func(set uint8) uint8 { return set&low | set>>1&^low }
	s.Base, s.Written, s.Killed, s.Orphans = squeeze(s.Base), squeeze(s.Written), squeeze(s.Killed), squeeze(s.Orphans)
	for i, t := range s.Log[:s.Txns] {
		s.Log[i] = t&txnKind | transaction(squeeze(t.nodeSet()))
	}
	copy(s.Owner[n-1:], s.Owner[n:])
	s.Owner[mostNodes-1] = 0
	s.Made--
	for i := range s.C {
		for _, number := range [...]*uint8{&s.C[i].Node, &s.C[i].Pred} {
			if *number > n {
				*number--
			}
		}
	}
}

func (m *lineModel) describeWrong(s lineState) string {
	if s.Bad != 0 {
		return s.Bad.String()
	}
	all := s.latestNodes()
	for i, c := range s.C {
		if c.Step != stepHolding {
			continue
		}
		switch n := bit(c.Node); {
		case all&n == 0 && s.Killed&n == 0:
			return fmt.Sprintf("%c holds without a node", 'a'+i)
		case all&n != 0 && m.blockersOf(&s, all, c.Node) != 0:
			return fmt.Sprintf("%c holds before its turn", 'a'+i)
		}
		for j, d := range s.C[:i] {
			if d.Step == stepHolding && all&bit(c.Node) != 0 && all&bit(d.Node) != 0 &&
				!(m.kinds[i] == reader && m.kinds[j] == reader) {
				return fmt.Sprintf("%c and %c hold", 'a'+j, 'a'+i)
			}
		}
	}
	return ""
}

func (m *lineModel) isFinal(s lineState) bool {
	for _, c := range s.C {
		if c.Step != stepAway || c.Comes > 0 {
			return false
		}
	}
	return s.latestNodes() == 0
}

func (m *lineModel) model() explore.Model[lineState] {
	var start []lineState
	for _, f := range m.spare {
		s := lineState{Spare: f}
		for i := range s.C {
			s.C[i].Comes = m.comes[i]
		}
		start = append(start, s)
	}
	return explore.Model[lineState]{Start: start, Next: m.next, Wrong: m.describeWrong, Final: m.isFinal}
}

// Three contenders of two sessions, two of them of one.
var lineSessions = [3]uint8{0, 1, 1}

func TestExploreLine(t *testing.T) {
	m := &lineModel{
		kinds: [3]lineKind{ours, ours, ours}, sessions: lineSessions, comes: [3]uint8{1, 1, 1},
		spare: []faultBudget{{}, {Losses: 1}, {Leaves: 1}},
	}
	if os.Getenv("LONG") != "" {
		m.comes[0] = 2
		m.spare = append(m.spare, faultBudget{Losses: 1, Lapses: 1}, faultBudget{Losses: 1, Leaves: 1}, faultBudget{Deletes: 1, Writes: 1})
	}
	explore.Test(t, m.model(), "the node ahead taken for the first")
}

func TestExploreLineOfOneSession(t *testing.T) {
	m := &lineModel{
		kinds: [3]lineKind{ours, ours, ours}, comes: [3]uint8{1, 1, 1},
		spare: []faultBudget{{Leaves: 1, Writes: 1}, {Losses: 1, Deletes: 1}},
	}
	if os.Getenv("LONG") != "" {
		m.spare = []faultBudget{{Losses: 1, Lapses: 1, Leaves: 1, Deletes: 1, Writes: 1}}
	}
	explore.Test(t, m.model(), "the node ahead taken for the first", "no own watch while waiting")
}

func TestExploreLineOfTwo(t *testing.T) {
	m := &lineModel{
		kinds: [3]lineKind{ours, ours}, sessions: [3]uint8{0, 1}, comes: [3]uint8{2, 1},
		spare: []faultBudget{{}, {Losses: 1, Deletes: 1}, {Losses: 1, Lapses: 1}, {Losses: 2}, {Deletes: 1, Writes: 1}},
	}
	if os.Getenv("LONG") != "" {
		m.comes[1] = 2
		m.spare = append(m.spare, faultBudget{Losses: 2, Lapses: 1, Deletes: 1}, faultBudget{Losses: 2, Leaves: 1})
	}
	explore.Test(t, m.model(), "shortcut after a reconnect", "no own watch while waiting")
}

func TestExploreLineWithJava(t *testing.T) {
	m := &lineModel{
		kinds: [3]lineKind{ours, java, ours}, sessions: lineSessions, comes: [3]uint8{1, 1, 1},
		spare: []faultBudget{{}, {Losses: 1}, {Leaves: 1}, {Deletes: 1}},
	}
	if os.Getenv("LONG") != "" {
		m.comes[1] = 2
	}
	explore.Test(t, m.model(), "no own watch while waiting")
}

func TestExploreLineOfReaders(t *testing.T) {
	m := &lineModel{
		kinds: [3]lineKind{reader, writer, reader}, sessions: lineSessions, comes: [3]uint8{1, 2, 1},
		spare: []faultBudget{{}, {Losses: 1}},
	}
	if os.Getenv("LONG") != "" {
		m.comes = [3]uint8{2, 2, 1}
		m.spare = append(m.spare, faultBudget{Leaves: 1}, faultBudget{Deletes: 1})
	}
	explore.Test(t, m.model(), "no list in a read-write lock")
}

func TestExploreLineOfLists(t *testing.T) {
	for _, m := range []*lineModel{{odd: true}, {unarmed: true}} {
		m.kinds, m.sessions, m.comes = [3]lineKind{ours, ours, ours}, lineSessions, [3]uint8{1, 1, 1}
		m.spare = []faultBudget{{}, {Leaves: 1}}
		explore.Test(t, m.model())
	}
}

// If a contender that gives up left a mark, its follower would hold too early. A waiter whose watches are not armed again would
// wait for ever.
func TestExploreLineWithWeakerRules(t *testing.T) {
	for _, m := range []*lineModel{
		{markAll: true, spare: []faultBudget{{Leaves: 1}}},
		{deaf: true, spare: []faultBudget{{Losses: 1}}, kinds: [3]lineKind{writer, writer, writer}},
	} {
		m.sessions, m.comes = lineSessions, [3]uint8{1, 1, 1}
		explore.Finds(t, m.model())
	}
}

// The models reach the states that they are made for.
func TestExploreLineReaches(t *testing.T) {
	line := func(second lineKind, f faultBudget) *lineModel {
		return &lineModel{
			kinds: [3]lineKind{ours, second, ours}, sessions: lineSessions, comes: [3]uint8{1, 1, 1}, spare: []faultBudget{f},
		}
	}
	alike, written, alone := line(ours, faultBudget{}), line(ours, faultBudget{Writes: 1}), line(ours, faultBudget{Leaves: 1, Writes: 1})
	alone.sessions = [3]uint8{}
	any := func(is func(s *lineState, c *contenderState) bool) func(lineState) bool {
		return func(s lineState) bool { return is(&s, &s.C[0]) || is(&s, &s.C[1]) || is(&s, &s.C[2]) }
	}
	for _, c := range []struct {
		name string
		m    *lineModel
		is   func(lineState) bool
	}{
		{"a waiter that a mark makes the first", alike, any(func(_ *lineState, c *contenderState) bool {
			return c.Step == stepWaiting && c.Mark == gone && c.Own == armed && c.SameConnection
		})},
		{"a waiter whose event came before the read of the node ahead", alike, any(func(_ *lineState, c *contenderState) bool {
			return c.Step == stepReading && c.Mark == gone
		})},
		{"one ahead, and no mark to wait for", alike, any(func(_ *lineState, c *contenderState) bool {
			return c.Step == stepWaiting && c.OnlyAhead && c.Own == armed && c.Ahead == gone && c.Mark == unwatched
		})},
		{"a holder whose member has not seen the last release", alike, func(s lineState) bool {
			return s.C[0].Step == stepWaiting && s.C[1].Step == stepHolding && s.S[0].At < s.Txns && s.C[0].Ahead == armed
		}},
		{"a line with Java in the middle", line(java, faultBudget{}), func(s lineState) bool {
			return s.C[0].Step == stepWaiting && s.C[1].Step == stepWaiting && s.C[1].Pred == s.C[2].Node &&
				s.C[2].Step == stepHolding && s.C[0].Pred == s.C[1].Node
		}},
		{"a create that was executed late", line(ours, faultBudget{Losses: 1}), any(func(s *lineState, c *contenderState) bool {
			return c.Step == stepDoubtful && c.Node != 0 && c.Node == s.Made && s.Made == 2
		})},
		{"a waiter that looks, since somebody has written to its node", written, any(func(_ *lineState, c *contenderState) bool {
			return c.Looking && c.Changed
		})},
		{"a waiter that reads its own node again", alone, any(func(_ *lineState, c *contenderState) bool {
			return c.Step == stepArmingOwn
		})},
		{"a waiter behind a node of its lapsed session", line(ours, faultBudget{Losses: 1, Lapses: 1}), any(func(s *lineState, c *contenderState) bool {
			return c.Step == stepWaiting && s.Orphans&bit(c.Pred) != 0
		})},
		{"two that hold after a deletion by the administrator", line(ours, faultBudget{Deletes: 1}), func(s lineState) bool {
			return s.C[0].Step == stepHolding && s.C[1].Step == stepHolding
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			model := c.m.model()
			model.Wrong = func(s lineState) string {
				if c.is(s) {
					return c.name
				}
				return ""
			}
			model.Final = nil
			explore.Finds(t, model)
		})
	}
}

package node

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// working returns a machine in session 1, without a request in flight.
func working(change func(*stateMachine)) stateMachine {
	m := stateMachine{pathKnown: true, connected: true, connectionEpoch: 1, hasSession: true, epoch: 1, mayHaveCreated: true}
	if change != nil {
		change(&m)
	}
	return m
}

// standing makes it a machine whose node exists, with czxid 7.
func standing(m *stateMachine) {
	m.known, m.watched, m.ownCzxid, m.confirmedCzxid = ownNode, true, 7, 7
}

func TestMachine(t *testing.T) {
	for _, c := range []struct {
		name  string
		from  stateMachine
		event machineEvent
		then  keeperAction
		known knownState
		state State
	}{
		{"no connection yet", stateMachine{pathKnown: true}, machineEvent{kind: maybeChanged}, waitForEvent, unknownNode, Unknown},
		{"connected", stateMachine{pathKnown: true}, machineEvent{kind: connected, epoch: 1}, joinSession, unknownNode, Unknown},
		{"a session", stateMachine{pathKnown: true, connected: true, connectionEpoch: 1, inFlight: joinSession}, machineEvent{kind: sessionJoined, epoch: 1},
			createNode, unknownNode, Unknown},
		{"made", working(func(m *stateMachine) { m.inFlight = createNode }),
			machineEvent{kind: nodeCreated, epoch: 1, czxid: 7, latestData: true}, readOwner, ownNode, Unknown},
		{"seen", working(func(m *stateMachine) { m.inFlight, m.known, m.ownCzxid = readOwner, ownNode, 7 }),
			machineEvent{kind: nodeFound, epoch: 1, ownedBy: ownSession, czxid: 7}, waitForEvent, ownNode, There},
		{"deleted before the read", working(func(m *stateMachine) { m.inFlight, m.known, m.ownCzxid = readOwner, ownNode, 7 }),
			machineEvent{kind: nodeAbsent, epoch: 1}, createNode, missingNode, Missing},
		{"deleted", working(standing), machineEvent{kind: deletionReported}, createNode, missingNode, Missing},
		{"taken over, and the deletion of the other's is heard after that",
			working(func(m *stateMachine) { m.inFlight, m.known, m.ownCzxid = readOwner, ownNode, 7 }), machineEvent{kind: deletionReported}, waitForEvent, uncertainNode, Unknown},
		{"changed", working(standing), machineEvent{kind: maybeChanged}, readOwner, ownNode, There},
		{"other data", working(standing), machineEvent{kind: newDataSet}, setData, ownNode, There},
		{"changed while they are written", working(func(m *stateMachine) { standing(m); m.inFlight = setData }),
			machineEvent{kind: maybeChanged}, waitForEvent, ownNode, There},
		{"written, and deleted before that was told", working(func(m *stateMachine) { m.inFlight, m.known = setData, missingNode }),
			machineEvent{kind: dataWritten, epoch: 1, latestData: true}, createNode, missingNode, Missing},
		{"suspended", working(standing), machineEvent{kind: suspended, epoch: 1}, waitForEvent, uncertainNode, Unknown},
		{"back", working(func(m *stateMachine) { m.connected, m.known, m.ownCzxid = false, uncertainNode, 7 }),
			machineEvent{kind: connected, epoch: 1}, joinSession, uncertainNode, Unknown},
		{"back in the session", working(func(m *stateMachine) { m.inFlight, m.hasSession, m.known = joinSession, false, uncertainNode }),
			machineEvent{kind: sessionJoined, epoch: 1}, readOwner, uncertainNode, Unknown},
		{"in the next session", working(func(m *stateMachine) { m.inFlight, m.hasSession, m.known = joinSession, false, uncertainNode }),
			machineEvent{kind: sessionJoined, epoch: 2}, createNode, unknownNode, Unknown},
		{"lost", working(standing), machineEvent{kind: sessionLost, epoch: 1}, waitForEvent, unknownNode, Unknown},
		{"news of an earlier session", working(func(m *stateMachine) { standing(m); m.epoch, m.connectionEpoch = 2, 2 }),
			machineEvent{kind: sessionLost, epoch: 1}, waitForEvent, ownNode, There},
		{"an operation's session is over, and the next one known",
			working(func(m *stateMachine) { m.inFlight, m.connectionEpoch, m.hasSession = createNode, 2, false }),
			machineEvent{kind: attemptOrphaned, epoch: 1}, joinSession, unknownNode, Unknown},
		{"made in a session that is over", working(func(m *stateMachine) { m.inFlight, m.epoch = createNode, 2 }),
			machineEvent{kind: nodeCreated, epoch: 1, czxid: 7}, createNode, unknownNode, Unknown},
		{"another's", working(func(m *stateMachine) { m.inFlight = readOwner }), machineEvent{kind: nodeFound, epoch: 1, czxid: 9},
			waitForEvent, foreignNode, Missing},
		{"an earlier session's", working(func(m *stateMachine) { m.inFlight, m.ownCzxid = readOwner, 7 }),
			machineEvent{kind: nodeFound, epoch: 1, ownedBy: formerSession, czxid: 7}, waitForEvent, foreignNode, Missing},
		{"another's, to be taken over", working(func(m *stateMachine) { m.inFlight, m.mayTakeOver = readOwner, true }),
			machineEvent{kind: nodeFound, epoch: 1, czxid: 9}, replaceNode, foreignNode, Missing},
		{"nobody's is not", working(func(m *stateMachine) { m.inFlight, m.mayTakeOver = readOwner, true }),
			machineEvent{kind: nodeFound, epoch: 1, ownedBy: noSession, czxid: 9}, waitForEvent, foreignNode, Missing},
		{"the same as before a take-over of unknown outcome",
			working(func(m *stateMachine) { m.inFlight, m.mayTakeOver, m.replaceTarget = readOwner, true, 9 }),
			machineEvent{kind: nodeFound, epoch: 1, czxid: 9}, replaceNode, foreignNode, Missing},
		{"a new one after a take-over of unknown outcome",
			working(func(m *stateMachine) { m.inFlight, m.mayTakeOver, m.replaceTarget = readOwner, true, 9 }),
			machineEvent{kind: nodeFound, epoch: 1, czxid: 11}, waitForEvent, foreignNode, Missing},
		{"made, after a lost reply", working(func(m *stateMachine) { m.inFlight, m.createUncertain = readOwner, true }),
			machineEvent{kind: nodeFound, epoch: 1, ownedBy: ownSession, czxid: 9}, waitForEvent, ownNode, There},
		{"of our session, and made by somebody else", working(func(m *stateMachine) { m.inFlight = readOwner }),
			machineEvent{kind: nodeFound, epoch: 1, ownedBy: ownSession, czxid: 9}, setData, ownNode, There},
		{"it fails", working(func(m *stateMachine) { m.inFlight = createNode }), machineEvent{kind: attemptFailed, epoch: 1, outcomeUnknown: true},
			startPause, uncertainNode, Unknown},
		{"it is refused", working(func(m *stateMachine) { m.inFlight = createNode }), machineEvent{kind: requestRejected, epoch: 1},
			startPause, unknownNode, Missing},
		{"closed before anything was made", stateMachine{pathKnown: true}, machineEvent{kind: closeRequested}, stopWorker, unknownNode, Unknown},
		{"closed while it waits", working(func(m *stateMachine) { m.known, m.pausing = missingNode, true }),
			machineEvent{kind: closeRequested}, stopWorker, missingNode, Missing},
		{"closed", working(standing), machineEvent{kind: closeRequested}, removeNode, ownNode, There},
		{"closed while it is made", working(func(m *stateMachine) { m.inFlight = createNode }), machineEvent{kind: closeRequested},
			waitForEvent, unknownNode, Unknown},
		{"closed, and made then", working(func(m *stateMachine) { m.inFlight, m.closing = createNode, true }),
			machineEvent{kind: nodeCreated, epoch: 1, czxid: 7}, removeNode, ownNode, Unknown},
		{"closed in the next session, which looks", working(func(m *stateMachine) { m.inFlight, m.closing = joinSession, true }),
			machineEvent{kind: sessionJoined, epoch: 2}, readOwner, uncertainNode, Unknown},
		{"closed, and another's is there", working(func(m *stateMachine) { m.inFlight, m.closing = readOwner, true }),
			machineEvent{kind: nodeFound, epoch: 1, czxid: 9}, stopWorker, foreignNode, Missing},
		{"closed, and our last session's is there", working(func(m *stateMachine) { m.inFlight, m.closing = readOwner, true }),
			machineEvent{kind: nodeFound, epoch: 1, ownedBy: formerSession, czxid: 9}, waitForEvent, foreignNode, Missing},
		{"and then is gone",
			working(func(m *stateMachine) {
				m.known, m.ofFormerSession, m.closing, m.watched = foreignNode, true, true, true
			}),
			machineEvent{kind: deletionReported}, stopWorker, missingNode, Missing},
		{"a create that has failed after its connection, when the node was known to be gone",
			working(func(m *stateMachine) {
				m.inFlight, m.connected, m.hasSession, m.known = createNode, false, false, missingNode
			}),
			machineEvent{kind: attemptFailed, epoch: 1, outcomeUnknown: true}, waitForEvent, uncertainNode, Unknown},
		{"removed", working(func(m *stateMachine) { standing(m); m.inFlight, m.closing = removeNode, true }),
			machineEvent{kind: nodeRemoved, epoch: 1}, stopWorker, missingNode, Missing},
		{"not allowed to remove", working(func(m *stateMachine) { standing(m); m.inFlight, m.closing = removeNode, true }),
			machineEvent{kind: requestRejected, epoch: 1}, stopWorker, ownNode, There},
		{"the client is closed", working(standing), machineEvent{kind: maybeChanged, final: true}, stopWorker, ownNode, There},
		{"the client is closed meanwhile", working(func(m *stateMachine) { m.inFlight = createNode }),
			machineEvent{kind: maybeChanged, final: true}, waitForEvent, unknownNode, Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, then := c.from.next(c.event)
			assert.Equal(t, c.then, then, then.String())
			assert.Equal(t, c.known, m.known)
			assert.Equal(t, c.state, m.nodeState())
		})
	}
}

// pretend is a tree with one path, a session, and a machine that works on it. The test decides when its action ends.
type pretend struct {
	m       stateMachine
	epoch   int64 // of the session
	away    bool
	zxid    int64
	node    bool
	owner   int64 // epoch; 0: no session; negative: another's
	czxid   int64
	version int32
	data    int // number
	want    int
	watch   bool
	events  []machineEvent // not yet delivered
	doing   keeperAction
	with    stateMachine // when doing began
	sent    int          // data
	ended   bool
}

func (p *pretend) give(t testing.TB, e machineEvent) {
	if p.ended {
		return
	}
	var a keeperAction
	p.m, a = p.m.next(e)
	switch a {
	case waitForEvent:
	case stopWorker:
		require.Equal(t, waitForEvent, p.doing, "nothing is under way at the end")
		p.ended = true
	case startPause:
		p.events = append(p.events, machineEvent{kind: pauseEnded})
	default:
		require.Equal(t, waitForEvent, p.doing, "one thing at a time")
		p.doing, p.with, p.sent = a, p.m, p.want
	}
}

func (p *pretend) changed(k eventKind) {
	if p.watch {
		p.watch = false
		p.events = append(p.events, machineEvent{kind: k})
	}
}

func (p *pretend) drop() {
	p.node = false
	p.changed(deletionReported)
}

func (p *pretend) put(owner int64, data int) {
	p.zxid++
	p.node, p.owner, p.czxid, p.version, p.data = true, owner, p.zxid, 0, data
	p.changed(maybeChanged)
}

// execute executes the current action, and returns the event of its end.
func (p *pretend) execute() machineEvent {
	e := machineEvent{epoch: p.with.epoch, latestData: p.sent == p.want}
	if p.doing == joinSession {
		return machineEvent{kind: sessionJoined, epoch: p.epoch}
	}
	if p.with.epoch != p.epoch {
		return machineEvent{kind: attemptOrphaned, epoch: p.with.epoch}
	}
	mine := p.epoch
	if p.with.persistent {
		mine = 0
	}
	switch p.doing {
	case createNode:
		if p.node {
			e.kind = stateConflict
			return e
		}
		p.put(mine, p.sent)
		e.kind, e.czxid = nodeCreated, p.czxid
	case readOwner:
		p.events = slices.DeleteFunc(p.events, func(e machineEvent) bool { // the event of the watch that this one replaces
			return e.kind == deletionReported || e.kind == maybeChanged
		})
		if p.watch = true; !p.node {
			e.kind = nodeAbsent
			return e
		}
		e.kind, e.czxid, e.version, e.ownedBy = nodeFound, p.czxid, p.version, anotherSession
		switch {
		case p.owner == mine:
			e.ownedBy = ownSession
		case p.owner == 0:
			e.ownedBy = noSession
		case p.owner > 0:
			e.ownedBy = formerSession
		}
	case setData, removeNode, replaceNode:
		if !p.node || p.version != p.with.version {
			e.kind = stateConflict
			return e
		}
		switch p.doing {
		case setData:
			p.version++
			p.data = p.sent
			p.changed(maybeChanged)
			e.kind, e.version = dataWritten, p.version
		case removeNode:
			p.drop()
			e.kind = nodeRemoved
		case replaceNode:
			p.drop()
			p.put(mine, p.sent)
			e.kind = nodeCreated
		}
	}
	return e
}

// step plays one event, or another step, selected by what.
func (p *pretend) step(t testing.TB, what byte) {
	switch what % 16 {
	case 0, 1, 2: // the current action ends
		p.finish(t)
	case 3, 4, 5:
		p.deliver(t)
	case 6: // the reply is lost with the connection, and in some cases the request before it
		if p.doing != waitForEvent && p.doing != joinSession {
			if what < 128 {
				p.execute()
			}
			if p.disconnect(); what%32 < 16 { // it learns of the connection's loss first
				for len(p.events) > 0 {
					p.deliver(t)
				}
			}
			p.doing = waitForEvent
			p.give(t, machineEvent{kind: attemptFailed, epoch: p.with.epoch, outcomeUnknown: true})
		}
	case 7:
		p.disconnect()
	case 8:
		if p.away {
			p.away = false
			p.events = append(p.events, machineEvent{kind: connected, epoch: p.epoch})
		}
	case 9: // the session is lost; its node is deleted now, or later
		p.away = true
		p.watch = false
		p.events = append(p.events, machineEvent{kind: sessionLost, epoch: p.epoch})
		p.epoch++
		if what < 128 {
			p.expire()
		}
	case 10:
		p.expire()
	case 11:
		p.drop()
	case 12:
		if !p.node {
			p.put(-1, 0)
		}
	case 13:
		if p.node {
			p.version++
			p.changed(maybeChanged)
		}
	case 14:
		p.want++
		p.give(t, machineEvent{kind: newDataSet})
	case 15:
		p.give(t, machineEvent{kind: maybeChanged})
	}
}

func (p *pretend) disconnect() {
	if !p.away {
		p.away = true
		p.events = append(p.events, machineEvent{kind: suspended, epoch: p.epoch})
	}
}

// expire deletes the nodes of lost sessions.
func (p *pretend) expire() {
	if p.node && p.owner > 0 && p.owner != p.epoch {
		p.drop()
	}
}

func (p *pretend) finish(t testing.TB) {
	if p.doing == waitForEvent || p.away && p.doing != joinSession && p.with.epoch == p.epoch {
		return
	}
	e := p.execute()
	p.doing = waitForEvent
	p.give(t, e)
}

func (p *pretend) deliver(t testing.TB) {
	if len(p.events) > 0 {
		e := p.events[0]
		p.events = p.events[1:]
		p.give(t, e)
	}
}

// settles plays only the machine's own actions, and requires that they come to an end.
func (p *pretend) settles(t testing.TB) {
	if p.away {
		p.step(t, 8)
	}
	p.expire()
	for range 300 {
		if p.doing == waitForEvent && len(p.events) == 0 || p.ended {
			return
		}
		p.finish(t)
		p.deliver(t)
	}
	require.Fail(t, "it never comes to rest")
}

// lives plays the steps. After them the machine must come to rest with the node as it should be, and, once closed, without a
// node.
func lives(t testing.TB, p *pretend, steps []byte) {
	p.step(t, 8)
	for _, s := range steps {
		p.step(t, s)
	}
	p.settles(t)
	foreigner := p.node && (p.owner < 0 || p.owner == 0 && !p.m.persistent)
	if foreigner {
		require.Equal(t, Missing, p.m.nodeState())
		require.True(t, p.watch, "it waits for that to go")
		p.drop()
		p.settles(t)
	}
	mine := p.epoch
	if p.m.persistent {
		mine = 0
	}
	require.True(t, p.node)
	require.Equal(t, mine, p.owner)
	require.Equal(t, p.want, p.data)
	require.Equal(t, There, p.m.nodeState())
	require.True(t, p.watch)
	p.give(t, machineEvent{kind: closeRequested})
	p.settles(t)
	require.True(t, p.ended)
	require.False(t, p.node)
}

// dies closes the machine between the steps: no node of it may be left.
func dies(t testing.TB, p *pretend, steps []byte) {
	p.step(t, 8)
	for i, s := range steps {
		if i == len(steps)/2 {
			p.give(t, machineEvent{kind: closeRequested})
		}
		p.step(t, s)
	}
	p.give(t, machineEvent{kind: closeRequested})
	p.settles(t)
	require.True(t, p.ended)
	require.False(t, p.node && p.owner == p.epoch)
	require.False(t, p.node && p.owner == 0 && p.m.persistent)
}

func newPretend(persistent, grasp, theirs bool) *pretend {
	p := &pretend{m: stateMachine{pathKnown: true, persistent: persistent, mayTakeOver: grasp}, epoch: 1, away: true, zxid: 1}
	if theirs {
		p.put(-1, 0)
	}
	return p
}

func TestMachineComesToRest(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 20_000 {
		steps := make([]byte, random.IntN(60))
		for i := range steps {
			steps[i] = byte(random.UintN(256))
		}
		lives(t, newPretend(n%3 == 1, n%2 == 0, n%5 == 0), steps)
		dies(t, newPretend(n%3 == 1, n%2 == 0, n%5 == 0), steps)
	}
}

func FuzzMachine(f *testing.F) {
	f.Add(byte(0), []byte{0, 3, 0, 11, 3, 6, 7, 8, 9})
	f.Fuzz(func(t *testing.T, kind byte, steps []byte) {
		if len(steps) > 200 {
			return
		}
		lives(t, newPretend(kind&1 != 0, kind&2 != 0, kind&4 != 0), steps)
		dies(t, newPretend(kind&1 != 0, kind&2 != 0, kind&4 != 0), steps)
	})
}

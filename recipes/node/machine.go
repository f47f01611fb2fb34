package node

// stateMachine decides the keeper's next action. It is a value without side effects: next takes an event, and returns
// the machine after that event and the action. One goroutine owns it (worker.go), executes one action at a time, and
// passes the result to next as an event.
type stateMachine struct {
	persistent    bool // the node belongs to no session: whoever made it, it is ours
	outlivesClose bool // closing leaves the node where it is
	pathKnown     bool // the path is known; before the create of a sequential node it is not
	mayTakeOver   bool // may replace another session's node
	uniquePath    bool // the path has a UUID: no other client makes a node there

	inFlight keeperAction // in flight; waitForEvent if none is
	pausing  bool         // until pauseEnded
	closing  bool
	finished bool // the client is closed, or no request can succeed any more

	connected       bool
	connectionEpoch int64 // the epoch of the last change of the connection
	hasSession      bool  // epoch is the number of the session in use
	epoch           int64

	known           knownState
	watched         bool  // a watch is armed, on the state in known
	ownCzxid        int64 // czxid of our node
	confirmedCzxid  int64 // czxid of our node once a readOwner has found it and armed a watch
	foreignCzxid    int64 // czxid of another client's node
	replaceTarget   int64 // foreignCzxid at a replace of unknown outcome
	ofFormerSession bool  // the foreign node belongs to an earlier session of this client
	otherEphemeral  bool  // the foreign node is ephemeral
	version         int32 // of the present node

	mayHaveCreated  bool // a request was sent that may have created the node, or set our data
	mayBeExecuted   bool // such a request may have been executed
	createUncertain bool // a node of version 0 may be our own create with the latest data
	dataOutdated    bool // the node does not have the latest data
	pauseDue        bool
	failures        int  // in a row
	lastingRefusal  bool // the last failure was a lasting refusal
	requestCount    int  // requests since the machine last waited for an event
}

// knownState is the last known state of the node.
type knownState int8

const (
	unknownNode   knownState = iota // nothing is known: try to create it
	uncertainNode                   // the last state may have changed: read the owner
	missingNode                     // it is not there
	foreignNode                     // another client's node is there
	ownNode
)

type keeperAction int8

const (
	waitForEvent keeperAction = iota
	joinSession               // get the session
	createNode
	readOwner   // read the node's owner, and watch it
	setData     // the latest data, at the known version
	replaceNode // another client's node with ours, in one transaction
	removeNode  // our node, at the known version
	startPause  // before the next attempt
	stopWorker  // end the goroutine
)

type eventKind int8

const (
	connected eventKind = iota // to a server with a quorum
	suspended
	sessionLost
	attemptOrphaned // its session has ended, and the action in flight with it
	sessionJoined   // the session of epoch is there
	nodeCreated     // or replaced
	nodeFound       // by readOwner
	nodeAbsent      // readOwner has found none
	dataWritten
	nodeRemoved
	stateConflict    // refused: the node is not in the expected state
	attemptFailed    // not executed, or outcome unknown: repeat
	requestRejected  // a lasting refusal
	deletionReported // the watch reports a deletion
	maybeChanged     // the watch reports another change, or it is time to read the owner again
	pauseEnded
	newDataSet
	closeRequested
)

// nodeOwner is the owner of a node that was seen.
type nodeOwner int8

const (
	anotherSession nodeOwner = iota // of another client
	noSession                       // no session, and ours would belong to one
	formerSession                   // an earlier session of this client
	ownSession                      // this session, or no session if the node is persistent
)

// machineEvent is an input of the machine. The fields that are set depend on kind.
type machineEvent struct {
	kind           eventKind
	epoch          int64     // of the connection's change, or of the operation's session
	ownedBy        nodeOwner // nodeFound
	czxid          int64     // nodeFound; nodeCreated, but 0 after a transaction, which does not return it
	version        int32     // nodeFound, dataWritten
	latestData     bool      // nodeCreated, dataWritten: with the latest data; requestRejected: the node has the latest
	outcomeUnknown bool      // attemptFailed, requestRejected
	final          bool      // no operation can succeed any more: the client is closed, or its view's session has ended
}

// requestsBeforePause is the number of requests in a row after which there is a pause. Without it two keepers that undo
// each other's changes, or a server that contradicts itself, would cause requests without end.
const requestsBeforePause = 16

func (m stateMachine) next(e machineEvent) (stateMachine, keeperAction) {
	m = m.afterEvent(e)
	a := m.nextAction()
	switch a {
	case waitForEvent:
		if !m.pausing && m.inFlight == waitForEvent && m.connected {
			m.requestCount = 0
		}
		return m, a
	case startPause:
		m.pausing, m.pauseDue, m.requestCount = true, false, 0
		return m, a
	case stopWorker:
		return m, a
	case joinSession:
	default:
		if m.requestCount++; m.requestCount > requestsBeforePause {
			m.failures++
			m.pausing, m.requestCount = true, 0
			return m, startPause
		}
	}
	if a == createNode || a == replaceNode || a == setData {
		m.mayHaveCreated = true
	}
	m.inFlight = a
	return m, a
}

func (m stateMachine) nextAction() keeperAction {
	switch {
	case m.inFlight != waitForEvent, m.pausing && !m.finished:
		return waitForEvent
	case m.finished, m.closing && (m.outlivesClose || !m.mayHaveCreated):
		return stopWorker
	case !m.connected:
		return waitForEvent
	case !m.hasSession:
		return joinSession
	case m.pauseDue:
		return startPause
	case m.closing:
		return m.nextCloseAction()
	}
	switch m.known {
	case unknownNode, missingNode:
		return createNode
	case foreignNode:
		if m.watched && m.mayTakeOver && m.otherEphemeral {
			return replaceNode
		}
	case ownNode:
		if m.watched && m.dataOutdated {
			return setData
		}
	}
	if m.watched {
		return waitForEvent
	}
	return readOwner
}

// nextCloseAction returns the next action while closing: it deletes the node.
func (m stateMachine) nextCloseAction() keeperAction {
	switch {
	case !m.pathKnown, m.known == missingNode, m.known == foreignNode && !m.ofFormerSession:
		return stopWorker // without pathKnown the client deletes the protected node of a create whose reply was lost
	case m.known == ownNode:
		return removeNode
	case m.known == foreignNode && m.watched:
		return waitForEvent // the servers delete it with our earlier session
	}
	return readOwner
}

// needsCatchUp reports whether readOwner must see the effect of all earlier requests: a member that lags may not show
// our node yet.
func (m stateMachine) needsCatchUp() bool { return m.closing || m.createUncertain }

// isOwnCreate reports whether our node, found by readOwner, was certainly made by the create of unknown outcome, with
// its data. A persistent node may be another client's.
func (m stateMachine) isOwnCreate(version int32) bool {
	return m.createUncertain && version == 0 && (!m.persistent || m.uniquePath)
}

// mayLeaveNode reports whether an ended session may have left a node.
func (m stateMachine) mayLeaveNode() bool { return m.mayHaveCreated && !m.persistent }

// nodeState returns the state of our node for Status.
func (m stateMachine) nodeState() State {
	switch {
	case !m.connected || !m.hasSession:
		return Unknown
	case m.known == ownNode && m.confirmedCzxid != 0:
		return There
	case m.known == missingNode, m.known == foreignNode, m.lastingRefusal:
		return Missing
	}
	return Unknown
}

func (m stateMachine) afterEvent(e machineEvent) stateMachine {
	m.finished = m.finished || e.final
	m.mayBeExecuted = m.mayBeExecuted || e.kind == nodeCreated || e.kind == dataWritten ||
		e.outcomeUnknown && m.inFlight != readOwner
	switch e.kind {
	case connected:
		if e.epoch >= m.connectionEpoch {
			m.connectionEpoch, m.connected, m.hasSession = e.epoch, true, false
		}
	case suspended:
		m = m.withoutConnection(e.epoch)
	case deletionReported:
		if m.known == ownNode || m.known == foreignNode {
			if m.known = uncertainNode; m.watched { // otherwise it may be about the previous node
				m.known = missingNode
			}
		}
		m.watched = false
	case maybeChanged:
		m.watched = false
	case pauseEnded:
		m.pausing = false
	case newDataSet:
		m.dataOutdated = true
	case closeRequested:
		m.closing, m.pausing, m.pauseDue = true, false, false
	case sessionLost, attemptOrphaned:
		if e.kind == attemptOrphaned {
			m.inFlight = waitForEvent
		}
		if m = m.withoutConnection(e.epoch); e.epoch >= m.epoch {
			m.hasSession = false
			m = m.withoutSession()
		}
	default:
		m = m.afterResult(e)
	}
	return m
}

// withoutConnection records that the connection in that epoch is lost. The watch stays armed, but its event comes only
// after the reconnect.
func (m stateMachine) withoutConnection(epoch int64) stateMachine {
	if epoch >= m.connectionEpoch {
		m.connectionEpoch, m.connected = epoch, false
	}
	if epoch >= m.epoch {
		m = m.markUncertain()
	}
	return m
}

func (m stateMachine) markUncertain() stateMachine {
	m.watched = false
	if m.known == ownNode || m.known == foreignNode {
		m.known = uncertainNode
	}
	return m
}

// withoutSession clears the state that depended on the session that has ended.
func (m stateMachine) withoutSession() stateMachine {
	m.watched, m.createUncertain, m.confirmedCzxid, m.replaceTarget = false, false, 0, 0
	switch {
	case m.persistent && m.mayHaveCreated && m.pathKnown:
		m.known = uncertainNode
	case m.closing:
		m.known = uncertainNode
	default:
		m.known, m.ownCzxid = unknownNode, 0
	}
	return m
}

// afterResult records the result of the action in flight.
func (m stateMachine) afterResult(e machineEvent) stateMachine {
	did := m.inFlight
	m.inFlight = waitForEvent
	if e.kind == sessionJoined {
		if m.hasSession = true; e.epoch != m.epoch {
			m.epoch = e.epoch
			return m.withoutSession()
		}
		return m.markUncertain()
	}
	if e.kind == nodeCreated {
		m.pathKnown = true
	}
	if !m.hasSession || !m.connected || e.epoch != m.epoch {
		return m.afterLateResult(did, e)
	}
	switch e.kind {
	case nodeCreated:
		m.known, m.watched, m.mayTakeOver, m.createUncertain = ownNode, false, false, e.czxid == 0
		m.ownCzxid, m.confirmedCzxid, m.version, m.replaceTarget = e.czxid, 0, 0, 0
		m.dataOutdated = !e.latestData
		return m.resetFailures()
	case nodeFound:
		return m.recordOwner(e).resetFailures()
	case nodeAbsent:
		m.known, m.watched, m.createUncertain = missingNode, false, false
	case dataWritten:
		m.version, m.dataOutdated = e.version, !e.latestData
		return m.resetFailures()
	case nodeRemoved:
		m.known, m.watched = missingNode, false
	case stateConflict:
		m.known, m.watched, m.replaceTarget = uncertainNode, false, 0
		if did == createNode && !m.persistent { // the node there is another client's, unless an earlier request made it
			m.mayHaveCreated = m.mayBeExecuted
		}
	case attemptFailed:
		m.pauseDue, m.lastingRefusal = true, false
		m.failures++
		if m.pathKnown {
			m.known, m.watched = uncertainNode, false
		}
	case requestRejected:
		return m.recordRefusal(did, e)
	}
	if e.outcomeUnknown && (did == createNode || did == replaceNode) {
		m.createUncertain = true
		if did == replaceNode {
			m.replaceTarget = m.foreignCzxid
		}
	}
	return m
}

// afterLateResult records the result of an action whose connection was lost before the result came. It matters only if
// the action may have created a node.
func (m stateMachine) afterLateResult(did keeperAction, e machineEvent) stateMachine {
	if did == createNode || did == replaceNode {
		m.createUncertain = true
		if m.pathKnown && e.epoch == m.epoch {
			m.known, m.watched = uncertainNode, false
		}
	}
	return m
}

// recordOwner records the owner of the node that was found.
func (m stateMachine) recordOwner(e machineEvent) stateMachine {
	m.watched, m.version = true, e.version
	if e.ownedBy == ownSession {
		if e.czxid != m.ownCzxid { // not the node of the confirmed create
			m.dataOutdated = m.dataOutdated || !m.isOwnCreate(e.version)
		}
		m.known, m.ownCzxid, m.confirmedCzxid = ownNode, e.czxid, e.czxid
		m.mayTakeOver, m.createUncertain, m.replaceTarget = false, false, 0
		return m
	}
	if m.replaceTarget != 0 && e.czxid != m.replaceTarget {
		m.mayTakeOver = false // the replace may have been executed, and there is only one
	}
	m.known, m.foreignCzxid, m.replaceTarget = foreignNode, e.czxid, 0
	m.ofFormerSession, m.otherEphemeral = e.ownedBy == formerSession, e.ownedBy != noSession
	return m
}

func (m stateMachine) recordRefusal(did keeperAction, e machineEvent) stateMachine {
	switch {
	case did == replaceNode:
		m.mayTakeOver = false // wait, as without WithTakeover
		return m
	case did == removeNode, did == readOwner && m.closing:
		m.finished = true
		return m
	case did == setData && e.latestData:
		m.dataOutdated = false // SetData returns the error
		return m
	case did == setData:
		m.mayHaveCreated = m.mayBeExecuted // otherwise the node existed before, and stays when the keeper is closed
	}
	m.createUncertain = m.createUncertain || e.outcomeUnknown
	m.pauseDue, m.lastingRefusal = true, true
	m.failures++
	return m
}

func (m stateMachine) resetFailures() stateMachine {
	m.failures, m.lastingRefusal = 0, false
	return m
}

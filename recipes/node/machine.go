package node

// machine decides the keeper's next action. It is a value without side effects: next takes an event and returns the
// machine after it and the action. One goroutine owns it (worker.go), executes one action at a time, and reports its
// result as another event.
type machine struct {
	persistent bool // the node belongs to no session: whoever made it, it is ours
	stays      bool // closing leaves the node where it is
	named      bool // the path is known; before the create of a sequential node it is not
	grasp      bool // may replace another session's node
	unique     bool // the path has a UUID: no other client makes a node there

	busy    action // in flight; rest if none is
	waiting bool   // until the end of a pause
	closing bool
	over    bool // the client is closed, or no request can succeed any more

	connected bool
	heard     int64 // the epoch of the last change of the connection
	joined    bool  // epoch is the number of the session in use
	epoch     int64

	known    known
	watched  bool  // a watch is armed, on the state in known
	mine     int64 // czxid of our node
	certain  int64 // czxid of our node once a look has seen it and armed a watch
	theirs   int64 // czxid of another client's node
	target   int64 // theirs at a replace of unknown outcome
	old      bool  // the other node belongs to an earlier session of this client
	fleeting bool  // the other node is ephemeral
	version  int32 // of the present node

	made     bool // a request was sent that may have created the node, or set our data
	wrote    bool // and may have been executed
	unsure   bool // a node of version 0 may be our own create with the latest data
	dirty    bool // the node does not have the latest data
	failed   bool // a pause is due
	failures int  // in a row
	lasting  bool // the last failure was a lasting refusal
	steps    int  // requests since the machine was last at rest
}

// known is the last known state of the node.
type known int8

const (
	blank   known = iota // nothing is known: try to create it
	doubt                // the last state may have changed: look
	gone                 // it is not there
	foreign              // another client's node is there
	ours
)

type action int8

const (
	rest    action = iota // wait for an event
	join                  // get the session
	create                // the node
	look                  // read the node's owner, and watch it
	set                   // the latest data, at the known version
	replace               // another client's node with ours, in one transaction
	remove                // our node, at the known version
	pause                 // before the next attempt
	stop                  // end the goroutine
)

func (a action) String() string {
	return [...]string{"rest", "join", "create", "look", "set", "replace", "remove", "pause", "stop"}[a]
}

type eventKind int8

const (
	connected eventKind = iota // to a server with a quorum
	suspended
	lost     // the session
	orphaned // its session has ended, and the action in flight with it
	joined   // the session of epoch is there
	created  // or replaced
	seen     // a look has found a node
	absent   // a look has found none
	written  // data
	removed
	met      // refused: the node is not in the expected state
	failed   // not executed, or outcome unknown: repeat
	rejected // a lasting refusal
	deleted  // the watch reports a deletion
	stirred  // the watch reports another change, or it is time to look
	due      // the pause is over
	asked    // there are newer data
	closing
)

// whose is the owner of a node that was seen.
type whose int8

const (
	another whose = iota // another session
	nobody               // no session, and ours would belong to one
	former               // an earlier session of this client
	own                  // this session, or no session if the node is persistent
)

// event is an input of the machine. The fields that are set depend on kind.
type event struct {
	kind    eventKind
	epoch   int64 // of the connection's change, or of the operation's session
	whose   whose // seen
	czxid   int64 // seen; created, or 0 after a transaction, which does not return it
	version int32 // seen, written
	latest  bool  // created, written: with the latest data; rejected: the node's data are the latest
	perhaps bool  // failed, rejected: the outcome is unknown
	final   bool  // no operation can succeed any more: the client is closed, or its view's session has ended
}

// patience is the number of requests in a row after which there is a pause. Without it two keepers that undo each
// other's changes, or a server that contradicts itself, would cause requests without end.
const patience = 16

func (m machine) next(e event) (machine, action) {
	m = m.after(e)
	a := m.todo()
	switch a {
	case rest:
		if !m.waiting && m.busy == rest && m.connected {
			m.steps = 0
		}
		return m, a
	case pause:
		m.waiting, m.failed, m.steps = true, false, 0
		return m, a
	case stop:
		return m, a
	case join:
	default:
		if m.steps++; m.steps > patience {
			m.failures++
			m.waiting, m.steps = true, 0
			return m, pause
		}
	}
	if a == create || a == replace || a == set {
		m.made = true
	}
	m.busy = a
	return m, a
}

// todo returns the next action.
func (m machine) todo() action {
	switch {
	case m.busy != rest, m.waiting && !m.over:
		return rest
	case m.over, m.closing && (m.stays || !m.made):
		return stop
	case !m.connected:
		return rest
	case !m.joined:
		return join
	case m.failed:
		return pause
	case m.closing:
		return m.leave()
	}
	switch m.known {
	case blank, gone:
		return create
	case foreign:
		if m.watched && m.grasp && m.fleeting {
			return replace
		}
	case ours:
		if m.watched && m.dirty {
			return set
		}
	}
	if m.watched {
		return rest
	}
	return look
}

// leave returns the next action while closing: it deletes the node.
func (m machine) leave() action {
	switch {
	case !m.named, m.known == gone, m.known == foreign && !m.old:
		return stop // the client deletes the node of an unanswered create without a name
	case m.known == ours:
		return remove
	case m.known == foreign && m.watched:
		return rest // the servers delete it with our earlier session
	}
	return look
}

// careful reports whether a look must see the effect of all earlier requests: a member that lags may not show our
// node yet.
func (m machine) careful() bool { return m.closing || m.unsure }

// recognises reports whether our node, found by a look, was certainly made by the create of unknown outcome, with its
// data. A persistent node may be another client's.
func (m machine) recognises(version int32) bool {
	return m.unsure && version == 0 && (!m.persistent || m.unique)
}

// leaves reports whether an ended session may have left a node.
func (m machine) leaves() bool { return m.made && !m.persistent }

// state returns the state of our node for Status.
func (m machine) state() State {
	switch {
	case !m.connected || !m.joined:
		return Unknown
	case m.known == ours && m.certain != 0:
		return There
	case m.known == gone, m.known == foreign, m.lasting:
		return Missing
	}
	return Unknown
}

func (m machine) after(e event) machine {
	m.over = m.over || e.final
	m.wrote = m.wrote || e.kind == created || e.kind == written || e.perhaps && m.busy != look
	switch e.kind {
	case connected:
		if e.epoch >= m.heard {
			m.heard, m.connected, m.joined = e.epoch, true, false
		}
	case suspended:
		m = m.disconnected(e.epoch)
	case deleted:
		if m.known == ours || m.known == foreign {
			if m.known = doubt; m.watched { // otherwise it may be about the previous node
				m.known = gone
			}
		}
		m.watched = false
	case stirred:
		m.watched = false
	case due:
		m.waiting = false
	case asked:
		m.dirty = true
	case closing:
		m.closing, m.waiting, m.failed = true, false, false
	case lost, orphaned:
		if e.kind == orphaned {
			m.busy = rest
		}
		if m = m.disconnected(e.epoch); e.epoch >= m.epoch {
			m.joined = false
			m = m.without()
		}
	default:
		m = m.answered(e)
	}
	return m
}

// disconnected records that the connection in that epoch is lost. The watch lasts, but its event comes later.
func (m machine) disconnected(epoch int64) machine {
	if epoch >= m.heard {
		m.heard, m.connected = epoch, false
	}
	if epoch >= m.epoch {
		m = m.doubted()
	}
	return m
}

func (m machine) doubted() machine {
	m.watched = false
	if m.known == ours || m.known == foreign {
		m.known = doubt
	}
	return m
}

// without clears the state that depended on the session that has ended.
func (m machine) without() machine {
	m.watched, m.unsure, m.certain, m.target = false, false, 0, 0
	switch {
	case m.persistent && m.made && m.named:
		m.known = doubt
	case m.closing:
		m.known = doubt
	default:
		m.known, m.mine = blank, 0
	}
	return m
}

// answered records the result of the action in flight.
func (m machine) answered(e event) machine {
	did := m.busy
	m.busy = rest
	if e.kind == joined {
		if m.joined = true; e.epoch != m.epoch {
			m.epoch = e.epoch
			return m.without()
		}
		return m.doubted()
	}
	if e.kind == created {
		m.named = true
	}
	if !m.joined || !m.connected || e.epoch != m.epoch {
		return m.late(did, e)
	}
	switch e.kind {
	case created:
		m.known, m.watched, m.grasp, m.unsure = ours, false, false, e.czxid == 0
		m.mine, m.certain, m.version, m.target = e.czxid, 0, 0, 0
		m.dirty = !e.latest
		return m.succeeded()
	case seen:
		return m.saw(e).succeeded()
	case absent:
		m.known, m.watched, m.unsure = gone, false, false
	case written:
		m.version, m.dirty = e.version, !e.latest
		return m.succeeded()
	case removed:
		m.known, m.watched = gone, false
	case met:
		m.known, m.watched, m.target = doubt, false, 0
		if did == create && !m.persistent { // the node there is another client's, unless an earlier request made it
			m.made = m.wrote
		}
	case failed:
		m.failed, m.lasting = true, false
		m.failures++
		if m.named {
			m.known, m.watched = doubt, false
		}
	case rejected:
		return m.refused(did, e)
	}
	if e.perhaps && (did == create || did == replace) {
		m.unsure = true
		if did == replace {
			m.target = m.theirs
		}
	}
	return m
}

// late records the result of an action whose connection was lost before. The state does not depend on it, unless the
// action may have created a node.
func (m machine) late(did action, e event) machine {
	if did == create || did == replace {
		m.unsure = true
		if m.named && e.epoch == m.epoch {
			m.known, m.watched = doubt, false
		}
	}
	return m
}

// saw records the owner of the node that a look has found.
func (m machine) saw(e event) machine {
	m.watched, m.version = true, e.version
	if e.whose == own {
		if e.czxid != m.mine { // not the node of the confirmed create
			m.dirty = m.dirty || !m.recognises(e.version)
		}
		m.known, m.mine, m.certain = ours, e.czxid, e.czxid
		m.grasp, m.unsure, m.target = false, false, 0
		return m
	}
	if m.target != 0 && e.czxid != m.target {
		m.grasp = false // the replace may have been executed, and there is only one
	}
	m.known, m.theirs, m.target = foreign, e.czxid, 0
	m.old, m.fleeting = e.whose == former, e.whose != nobody
	return m
}

// refused records a lasting refusal.
func (m machine) refused(did action, e event) machine {
	switch {
	case did == replace:
		m.grasp = false // wait, as without WithTakeover
		return m
	case did == remove, did == look && m.closing:
		m.over = true
		return m
	case did == set && e.latest:
		m.dirty = false // SetData returns the error
		return m
	case did == set:
		m.made = m.wrote // otherwise the node existed before, and stays when the keeper is closed
	}
	m.unsure = m.unsure || e.perhaps
	m.failed, m.lasting = true, true
	m.failures++
	return m
}

// succeeded ends a series of failures.
func (m machine) succeeded() machine {
	m.failures, m.lasting = 0, false
	return m
}

package node

// machine decides what a keeper does next. It is a value without side effects: next takes an event and
// returns the machine after it, and what is to be done. One goroutine owns it (worker.go), does one thing at
// a time, and reports how that ended by another event.
type machine struct {
	persistent bool // the node belongs to no session: whoever has made it, it is ours
	stays      bool // closing leaves the node where it is
	named      bool // the path is known: a sequential node has none before it was made
	grasp      bool // may take over another session's node
	unique     bool // the path has a UUID: no other client makes a node there

	busy    action // what is under way; rest if nothing is
	waiting bool   // for the end of a pause
	closing bool
	over    bool // the client is closed, or nothing more can be done

	connected bool
	heard     int64 // the epoch of the last change of the connection
	joined    bool  // epoch is that of the session in which it works
	epoch     int64

	known    known
	watched  bool  // a watch is armed, on what known says
	mine     int64 // czxid of the node that is ours
	certain  int64 // czxid of ours when a look has seen it, and armed a watch
	theirs   int64 // czxid of the other's node
	target   int64 // czxid of the one that a take-over of unknown outcome was to replace
	old      bool  // the other's node is one of an earlier session of ours
	fleeting bool  // the other's node is ephemeral
	version  int32 // of the node that is there

	made     bool // something was sent that may have made the node, or has given it our data
	wrote    bool // and was perhaps executed
	unsure   bool // a node of version 0 may be one that we have made with the latest data
	dirty    bool // the node does not have the latest data
	failed   bool // a pause is due
	failures int  // in a row
	lasting  bool // the last one was a refusal that does not pass by itself
	steps    int  // requests since it last was at rest
}

// known is what is known of the node.
type known int8

const (
	blank   known = iota // nothing: an attempt to create it tells
	doubt                // nothing that still holds: a look tells
	gone                 // it is not there
	foreign              // another's node is there
	ours
)

type action int8

const (
	rest    action = iota // wait for an event
	join                  // get the session
	create                // the node
	look                  // see whose node is there, and watch it
	set                   // the latest data, on the version that is known
	replace               // another's node with ours, in one transaction
	remove                // our node, of the version that is known
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
	orphaned // its session is over, and what was under way with it
	joined   // the session is that of epoch
	created  // or replaced
	seen     // a look has found a node
	absent   // a look has found none
	written  // data
	removed
	met      // refused: the node is not as it was known to be
	failed   // not executed, or perhaps: to be tried again
	rejected // refused for a reason that does not pass by itself
	deleted  // the watch says so
	stirred  // the watch says something else, or it is time to look
	due      // the pause is over
	asked    // there are newer data
	closing
)

// whose says to whom a node that was seen belongs.
type whose int8

const (
	another whose = iota // another session
	nobody               // no session, and ours would belong to one
	former               // an earlier session of this client
	own                  // this session, or no session if that is what is wanted
)

// event is something that has happened. What it has besides kind depends on that.
type event struct {
	kind    eventKind
	epoch   int64 // of the connection's change, or of the session in which an operation was
	whose   whose // seen
	czxid   int64 // created, 0 after a transaction, which does not tell; seen
	version int32 // seen, written
	latest  bool  // created, written: with the latest data; rejected: those that the node has are the latest
	perhaps bool  // failed, rejected: it may have been executed
	final   bool  // no operation can succeed any more: the client is closed, or the session of its view is over
}

// patience is how many requests may follow each other before there is a pause. Without it two that undo each
// other's work, or a server that contradicts itself, would be kept busy.
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

// todo is what is to be done now.
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

// leave is what is to be done to take the node away.
func (m machine) leave() action {
	switch {
	case !m.named, m.known == gone, m.known == foreign && !m.old:
		return stop // what may be left of a create without a name the client removes
	case m.known == ours:
		return remove
	case m.known == foreign && m.watched:
		return rest // our own of an earlier session goes with that
	}
	return look
}

// careful reports whether a look must see everything that was sent before: a node of ours may be there that a
// member that lags does not show yet.
func (m machine) careful() bool { return m.closing || m.unsure }

// recognises reports whether a node of ours that a look has found is certainly the one that a create of unknown
// outcome has made, with the data of then. A persistent one may be another's.
func (m machine) recognises(version int32) bool {
	return m.unsure && version == 0 && (!m.persistent || m.unique)
}

// leaves reports whether a session that is over may have left a node.
func (m machine) leaves() bool { return m.made && !m.persistent }

// state is what can be said of our node.
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
			if m.known = doubt; m.watched { // else it may be about the node before this one
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

// disconnected notes that a connection of that epoch is lost. The watch lasts, but what it says comes later.
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

// without forgets what was known in the session that is over.
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

// answered notes how what is under way has ended.
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
		if did == create && !m.persistent { // the node there is another's, unless one was made before
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

// late notes how something has ended whose connection had been lost before: known was settled without it, or
// will be, unless it may have made a node where there was none.
func (m machine) late(did action, e event) machine {
	if did == create || did == replace {
		m.unsure = true
		if m.named && e.epoch == m.epoch {
			m.known, m.watched = doubt, false
		}
	}
	return m
}

// saw notes whose node a look has found.
func (m machine) saw(e event) machine {
	m.watched, m.version = true, e.version
	if e.whose == own {
		if e.czxid != m.mine { // not the one whose create was confirmed
			m.dirty = m.dirty || !m.recognises(e.version)
		}
		m.known, m.mine, m.certain = ours, e.czxid, e.czxid
		m.grasp, m.unsure, m.target = false, false, 0
		return m
	}
	if m.target != 0 && e.czxid != m.target {
		m.grasp = false // the take-over may have been executed: once is enough
	}
	m.known, m.theirs, m.target = foreign, e.czxid, 0
	m.old, m.fleeting = e.whose == former, e.whose != nobody
	return m
}

// refused notes a refusal that does not pass by itself.
func (m machine) refused(did action, e event) machine {
	switch {
	case did == replace:
		m.grasp = false // it waits, as without the permission to take over
		return m
	case did == remove, did == look && m.closing:
		m.over = true
		return m
	case did == set && e.latest:
		m.dirty = false // the caller of SetData hears of it
		return m
	case did == set:
		m.made = m.wrote // else it was there before, and stays when the keeper is closed
	}
	m.unsure = m.unsure || e.perhaps
	m.failed, m.lasting = true, true
	m.failures++
	return m
}

// succeeded ends a row of failures.
func (m machine) succeeded() machine {
	m.failures, m.lasting = 0, false
	return m
}

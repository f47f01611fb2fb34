package framework

import "fmt"

// State is what a client's connection is like. Corresponds to Curator's ConnectionState.
type State int8

const (
	// NeverConnected is the state of a client that has not reached a server yet. It is never announced.
	NeverConnected State = iota
	// Connected is announced once in a client's life: for its first connection to a member with a quorum.
	Connected
	// Suspended says that the connection is lost. The session may survive; leaders and lock holders should
	// pause.
	Suspended
	// Reconnected says that there is a connection again: to the same session, or, if the epoch has grown, to a
	// new one.
	Reconnected
	// Lost says that the session is over: its ephemeral nodes and watches are gone, or about to be. No hold of
	// that epoch is valid any more.
	Lost
	// ReadOnly says that the connected member has no quorum: it serves reads, which may be old. Only with
	// [WithReadOnly].
	ReadOnly
)

func (s State) String() string {
	return nameOf("State", s, "NeverConnected", "Connected", "Suspended", "Reconnected", "Lost", "ReadOnly")
}

// nameOf returns the name of a value of an enumeration that begins with 0.
func nameOf[T ~int8 | ~int32](kind string, v T, names ...string) string {
	if v < 0 || int(v) >= len(names) {
		return fmt.Sprintf("%s(%d)", kind, int(v))
	}
	return names[v]
}

// IsConnected says whether a server can be reached in this state: Connected, Reconnected and ReadOnly.
func (s State) IsConnected() bool { return s == Connected || s == Reconnected || s == ReadOnly }

// StateChange is a state and the session that it is about.
type StateChange struct {
	State State
	// Epoch counts the client's sessions from 1. When it has grown, the ephemeral nodes of the session before
	// are gone.
	Epoch int64
}

func (c StateChange) String() string { return fmt.Sprintf("%v in epoch %d", c.State, c.Epoch) }

// machine is the connection-state machine as a value. It does nothing itself: next says what is to be done,
// in order.
type machine struct {
	epoch   int64       // the live epoch, from 1
	last    StateChange // what was announced last
	greeted bool        // Connected has been announced
	closed  bool
}

type inputKind int8

const (
	inConnected inputKind = iota + 1
	inReadOnly
	inDisconnected
	inLost
	inClose
)

// input is an event of the session of an epoch; the epoch of inClose does not matter.
type input struct {
	kind  inputKind
	epoch int64
}

type effectKind int8

const (
	// doAttach: the session of the epoch has a connection to a member with a quorum.
	doAttach effectKind = iota + 1
	// doSuspend: the epoch has no such connection any more; end the holds that do not outlive it.
	doSuspend
	// doLose: end everything of the epoch.
	doLose
	// doOpen: open a session for the epoch.
	doOpen
	// doAnnounce: tell the subscribers.
	doAnnounce
	// doClose: end everything of the epoch because the client is being closed.
	doClose
)

type effect struct {
	kind   effectKind
	change StateChange // of doAnnounce; for the others only Epoch is set
}

// next is the transition function. The order of its effects is a promise: everything that belongs to a
// session ends before its loss is announced, and by then the next session exists.
func (m machine) next(in input) (machine, []effect) {
	if m.closed {
		return m, nil
	}
	if in.kind == inClose {
		m.closed = true
		return m, []effect{{doClose, StateChange{Epoch: m.epoch}}}
	}
	if in.epoch != m.epoch {
		return m, nil // of an earlier session
	}
	var todo []effect
	do := func(kind effectKind) { todo = append(todo, effect{kind, StateChange{Epoch: m.epoch}}) }
	announce := func(s State, epoch int64) {
		m.last = StateChange{s, epoch}
		todo = append(todo, effect{doAnnounce, m.last})
	}
	switch in.kind {
	case inConnected:
		do(doAttach)
		switch {
		case !m.greeted:
			m.greeted = true
			announce(Connected, m.epoch)
		case m.last.State != Connected && m.last.State != Reconnected:
			announce(Reconnected, m.epoch)
		}
	case inReadOnly:
		do(doSuspend)
		if m.last.State != ReadOnly {
			announce(ReadOnly, m.epoch)
		}
	case inDisconnected:
		do(doSuspend)
		if m.last.State.IsConnected() {
			announce(Suspended, m.epoch)
		}
	case inLost:
		do(doLose)
		lost := m.epoch
		m.epoch++
		do(doOpen)
		// No Lost for a session that was never established.
		if m.last.State != NeverConnected && m.last.State != Lost {
			announce(Lost, lost)
		}
	}
	return m, todo
}

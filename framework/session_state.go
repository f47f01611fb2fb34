package framework

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-curator/curator/internal/flow"
)

// State is the state of a client's connection. Corresponds to Curator's ConnectionState.
type State int8

const (
	// NeverConnected is the state of a client that has not reached a server yet. It is never announced.
	NeverConnected State = iota
	// Connected is announced once in a client's life: for its first connection to a server with a quorum.
	Connected
	// Suspended means that the connection is lost. The session may survive; leaders and lock holders should pause.
	Suspended
	// Reconnected means that the client is connected again: to the same session or, if the epoch has grown, to a new
	// session.
	Reconnected
	// Lost means that the session has ended: its ephemeral nodes and watches are gone, or about to be. No hold of that
	// epoch is valid any more.
	Lost
	// ReadOnly means that the connected server has no quorum: it serves reads, which may be old. This state occurs only
	// with [WithReadOnly].
	ReadOnly
)

func (s State) String() string {
	return enumName("State", s, "NeverConnected", "Connected", "Suspended", "Reconnected", "Lost", "ReadOnly")
}

// enumName returns the name of a value of an enumeration that starts at 0.
func enumName[T ~int8 | ~int32](kind string, v T, names ...string) string {
	if v < 0 || int(v) >= len(names) {
		return fmt.Sprintf("%s(%d)", kind, int(v))
	}
	return names[v]
}

// IsConnected reports whether a server can be reached in this state: Connected, Reconnected and ReadOnly.
func (s State) IsConnected() bool { return s == Connected || s == Reconnected || s == ReadOnly }

// StateChange is a state and the epoch in which it began.
type StateChange struct {
	State State
	// Epoch counts the client's sessions from 1. When it has grown, the ephemeral nodes of the previous
	// session are gone.
	Epoch int64
}

func (c StateChange) String() string { return fmt.Sprintf("%v in epoch %d", c.State, c.Epoch) }

// stateMachine is the connection-state machine as a value. It has no side effects: next returns the effects to
// carry out, in order.
type stateMachine struct {
	epoch   int64       // the live epoch, from 1
	last    StateChange // last announced
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

// machineInput is an event in the session of an epoch. For inClose the epoch is ignored.
type machineInput struct {
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
	// doAnnounce: report the change to the subscribers.
	doAnnounce
	// doClose: end everything of the epoch because the client is being closed.
	doClose
)

type machineEffect struct {
	kind   effectKind
	change StateChange // what doAnnounce announces; the other kinds set only Epoch
}

// next is the transition function. The order of its effects is a promise: everything that belongs to a
// session ends before Lost is announced, and by then the next session exists.
func (m stateMachine) next(in machineInput) (stateMachine, []machineEffect) {
	if m.closed {
		return m, nil
	}
	if in.kind == inClose {
		m.closed = true
		return m, []machineEffect{{doClose, StateChange{Epoch: m.epoch}}}
	}
	if in.epoch != m.epoch {
		return m, nil // an event of an earlier session
	}
	var todo []machineEffect
	do := func(kind effectKind) { todo = append(todo, machineEffect{kind, StateChange{Epoch: m.epoch}}) }
	announce := func(s State, epoch int64) {
		m.last = StateChange{s, epoch}
		todo = append(todo, machineEffect{doAnnounce, m.last})
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

// stateBoard keeps the client's state and sends every change to every subscriber, in order and without loss: each
// subscriber has its own queue.
type stateBoard struct {
	spawn func(func()) bool // starts a goroutine that Close waits for; false after Close has begun
	done  <-chan struct{}   // closed with the client

	mu          sync.Mutex
	now         StateChange
	since       time.Time // when now began
	away        time.Time // when the last connection to a quorum ended; zero while there is one
	changed     flow.Signal
	subscribers map[*flow.Queue[StateChange]]struct{} // one queue for each subscriber
	listeners   map[*func()]struct{}                  // called after each change; they never wait
}

func newBoard(spawn func(func()) bool, done <-chan struct{}) *stateBoard {
	began := time.Now()
	return &stateBoard{spawn: spawn, done: done, since: began, away: began,
		subscribers: map[*flow.Queue[StateChange]]struct{}{}, listeners: map[*func()]struct{}{}}
}

// announce sets the state and queues the change for every subscriber. It never waits.
func (b *stateBoard) announce(change StateChange) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now, b.since = change, time.Now()
	if quorum := change.State == Connected || change.State == Reconnected; quorum {
		b.away = time.Time{}
	} else if b.away.IsZero() {
		b.away = b.since
	}
	b.changed.Fire()
	for s := range b.subscribers {
		s.Put(change)
	}
	for f := range b.listeners {
		(*f)()
	}
}

// callOnChange calls f after each change until stop is called. f must never wait.
func (b *stateBoard) callOnChange(f func()) (stop func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listeners[&f] = struct{}{}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.listeners, &f)
	}
}

// stateAge returns the state, when it began, and since when there has been no connection to a server with a
// quorum: since New if there never was one, zero while there is one.
func (b *stateBoard) stateAge() (now StateChange, since, away time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now, b.since, b.away
}

// currentState returns the state, and a channel that is closed when the state changes.
func (b *stateBoard) currentState() (StateChange, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now, b.changed.C()
}

func (b *stateBoard) subscribe(ctx context.Context) <-chan StateChange {
	out := make(chan StateChange)
	s := flow.NewQueue[StateChange]()
	b.mu.Lock()
	if b.now.State != NeverConnected {
		s.Put(b.now)
	}
	b.subscribers[s] = struct{}{}
	b.mu.Unlock()
	if !b.spawn(func() { b.pumpChanges(ctx, s, out) }) {
		b.removeSubscriber(s)
		close(out)
	}
	return out
}

func (b *stateBoard) pumpChanges(ctx context.Context, s *flow.Queue[StateChange], out chan<- StateChange) {
	defer close(out)
	defer b.removeSubscriber(s)
	for {
		select {
		case <-s.More():
		case <-ctx.Done():
			return
		case <-b.done:
			return
		}
		for _, change := range s.Take() {
			select {
			case out <- change:
			case <-ctx.Done():
				return
			case <-b.done:
				return
			}
		}
	}
}

func (b *stateBoard) removeSubscriber(s *flow.Queue[StateChange]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.subscribers, s)
}

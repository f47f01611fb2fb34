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
	// Suspended means that there is no connection. The session may live on at the servers; leaders and lock holders
	// should pause.
	Suspended
	// Reconnected means that the client has a connection again: in the same session or, if the epoch has grown, in a
	// new one.
	Reconnected
	// Lost means that the session has ended. No hold of its epoch is valid any more. The servers have deleted its
	// ephemeral nodes and watches, or will do so soon.
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
	// Epoch is the number of the client's session, counted from 1. When it has grown, the previous session is lost, and
	// so are its ephemeral nodes.
	Epoch int64
}

func (c StateChange) String() string { return fmt.Sprintf("%v in epoch %d", c.State, c.Epoch) }

// stateMachine decides which state changes are announced. It is a value without side effects: next returns the effects
// that the manager has to carry out, in order.
type stateMachine struct {
	epoch         int64       // the current epoch, from 1
	lastAnnounced StateChange // zero, which is NeverConnected, before the first
	everConnected bool        // Connected has been announced
	closed        bool
}

type inputKind int8

const (
	inConnected inputKind = iota + 1
	inReadOnly
	inDisconnected
	inLost
	inClose
)

// machineInput is an event of an epoch's session. inClose is for the whole client: its epoch is ignored.
type machineInput struct {
	kind  inputKind
	epoch int64
}

type effectKind int8

const (
	// doAttach records that the epoch has a connection to a member with a quorum.
	doAttach effectKind = iota + 1
	// doSuspend records that it has none, and ends the holds with SuspendedIsLoss.
	doSuspend
	// doLose ends the epoch: its holds, its context and its session.
	doLose
	// doOpen opens the next epoch.
	doOpen
	// doAnnounce reports the change to the subscribers.
	doAnnounce
	// doClose ends the holds of the epoch, since the client closes.
	doClose
)

type machineEffect struct {
	kind   effectKind
	change StateChange // to be announced; for other kinds than doAnnounce only its Epoch is set
}

// next returns the machine after an input, and the effects of that input. Their order is a promise to users: all holds
// and contexts of a session end before Lost is announced, and by then the next session is being opened.
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
		m.lastAnnounced = StateChange{s, epoch}
		todo = append(todo, machineEffect{doAnnounce, m.lastAnnounced})
	}
	switch in.kind {
	case inConnected:
		do(doAttach)
		switch {
		case !m.everConnected:
			m.everConnected = true
			announce(Connected, m.epoch)
		case m.lastAnnounced.State != Connected && m.lastAnnounced.State != Reconnected:
			announce(Reconnected, m.epoch)
		}
	case inReadOnly:
		do(doSuspend)
		if m.lastAnnounced.State != ReadOnly {
			announce(ReadOnly, m.epoch)
		}
	case inDisconnected:
		do(doSuspend)
		if m.lastAnnounced.State.IsConnected() {
			announce(Suspended, m.epoch)
		}
	case inLost:
		do(doLose)
		lost := m.epoch
		m.epoch++
		do(doOpen)
		// Lost is not announced for a session that was never announced.
		if m.lastAnnounced.State != NeverConnected && m.lastAnnounced.State != Lost {
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

	mu            sync.Mutex
	now           StateChange
	since         time.Time // when now began
	noQuorumSince time.Time // when the last connection to a server with a quorum ended; zero while there is one
	changed       flow.Signal
	subscribers   map[*flow.Queue[StateChange]]struct{} // one queue for each subscriber
	listeners     map[*func()]struct{}                  // called after each change; they never wait
}

func newBoard(spawn func(func()) bool, done <-chan struct{}) *stateBoard {
	began := time.Now()
	return &stateBoard{spawn: spawn, done: done, since: began, noQuorumSince: began,
		subscribers: map[*flow.Queue[StateChange]]struct{}{}, listeners: map[*func()]struct{}{}}
}

// announce sets the state and queues the change for every subscriber. It never waits.
func (b *stateBoard) announce(change StateChange) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now, b.since = change, time.Now()
	if quorum := change.State == Connected || change.State == Reconnected; quorum {
		b.noQuorumSince = time.Time{}
	} else if b.noQuorumSince.IsZero() {
		b.noQuorumSince = b.since
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

// stateAge returns the state, and when it began. noQuorumSince is the time since which there has been no connection to
// a server with a quorum: that of New if there never was one, zero while there is one.
func (b *stateBoard) stateAge() (now StateChange, since, noQuorumSince time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now, b.since, b.noQuorumSince
}

// currentState returns the state, and a channel that is closed when the state changes.
func (b *stateBoard) currentState() (StateChange, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now, b.changed.C()
}

// subscribe returns a channel that receives the present state, unless that is NeverConnected, and then every change. It
// is closed when ctx or the client ends.
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

// pumpChanges sends the changes in s to out until ctx or the client ends.
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

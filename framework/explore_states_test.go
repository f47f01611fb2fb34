package framework

import (
	"fmt"
	"slices"
	"testing"

	"github.com/go-curator/curator/internal/explore"
)

// The model of the connection states. It calls stateMachine.next, and simulates the sessions of the client: each connects,
// to members with and without a quorum, loses connections, and ends. The manager receives these events in this order,
// later. An event of an earlier session may come, too.
//
// Bounds: three sessions, up to three events that the manager has not handled yet, a limited number of connections in all.
// The close of earlier sessions before a session is connected is modelled in package wire.
//
// Never: a state is announced that must not follow the last one, or a state of another session than the live one (Lost:
// than the one before); Connected twice; Lost before the session has ended completely and the next one has begun; any state
// after Close; or, when the manager has handled everything, another state than that of the session. Always possible: a
// connected session.

type sessionStates struct {
	m          stateMachine
	link       inputKind // of the live session: inConnected, inReadOnly, or inDisconnected
	epoch      int64     // of the live session, as in its events
	over       bool      // it has ended, and the manager has not handled that
	inbox      [3]machineInput
	last       StateChange // announced
	greeted    bool
	attached   bool // as set by doAttach and doSuspend
	opened     int64
	links      int8 // connections that may still be made
	stragglers int8
	fault      string
}

func (s *sessionStates) emit(kind inputKind, epoch int64) {
	i := slices.Index(s.inbox[:], machineInput{})
	s.inbox[i] = machineInput{kind, epoch}
}

func (s *sessionStates) room() bool { return s.inbox[len(s.inbox)-1] == machineInput{} }

// apply gives an input to the machine, and carries out the effects, as sessionManager.applyInput does.
func (s *sessionStates) apply(in machineInput) {
	closed := s.m.closed
	var todo []machineEffect
	s.m, todo = s.m.next(in)
	if closed && len(todo) > 0 {
		s.fault = "something happens after Close"
	}
	for i, do := range todo {
		epoch := do.change.Epoch
		switch do.kind {
		case doAttach:
			s.attached = true
		case doSuspend, doClose:
			s.attached = false
		case doLose:
			if s.attached = false; epoch != s.opened {
				s.fault = "another session is ended than the live one"
			}
		case doOpen:
			if epoch != s.opened+1 || i == 0 || todo[i-1].kind != doLose {
				s.fault = "a session is opened before the one before it has ended"
			}
			s.opened, s.epoch, s.link, s.over = epoch, epoch, inDisconnected, false
		case doAnnounce:
			s.announced(do.change, i == len(todo)-1)
		}
		if (do.kind == doAttach || do.kind == doSuspend) && (epoch != s.epoch || s.over && in.epoch != s.epoch) {
			s.fault = "an effect on a session that is not the live one"
		}
	}
}

func (s *sessionStates) announced(change StateChange, atLast bool) {
	live := s.opened
	if change.State == Lost {
		live--
	}
	switch {
	case !slices.Contains(may[s.last.State], change.State):
		s.fault = fmt.Sprintf("%v after %v", change, s.last)
	case !atLast:
		s.fault = "announced before it is done"
	case change.Epoch != live:
		s.fault = fmt.Sprintf("%v, when the live session is that of epoch %d", change, s.opened)
	case change.State == Connected && s.greeted:
		s.fault = "Connected twice"
	case change.State != Lost && s.last.State != NeverConnected && s.last.State != Lost && change.Epoch != s.last.Epoch:
		s.fault = "another session without Lost"
	}
	s.last, s.greeted = change, s.greeted || change.State == Connected
}

func (s sessionStates) next(step func(string, sessionStates)) {
	do := func(what string, f func(s *sessionStates)) {
		next := s
		f(&next)
		step(what, next)
	}
	if s.inbox[0] != (machineInput{}) {
		do("the manager handles an event", func(s *sessionStates) {
			in := s.inbox[0]
			copy(s.inbox[:], s.inbox[1:])
			s.inbox[len(s.inbox)-1] = machineInput{}
			s.apply(in)
		})
	}
	if s.m.closed {
		return
	}
	do("Close", func(s *sessionStates) { s.apply(machineInput{kind: inClose}) })
	if !s.room() {
		return
	}
	if s.stragglers > 0 && s.epoch > 1 {
		for kind := inConnected; kind <= inLost; kind++ {
			do("an event of the session before", func(s *sessionStates) {
				s.stragglers--
				s.emit(kind, s.epoch-1)
			})
		}
	}
	if s.over {
		return
	}
	if s.link == inDisconnected && s.links > 0 {
		for _, kind := range []inputKind{inConnected, inReadOnly} {
			do("a connection", func(s *sessionStates) {
				s.links--
				s.link = kind
				s.emit(kind, s.epoch)
			})
		}
	}
	if s.link == inDisconnected && s.links == 0 { // one is always possible
		do("a connection", func(s *sessionStates) {
			s.link = inConnected
			s.emit(inConnected, s.epoch)
		})
	}
	if s.links > 0 && s.link != inDisconnected {
		do("the connection ends", func(s *sessionStates) {
			s.link = inDisconnected
			s.emit(inDisconnected, s.epoch)
		})
	}
	if s.epoch < 3 {
		do("the session ends", func(s *sessionStates) {
			s.over = true
			s.emit(inLost, s.epoch)
		})
	}
}

func (s sessionStates) wrong() string {
	if s.fault != "" || s.m.closed || s.over || s.inbox[0] != (machineInput{}) {
		return s.fault
	}
	is, epoch := s.last.State, s.last.Epoch
	switch {
	case s.attached != (s.link == inConnected):
		return "holds are possible without a connection, or not possible with one"
	case s.link == inConnected && (is != Connected && is != Reconnected || epoch != s.epoch):
		return "it is connected, and that was not announced"
	case s.link == inReadOnly && (is != ReadOnly || epoch != s.epoch):
		return "it is connected to a member without a quorum, and that was not announced"
	case s.link == inDisconnected && is.IsConnected():
		return "it is not connected, and that was not announced"
	}
	return ""
}

func sessions(stragglers int8) explore.Model[sessionStates] {
	return explore.Model[sessionStates]{
		Start: []sessionStates{{m: stateMachine{epoch: 1}, link: inDisconnected, epoch: 1, opened: 1, links: 5, stragglers: stragglers}},
		Next:  func(s sessionStates, step func(string, sessionStates)) { s.next(step) },
		Wrong: sessionStates.wrong,
		Final: func(s sessionStates) bool {
			return s.m.closed || s.link == inConnected && !s.over && s.inbox[0] == (machineInput{}) && s.last.State.IsConnected()
		},
	}
}

func TestExploreStates(t *testing.T) {
	explore.Test(t, sessions(2), "an event of an earlier session is believed")
}

// The search finds the announcement of the third session: two sessions may end before one is ever announced.
func TestExploreStatesReachesTheThirdSession(t *testing.T) {
	m := sessions(0)
	m.Final, m.Wrong = nil, func(s sessionStates) string {
		if s.last == (StateChange{Reconnected, 3}) {
			return "reached"
		}
		return ""
	}
	explore.Finds(t, m)
}

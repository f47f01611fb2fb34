package line

import "time"

// Limits bound the use of a node by the callers of a [Front].
type Limits struct {
	Users  int           // at the same time: 1, or 0 for any number
	Turns  int           // after which the node is retired if other contenders may wait
	Period time.Duration // the same, since the grant
	Idle   time.Duration // how long the node is kept without a user; 0: not at all. Only with Users
}

// frontPhase is the phase of the node that the callers of a Front can use.
type frontPhase int8

const (
	nodeNone   frontPhase = iota // there is none, and no caller wants one
	nodeComing                   // the owner acquires it: it is in line, or is about to be
	nodeFree                     // it holds, and has room for a user
	nodeFull                     // it holds, or has held, and has no room for another user
	nodeEnding                   // no caller gets a turn on it any more, and its delete is not queued yet
)

// frontOthers is whether there are contenders of other processes.
type frontOthers int8

const (
	othersUnknown frontOthers = iota // on this connection no list has armed a watch yet
	othersNone                       // there were none when the watch was armed, and it has not fired
	othersSome                       // there are some, or were
)

// frontEvent is an input of the state machine.
type frontEvent int8

const (
	onArrival    frontEvent = iota // a caller wants a turn
	onGiveUp                       // a waiting caller gives up
	onGrant                        // the node holds
	onFailure                      // the node could not be acquired; the callers that got the error have left the local line
	onRelease                      // a turn has ended
	onLoss                         // the hold was lost, or after that the session
	onAlone                        // a list that has armed a watch shows no other contender
	onOthers                       // a list shows another contender, or the watch has fired
	onReconnect                    // the connection has changed since the last list
	onRevocation                   // a client asks for the lock to be released
	onTimer                        // time has passed
	onDeletion                     // the delete of the node is queued
)

// frontAction is the output of the state machine.
type frontAction int8

const (
	doNothing      frontAction = iota
	startOwner                 // the goroutine that acquires a node
	stopOwner                  // cancel its wait: no caller wants the node any more
	serveCallers               // give turns to waiting callers, as many as there is room for, or to the arriving one
	listContenders             // and watch the directory
	retireNode                 // its users keep it, and no other caller gets it; without users it is deleted
	refuseTries                // fail the waiting callers that are tries, or the arriving one
)

// frontFacts are the inputs of a transition besides the state and the event.
type frontFacts struct {
	waiting int  // callers in the local line; an arriving one counts
	try     bool // the arriving one does not wait for other contenders
	valid   bool // the hold is certain
	now     time.Time
	grace   time.Duration // the user's time to stop after a loss; 0 if the node is gone or goes with its session
}

// frontState is the state of a Front; only next changes it.
type frontState struct {
	phase     frontPhase
	users     int       // of the node
	turns     int       // since grantedAt; without Limits.Users the grant's own do not count
	grantedAt time.Time // when the node was granted, or its turns counted from 0 again
	idleSince time.Time // since when it has no user
	deleteAt  time.Time // when a lost node is deleted although its user has not released; otherwise zero
	others    frontOthers
	unlisted  bool // reconnected, and not listed since: no turn begins while the node is free
	revoked   bool // another client asks for the lock
}

// next returns the next state and the action.
func (l Limits) next(s frontState, e frontEvent, x frontFacts) (frontState, frontAction) {
	switch e {
	case onArrival:
		switch {
		case x.try && (s.phase == nodeComing && s.others == othersSome || l.Users > 0 && (s.phase == nodeFull || x.waiting > 1)):
			return s, refuseTries
		case s.phase == nodeNone:
			s.phase = nodeComing
			return s, startOwner
		case s.phase == nodeFree && (!s.unlisted || !x.valid):
			return l.serveOrRetire(s, x)
		}
	case onGiveUp:
		if s.phase == nodeComing && x.waiting == 0 {
			return s, stopOwner
		}
	case onGrant:
		s, todo := l.serveOrRetire(frontState{grantedAt: x.now}, x)
		if l.Users == 0 {
			s.turns = 0
		}
		return s, todo
	case onFailure, onDeletion:
		if x.waiting > 0 {
			return frontState{phase: nodeComing}, startOwner
		}
		return frontState{}, doNothing
	case onRelease:
		switch {
		case s.users == 0: // it has been released
		case s.users > 1:
			s.users--
		case l.Users == 0:
			return s.retire(x)
		default:
			s.users = 0
			return l.serveOrRetire(s, x)
		}
	case onLoss:
		if s.phase == nodeFull && s.deleteAt.IsZero() && x.grace > 0 {
			s.deleteAt = x.now.Add(x.grace)
			return s, doNothing
		}
		return s.retireLost(x)
	case onAlone, onOthers:
		s.unlisted, s.others = false, othersNone
		if e == onOthers {
			s.others = othersSome
		}
		switch {
		case s.phase == nodeComing:
			return s, refuseTries
		case s.phase == nodeFree && (e == onOthers || x.waiting > 0):
			return l.serveOrRetire(s, x)
		}
	case onReconnect:
		if s.others != othersSome {
			s.others = othersUnknown
		}
		s.unlisted = s.others == othersUnknown
		return s, listContenders
	case onRevocation:
		s.revoked = true
		if s.phase == nodeFree && s.users == 0 {
			return s.retire(x)
		}
	case onTimer:
		if s.phase == nodeFree && x.now.Sub(s.idleSince) >= l.Idle || !s.deleteAt.IsZero() && !x.now.Before(s.deleteAt) {
			return s.retireLost(x)
		}
	}
	return s, doNothing
}

// serveOrRetire decides about a node that has room: to give turns to the waiting callers, to keep it, or to retire it.
func (l Limits) serveOrRetire(s frontState, x frontFacts) (frontState, frontAction) {
	over := s.turns >= l.Turns || x.now.Sub(s.grantedAt) >= l.Period
	switch {
	case !x.valid, !s.deleteAt.IsZero(), s.revoked, x.waiting > 0 && over && s.others != othersNone:
		return s.retire(x)
	case x.waiting > 0:
		if over { // and no other contender waits
			s.turns, s.grantedAt = 0, x.now
		}
		served := x.waiting
		if s.phase = nodeFree; l.Users > 0 {
			s.phase, served = nodeFull, 1
		}
		s.users, s.turns = s.users+served, s.turns+served
		return s, serveCallers
	case l.Idle == 0 || s.others == othersSome:
		return s.retire(x)
	}
	s.phase, s.idleSince = nodeFree, x.now
	return s, doNothing
}

// retire ends a node for later callers. The last of its users deletes it; without users it is deleted before the owner
// acquires another.
func (s frontState) retire(x frontFacts) (frontState, frontAction) {
	switch {
	case s.users == 0:
		s.phase = nodeEnding
		return s, retireNode
	case x.waiting > 0:
		return frontState{phase: nodeComing}, retireNode
	}
	return frontState{}, retireNode
}

// retireLost is retire after a loss, or when a time is over: the node is deleted whether it has users or not.
func (s frontState) retireLost(x frontFacts) (frontState, frontAction) {
	if s.phase != nodeFree && s.phase != nodeFull {
		return s, doNothing
	}
	s.users = 0
	return s.retire(x)
}

// ownerAction returns the action of the owner that supervises a node: retireNode, listContenders, doNothing, or stopOwner.
// deleting means that a caller deletes the node; deleted, that the delete is queued.
func (l Limits) ownerAction(s frontState, deleting, deleted bool) frontAction {
	switch {
	case deleted:
		return stopOwner
	case deleting:
		return doNothing
	case s.phase == nodeEnding:
		return retireNode
	case s.deleteAt.IsZero() && l.Idle > 0 && s.others == othersUnknown:
		return listContenders
	}
	return doNothing
}

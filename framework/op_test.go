package framework

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhatFollowsFromAnError(t *testing.T) {
	for _, tt := range []struct {
		name string
		s    retrySituation
		want retryDecision
	}{
		{"refused", retrySituation{class: classRefused}, giveUp},
		{"refused, and there is a step", retrySituation{class: classRefused, hasStep: true, stepNumber: 1}, takeStep},
		{"the last step was no help", retrySituation{class: classRefused, hasStep: true, stepNumber: maxRounds}, giveUp},
		{"the way to the server", retrySituation{class: classConnection}, tryAgain},
		{"an unknown outcome of what may be repeated", retrySituation{class: classConnection, unknown: true}, tryAgain},
		{
			"an unknown outcome of what may not", retrySituation{class: classConnection, unknown: true, policy: unknownGiveUp}, giveUp,
		},
		{"not executed", retrySituation{class: classConnection, policy: unknownGiveUp}, tryAgain},
		{"the session has ended", retrySituation{class: classSession}, tryAgain},
		{"the session of its view has ended", retrySituation{class: classSession, sessionBound: true}, giveUp},
		{"the client is closed", retrySituation{class: classFinal, unknown: true}, giveUp},
		{"ambiguous, and there is a step", retrySituation{class: classFinal, hasStep: true, stepNumber: 1}, takeStep},
		{"in the background", retrySituation{class: classConnection, background: true, tries: 1}, giveUp},
		{"in the background, unknown",
			retrySituation{class: classConnection, background: true, tries: 1, unknown: true}, giveUp},
		{"in the background, unknown, and it can be found out",
			retrySituation{class: classConnection, background: true, tries: 1, unknown: true, policy: unknownSearch}, tryAgain},
		{
			"the same, by reading", retrySituation{background: true, tries: 1, unknown: true, policy: unknownCompare},
			tryAgain,
		},
		{"the same, again", retrySituation{class: classConnection, background: true, tries: 2, unknown: true,
			policy: unknownSearch}, giveUp},
	} {
		assert.Equal(t, tt.want, tt.s.decideRetry(), tt.name)
	}
}

// In every situation: an operation that may take effect twice is not repeated after an unknown outcome, a final error ends
// it, an operation in the background ends, and steps are limited.
func TestDecisionsKeepThePromises(t *testing.T) {
	for n := range 4 * 2 * 2 * 4 * 2 * 2 * 2 * 3 {
		next := func(of int) int { v := n % of; n /= of; return v }
		s := retrySituation{class: errorClass(next(4)), hasStep: next(2) == 1, stepNumber: maxRounds * next(2),
			policy: unknownOutcomePolicy(
				next(4),
			), unknown: next(2) == 1, sessionBound: next(2) == 1, background: next(2) == 1, tries: next(3)}
		d, name := s.decideRetry(), fmt.Sprintf("%+v", s)
		assert.Equal(t, s.hasStep && s.stepNumber < maxRounds, d == takeStep, name)
		if d == tryAgain {
			assert.False(t, s.unknown && s.policy == unknownGiveUp, name)
			assert.NotEqual(t, classFinal, s.class, name)
			assert.False(t, s.background && s.tries > 1, name)
			assert.False(t, !s.background && s.class == classRefused, name)
			assert.False(t, !s.background && s.class == classSession && s.sessionBound, name)
		}
	}
}

func TestErrorsHaveClasses(t *testing.T) {
	for err, want := range map[error]errorClass{
		ErrNodeExists: classRefused, ErrNotReadOnly: classRefused, errCredentialsRefused: classRefused,
		ErrClosed: classFinal, &ambiguousError{ErrNoNode, ErrNoNode}: classFinal, ErrSessionLost: classSession,
		ErrConnectionLoss: classConnection,
		ErrNotConnected:   classConnection, ErrThrottled: classConnection, ErrSessionMoved: classConnection,
		ErrOperationTimeout:   classConnection,
		&cutOffError{size: 1}: classConnection, &cutOffError{size: 1, final: true}: classRefused,
	} {
		assert.Equal(t, want, classifyError(fmt.Errorf("wrapped: %w", err)), err.Error())
	}
	lost := errors.Join(ErrSessionLost, ErrConnectionLoss)
	assert.Equal(t, classSession, classifyError(lost), "another try runs in the next session")
}

// theNode is the node of a protected create, as it follows from the events that the state machine gets.
type theNode struct {
	state  nodeState
	exists bool // it exists, or may be created yet
	ours   bool // and is the caller's
	owed   bool // a clean-up will look for it, or remove it
	goes   bool // it is ephemeral, and its session has ended
}

func (n theNode) after(ev nodeEvent) (_ theNode, possible bool) {
	switch ev {
	case createSent:
		possible = n.state == nodeAbsent
		n.exists, n.goes = true, false
	case createSucceeded, createUnknown:
		possible = n.state == nodeInFlight || n.state == nodeUnwanted
	case createRefused:
		possible = n.state == nodeInFlight || n.state == nodeUnwanted
		n.exists = n.exists && !possible
	case retryInSession, retryInLater, retryEphemeral:
		possible = n.state == nodeUnknown
		n.goes = n.goes || ev == retryEphemeral
	case nodeFound, searchFailed:
		possible = n.state == nodeSought || n.state == nodeSoughtLater
	case nodeNotFound:
		possible = n.state == nodeSought || n.state == nodeSoughtLater
		n.exists = n.exists && n.state != nodeSought // conclusive only in the session of the create
	case createAbandoned:
		possible = n.state == nodeInFlight
	case createFailed:
		possible = n.state == nodeAbsent || n.state == nodeUnknown
	}
	var action nodeAction
	n.state, action = n.state.next(ev)
	n.owed = action == nodeCleanupRemove || action == nodeCleanupSearch || action == nodeCleanupNewName
	n.ours = n.state == nodeReturned
	if action == nodeNewName && n.goes || action == nodeCleanupNewName {
		n.exists = false // from here on the state describes the node of the new name
	}
	return n, possible
}

// For all events in all orders: a node that may exist is the caller's, or the client still cares for it, or it is deleted
// with its session, or left to the clean-ups. No second node of the same name is created while the first may exist.
func TestAProtectedCreateLeavesNothing(t *testing.T) {
	seen := map[theNode]bool{}
	var walk func(n theNode, path []nodeEvent)
	walk = func(n theNode, path []nodeEvent) {
		if seen[n] {
			return
		}
		seen[n] = true
		switch n.state {
		case nodeGivenUp:
			require.True(t, !n.exists || n.owed, "left behind: %v", path)
		case nodeAbsent:
			require.False(t, n.exists, "forgotten: %v", path)
		case nodeReturned:
			require.True(t, n.exists && n.ours, "%v", path)
		}
		for ev := createSent; ev <= createFailed; ev++ {
			if next, possible := n.after(ev); possible {
				walk(next, append(path[:len(path):len(path)], ev))
			}
		}
	}
	walk(theNode{}, nil)
	states := map[nodeState]bool{}
	for n := range seen {
		states[n.state] = true
	}
	assert.Len(t, states, int(nodeGivenUp)+1, "every state is reached")
}

func TestProtectedCreateTransitions(t *testing.T) {
	for _, tt := range []struct {
		name   string
		events []nodeEvent
		state  nodeState
		action nodeAction
	}{
		{"made", []nodeEvent{createSent, createSucceeded}, nodeReturned, nodeNoAction},
		{"refused, and sent again", []nodeEvent{createSent, createRefused, createSent}, nodeInFlight, nodeNoAction},
		{"lost and found", []nodeEvent{createSent, createUnknown, retryInSession, nodeFound}, nodeReturned, nodeNoAction},
		{
			"lost, and never made", []nodeEvent{createSent, createUnknown, retryInSession, nodeNotFound}, nodeAbsent,
			nodeNoAction,
		},
		{"looked for", []nodeEvent{createSent, createUnknown, retryInSession}, nodeSought, nodeSearch},
		{
			"looked for in vain", []nodeEvent{createSent, createUnknown, retryInSession, searchFailed}, nodeUnknown,
			nodeNoAction,
		},
		{"not found in the next session", []nodeEvent{
			createSent, createUnknown, retryInLater, nodeNotFound,
		}, nodeAbsent,
			nodeCleanupNewName},
		{"gone with its session", []nodeEvent{createSent, createUnknown, retryEphemeral}, nodeAbsent, nodeNewName},
		{"never found out", []nodeEvent{createSent, createUnknown, createFailed}, nodeGivenUp, nodeCleanupSearch},
		{
			"failed, certainly without it", []nodeEvent{createSent, createRefused, createFailed}, nodeGivenUp,
			nodeNoAction,
		},
		{"left, then made", []nodeEvent{createSent, createAbandoned, createSucceeded}, nodeGivenUp, nodeCleanupRemove},
		{"left, then lost", []nodeEvent{createSent, createAbandoned, createUnknown}, nodeGivenUp, nodeCleanupSearch},
		{"left, then refused", []nodeEvent{createSent, createAbandoned, createRefused}, nodeGivenUp, nodeNoAction},
		{
			"made, whatever is reported then", []nodeEvent{createSent, createSucceeded, createFailed}, nodeReturned,
			nodeNoAction,
		},
	} {
		state, action := nodeAbsent, nodeNoAction
		for _, ev := range tt.events {
			state, action = state.next(ev)
		}
		assert.Equal(t, tt.state, state, tt.name)
		assert.Equal(t, tt.action, action, tt.name)
	}
}

func TestRemovalTransitions(t *testing.T) {
	for _, tt := range []struct {
		name   string
		from   removalState
		event  removalEvent
		to     removalState
		action removalAction
	}{
		{"done", removalCalled, removalSucceeded, removalEnded, removalNoAction},
		{"refused", removalCalled, removalRefused, removalEnded, removalNoAction},
		{"failed", removalCalled, removalUnfinished, removalQueued, removalCleanup},
		{"left", removalCalled, removalCallerStopped, removalAbandoned, removalNoAction},
		{"left, then done", removalAbandoned, removalSucceeded, removalEnded, removalNoAction},
		{"left, then refused", removalAbandoned, removalRefused, removalEnded, removalNoAction},
		{"left, then lost", removalAbandoned, removalUnfinished, removalQueued, removalCleanup},
		{"left, then children", removalAbandoned, removalBlocked, removalQueued, removalCleanup},
		{"cleaned up", removalQueued, removalSucceeded, removalEnded, removalNoAction},
		{"a clean-up that failed", removalQueued, removalUnfinished, removalQueued, removalRetry},
		{"a clean-up that was refused", removalQueued, removalRefused, removalEnded, removalWarn},
		{"closed", removalQueued, removalObsolete, removalEnded, removalNoAction},
	} {
		to, action := tt.from.next(tt.event)
		assert.Equal(t, tt.to, to, tt.name)
		assert.Equal(t, tt.action, action, tt.name)
	}
	for ev := removalSucceeded; ev <= removalObsolete; ev++ {
		to, action := removalEnded.next(ev)
		assert.Equal(t, removalEnded, to)
		assert.Equal(t, removalNoAction, action, "what is over is never handed over again")
	}
	for err, want := range map[error]removalEvent{
		nil: removalSucceeded, ErrNoNode: removalSucceeded, ErrNoAuth: removalRefused, ErrNotEmpty: removalRefused,
		ErrConnectionLoss: removalUnfinished, ErrSessionLost: removalUnfinished,
		context.Canceled:                      removalUnfinished,
		&ambiguousError{ErrNoNode, ErrNoNode}: removalRefused,
	} {
		assert.Equal(t, want, removalEventOf(err), "%v", err)
	}
}

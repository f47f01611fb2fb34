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
		{"refused, and there is a step", retrySituation{class: classRefused, helps: true, steps: 1}, takeStep},
		{"the last step was no help", retrySituation{class: classRefused, helps: true, steps: maxRounds}, giveUp},
		{"the way to the server", retrySituation{class: classWay}, tryAgain},
		{"an unknown outcome of what may be repeated", retrySituation{class: classWay, unknown: true}, tryAgain},
		{
			"an unknown outcome of what may not", retrySituation{class: classWay, unknown: true, policy: doubtEnds}, giveUp,
		},
		{"not executed", retrySituation{class: classWay, policy: doubtEnds}, tryAgain},
		{"the session has ended", retrySituation{class: classSession}, tryAgain},
		{"the session of its view has ended", retrySituation{class: classSession, pinned: true}, giveUp},
		{"the client is closed", retrySituation{class: classFinal, unknown: true}, giveUp},
		{"ambiguous, and there is a step", retrySituation{class: classFinal, helps: true, steps: 1}, takeStep},
		{"in the background", retrySituation{class: classWay, background: true, tries: 1}, giveUp},
		{"in the background, unknown",
			retrySituation{class: classWay, background: true, tries: 1, unknown: true}, giveUp},
		{"in the background, unknown, and it can be found out",
			retrySituation{class: classWay, background: true, tries: 1, unknown: true, policy: doubtSearches}, tryAgain},
		{
			"the same, by reading", retrySituation{background: true, tries: 1, unknown: true, policy: doubtCompares},
			tryAgain,
		},
		{"the same, again", retrySituation{class: classWay, background: true, tries: 2, unknown: true,
			policy: doubtSearches}, giveUp},
	} {
		assert.Equal(t, tt.want, tt.s.decideRetry(), tt.name)
	}
}

// In every situation: what may take effect twice is not repeated after an unknown outcome, what is final
// ends, the background ends, and steps do.
func TestDecisionsKeepThePromises(t *testing.T) {
	for n := range 4 * 2 * 2 * 4 * 2 * 2 * 2 * 3 {
		next := func(of int) int { v := n % of; n /= of; return v }
		s := retrySituation{class: errorClass(next(4)), helps: next(2) == 1, steps: maxRounds * next(2),
			policy: doubtPolicy(
				next(4),
			), unknown: next(2) == 1, pinned: next(2) == 1, background: next(2) == 1, tries: next(3)}
		d, name := s.decideRetry(), fmt.Sprintf("%+v", s)
		assert.Equal(t, s.helps && s.steps < maxRounds, d == takeStep, name)
		if d == tryAgain {
			assert.False(t, s.unknown && s.policy == doubtEnds, name)
			assert.NotEqual(t, classFinal, s.class, name)
			assert.False(t, s.background && s.tries > 1, name)
			assert.False(t, !s.background && s.class == classRefused, name)
			assert.False(t, !s.background && s.class == classSession && s.pinned, name)
		}
	}
}

func TestErrorsHaveClasses(t *testing.T) {
	for err, want := range map[error]errorClass{
		ErrNodeExists: classRefused, ErrNotReadOnly: classRefused, errCredentialsRefused: classRefused,
		ErrClosed: classFinal, &ambiguousError{ErrNoNode, ErrNoNode}: classFinal, ErrSessionLost: classSession,
		ErrConnectionLoss: classWay,
		ErrNotConnected:   classWay, ErrThrottled: classWay, ErrSessionMoved: classWay,
		ErrOperationTimeout:   classWay,
		&cutOffError{size: 1}: classWay, &cutOffError{size: 1, final: true}: classRefused,
	} {
		assert.Equal(t, want, classifyError(fmt.Errorf("wrapped: %w", err)), err.Error())
	}
	lost := errors.Join(ErrSessionLost, ErrConnectionLoss)
	assert.Equal(t, classSession, classifyError(lost), "another try runs in the next session")
}

// theNode is what happens to the node of a protected create while the state machine is told of it.
type theNode struct {
	state  nodeState
	exists bool // it may be there, or come to be
	ours   bool // and is the caller's
	owed   bool // a clean-up will look for it, or remove it
	goes   bool // it is ephemeral, and its session has ended
}

func (n theNode) after(ev nodeEvent) (_ theNode, possible bool) {
	switch ev {
	case createSent:
		possible = n.state == nodeAbsent
		n.exists, n.goes = true, false
	case createDone, createLost:
		possible = n.state == nodeSent || n.state == nodeUnwanted
	case createRefused:
		possible = n.state == nodeSent || n.state == nodeUnwanted
		n.exists = n.exists && !possible
	case tryHere, tryElsewhere, tryAfterEnd:
		possible = n.state == nodeUnknown
		n.goes = n.goes || ev == tryAfterEnd
	case nodeFound, searchFailed:
		possible = n.state == nodeSought || n.state == nodeSoughtElsewhere
	case nodeNotFound:
		possible = n.state == nodeSought || n.state == nodeSoughtElsewhere
		n.exists = n.exists && n.state != nodeSought // conclusive only in the session of the create
	case callerLeft:
		possible = n.state == nodeSent
	case createFailed:
		possible = n.state == nodeAbsent || n.state == nodeUnknown
	}
	var action nodeAction
	n.state, action = n.state.next(ev)
	n.owed = action == nodeLeave || action == nodeLeaveSearch || action == nodeLeaveRename
	n.ours = n.state == nodeTaken
	if action == nodeRename && n.goes || action == nodeLeaveRename {
		n.exists = false // the state is about the node of the new name from here on
	}
	return n, possible
}

// Whatever happens in whatever order: a node that may exist is the caller's, or still looked after, or goes
// with its session, or is left to the clean-ups. No second node is made while there may be a first one of the
// same name.
func TestAProtectedCreateLeavesNothing(t *testing.T) {
	seen := map[theNode]bool{}
	var walk func(n theNode, path []nodeEvent)
	walk = func(n theNode, path []nodeEvent) {
		if seen[n] {
			return
		}
		seen[n] = true
		switch n.state {
		case nodeOver:
			require.True(t, !n.exists || n.owed, "left behind: %v", path)
		case nodeAbsent:
			require.False(t, n.exists, "forgotten: %v", path)
		case nodeTaken:
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
	assert.Len(t, states, int(nodeOver)+1, "every state is reached")
}

func TestProtectedCreateTransitions(t *testing.T) {
	for _, tt := range []struct {
		name   string
		events []nodeEvent
		state  nodeState
		action nodeAction
	}{
		{"made", []nodeEvent{createSent, createDone}, nodeTaken, nodeNoAction},
		{"refused, and sent again", []nodeEvent{createSent, createRefused, createSent}, nodeSent, nodeNoAction},
		{"lost and found", []nodeEvent{createSent, createLost, tryHere, nodeFound}, nodeTaken, nodeNoAction},
		{
			"lost, and never made", []nodeEvent{createSent, createLost, tryHere, nodeNotFound}, nodeAbsent,
			nodeNoAction,
		},
		{"looked for", []nodeEvent{createSent, createLost, tryHere}, nodeSought, nodeSearch},
		{
			"looked for in vain", []nodeEvent{createSent, createLost, tryHere, searchFailed}, nodeUnknown,
			nodeNoAction,
		},
		{"not found in the next session", []nodeEvent{
			createSent, createLost, tryElsewhere, nodeNotFound,
		}, nodeAbsent,
			nodeLeaveRename},
		{"gone with its session", []nodeEvent{createSent, createLost, tryAfterEnd}, nodeAbsent, nodeRename},
		{"never found out", []nodeEvent{createSent, createLost, createFailed}, nodeOver, nodeLeaveSearch},
		{
			"failed, certainly without it", []nodeEvent{createSent, createRefused, createFailed}, nodeOver,
			nodeNoAction,
		},
		{"left, then made", []nodeEvent{createSent, callerLeft, createDone}, nodeOver, nodeLeave},
		{"left, then lost", []nodeEvent{createSent, callerLeft, createLost}, nodeOver, nodeLeaveSearch},
		{"left, then refused", []nodeEvent{createSent, callerLeft, createRefused}, nodeOver, nodeNoAction},
		{
			"made, whatever is reported then", []nodeEvent{createSent, createDone, createFailed}, nodeTaken,
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
		{"done", removalTried, removalDone, removalOver, removalNoAction},
		{"refused", removalTried, removalRefused, removalOver, removalNoAction},
		{"failed", removalTried, removalUnfinished, removalOwed, removalHandOver},
		{"left", removalTried, removalLeft, removalAwaited, removalNoAction},
		{"left, then done", removalAwaited, removalDone, removalOver, removalNoAction},
		{"left, then refused", removalAwaited, removalRefused, removalOver, removalNoAction},
		{"left, then lost", removalAwaited, removalUnfinished, removalOwed, removalHandOver},
		{"left, then children", removalAwaited, removalBlocked, removalOwed, removalHandOver},
		{"cleaned up", removalOwed, removalDone, removalOver, removalNoAction},
		{"a clean-up that failed", removalOwed, removalUnfinished, removalOwed, removalRetry},
		{"a clean-up that was refused", removalOwed, removalRefused, removalOver, removalWarn},
		{"closed", removalOwed, removalVoid, removalOver, removalNoAction},
	} {
		to, action := tt.from.next(tt.event)
		assert.Equal(t, tt.to, to, tt.name)
		assert.Equal(t, tt.action, action, tt.name)
	}
	for ev := removalDone; ev <= removalVoid; ev++ {
		to, action := removalOver.next(ev)
		assert.Equal(t, removalOver, to)
		assert.Equal(t, removalNoAction, action, "what is over is never handed over again")
	}
	for err, want := range map[error]removalEvent{
		nil: removalDone, ErrNoNode: removalDone, ErrNoAuth: removalRefused, ErrNotEmpty: removalRefused,
		ErrConnectionLoss: removalUnfinished, ErrSessionLost: removalUnfinished,
		context.Canceled:                      removalUnfinished,
		&ambiguousError{ErrNoNode, ErrNoNode}: removalRefused,
	} {
		assert.Equal(t, want, removalEventOf(err), "%v", err)
	}
}

package framework

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-curator/curator/internal/golden"
)

// TestDecisions compares all decisions with testdata: about an error of an operation, about the node of a protected create
// or of a guaranteed delete, and about an event in the client's state machine.
func TestDecisions(t *testing.T) {
	var table golden.Table
	for c, className := range []string{"refused", "final", "session", "connection"} {
		for policy, policyName := range []string{"repeat", "giveUp", "compare", "search"} {
			for n := range 3 * 2 * 2 * 2 * 3 {
				next := func(of int) int { v := n % of; n /= of; return v }
				help := next(3)
				s := retrySituation{class: errorClass(c), policy: unknownOutcomePolicy(policy), hasStep: help > 0, stepNumber: max(0, help-1) * maxRounds,
					unknown: next(2) == 1, sessionBound: next(2) == 1, background: next(2) == 1, tries: next(3)}
				table.Row("situation.decide", [...]string{"give up", "take the step", "try again"}[s.decideRetry()],
					"step", [...]string{"none", "helps", "used up"}[help], "class", className, "background", s.background,
					"unknown", s.unknown, "policy", policyName, "bound", s.sessionBound, "tries", s.tries)
			}
		}
	}
	table.Compare(t, "operations")
}

func TestTransitions(t *testing.T) {
	nodeStates := strings.Fields("absent inFlight unknown sought soughtLater returned unwanted givenUp")
	nodeEvents := strings.Fields("sent succeeded refused unknown retryInSession retryInLater retryEphemeral found notFound searchFailed abandoned failed")
	nodeActions := strings.Fields("- search newName cleanupNewName cleanupSearch cleanupRemove")
	removalStates, removalEvents := strings.Fields("called abandoned queued ended"), strings.Fields("succeeded refused unfinished blocked callerStopped obsolete")
	removalActions := strings.Fields("- cleanup retry warn")
	var table golden.Table
	for s, from := range nodeStates {
		for ev, event := range nodeEvents {
			to, action := nodeState(s).next(nodeEvent(ev))
			table.Row("protected create, "+from, nodeStates[to]+", "+nodeActions[action], "", event)
		}
	}
	for s, from := range removalStates {
		for ev, event := range removalEvents {
			to, action := removalState(s).next(removalEvent(ev))
			table.Row("removal, "+from, removalStates[to]+", "+removalActions[action], "", event)
		}
	}
	table.Compare(t, "removals")
}

// The table has only possible announced states and epochs. The event belongs to the live epoch, an earlier or a later one.
func TestTransitionsOfTheConnection(t *testing.T) {
	kinds := strings.Fields("none attach suspend lose open announce close")
	const epoch = 5
	var table golden.Table
	for in, event := range strings.Fields("connected readOnly disconnected lost close") {
		for last := NeverConnected; last <= ReadOnly; last++ {
			for n := range 2 * 2 * 2 * 3 {
				everConnected, closed, past := n%2 == 1, n/2%2 == 1, int64(n/4%2)
				of := int64(n/8) - 1 // 0: the live epoch
				from := stateMachine{epoch: epoch, lastAnnounced: StateChange{last, epoch - past},
					everConnected: everConnected, closed: closed}
				to, todo := from.next(machineInput{inputKind(in + 1), epoch + of})
				var does []string
				for _, e := range todo {
					text := kinds[e.kind]
					if e.kind == doAnnounce {
						text += " " + e.change.State.String()
					}
					does = append(does, fmt.Sprintf("%s %+d", text, e.change.Epoch-epoch))
				}
				if len(does) == 0 {
					does = []string{"nothing"}
				}
				if to.epoch != from.epoch {
					does = append(does, fmt.Sprintf("epoch %+d", to.epoch-from.epoch))
				}
				if to.lastAnnounced != from.lastAnnounced {
					does = append(does, fmt.Sprintf("last %v %+d", to.lastAnnounced.State, to.lastAnnounced.Epoch-epoch))
				}
				if to.everConnected != from.everConnected {
					does = append(does, "everConnected")
				}
				if to.closed != from.closed {
					does = append(does, "closed")
				}
				table.Row(event, strings.Join(does, ", "), "closed", closed, "epoch", fmt.Sprintf("%+d", of),
					"last", last, "everConnected", everConnected, "lastEpoch", -past)
			}
		}
	}
	table.Compare(t, "connection")
}

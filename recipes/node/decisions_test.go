package node

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"testing"

	"github.com/go-curator/curator/internal/golden"
)

// The actions of a keeper's state machine for each possible event, in each reachable state. There are half a million such cases:
// the golden table has, for each kind of case, the actions, the number of cases, and a hash of them.
func TestDecisions(t *testing.T) {
	type kind struct {
		event    eventKind
		inFlight keeperAction
		known    knownState
	}
	type outcome struct {
		does  keeperAction
		known knownState
		state State
	}
	type sum struct {
		n    int
		hash uint64
		does map[outcome]bool
	}
	all := map[kind]*sum{}
	for _, fresh := range []stateMachine{
		{pathKnown: true, mayTakeOver: true}, // ephemeral, may take over
		{pathKnown: true, persistent: true},  //
		{uniquePath: true},                   // sequential
	} {
		fresh = normal(fresh)
		reached := map[stateMachine]bool{fresh: true}
		for todo := []stateMachine{fresh}; len(todo) > 0; {
			m := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			for _, e := range events(m) {
				k := kind{e.kind, m.inFlight, m.known}
				if all[k] == nil {
					all[k] = &sum{does: map[outcome]bool{}}
				}
				for _, steps := range []int{0, requestsBeforePause} {
					if steps > 0 && m.inFlight != waitForEvent && m.inFlight != readOwner {
						break // the number of requests has the same effect after each of them
					}
					from := m
					from.requestCount = steps
					next, does := from.next(e)
					s := all[k]
					s.n++
					s.hash += digest(from, e, next, does)
					s.does[outcome{does, next.known, next.nodeState()}] = true
					if next = normal(next); !reached[next] && does != stopWorker && !next.finished {
						reached[next] = true
						todo = append(todo, next)
					}
				}
			}
		}
	}
	knowns := [...]string{"unknownNode", "uncertainNode", "missingNode", "foreignNode", "ownNode"}
	var table golden.Table
	for k, s := range all {
		var does []string
		for o := range s.does {
			does = append(does, fmt.Sprint(o.does, " ", knowns[o.known], " ", o.state))
		}
		slices.Sort(does)
		table.Row([...]string{"connected", "suspended", "sessionLost", "attemptOrphaned", "sessionJoined", "nodeCreated", "nodeFound", "nodeAbsent",
			"dataWritten", "nodeRemoved", "stateConflict", "attemptFailed", "requestRejected", "deletionReported", "maybeChanged", "pauseEnded",
			"newDataSet", "closeRequested"}[k.event],
			fmt.Sprintf("%s (%d situations, %016x)", strings.Join(does, ", or "), s.n, s.hash),
			"inFlight", k.inFlight, "known", knowns[k.known])
	}
	table.Compare(t, "keeper")
}

func (a keeperAction) String() string {
	return [...]string{"waitForEvent", "joinSession", "createNode", "readOwner", "setData", "replaceNode", "removeNode", "startPause", "stopWorker"}[a]
}

// digest returns a hash of a case: state, event, next state and action.
func digest(from stateMachine, e machineEvent, to stateMachine, does keeperAction) uint64 {
	b := make([]byte, 0, 128)
	bits := func(all ...bool) {
		for len(all) > 0 {
			n := min(8, len(all))
			one := byte(0)
			for i, set := range all[:n] {
				if set {
					one |= 1 << i
				}
			}
			b, all = append(b, one), all[n:]
		}
	}
	for _, m := range []stateMachine{from, to} {
		bits(m.persistent, m.outlivesClose, m.pathKnown, m.mayTakeOver, m.uniquePath, m.pausing, m.closing, m.finished, m.connected, m.hasSession, m.watched, m.ofFormerSession,
			m.otherEphemeral, m.mayHaveCreated, m.mayBeExecuted, m.createUncertain, m.dataOutdated, m.pauseDue, m.lastingRefusal)
		b = append(b, byte(m.inFlight), byte(m.known), byte(m.connectionEpoch), byte(m.epoch), byte(m.ownCzxid), byte(m.confirmedCzxid), byte(m.foreignCzxid),
			byte(m.replaceTarget), byte(m.version), byte(m.failures), byte(m.requestCount))
	}
	bits(e.latestData, e.outcomeUnknown, e.final)
	b = append(b, byte(e.kind), byte(e.epoch), byte(e.ownedBy), byte(e.czxid), byte(e.version), byte(does))
	h := fnv.New64a()
	_, _ = h.Write(b)
	return h.Sum64()
}

// normal returns m with each number replaced by one that represents all of its kind.
func normal(m stateMachine) stateMachine {
	m.requestCount, m.failures, m.version = 0, 0, 0
	for number, fields := range map[int64][]*int64{7: {&m.ownCzxid, &m.confirmedCzxid}, 9: {&m.foreignCzxid, &m.replaceTarget}} {
		for _, f := range fields {
			if *f != 0 {
				*f = number
			}
		}
	}
	if m.epoch > 0 {
		m.connectionEpoch, m.epoch = min(m.connectionEpoch-m.epoch, 1)+1, 1
	} else {
		m.connectionEpoch = min(m.connectionEpoch, 1)
	}
	return m
}

// events returns the events that are possible in m.
func events(m stateMachine) (all []machineEvent) {
	add := func(e machineEvent) { all = append(all, e) }
	all = []machineEvent{{kind: maybeChanged}, {kind: newDataSet}, {kind: closeRequested}, {kind: maybeChanged, final: true}}
	if m.watched || m.known == uncertainNode {
		add(machineEvent{kind: deletionReported})
	}
	if m.pausing {
		add(machineEvent{kind: pauseEnded})
	}
	if !m.connected {
		add(machineEvent{kind: connected, epoch: max(m.connectionEpoch, 1)})
		add(machineEvent{kind: connected, epoch: m.connectionEpoch + 1})
	} else {
		add(machineEvent{kind: suspended, epoch: m.connectionEpoch})
	}
	if m.connectionEpoch > 0 {
		add(machineEvent{kind: sessionLost, epoch: m.connectionEpoch})
	}
	if m.inFlight == waitForEvent {
		return all
	}
	if m.inFlight == joinSession {
		return append(all, machineEvent{kind: sessionJoined, epoch: max(m.connectionEpoch, 1)})
	}
	for _, kind := range []eventKind{attemptOrphaned, attemptFailed, requestRejected} {
		add(machineEvent{kind: kind, epoch: m.epoch})
	}
	if m.inFlight != readOwner {
		add(machineEvent{kind: attemptFailed, epoch: m.epoch, outcomeUnknown: true})
		add(machineEvent{kind: requestRejected, epoch: m.epoch, outcomeUnknown: true})
		add(machineEvent{kind: stateConflict, epoch: m.epoch})
	}
	switch m.inFlight {
	case createNode, replaceNode:
		for _, latest := range []bool{false, true} {
			e := machineEvent{kind: nodeCreated, epoch: m.epoch, latestData: latest, czxid: 7}
			if m.inFlight == replaceNode {
				e.czxid = 0
			}
			add(e)
		}
	case readOwner:
		add(machineEvent{kind: nodeAbsent, epoch: m.epoch})
		for version := range int32(2) {
			for w := anotherSession; w <= ownSession; w++ {
				for czxid := range int64(2) {
					e := machineEvent{kind: nodeFound, epoch: m.epoch, ownedBy: w, czxid: 9 + czxid, version: version}
					if w == ownSession {
						e.czxid = 7 + czxid
					}
					add(e)
				}
			}
		}
	case setData:
		for _, latest := range []bool{false, true} {
			add(machineEvent{kind: dataWritten, epoch: m.epoch, version: 1, latestData: latest})
			add(machineEvent{kind: requestRejected, epoch: m.epoch, latestData: latest})
		}
	case removeNode:
		add(machineEvent{kind: nodeRemoved, epoch: m.epoch})
	}
	return all
}

package cache

import "fmt"

// checkStates makes every engine compare nodeState with the flags, after every step. Tests set it.
var checkStates bool

// shadow is the state of each node by nodeState.
type shadow struct {
	nodes map[*node]nodeState
	depth int // of steps that are parts of others
}

// step returns a function for the end of a step on a node, which compares the flags with the state by nodeState.next.
func (e *engine) step(n *node, ev nodeEvent) func() {
	if !checkStates {
		return func() {}
	}
	e.shadow.depth++
	return func() {
		if e.shadow.depth--; e.shadow.depth > 0 {
			return
		}
		if e.shadow.nodes == nil {
			e.shadow.nodes = map[*node]nodeState{}
		}
		before := e.shadow.nodes[n]
		after, _ := before.next(ev)
		e.shadow.nodes[n] = after
		if now := stateOf(n.flags); now != after {
			panic(fmt.Sprintf("event %d in %+v: %+v instead of %+v (%b)", ev, before, after, now, n.flags))
		}
	}
}

func stateOf(f flags) (s nodeState) {
	if f&gone != 0 {
		return nodeState{facts: removed}
	}
	s.data = fetchOf(f, wanted, lookOnly, flying, again)
	s.list = fetchOf(f, listWanted_, leaf, listFlying, listAgain)
	for _, b := range []struct {
		flag flags
		fact nodeFacts
	}{
		{listed, childrenKnown}, {unproven, eventsMissed}, {counting, awaited}, {watched, dataWatch},
		{watchedList, listWatch}, {proving_, proving}, {doubted, doubtful},
	} {
		if f&b.flag != 0 {
			s = s.with(b.fact)
		}
	}
	return s
}

func fetchOf(f, wanted, light, flying, again flags) fetch {
	switch {
	case f&wanted != 0 && f&light != 0:
		return fetchLight
	case f&wanted != 0:
		return fetchQueued
	case f&flying == 0:
		return fetchIdle
	case f&again != 0:
		return fetchOutdated
	}
	return fetchInFlight
}

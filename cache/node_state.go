package cache

// nodeState is what the engine has still to read of a node, and how far it can rely on what it has read. It changes by next only:
// engine.apply carries out the effects.
type nodeState struct {
	data, list fetch // list: of the names of the children
	facts      nodeFacts
}

// fetch is how far the engine has come with reading one part of a node.
type fetch uint8

const (
	fetchIdle     fetch = iota // nothing to read
	fetchLight                 // in the queue, but for less: data: whether they have changed; list: only to set its watch (leaves.go)
	fetchQueued                // in the queue
	fetchInFlight              // sent, and no event since
	fetchOutdated              // sent before an event: the reply may be older than that, so it is read once more
)

// nodeFacts are facts that change independently, except that doubtful and proving exclude each other: they say whether the
// name belongs to the node that was read last (neither), or perhaps to another by now.
type nodeFacts uint8

const (
	childrenKnown nodeFacts = 1 << iota // the children were listed, or there were none, and events have reported their changes since
	eventsMissed                        // … unless events were missed after the node was read
	doubtful                            // the name may belong to another node, and no read in flight will show it
	proving                             // the name may belong to another node, and the read in flight will show it
	awaited                             // the load waits for the node
	dataWatch                           // a one-shot watch of the data is set, and has not fired (oneshot.go)
	listWatch                           // the same for the list of children
	removed                             // the node has left the tree: nothing changes it any more
)

// nodeEvent is something that changes the state of a node.
type nodeEvent uint8

const (
	dataWanted    nodeEvent = iota // read the data; a reply to an earlier request is not enough
	lookWanted                     // find out whether the node has changed
	otherPossible                  // another node may have the name: read the data to find out
	listWanted                     // list the children; a reply to an earlier request is not enough
	leafFound                      // there are no children, so that the list in the queue is only to set its watch
	leafDoubted                    // there may be children after all

	dataSent // taken from the queue
	listSent
	dataReplied // the reply, or its error, is about to be handled
	listReplied
	dataFailed // the read failed for a reason that is not in the node: once more
	lookFailed
	listFailed

	identityUnproven // the reply does not show which node has the name
	nodeReplaced     // another node has the name, or none
	dataShown        // the reply shows the node as it is after all events that were missed
	childrenListed
	childrenUnproven // the list may have changed without an event

	listChanged    // an event: a list in flight may be older
	dataWatchFired // one-shot watches
	listWatchFired
	bothWatchesFired
	dataWatchSet
	listWatchSet
	watchesDropped

	gapFound    // events may have been missed: compare the node
	wayBegun    // a new session, or way of watching: nothing is in flight, no watch is set
	loadStarted // the load waits for the node
	loadResumed // the load waits for the node if it is being read
	readHandled // the load waits no longer, unless there is more to read of the node
	nodeRemoved
)

// nodeEffects is what an event demands of the engine, and what it reports to the caller.
type nodeEffects uint8

const (
	queueData     nodeEffects = 1 << iota // put a read of the data into the queue
	queueList                             // put a list into the queue
	awaitMore                             // the load waits for one node more
	awaitLess                             // the load waits for one node less
	nowSent                               // the read that was taken from the queue is still wanted
	replyOutdated                         // the reply may be older than an event
)

// next returns the state after an event, and the effects of the event.
func (s nodeState) next(ev nodeEvent) (nodeState, nodeEffects) {
	if s.is(removed) {
		return s, 0
	}
	before, effects := s, nodeEffects(0)
	switch ev {
	case dataWanted:
		s.data = s.data.wanted(fetchQueued)
	case lookWanted:
		s.data = s.data.wanted(fetchLight)
	case otherPossible:
		s = s.with(doubtful)
		s.data = s.data.wanted(fetchQueued)
	case listWanted:
		s = s.without(childrenKnown)
		s.list = s.list.wanted(fetchQueued)
	case leafFound:
		if s.list == fetchQueued {
			s.list = fetchLight
		}
	case leafDoubted:
		if s.list == fetchLight {
			s.list = fetchQueued
		}

	case dataSent:
		if s.data.isQueued() {
			s.data, effects = fetchInFlight, nowSent
			if s.is(doubtful) {
				s = s.with(proving)
			}
		}
	case listSent:
		if s.list.isQueued() {
			s.list, effects = fetchInFlight, nowSent
		}
	case dataReplied:
		effects = s.data.replied()
		s.data = fetchIdle
		s = s.without(proving)
	case listReplied:
		effects = s.list.replied()
		s.list = fetchIdle
	case dataFailed, lookFailed:
		if s.is(proving) {
			s = s.with(doubtful)
		}
		s.data = fetchQueued
		if ev == lookFailed {
			s.data = fetchLight
		}
	case listFailed:
		s = s.without(childrenKnown)
		s.list = fetchQueued

	case identityUnproven:
		s = s.with(doubtful)
	case nodeReplaced:
		s = s.without(childrenKnown | eventsMissed)
	case dataShown:
		s = s.without(eventsMissed)
	case childrenListed:
		s = s.with(childrenKnown)
	case childrenUnproven:
		s = s.without(childrenKnown)

	case listChanged:
		s.list = s.list.changed()
	case dataWatchFired:
		s = s.without(dataWatch)
	case listWatchFired:
		s = s.without(listWatch)
	case bothWatchesFired: // also the watch that a list in flight, or armLeaves, is setting
		s = s.without(dataWatch | listWatch)
		s.list = s.list.changed()
	case dataWatchSet:
		if s.data != fetchOutdated { // else the event may have used it up
			s = s.with(dataWatch)
		}
	case listWatchSet:
		if s.list != fetchOutdated {
			s = s.with(listWatch)
		}
	case watchesDropped:
		s = s.without(dataWatch | listWatch)

	case gapFound:
		s = s.with(eventsMissed).with(doubtful).with(awaited)
		s.list = s.list.changed()
		s.data = s.data.wanted(fetchLight)
	case wayBegun:
		s = nodeState{facts: s.facts & (childrenKnown | awaited)}
	case loadStarted:
		s = s.with(awaited)
	case loadResumed:
		if s.busy() {
			s = s.with(awaited)
		}
	case readHandled:
		if !s.busy() {
			s = s.without(awaited)
		}
	case nodeRemoved:
		s = nodeState{facts: removed}
	}
	return s, effects | changesFrom(before, s)
}

// changesFrom returns the effects of what has changed between two states.
func changesFrom(before, after nodeState) (effects nodeEffects) {
	if after.data.isQueued() && !before.data.isQueued() {
		effects |= queueData
	}
	if after.list.isQueued() && !before.list.isQueued() {
		effects |= queueList
	}
	switch {
	case after.is(awaited) && !before.is(awaited):
		effects |= awaitMore
	case before.is(awaited) && !after.is(awaited):
		effects |= awaitLess
	}
	return effects
}

// is reports whether one of these facts holds.
func (s nodeState) is(any nodeFacts) bool { return s.facts&any != 0 }

// with returns s with one fact more.
func (s nodeState) with(fact nodeFacts) nodeState {
	if fact&(doubtful|proving) != 0 {
		s.facts &^= doubtful | proving
	}
	s.facts |= fact
	return s
}

func (s nodeState) without(facts nodeFacts) nodeState {
	s.facts &^= facts
	return s
}

// busy reports whether a read of the node is in the queue or in flight.
func (s nodeState) busy() bool { return s.data != fetchIdle || s.list != fetchIdle }

// wanted returns f when a reply to an earlier request is not enough. A new read has the weight as. What is queued already
// becomes a whole read.
func (f fetch) wanted(as fetch) fetch {
	switch f {
	case fetchIdle:
		return as
	case fetchLight:
		return fetchQueued
	}
	return f.changed()
}

// changed returns f after an event.
func (f fetch) changed() fetch {
	if f == fetchInFlight {
		return fetchOutdated
	}
	return f
}

func (f fetch) isQueued() bool { return f == fetchLight || f == fetchQueued }
func (f fetch) isSent() bool   { return f == fetchInFlight || f == fetchOutdated }

func (f fetch) replied() nodeEffects {
	if f == fetchOutdated {
		return replyOutdated
	}
	return 0
}

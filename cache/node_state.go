package cache

// nodeState has the reads of a node that are still missing, and the reliability of the earlier ones. Only next changes
// it; engine.applyInput carries out the effects.
//
// A reply may be older than an event that was handled before it; fetchOutdated records that:
//  1. The server executes a read, and replies.
//  2. Another client changes the node, and the server sends an event.
//  3. The engine handles the event first, because the callback of the reply was registered too late to be called first.
//  4. The engine handles the reply, which does not show the change.
type nodeState struct {
	data, list fetchState // list: of the names of the children
	facts      nodeFacts
}

// fetchState is the engine's progress in reading the data of a node, or the list of its children.
type fetchState uint8

const (
	fetchIdle     fetchState = iota // nothing to read
	fetchLight                      // in the queue, and less is enough: of data their Stat if it is unchanged, of a list its watch (oneshot.go)
	fetchQueued                     // in the queue
	fetchInFlight                   // sent, and no event since
	fetchOutdated                   // sent before an event: the reply may be older than that, and the read is sent once more
)

func (f fetchState) isQueued() bool { return f == fetchLight || f == fetchQueued }
func (f fetchState) isSent() bool   { return f == fetchInFlight || f == fetchOutdated }

// nodeFacts change independently of each other, except that at most one of identityUncertain and identityProving is set.
type nodeFacts uint8

const (
	childrenKnown     nodeFacts = 1 << iota // the children are in the cache: they were listed, or there were none
	eventsMissed                            // since the node was read, events of it and of its children may have been missed
	identityUncertain                       // another node may have this name now, and no read in flight will show which
	identityProving                         // the same, but the read in flight will show which
	awaitedForSync                          // the cache is not in sync before the node was read
	dataWatch                               // a one-shot watch of the data is set, and has not fired (oneshot.go)
	listWatch                               // the same for the list of children
	leftTree                                // no input changes the node any more
)

// nodeInput is an event of the node, a step of its reads, or a decision about it.
type nodeInput uint8

const (
	dataWanted        nodeInput = iota // the data have to be read; a reply to an earlier request is not enough
	compareWanted                      // the node has to be read if it has changed
	maybeReplaced                      // another node may have the name: the data have to be read
	listWanted                         // the children have to be listed; a reply to an earlier request is not enough
	leafFound                          // a Stat counts no children: the list in the queue is only to set its watch
	leafUncertain                      // there may be children since: the list in the queue is needed
	dataSent                           // a read was taken from the queue
	listSent                           //
	dataReplied                        // the reply, or its error, is about to be handled
	listReplied                        //
	dataFailed                         // a read has failed for a reason that is not in the node
	compareFailed                      //
	listFailed                         //
	identityUnproven                   // the reply has not shown which node has the name
	nodeReplaced                       // another node has the name, or none
	comparedAfterGap                   // the reply shows the node after all events that may have been missed
	childrenListed                     // the cache has all children
	childrenUncertain                  // the children may have changed without an event
	listChanged                        // an event of a child: a list in flight may be older
	dataWatchFired                     // an event has used up a one-shot watch
	listWatchFired                     //
	bothWatchesFired                   // an event has used up both, and the watch that a list in flight is setting
	dataWatchSet                       // by a reply, a one-shot watch is set; before dataReplied
	listWatchSet                       //
	watchesDropped                     //
	gapFound                           // events may have been missed: the node has to be compared
	strategyStarted                    // another strategy, or session: nothing is in flight, no watch is set
	nodeAwaited                        // sets awaitedForSync
	readsAwaited                       // sets awaitedForSync if a read of the node is in the queue or in flight
	readHandled                        // clears awaitedForSync unless there is more to read
	nodeRemoved                        // from the tree
)

// fetchMove is the effect of an input on a fetch.
type fetchMove uint8

const (
	keepFetch fetchMove = iota
	wantWhole
	wantLight
	makeLight
	makeWhole
	sendFetch
	endFetch
	repeatWhole
	repeatLight
	outdateFetch
)

// fetchMoves has the moves of a fetch. A light read that is wanted once more, in whatever way, becomes a whole one.
var fetchMoves = [...][fetchOutdated + 1]fetchState{
	//            idle           light          queued         in flight      outdated
	keepFetch:    {fetchIdle, fetchLight, fetchQueued, fetchInFlight, fetchOutdated},
	wantWhole:    {fetchQueued, fetchQueued, fetchQueued, fetchOutdated, fetchOutdated},
	wantLight:    {fetchLight, fetchQueued, fetchQueued, fetchOutdated, fetchOutdated},
	makeLight:    {fetchIdle, fetchLight, fetchLight, fetchInFlight, fetchOutdated},
	makeWhole:    {fetchIdle, fetchQueued, fetchQueued, fetchInFlight, fetchOutdated},
	sendFetch:    {fetchIdle, fetchInFlight, fetchInFlight, fetchInFlight, fetchOutdated},
	endFetch:     {fetchIdle, fetchIdle, fetchIdle, fetchIdle, fetchIdle},
	repeatWhole:  {fetchQueued, fetchQueued, fetchQueued, fetchQueued, fetchQueued},
	repeatLight:  {fetchLight, fetchLight, fetchLight, fetchLight, fetchLight},
	outdateFetch: {fetchIdle, fetchLight, fetchQueued, fetchOutdated, fetchOutdated},
}

// nodeMoves has the effects of each input, whatever the state. The rest is in next.
var nodeMoves = [...]struct {
	data, list fetchMove
	clear, set nodeFacts
}{
	dataWanted:        {data: wantWhole},
	compareWanted:     {data: wantLight},
	maybeReplaced:     {data: wantWhole, clear: identityProving, set: identityUncertain},
	listWanted:        {list: wantWhole, clear: childrenKnown},
	leafFound:         {list: makeLight},
	leafUncertain:     {list: makeWhole},
	dataSent:          {data: sendFetch},
	listSent:          {list: sendFetch},
	dataReplied:       {data: endFetch, clear: identityProving},
	listReplied:       {list: endFetch},
	dataFailed:        {data: repeatWhole},
	compareFailed:     {data: repeatLight},
	listFailed:        {list: repeatWhole, clear: childrenKnown},
	identityUnproven:  {clear: identityProving, set: identityUncertain},
	nodeReplaced:      {clear: childrenKnown | eventsMissed},
	comparedAfterGap:  {clear: eventsMissed},
	childrenListed:    {set: childrenKnown},
	childrenUncertain: {clear: childrenKnown},
	listChanged:       {list: outdateFetch},
	dataWatchFired:    {clear: dataWatch},
	listWatchFired:    {clear: listWatch},
	bothWatchesFired:  {list: outdateFetch, clear: dataWatch | listWatch},
	watchesDropped:    {clear: dataWatch | listWatch},
	gapFound:          {data: wantLight, list: outdateFetch, clear: identityProving, set: eventsMissed | identityUncertain | awaitedForSync},
	strategyStarted:   {data: endFetch, list: endFetch, clear: ^(childrenKnown | awaitedForSync)},
	nodeAwaited:       {set: awaitedForSync},
	nodeRemoved:       {data: endFetch, list: endFetch, clear: ^leftTree, set: leftTree},
}

// nodeEffects are the actions that an input requires of the engine, and results of dataSent, listSent and replies.
type nodeEffects uint8

const (
	queueData     nodeEffects = 1 << iota // a read of the data goes into the queue
	queueList                             // a list goes into the queue
	awaitMore                             // one node more is awaitedForSync
	awaitLess                             // one node less
	nowSent                               // the read that was taken from the queue is still wanted
	replyOutdated                         // the reply may be older than an event
)

// next returns the state after an input, and the input's effects.
func (s nodeState) next(in nodeInput) (after nodeState, effects nodeEffects) {
	if s.facts&leftTree != 0 {
		return s, 0
	}
	move := nodeMoves[in]
	after = nodeState{fetchMoves[move.data][s.data], fetchMoves[move.list][s.list], s.facts&^move.clear | move.set}
	switch busy := s.data != fetchIdle || s.list != fetchIdle; { // a read is in the queue or in flight
	case in == dataSent && s.data.isQueued() && s.hasAny(identityUncertain):
		after.facts ^= identityUncertain | identityProving
	case (in == dataFailed || in == compareFailed) && s.hasAny(identityProving):
		after.facts ^= identityUncertain | identityProving
	case in == dataWatchSet && s.data != fetchOutdated: // else the event may have used it up
		after.facts |= dataWatch
	case in == listWatchSet && s.list != fetchOutdated:
		after.facts |= listWatch
	case in == readsAwaited && busy:
		after.facts |= awaitedForSync
	case in == readHandled && !busy:
		after.facts &^= awaitedForSync
	case in == dataReplied && s.data == fetchOutdated, in == listReplied && s.list == fetchOutdated:
		effects |= replyOutdated
	}
	for _, part := range [...]struct {
		before, after fetchState
		queue         nodeEffects
	}{{s.data, after.data, queueData}, {s.list, after.list, queueList}} {
		switch queued := part.before.isQueued(); {
		case !queued && part.after.isQueued():
			effects |= part.queue
		case queued && part.after == fetchInFlight:
			effects |= nowSent
		}
	}
	switch changed := (s.facts ^ after.facts) & awaitedForSync; {
	case changed&after.facts != 0:
		effects |= awaitMore
	case changed != 0:
		effects |= awaitLess
	}
	return after, effects
}

// hasAny reports whether any of these facts holds.
func (s nodeState) hasAny(facts nodeFacts) bool { return s.facts&facts != 0 }

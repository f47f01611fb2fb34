package cache

import (
	"time"
)

type readKind uint8

const (
	readData readKind = iota
	readList
	readStat // exists
)

// nodeRead is a read, in the queue or in flight.
type nodeRead struct {
	node *treeNode
	kind readKind
}

const (
	// maxWeight limits the sum of the weights of the requests in flight.
	maxWeight = 256
	// gaugeSample is the number of nodes from which the average size is estimated.
	gaugeSample = 8

	pauseFirst, pauseMost = 100 * time.Millisecond, 5 * time.Second
)

// readScheduler has the reads that wait to be sent, and the reads in flight.
type readScheduler struct {
	queue   fifoQueue[nodeRead]
	weight  int // of the reads in flight
	awaited int // how many nodes have to be read before the cache is in sync
	sizes   requestSizes
	halted  bool // the session has ended; handleSessionEnd is still to come

	pausedUntil time.Time
	pause       time.Duration
}

// newReadScheduler begins with a large guess of a node's size: the first replies must not be huge.
func newReadScheduler() readScheduler {
	return readScheduler{sizes: requestSizes{nodesPerRead: maxNodesPerRead, average: 16 << 10}, pause: pauseFirst}
}

// startPause makes a pause, unless there is one: a request that fails during a pause was sent before it. Each pause is
// longer, until there is a reply.
func (r *readScheduler) startPause() {
	if r.pausedUntil.IsZero() {
		r.pausedUntil = time.Now().Add(r.pause)
		r.pause = min(2*r.pause, pauseMost)
	}
}

// weightLimit returns how much may be in flight: little until the size of nodes is measured, or if large nodes are read one by
// one.
func (r *readScheduler) weightLimit(single bool) int {
	if r.sizes.gauged && (!single || r.sizes.average*maxWeight <= maxWeight/multiReadWeight*replyTarget) {
		return maxWeight
	}
	return multiReadWeight
}

func (r *readScheduler) expectedBytes(n *treeNode) int {
	if n.live {
		return int(n.length)
	}
	return r.sizes.average
}

// recordReply ends the growth of pauses, and records the size of nodes, by a reply with the data of so many.
func (r *readScheduler) recordReply(nodes, bytes int) {
	r.pause = pauseFirst
	if s := &r.sizes; nodes > 0 {
		s.nodesPerRead = min(s.nodesPerRead+s.nodesPerRead/2+1, maxNodesPerRead)
		s.average = (s.average + bytes/nodes) / 2
		s.losses = 0
		s.sampled = min(s.sampled+nodes, gaugeSample)
		s.gauged = s.gauged || s.sampled == gaugeSample
	}
}

// reset forgets the requests in flight: their replies will be ignored.
func (r *readScheduler) reset() {
	r.queue, r.weight, r.halted, r.pausedUntil, r.sizes.losses = fifoQueue[nodeRead]{}, 0, false, time.Time{}, 0
	if r.sizes.guessed {
		r.sizes.single, r.sizes.guessed = false, false
	}
}

// applyInput changes the state of a node by an input, and carries out the effects.
func (e *engine) applyInput(n *treeNode, in nodeInput) (effects nodeEffects) {
	n.state, effects = n.state.next(in)
	if effects&queueData != 0 {
		e.reads.queue.push(nodeRead{n, readData})
	}
	if effects&queueList != 0 {
		e.reads.queue.push(nodeRead{n, readList})
	}
	switch effects & (awaitMore | awaitLess) {
	case awaitMore:
		e.reads.awaited++
	case awaitLess:
		e.reads.awaited--
	}
	return effects
}

// takeRead takes the next read from the queue, to send it; light: see fetchLight.
func (e *engine) takeRead() (o nodeRead, light, ok bool) {
	for {
		if o, ok = e.reads.queue.pop(); !ok {
			return o, false, false
		}
		sent, before := dataSent, o.node.state.data
		if o.kind == readList {
			sent, before = listSent, o.node.state.list
		}
		if e.applyInput(o.node, sent)&nowSent != 0 {
			return o, before == fetchLight, true
		}
	}
}

// staleAfter limits the time for which a node's Stat may be out of date after children were deleted, so that many
// deletions cost one read.
const staleAfter = time.Second

// staleStats has the nodes whose Stat has to be read again soon, because children were created or deleted.
type staleStats struct {
	nodes     map[*treeNode]bool // true: a read in flight may not show the change
	refreshAt time.Time
}

// refreshParent makes the cache read the Stat of a node again whose list of children has changed: with soon,
// together with the child, otherwise within staleAfter.
func (e *engine) refreshParent(n *treeNode, soon bool) {
	if soon && n.state.data == fetchIdle && n.live {
		e.applyInput(n, compareWanted)
	} else {
		e.scheduleStat(n, true)
	}
}

// scheduleStat makes the cache read a node's Stat again within staleAfter. byEvent reports whether an event, not a
// read, has shown the change: then a read in flight may not show it.
func (e *engine) scheduleStat(n *treeNode, byEvent bool) {
	if s := &e.stale; n.live && e.store.isVisible(n) && e.includesChildren(n) {
		s.nodes[n] = s.nodes[n] || byEvent && n.state.data.isSent()
		if s.refreshAt.IsZero() {
			s.refreshAt = time.Now().Add(staleAfter)
		}
	}
}

func (e *engine) recordStatRead(n *treeNode) {
	if e.stale.nodes[n] {
		e.stale.nodes[n] = false
	} else {
		delete(e.stale.nodes, n)
	}
}

const (
	// maxNodesPerRead and replyTarget limit a MultiRead, by its reads and by the expected bytes of the
	// reply. requestLimit limits the bytes of the request.
	maxNodesPerRead, replyTarget, requestLimit = 256, 256 << 10, 256 << 10
	multiReadWeight                            = 32 // how much of maxWeight a MultiRead takes
	// From largeData bytes on, a node is compared by its Stat, in a separate request, instead of being read.
	largeData = 4 << 10
	// Roughly what replies contain besides data.
	statBytes, nameBytes = 96, 24
	// After mostReadLosses connections lost in a row during a MultiRead, the server counts as one without MultiRead.
	mostReadLosses = 5
)

type requestSizes struct {
	single       bool // nodes are read one by one: the server has no MultiRead
	guessed      bool // single is a guess, for this session
	losses       int  // connections lost in a row during a MultiRead
	nodesPerRead int  // how many reads a request has at present
	average      int  // recent average of the bytes of a node's data
	sampled      int  // from how many nodes average was estimated, up to gaugeSample
	gauged       bool // average is measured, not guessed
}

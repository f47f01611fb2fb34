package cache

import (
	"time"
)

type flags uint16

const (
	wanted      flags = 1 << iota // the data are to be read: a read is in the queue
	lookOnly                      // … but only to see whether the node has changed
	flying                        // a read of the data is under way
	again                         // … and its answer may be older than a later event
	listWanted_                   // the children are to be listed: a list is in the queue
	listFlying                    // a list is under way
	listAgain                     // … and its answer may be older than a later event
	listed                        // the children were listed, and events have reported their changes since
	unproven                      // … unless events were missed after the node was read
	doubted                       // another node may have this name now, and no read since has shown which
	proving_                      // … and a read that will show it is under way
	counting                      // the load waits for the node
	gone                          // the node has left the tree
	leaf                          // the last read has shown no children (leaves.go)
	watched                       // a one-shot watch of the data is set (oneshot.go)
	watchedList                   // … and one of the list of children

	// busy says that a read of the node is in the queue or under way.
	busy = wanted | flying | listWanted_ | listFlying
)

type kind uint8

const (
	readData kind = iota
	readList
	readStat // exists
)

// op is a read, in the queue or under way.
type op struct {
	n    *node
	kind kind
}

const (
	// window limits the sum of the weights of the requests under way.
	window = 256
	// enough is how many nodes show how large nodes are on average.
	enough = 8

	pauseFirst, pauseMost = 100 * time.Millisecond, 5 * time.Second
)

// reads are the reads that wait to be sent, and those that were sent and wait for their answers.
type reads struct {
	queue   fifo[op]
	weight  int   // of the reads under way
	awaited int   // how many nodes the load, or the comparison after a gap, waits for
	sizes   sizes // of requests
	halted  bool  // the session is over; the notice of its end is still to come

	pausedUntil time.Time
	pause       time.Duration
}

// newReads begins with a large guess of a node's size: the first answers must not be huge.
func newReads() reads {
	return reads{sizes: sizes{nodesPerRead: maxNodesPerRead, average: 16 << 10}, pause: pauseFirst}
}

// rest makes a pause. Each pause is longer, until there is an answer. Requests that fail during a pause were
// under way before it.
func (r *reads) rest() {
	if r.pausedUntil.IsZero() {
		r.pausedUntil = time.Now().Add(r.pause)
		r.pause = min(2*r.pause, pauseMost)
	}
}

// window returns how much may be under way: little until it is known how large nodes are, or if they are read
// one by one, and large.
func (r *reads) window(single bool) int {
	if r.sizes.gauged && (!single || r.sizes.average*window <= window/manyWeight*replyTarget) {
		return window
	}
	return manyWeight
}

// expect returns how many bytes a node's data probably have.
func (r *reads) expect(n *node) int {
	if n.live {
		return int(n.length)
	}
	return r.sizes.average
}

// delivered learns from an answer how large nodes are; it had the data of this many nodes.
func (r *reads) delivered(nodes, bytes int) {
	r.pause = pauseFirst
	if s := &r.sizes; nodes > 0 {
		s.nodesPerRead = min(s.nodesPerRead+s.nodesPerRead/2+1, maxNodesPerRead)
		s.average = (s.average + bytes/nodes) / 2
		s.losses = 0
		s.seen = min(s.seen+nodes, enough)
		s.gauged = s.gauged || s.seen == enough
	}
}

// reset forgets the requests under way: their answers will be ignored.
func (r *reads) reset() {
	r.queue, r.weight, r.halted, r.pausedUntil, r.sizes.losses = fifo[op]{}, 0, false, time.Time{}, 0
	if r.sizes.guessed {
		r.sizes.single, r.sizes.guessed = false, false
	}
}

// want makes the cache read a node's data. An answer to an earlier request is not enough.
func (e *engine) want(n *node) {
	defer e.step(n, dataWanted)()
	switch {
	case n.flags&gone != 0:
	case n.flags&flying != 0:
		n.flags |= again
	case n.flags&wanted != 0:
		n.flags &^= lookOnly
	default:
		n.flags |= wanted
		e.reads.queue.push(op{n, readData})
	}
}

// wantOther is want for a name that another node may have now.
func (e *engine) wantOther(n *node) {
	defer e.step(n, otherPossible)()
	n.flags |= doubted
	e.want(n)
}

// look makes the cache check whether a node has changed.
func (e *engine) look(n *node) {
	defer e.step(n, lookWanted)()
	if n.flags&(gone|wanted|flying) == 0 {
		n.flags |= lookOnly
	}
	e.want(n)
}

// wantList makes the cache list a node's children. An answer to an earlier request is not enough. Until there
// is a list, an equal Stat does not prove that the children are known.
func (e *engine) wantList(n *node) {
	defer e.step(n, listWanted)()
	n.flags &^= listed | leaf
	switch {
	case n.flags&gone != 0:
	case n.flags&listFlying != 0:
		n.flags |= listAgain
	case n.flags&listWanted_ == 0:
		n.flags |= listWanted_
		e.reads.queue.push(op{n, readList})
	}
}

// take takes the next read from the queue, and sets its flags to flying. If the read is only a look and the
// node has statFrom bytes of data or more, it becomes a readStat.
func (e *engine) take(statFrom int32) (op, bool) {
	for {
		o, ok := e.reads.queue.pop()
		switch n := o.n; {
		case !ok:
			return o, false
		case n.flags&gone != 0:
		case o.kind == readList && n.flags&listWanted_ != 0:
			n.flags = n.flags&^listWanted_ | listFlying
			e.step(n, listSent)()
			return o, true
		case o.kind == readData && n.flags&wanted != 0:
			if n.flags&lookOnly != 0 && n.live && n.length >= statFrom {
				o.kind = readStat
			}
			if n.flags&doubted != 0 {
				n.flags = n.flags&^doubted | proving_
			}
			n.flags = n.flags&^(wanted|lookOnly) | flying
			e.step(n, dataSent)()
			return o, true
		}
	}
}

// back puts a failed read into the queue again.
func (e *engine) back(o op) {
	n := o.n
	defer e.step(n, [...]nodeEvent{readData: dataFailed, readList: listFailed, readStat: lookFailed}[o.kind])()
	switch {
	case n.flags&gone != 0:
		return
	case o.kind == readList:
		n.flags &^= listFlying | listAgain
		e.wantList(n)
		return
	case n.flags&proving_ != 0:
		n.flags |= doubted
	}
	n.flags &^= flying | again | proving_
	e.reread(o)
}

func (e *engine) reread(o op) {
	if o.kind == readStat {
		e.look(o.n)
	} else {
		e.want(o.n)
	}
}

// staleAfter is how long a node's Stat may be out of date after children were deleted, so that many deletions
// cost one read.
const staleAfter = time.Second

// staleStats are the nodes whose Stat is to be read again soon, because children were created or deleted.
type staleStats struct {
	nodes map[*node]bool // true: a read that is under way may not show the change
	at    time.Time
}

// parentChanged makes the cache read the Stat of a node again whose list of children has changed: with soon,
// together with the child, otherwise within staleAfter.
func (e *engine) parentChanged(n *node, soon bool) {
	if soon && n.flags&(wanted|flying) == 0 && n.live {
		e.look(n)
	} else {
		e.scheduleStat(n, true)
	}
}

// scheduleStat makes the cache read a node's Stat again within staleAfter. heard says that an event, not a
// read, has shown the change: then a read that is under way may not show it.
func (e *engine) scheduleStat(n *node, heard bool) {
	if s := &e.stale; n.live && e.store.seen(n) && e.descends(n) {
		s.nodes[n] = s.nodes[n] || heard && n.flags&flying != 0
		if s.at.IsZero() {
			s.at = time.Now().Add(staleAfter)
		}
	}
}

func (e *engine) statRead(n *node) {
	if e.stale.nodes[n] {
		e.stale.nodes[n] = false
	} else {
		delete(e.stale.nodes, n)
	}
}

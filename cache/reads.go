package cache

import (
	"time"
)

type flags uint16

const (
	wanted     flags = 1 << iota // its data is to be read: it stands in the queue
	lookOnly                     // … but only to see whether it has changed
	flying                       // a read of its data is under way
	again                        // … and its answer may be older than what was heard since
	listWanted                   // its children are to be listed: it stands in the queue
	listFlying                   // a listing is under way
	listAgain                    // … and its answer may be older than what was heard since
	listed                       // its children were listed; what happened to them since has been heard of
	unproven                     // … unless it was missed: there was a gap since the node was read
	doubted                      // it may be another node of that name, and no read since has told
	proving                      // … and a read that will tell is under way
	counting                     // the load waits for it
	gone                         // it has left the tree

	// busy says that something is to be read of the node, or under way.
	busy = wanted | flying | listWanted | listFlying
)

type kind uint8

const (
	readData kind = iota
	readList
	readStat // exists
)

// op is a read: in the queue or under way.
type op struct {
	n    *node
	kind kind
}

const (
	// window bounds the weights of the requests under way.
	window = 256
	// enough nodes tell how large they are.
	enough = 8

	pauseFirst, pauseMost = 100 * time.Millisecond, 5 * time.Second
)

// reads is what is to be read, and what is under way.
type reads struct {
	queue   fifo[op]
	weight  int   // of what is under way
	awaited int   // nodes that the load, or the comparison after a gap, waits for
	sizes   sizes // of requests
	halted  bool  // the session is over: its end is about to be heard of

	pausedUntil time.Time
	pause       time.Duration
}

// newReads begins with a guess that is not small: the first answers must not be huge.
func newReads() reads {
	return reads{sizes: sizes{nodesPerRead: maxNodesPerRead, average: 16 << 10}, pause: pauseFirst}
}

// rest makes a pause, longer with each until there is an answer. What fails during one was under way before
// it.
func (r *reads) rest() {
	if r.pausedUntil.IsZero() {
		r.pausedUntil = time.Now().Add(r.pause)
		r.pause = min(2*r.pause, pauseMost)
	}
}

// window is how much may be under way: little until it is known how large nodes are.
func (r *reads) window() int {
	if r.sizes.gauged {
		return window
	}
	return manyWeight
}

// expect is how many bytes a node's data will be, perhaps.
func (r *reads) expect(n *node) int {
	if n.live {
		return int(n.length)
	}
	return r.sizes.average
}

// delivered learns from an answer, with the data of so many nodes.
func (r *reads) delivered(nodes, bytes int) {
	r.pause = pauseFirst
	if s := &r.sizes; nodes > 0 {
		s.nodesPerRead = min(s.nodesPerRead+s.nodesPerRead/2+1, maxNodesPerRead)
		s.average = (s.average + bytes/nodes) / 2
		s.losses = 0
		s.gauged = s.gauged || nodes >= enough
	}
}

// reset forgets what is under way: the answers will be ignored.
func (r *reads) reset() {
	r.queue, r.weight, r.halted, r.pausedUntil, r.sizes.losses = fifo[op]{}, 0, false, time.Time{}, 0
	if r.sizes.guessed {
		r.sizes.single, r.sizes.guessed = false, false
	}
}

// want has a node's data read, from now on.
func (e *engine) want(n *node) {
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

// wantOther is want for what may be another node of that name.
func (e *engine) wantOther(n *node) {
	n.flags |= doubted
	e.want(n)
}

// look has a node looked at, to see whether it has changed.
func (e *engine) look(n *node) {
	if n.flags&(gone|wanted|flying) == 0 {
		n.flags |= lookOnly
	}
	e.want(n)
}

// wantList has a node's children listed, from now on. Until the list is there, an equal Stat does not prove
// that they are known.
func (e *engine) wantList(n *node) {
	n.flags &^= listed
	switch {
	case n.flags&gone != 0:
	case n.flags&listFlying != 0:
		n.flags |= listAgain
	case n.flags&listWanted == 0:
		n.flags |= listWanted
		e.reads.queue.push(op{n, readList})
	}
}

// take takes the next read from the queue, with its flags turned to flying. A look at a node with statFrom
// bytes of data or more is a readStat.
func (e *engine) take(statFrom int32) (op, bool) {
	for {
		o, ok := e.reads.queue.pop()
		switch n := o.n; {
		case !ok:
			return o, false
		case n.flags&gone != 0:
		case o.kind == readList && n.flags&listWanted != 0:
			n.flags = n.flags&^listWanted | listFlying
			return o, true
		case o.kind == readData && n.flags&wanted != 0:
			if n.flags&lookOnly != 0 && n.live && n.length >= statFrom {
				o.kind = readStat
			}
			if n.flags&doubted != 0 {
				n.flags = n.flags&^doubted | proving
			}
			n.flags = n.flags&^(wanted|lookOnly) | flying
			return o, true
		}
	}
}

// back puts a read that has failed into the queue again.
func (e *engine) back(o op) {
	n := o.n
	switch {
	case n.flags&gone != 0:
		return
	case o.kind == readList:
		n.flags &^= listFlying | listAgain
		e.wantList(n)
		return
	case n.flags&proving != 0:
		n.flags |= doubted
	}
	n.flags &^= flying | again | proving
	e.reread(o)
}

func (e *engine) reread(o op) {
	if o.kind == readStat {
		e.look(o.n)
	} else {
		e.want(o.n)
	}
}

// staleAfter is how long a node's Stat may stay behind when children have gone, so that many of them cost one
// read.
const staleAfter = time.Second

// staleStats are the nodes whose Stat is to be read again soon, because children have come or gone.
type staleStats struct {
	nodes map[*node]bool // true: the read that is under way may not show it
	at    time.Time
}

// parentChanged has the Stat of a node, one of whose children has changed, read again: together with the
// child if soon, and otherwise within staleAfter.
func (e *engine) parentChanged(n *node, soon bool) {
	if soon && n.flags&(wanted|flying) == 0 && n.live {
		e.look(n)
	} else {
		e.scheduleStat(n, true)
	}
}

// scheduleStat has a node's Stat read again within staleAfter. What was heard, rather than read, the answer
// to a read that is under way may not show.
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

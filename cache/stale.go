package cache

import "time"

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

// statRead notes that a node's Stat has been read.
func (e *engine) statRead(n *node) {
	if e.stale.nodes[n] {
		e.stale.nodes[n] = false
	} else {
		delete(e.stale.nodes, n)
	}
}

func (e *engine) readStale() {
	for n := range e.stale.nodes {
		e.look(n)
	}
	clear(e.stale.nodes)
}

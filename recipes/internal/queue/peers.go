package queue

import "sync"

// peers is what the waiters of one client, in one session, in one line tell each other. When one of them
// has a list, or its turn, then it is known who is the first in line, and so all ahead of that one are gone.
// They stay gone: a number in the directory is larger than all before it, as long as any node of the line is
// there. So a waiter directly after that one is the next one.
type peers struct {
	key     peersKey
	waiters int // guarded by allPeers.mu

	mu      sync.Mutex
	first   string                   // the last node known to be the first in line; guarded by mu
	next    map[string]chan struct{} // closed when the node of that name is known to be; guarded by mu
	watched map[string]int64         // nodes that a waiter watches, with their czxids; guarded by mu
	nodes   map[string]struct{}      // of the waiters; guarded by mu
}

// peersKey keeps clients, sessions and lines apart.
type peersKey struct {
	line    owner
	session int64
}

// allPeers has those of each line that has a waiter.
var allPeers = struct {
	mu  sync.Mutex
	all map[peersKey]*peers // guarded by mu
}{all: map[peersKey]*peers{}}

func joinPeers(key peersKey) *peers {
	allPeers.mu.Lock()
	defer allPeers.mu.Unlock()
	ps := allPeers.all[key]
	if ps == nil {
		ps = &peers{key: key, next: map[string]chan struct{}{}, watched: map[string]int64{}}
		ps.nodes = map[string]struct{}{}
		allPeers.all[key] = ps
	}
	ps.waiters++
	return ps
}

// waits notes the node of a waiter.
func (ps *peers) waits(name string) {
	if ps != nil {
		ps.mu.Lock()
		defer ps.mu.Unlock()
		ps.nodes[name] = struct{}{}
	}
}

// has says whether a node is that of a waiter, which will tell when it is the first.
func (ps *peers) has(name string) bool {
	if ps == nil {
		return false
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	_, ok := ps.nodes[name]
	return ok
}

// leave is called once for each joinPeers, with the waiter's node. Nil peers are nobody's.
func (ps *peers) leave(name string) {
	if ps == nil {
		return
	}
	ps.mu.Lock()
	delete(ps.nodes, name)
	ps.mu.Unlock()
	allPeers.mu.Lock()
	defer allPeers.mu.Unlock()
	if ps.waiters--; ps.waiters == 0 {
		delete(allPeers.all, ps.key)
	}
}

// tell says that the node of that name is, or was, the first in line; "" says nothing.
func (ps *peers) tell(first string) {
	if ps == nil || first == "" {
		return
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.first = first
	if known, ok := ps.next[first]; ok {
		close(known)
		delete(ps.next, first)
	}
}

// learn returns a channel that is closed when the node of that name is known to be the first in line.
func (ps *peers) learn(name string) <-chan struct{} {
	if ps == nil || name == "" {
		return nil
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	known, ok := ps.next[name]
	if !ok {
		known = make(chan struct{})
		if ps.first == name {
			close(known)
		} else {
			ps.next[name] = known
		}
	}
	return known
}

// forget ends the waiting that learn began.
func (ps *peers) forget(name string) {
	if ps != nil {
		ps.mu.Lock()
		defer ps.mu.Unlock()
		delete(ps.next, name)
	}
}

// watches notes that a waiter watches a node; unwatches, that it does not any more.
func (ps *peers) watches(name string, czxid int64) {
	if ps != nil {
		ps.mu.Lock()
		defer ps.mu.Unlock()
		ps.watched[name] = czxid
	}
}

func (ps *peers) unwatches(name string) {
	if ps != nil {
		ps.mu.Lock()
		defer ps.mu.Unlock()
		delete(ps.watched, name)
	}
}

// hasWatched says whether a waiter watches that node, the one that this transaction has made.
func (ps *peers) hasWatched(name string, czxid int64) bool {
	if ps == nil {
		return false
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.watched[name] == czxid
}

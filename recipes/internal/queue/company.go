package queue

import "sync"

// company is what the waiters of one client, in one session, in one line tell each other. When one of them
// has a list, or its turn, then it is known who is the first in line, and so all ahead of that one are gone.
// They stay gone: a number in the directory is larger than all before it, as long as any node of the line is
// there. So a waiter directly after that one is the next one.
type company struct {
	key     companyKey
	waiters int // guarded by companies.mu

	mu      sync.Mutex
	first   string                   // the last node known to be the first in line; guarded by mu
	next    map[string]chan struct{} // closed when the node of that name is known to be; guarded by mu
	watched map[string]int64         // nodes that a waiter watches, with their czxids; guarded by mu
	nodes   map[string]struct{}      // of the waiters; guarded by mu
}

// companyKey keeps clients, sessions and lines apart.
type companyKey struct {
	line    owner
	session int64
}

// companies has the companies that have a waiter.
var companies = struct {
	mu  sync.Mutex
	all map[companyKey]*company // guarded by mu
}{all: map[companyKey]*company{}}

func joinCompany(key companyKey) *company {
	companies.mu.Lock()
	defer companies.mu.Unlock()
	c := companies.all[key]
	if c == nil {
		c = &company{key: key, next: map[string]chan struct{}{}, watched: map[string]int64{}}
		c.nodes = map[string]struct{}{}
		companies.all[key] = c
	}
	c.waiters++
	return c
}

// waits notes the node of a waiter.
func (c *company) waits(name string) {
	if c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.nodes[name] = struct{}{}
	}
}

// has says whether a node is that of a waiter, which will tell when it is the first.
func (c *company) has(name string) bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.nodes[name]
	return ok
}

// leave is called once for each joinCompany, with the waiter's node. A nil company is nobody's.
func (c *company) leave(name string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	delete(c.nodes, name)
	c.mu.Unlock()
	companies.mu.Lock()
	defer companies.mu.Unlock()
	if c.waiters--; c.waiters == 0 {
		delete(companies.all, c.key)
	}
}

// tell says that the node of that name is, or was, the first in line; "" says nothing.
func (c *company) tell(first string) {
	if c == nil || first == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.first = first
	if known, ok := c.next[first]; ok {
		close(known)
		delete(c.next, first)
	}
}

// learn returns a channel that is closed when the node of that name is known to be the first in line.
func (c *company) learn(name string) <-chan struct{} {
	if c == nil || name == "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.next[name]
	if !ok {
		known = make(chan struct{})
		if c.first == name {
			close(known)
		} else {
			c.next[name] = known
		}
	}
	return known
}

// forget ends the waiting that learn began.
func (c *company) forget(name string) {
	if c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.next, name)
	}
}

// watches notes that a waiter watches a node; unwatches, that it does not any more.
func (c *company) watches(name string, czxid int64) {
	if c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.watched[name] = czxid
	}
}

func (c *company) unwatches(name string) {
	if c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.watched, name)
	}
}

// hasWatched says whether a waiter watches that node, the one that this transaction has made.
func (c *company) hasWatched(name string, czxid int64) bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.watched[name] == czxid
}

package cache

import (
	"time"

	"github.com/go-curator/curator/framework"
)

// way is how a cache hears of changes, in one session: by one persistent watch (persistent.go) or by one-shot
// watches (oneshot.go). The rules in which the two differ stand there. The engine's goroutine calls it.
type way interface {
	// begin sets the watch for the whole tree, if there is one.
	begin()
	// stop takes every watch off.
	stop()
	// forget is for a node whose watches are no longer needed. The store's lock may be held.
	forget(n *node)
	// tidy takes off the watches that forget has left. No lock is held.
	tidy()

	// reconnected says that the session has another connection.
	reconnected()
	// caughtUp says that every change until now was reported, and every one from now on will be.
	caughtUp() bool
	// asking says that it is open whether a gap has hidden changes: until then no answer proves anything.
	asking() bool

	// pump sends what may be sent now of what is to be read.
	pump()
	// got takes the answer to engine.send, with the watch that was set for s.
	got(o op, s *shot, r *framework.ReadResult, watch *framework.Watch)
	// rootRead takes the answer to a read of the root, before the engine does; old if it may be older than
	// what was heard since. It returns false if the way has changed because of it.
	rootRead(r *framework.ReadResult, old bool) bool
	// children has the children of a node that was read listed, if they are not known. same says that its Stat
	// tells the same of them as before.
	children(n *node, stat *framework.Stat, same bool)

	// next is when timeHasCome is to be called; zero for never.
	next() time.Time
	timeHasCome(now time.Time)
}

// newWay is the way of watching for the next session.
func (e *engine) newWay() way {
	if e.cfg.oneShot {
		return newOneShotWay(e)
	}
	return &persistentWay{e: e}
}

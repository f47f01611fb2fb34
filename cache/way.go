package cache

import (
	"time"

	"github.com/go-curator/curator/framework"
)

// way is the method of watching in one session: one persistent watch (persistent.go) or one-shot watches (oneshot.go).
// All differences between the two are in those files. The engine's goroutine calls the methods.
type way interface {
	// begin sets the watch for the whole tree, if there is one.
	begin()
	// stop removes every watch.
	stop()
	// forget is called when a node's watches are not needed any more. The store's lock may be held.
	forget(n *node)
	// tidy removes the watches of forgotten nodes. No lock is held.
	tidy()

	// reconnected records that the session has a new connection.
	reconnected()
	// caughtUp reports whether every change until now was reported, and every later change will be.
	caughtUp() bool
	// asking reports whether it is still unknown if a gap has hidden changes: until then no reply proves
	// anything.
	asking() bool

	// pump sends pending reads, as many as may be sent now.
	pump()
	// got handles the reply to engine.send.
	got(o op, s sent, r *framework.ReadResult)
	// rootRead handles the reply to a read of the root, before the engine does; outdated if the reply may be
	// older than a later event. It returns false if the cache has changed to another way because of it.
	rootRead(r *framework.ReadResult, outdated bool) bool
	// children lists the children of a node that was read, if they are not known. same means that the node's Stat has
	// not changed in this respect.
	children(n *node, stat *framework.Stat, same bool)

	// next returns the time for the next call of timeHasCome; zero means never.
	next() time.Time
	timeHasCome(now time.Time)
}

// newWay returns the way to watch in the next session.
func (e *engine) newWay() way {
	if e.cfg.oneShot {
		return newOneShotWay(e)
	}
	return &persistentWay{e: e}
}

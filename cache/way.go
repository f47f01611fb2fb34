package cache

import (
	"time"

	"github.com/go-curator/curator/framework"
)

// way is how a cache hears of changes, in one session: by one persistent watch (persistent.go) or by one-shot
// watches (oneshot.go). The rules in which the two differ stand there. The engine's goroutine calls it.
type way interface {
	begin()          // sets the watch for the whole tree, if there is one
	stop()           // takes every watch off
	forget(n *node)  // no watch of n is needed any more; called with the store's lock held
	tidy()           // takes off what forget has left, without that lock
	reconnected()    // the session has another connection
	next() time.Time // when timeHasCome is to be called; zero: never
	timeHasCome(now time.Time)
	pump()                                             // sends what its rules allow of what is to be read
	caughtUp() bool                                    // there is word of every change until now and from now on
	asking() bool                                      // it has asked whether a gap has hidden anything: until it knows, no answer proves anything
	children(n *node, stat *framework.Stat, same bool) // has a node's children listed if that is needed
	rootRead(r *framework.ReadResult, old bool) bool   // the root was read; false if the way has changed because of it
}

// newWay is the way of watching for the next session.
func (e *engine) newWay() way {
	if e.cfg.oneShot {
		return newOneShotWay(e)
	}
	return &persistentWay{e: e}
}

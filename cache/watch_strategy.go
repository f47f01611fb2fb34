package cache

import (
	"time"

	"github.com/go-curator/curator/framework"
)

// watchStrategy keeps a cache's watches in one session: one persistent watch (persistent.go) or one-shot watches
// (oneshot.go). All differences between the two are in those files. The engine's goroutine calls the methods.
type watchStrategy interface {
	// startWatching sets the watch for the whole tree, if there is one.
	startWatching()
	stopWatching()
	// forgetWatches is called when a node's watches are not needed any more. The store's lock may be held.
	forgetWatches(n *treeNode)
	// removeForgotten removes the watches of forgotten nodes. No lock is held.
	removeForgotten()

	// handleReconnect finds the changes before a new connection of the session. A persistent watch has EventReset for that.
	handleReconnect()
	// allReported reports whether every change until now was reported, and every later change will be.
	allReported() bool
	// isGapOpen reports whether it is unknown if there were changes in the last gap: until then no reply proves
	// anything.
	isGapOpen() bool

	// sendReads sends pending reads, as many as may be sent now.
	sendReads()
	handleReply(o nodeRead, s sentRead, r *framework.ReadResult)
	// handleRootRead handles the reply to a read of the root, before the engine does. outdated reports whether the reply
	// may be older than an event. handleRootRead returns false if the cache now uses another strategy.
	handleRootRead(r *framework.ReadResult, outdated bool) bool
	// listChildren lists the children of a node that was read, if they are not known. same reports whether the fields of
	// the Stat about children are unchanged.
	listChildren(n *treeNode, stat *framework.Stat, same bool)

	// nextTimer returns the time for the next call of handleTimer; zero means never.
	nextTimer() time.Time
	handleTimer(now time.Time)
}

func (e *engine) newStrategy() watchStrategy {
	if e.cfg.oneShot {
		return newOneShotStrategy(e)
	}
	return &persistentStrategy{engine: e}
}

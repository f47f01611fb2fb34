package cache

import (
	"errors"
	"time"
)

// Nodes that cannot be read are tried again after retryFirst, then at growing intervals up to retryMost.
const retryFirst, retryMost = time.Second, time.Minute

type retrySchedule struct {
	nextAttempt time.Time
	wait        time.Duration // the pause before the next time
	fullBytes   int           // bytes in the cache when the data limit was reached; 0 if it was not
	hasRoom     bool          // the cache has fewer bytes since; cleared by the next retry

	failureLog failureLogLimit
}

func (e *engine) recordFailure(n *treeNode, err error, isRetried bool) {
	if old, known := e.store.failed[n]; !known || old.err.Error() != err.Error() {
		e.logFailure(e.store.pathOf(n), err, isRetried)
		e.store.addFailure(n, readFailure{err, isRetried})
	}
	if isRetried {
		e.scheduleRetry()
	}
}

func (e *engine) clearFailure(n *treeNode) {
	if _, was := e.store.failed[n]; was {
		e.store.deleteFailure(n)
		if len(e.store.failed) == 0 {
			e.retries.nextAttempt, e.retries.wait = time.Time{}, retryFirst
		}
	}
}

func (e *engine) scheduleRetry() {
	if e.retries.nextAttempt.IsZero() {
		e.retries.nextAttempt = time.Now().Add(e.retries.wait)
	}
}

// retryFailed reads the nodes again that could not be read and, if the cache has become smaller, the nodes that exceeded the
// data limit.
func (e *engine) retryFailed() {
	r := &e.retries
	for n, f := range e.store.failed {
		if f.isRetried || r.hasRoom && errors.Is(f.err, ErrDataLimit) {
			e.applyInput(n, dataWanted)
		}
	}
	r.hasRoom = false
	r.wait = min(2*r.wait, retryMost)
}

func (e *engine) recordUndecoded(n *treeNode, err error) {
	if errors.Is(err, ErrDataLimit) {
		e.retries.fullBytes = max(e.retries.fullBytes, e.store.bytes)
	}
	e.recordFailure(n, err, false)
}

// retryIfSmaller makes the cache retry the nodes that exceeded the data limit, once it has become smaller.
func (e *engine) retryIfSmaller() {
	if e.store.bytes < e.retries.fullBytes {
		e.retries.fullBytes, e.retries.hasRoom = 0, true
		e.scheduleRetry()
	}
}

const (
	// failureLogMost limits the lines that a cache logs within failureLogTime about nodes that cannot be read or
	// decoded. Any client with permission to write there could cause any number of them. Events and Failures report all
	// of them.
	failureLogMost = 16
	failureLogTime = time.Minute
)

type failureLogLimit struct {
	since time.Time // when the first was logged
	lines int
}

// logFailure logs that a node cannot be read. At the limit it logs once that such lines are left out for a
// while.
func (e *engine) logFailure(path string, err error, isRetried bool) {
	c := &e.retries.failureLog
	if now := time.Now(); c.lines == 0 || now.Sub(c.since) >= failureLogTime {
		*c = failureLogLimit{since: now}
	}
	if c.lines++; c.lines > failureLogMost {
		return
	}
	next := "retrying when the node changes"
	switch {
	case isRetried:
		next = "retrying soon, and once a minute"
	case errors.Is(err, ErrDataLimit):
		next = "retrying when there is room, or the node changes"
	}
	e.logger().Warn("cache: cannot read a node", "path", path, "err", err, "next", next)
	if c.lines == failureLogMost {
		e.logger().Warn("cache: cannot read many nodes; not logging further ones for a while, see Failures",
			"path", e.cfg.root, "while", failureLogTime)
	}
}

package cache

import (
	"errors"
	"time"

	"github.com/go-curator/curator/framework"
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

// endsSession reports whether an error means that the session has ended, or the client is closed. ErrSessionLost alone is not
// enough: a member without a quorum may report a living session expired, which the client ignores.
func (e *engine) endsSession(err error) bool {
	return errors.Is(err, framework.ErrClosed) || e.ctx.Err() != nil ||
		errors.Is(err, framework.ErrSessionLost) && (e.session == nil || e.session.Context().Err() != nil)
}

// requeueReads puts reads back into the queue that failed for a reason that is not in the nodes. many reports whether they were
// a MultiRead.
func (e *engine) requeueReads(ops []nodeRead, many bool, err error) {
	r := &e.reads
	switch {
	case e.endsSession(err):
		r.halted = true
	case errors.Is(err, framework.ErrSessionLost):
		r.startPause()
	case errors.Is(err, framework.ErrAuthFailed): // also matches ErrNotConnected, but comes immediately
		r.startPause()
	case errors.Is(err, framework.ErrNotConnected):
		// The reads wait for the next connection in the client's queue.
	case errors.Is(err, framework.ErrConnectionLoss):
		// The same. If the size of the reply broke the connection, the next reply will be smaller. Some
		// servers break the connection at any MultiRead.
		if s := &r.sizes; many {
			s.nodesPerRead = max(1, s.nodesPerRead/2)
			if s.losses++; s.losses == mostReadLosses {
				s.single, s.guessed = true, true
			}
		}
	case framework.Retryable(err):
		r.startPause()
	case errors.Is(err, framework.ErrUnimplemented) && !r.sizes.single:
		e.logger().Info("cache: the server does not support multiRead; reading nodes one by one")
		r.sizes.single = true
	case len(ops) > 1: // the reply may be too large
		r.sizes.nodesPerRead = max(1, len(ops)/2)
	default: // an immediate retry would not help: the nodes count as unreadable
		for _, o := range ops {
			e.applyReply(o, &framework.ReadResult{Err: err})
		}
		return
	}
	for _, o := range ops {
		e.applyInput(o.node, failedReadInputs[o.kind])
	}
}

// failedReadInputs has the input after a read that has failed for a reason that is not in the node: it is repeated.
var failedReadInputs = [...]nodeInput{readData: dataFailed, readList: listFailed, readStat: compareFailed}

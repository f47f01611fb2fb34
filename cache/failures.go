package cache

import (
	"errors"
	"time"
)

// Nodes that cannot be read are tried again after retryFirst, then at growing intervals up to retryMost.
const retryFirst, retryMost = time.Second, time.Minute

// retries has the times of retries of nodes that could not be read.
type retries struct {
	at      time.Time
	wait    time.Duration // the pause before the next time
	full    int           // bytes in the cache when the data limit was reached; 0 if it was not
	roomier bool          // the cache has fewer bytes since

	complaints complaints
}

func (e *engine) fail(n *node, err error, again bool) {
	if old, known := e.store.failures[n]; !known || old.err.Error() != err.Error() {
		e.complain(e.store.path(n), err, again)
		e.store.failed(n, failure{err, again})
	}
	if again {
		e.retrySoon()
	}
}

func (e *engine) recovered(n *node) {
	if _, was := e.store.failures[n]; was {
		if e.store.recovered(n); len(e.store.failures) == 0 {
			e.retries.at, e.retries.wait = time.Time{}, retryFirst
		}
	}
}

func (e *engine) retrySoon() {
	if e.retries.at.IsZero() {
		e.retries.at = time.Now().Add(e.retries.wait)
	}
}

// retry reads the nodes again that could not be read and, if the cache has become smaller, the nodes that exceeded the
// data limit.
func (e *engine) retry() {
	r := &e.retries
	for n, f := range e.store.failures {
		if f.again || r.roomier && errors.Is(f.err, ErrDataLimit) {
			e.apply(n, dataWanted)
		}
	}
	r.roomier = false
	r.wait = min(2*r.wait, retryMost)
}

// undecoded records that the cache does not have a node's current data. If they exceeded the data limit, they are read
// again when there is room; otherwise after their next change.
func (e *engine) undecoded(n *node, err error) {
	if errors.Is(err, ErrDataLimit) {
		e.retries.full = max(e.retries.full, e.store.bytes)
	}
	e.fail(n, err, false)
}

// retryIfRoomier makes the cache retry the nodes that exceeded the data limit, once it has become smaller.
func (e *engine) retryIfRoomier() {
	if e.store.bytes < e.retries.full {
		e.retries.full, e.retries.roomier = 0, true
		e.retrySoon()
	}
}

const (
	// complaintsMost limits the lines that a cache logs within complaintsTime about nodes that cannot be read or
	// decoded. Any client with permission to write there could cause any number of them. Events and Failures report all
	// of them.
	complaintsMost = 16
	complaintsTime = time.Minute
)

type complaints struct {
	since time.Time // when the first was logged
	n     int
}

// complain logs that a node cannot be read. At the limit it logs once that such lines are left out for a
// while.
func (e *engine) complain(path string, err error, again bool) {
	c := &e.retries.complaints
	if now := time.Now(); c.n == 0 || now.Sub(c.since) >= complaintsTime {
		*c = complaints{since: now}
	}
	if c.n++; c.n > complaintsMost {
		return
	}
	next := "trying again when the node changes"
	switch {
	case again:
		next = "trying again soon, and once a minute"
	case errors.Is(err, ErrDataLimit):
		next = "trying again when there is room, or the node changes"
	}
	e.log().Warn("cache: cannot read a node", "path", path, "err", err, "next", next)
	if c.n == complaintsMost {
		e.log().Warn("cache: many nodes cannot be read; further ones are not logged for a while, see Failures",
			"path", e.cfg.root, "while", complaintsTime)
	}
}

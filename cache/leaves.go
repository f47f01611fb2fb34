package cache

import (
	"errors"

	"github.com/go-curator/curator/framework"
)

// A node whose Stat counts no children need not be listed, but only a watch of its list of children tells of
// its first child, and only a list sets one. But after a reconnect a client arms all its watches again by
// setWatches: the server fires those whose node has changed since a transaction, and sets the others. Here
// that request sets watches for the first time, hundreds at once.
//
// Nothing is missed: the transaction is one that an answer had shown before the Stats were read. If the
// server sets the watch, the list of children has not changed since then, so it still is what the Stat says:
// empty.

// leaves are nodes without children that wait until watches are set on their lists of children.
type leaves struct {
	ops   []op // with their lists under way
	paths []string
	bytes int // of paths

	since       int64  // was executed before the Stat of any leaf was read; 0: all of them have their watches
	connections uint64 // of the session when since was noted; a server with restored data may have come since
	now         bool   // the present answer is to a read that was sent after since was noted
	waits       int    // for so many answers, which may bring more leaves
	refused     bool   // by the server: leaves are listed
}

const (
	// mostLeaves and mostLeafBytes limit a request. A few leaves are listed instead: a node that was just
	// created has changed since the last answer, and would have to be listed anyway.
	mostLeaves, mostLeafBytes, fewLeaves = 512, 64 << 10, 4
)

// reading notes a transaction before a node is read. After a reconnect leaves that were read before are
// listed.
func (w *oneShotWay) reading() {
	e, l := w.e, &w.leaves
	connections := e.session.Connections()
	if l.since != 0 && l.connections == connections {
		return
	}
	if l.since != 0 {
		e.store.walk(func(n *node) { e.apply(n, leafDoubted) })
		if len(l.ops) > 0 {
			e.reads.weight--
		}
		for _, o := range l.ops {
			e.apply(o.n, listFailed)
		}
		l.ops, l.paths, l.bytes = nil, nil, 0
	}
	l.connections, l.since = connections, e.session.Zxid()
}

// collect takes the list of a leaf. A request that is being put together counts as under way.
func (w *oneShotWay) collect(o op) bool {
	l, n := &w.leaves, o.n
	if l.refused || l.since == 0 {
		return false
	}
	if len(l.ops) == 0 {
		l.waits = w.e.reads.weight
		w.e.reads.weight++
	}
	path := w.e.store.path(n)
	l.ops, l.paths, l.bytes = append(l.ops, o), append(l.paths, path), l.bytes+len(path)+4
	return true
}

// full says that a request is as large as it may be.
func (l *leaves) full() bool { return len(l.ops) >= mostLeaves || l.bytes >= mostLeafBytes }

// armLeaves sets the watches of the leaves, once there are many, or all answers have come that were under way
// when the first was found.
func (w *oneShotWay) armLeaves() {
	e, l, r := w.e, &w.leaves, &w.e.reads
	idle := r.queue.len() == 0
	switch {
	case len(l.ops) == 0:
		if idle && r.weight == 0 {
			l.since = 0
		}
		return
	case l.waits > 0 && !l.full():
		return
	}
	ops, paths, set, connections := l.ops, l.paths, w.set, l.connections
	l.ops, l.paths, l.bytes = nil, nil, 0
	if len(ops) < fewLeaves {
		r.weight--
		for _, o := range ops {
			e.send(o, set)
		}
		return
	}
	set.Rearm(e.ctx, l.since, nil, paths).Then(func(_ struct{}, err error) {
		undo := allOf{}
		if err == nil {
			undo = allOf{set, paths}
		}
		e.answer(w, undo, func() {
			r.weight--
			if err == nil && connections != e.session.Connections() {
				undo.Stop()
				err = framework.ErrConnectionLoss // since may be of another history
			}
			w.gotLeaves(ops, err)
		})
	})
}

// allOf is the watches of the children of nodes.
type allOf struct {
	set   *framework.WatchSet
	paths []string
}

func (a allOf) Stop() {
	for _, path := range a.paths {
		a.set.Drop(path, false, true)
	}
}

func (w *oneShotWay) gotLeaves(ops []op, err error) {
	e, l := w.e, &w.leaves
	l.waits--
	switch passing := errors.Is(err, framework.ErrSessionLost) || errors.Is(err, framework.ErrClosed) ||
		framework.Retryable(err) || e.ctx.Err() != nil; {
	case err == nil:
	case passing: // they are listed
		e.undelivered(ops, false, err)
		return
	default:
		e.log().Info("cache: the server does not set watches by setWatches; listing leaves", "err", err)
		l.refused = true
		for _, o := range ops {
			e.apply(o.n, listFailed)
		}
		return
	}
	e.reads.delivered(0, 0)
	anew := 0
	for _, o := range ops {
		w.keepWatch(o)
		anew += e.got(o, &framework.ReadResult{})
	}
	e.answered(anew)
}

package cache

import (
	"errors"

	"github.com/go-curator/curator/framework"
)

// sentRead describes a read that was sent in a separate request.
type sentRead struct {
	armed       bool   // the reply has set a watch
	connections uint64 // of the session, before it was sent
}

// sendSingle sends a read in a separate request, with a watch of set unless that is nil.
func (e *engine) sendSingle(o nodeRead, set *framework.WatchSet) {
	e.reads.weight++
	w, path, connections := e.watching, e.store.pathOf(o.node), e.session.Connections()
	onReply := func(r *framework.ReadResult, err error) {
		armed, watch := set != nil && err == nil, watchStopper(nil)
		if armed {
			watch = nodeWatches{set, path, o.kind != readList, o.kind == readList}
		}
		e.postReply(w, watch, func() {
			e.reads.weight--
			w.handleReply(o, sentRead{armed, connections}, r)
		})
	}
	view, at := e.readerView(path)
	switch o.kind {
	case readData:
		view.GetData().Undecompressed().WatchedBy(set).InBackground().ForPath(e.ctx, at).
			Then(func(r framework.DataResult, err error) {
				onReply(&framework.ReadResult{Data: r.Data, Stat: r.Stat, Err: err}, err)
			})
	case readList:
		view.GetChildren().WatchedBy(set).InBackground().ForPath(e.ctx, at).
			Then(func(r framework.ChildrenResult, err error) {
				onReply(&framework.ReadResult{Children: r.Names, Stat: r.Stat, Err: err}, err)
			})
	case readStat:
		view.CheckExists().WatchedBy(set).InBackground().ForPath(e.ctx, at).
			Then(func(r framework.ExistsResult, err error) {
				result := &framework.ReadResult{Err: err}
				if r.Stat != nil {
					result.Stat = *r.Stat
				} else if err == nil {
					result.Err = framework.ErrNoNode
				}
				onReply(result, err)
			})
	}
}

// readerView returns the view for reading path, and the path in that view. A view with a namespace would create a missing
// "/", and a cache never writes.
func (e *engine) readerView(path string) (view *framework.Client, at string) {
	if ns := e.view.Namespace(); path == "/" && ns != "" {
		return e.view.UsingNamespace(""), "/" + ns
	}
	return e.view, path
}

func (e *engine) handleSingle(o nodeRead, r *framework.ReadResult) {
	if r.Err != nil && !errors.Is(r.Err, framework.ErrNoNode) && !errors.Is(r.Err, framework.ErrNoAuth) {
		e.requeueReads([]nodeRead{o}, false, r.Err)
		return
	}
	if o.kind == readData && r.Err == nil {
		e.reads.recordReply(1, len(r.Data))
	} else {
		e.reads.recordReply(0, 0)
	}
	if o.kind == readList && r.Err == nil && o.node.live && o.node.czxid == r.Stat.Czxid {
		stat := o.node.stat()
		stat.Cversion, stat.NumChildren, stat.Pzxid = r.Stat.Cversion, r.Stat.NumChildren, r.Stat.Pzxid
		e.store.putStat(o.node, stat)
	}
	w := e.watching
	if requeued := e.applyReply(o, r); e.watching == w {
		e.publishAfterReply(requeued)
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

// nodeWatches is one-shot watches of a node, in set.
type nodeWatches struct {
	set            *framework.WatchSet
	path           string
	data, children bool
}

func (m nodeWatches) Stop() { m.set.Drop(m.path, m.data, m.children) }

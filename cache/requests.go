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

// nodeWatches is one-shot watches of a node, in set.
type nodeWatches struct {
	set            *framework.WatchSet
	path           string
	data, children bool
}

func (m nodeWatches) Stop() { m.set.Drop(m.path, m.data, m.children) }

package cache

import (
	"errors"

	"github.com/go-curator/curator/framework"
)

// sent is how a read was sent in a request of its own.
type sent struct {
	armed       bool   // the answer says that the watch is set
	connections uint64 // of the session, before it was sent
}

// send sends a read in a request of its own, with a watch of set unless that is nil.
func (e *engine) send(o op, set *framework.WatchSet) {
	e.reads.weight++
	w, path, connections := e.way, e.store.path(o.n), e.session.Connections()
	arrived := func(r *framework.ReadResult, err error) {
		armed, watch := set != nil && err == nil, stopper(nil)
		if armed {
			watch = membership{set, path, o.kind != readList, o.kind == readList}
		}
		e.answer(w, watch, func() {
			e.reads.weight--
			w.got(o, sent{armed, connections}, r)
		})
	}
	view, at := e.reader(path)
	switch o.kind {
	case readData:
		view.GetData().Undecompressed().WatchedBy(set).InBackground().ForPath(e.ctx, at).
			Then(func(r framework.DataResult, err error) {
				arrived(&framework.ReadResult{Data: r.Data, Stat: r.Stat, Err: err}, err)
			})
	case readList:
		view.GetChildren().WatchedBy(set).InBackground().ForPath(e.ctx, at).
			Then(func(r framework.ChildrenResult, err error) {
				arrived(&framework.ReadResult{Children: r.Names, Stat: r.Stat, Err: err}, err)
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
				arrived(result, err)
			})
	}
}

// reader returns the view with which path is read, and what it is there. A view with a namespace would create a missing
// "/", and a cache never writes.
func (e *engine) reader(path string) (view *framework.Client, at string) {
	if ns := e.view.Namespace(); path == "/" && ns != "" {
		return e.view.UsingNamespace(""), "/" + ns
	}
	return e.view, path
}

func (e *engine) gotOne(o op, r *framework.ReadResult) {
	if r.Err != nil && !errors.Is(r.Err, framework.ErrNoNode) && !errors.Is(r.Err, framework.ErrNoAuth) {
		e.undelivered([]op{o}, false, r.Err)
		return
	}
	if o.kind == readData && r.Err == nil {
		e.reads.delivered(1, len(r.Data))
	} else {
		e.reads.delivered(0, 0)
	}
	if o.kind == readList && r.Err == nil && o.n.live && o.n.czxid == r.Stat.Czxid {
		stat := o.n.stat()
		stat.Cversion, stat.NumChildren, stat.Pzxid = r.Stat.Cversion, r.Stat.NumChildren, r.Stat.Pzxid
		e.store.putStat(o.n, stat)
	}
	w := e.way
	if anew := e.got(o, r); e.way == w {
		e.answered(anew)
	}
}

// over says whether an error is that of a session that has ended, or of a client that is closed. A member without a
// quorum may call a living session expired, which the client does not believe.
func (e *engine) over(err error) bool {
	return errors.Is(err, framework.ErrClosed) || e.ctx.Err() != nil ||
		errors.Is(err, framework.ErrSessionLost) && (e.session == nil || e.session.Context().Err() != nil)
}

// undelivered puts reads back into the queue that failed for a reason that is not in the nodes.
func (e *engine) undelivered(ops []op, many bool, err error) {
	r := &e.reads
	switch {
	case e.over(err):
		r.halted = true
	case errors.Is(err, framework.ErrSessionLost):
		r.rest()
	case errors.Is(err, framework.ErrAuthFailed): // also matches ErrNotConnected, but comes at once
		r.rest()
	case errors.Is(err, framework.ErrNotConnected):
		// The reads wait for the next connection in the client's queue.
	case errors.Is(err, framework.ErrConnectionLoss):
		// Here, too. If the size of the answer broke the connection, the next answer will be smaller. Some
		// servers break the connection at any MultiRead.
		if s := &r.sizes; many {
			s.nodesPerRead = max(1, s.nodesPerRead/2)
			if s.losses++; s.losses == mostReadLosses {
				s.single, s.guessed = true, true
			}
		}
	case framework.Retryable(err):
		r.rest()
	case errors.Is(err, framework.ErrUnimplemented) && !r.sizes.single:
		e.log().Info("cache: the server has no multiRead; reading nodes one by one")
		r.sizes.single = true
	case len(ops) > 1: // the answer may be too large
		r.sizes.nodesPerRead = max(1, len(ops)/2)
	default: // to ask again at once would not help
		for _, o := range ops {
			e.got(o, &framework.ReadResult{Err: err})
		}
		return
	}
	for _, o := range ops {
		e.apply(o.n, failedRead[o.kind])
	}
}

const (
	// maxNodesPerRead and replyTarget limit a MultiRead, by its reads and by the expected bytes of the
	// answer. requestLimit limits the bytes of the request.
	maxNodesPerRead, replyTarget, requestLimit = 256, 256 << 10, 256 << 10
	manyWeight                                 = 32 // how much of the window a MultiRead takes
	// From bigData on, a node is compared by its Stat, in a request of its own, instead of being read.
	bigData = 4 << 10
	// Roughly what answers contain besides data.
	statBytes, nameBytes = 96, 24
	// mostReadLosses is how many connections lost in a row during a MultiRead can be chance.
	mostReadLosses = 5
)

// sizes says how much is read by one request.
type sizes struct {
	single       bool // nodes are read one by one: the server has no MultiRead
	guessed      bool // single is a guess, for this session
	losses       int  // connections lost in a row during a MultiRead
	nodesPerRead int  // how many reads a request has at present
	average      int  // recent average of the bytes of a node's data
	seen         int  // how many nodes have shown it, up to enough
	gauged       bool // average is measured, not guessed
}

// pump sends pending reads. When the cache is in sync, reads that are queued while a request is under way go
// together in the next request.
func (w *persistentWay) pump() {
	e, r := w.e, &w.e.reads
	if w.gapOpen || e.sync.is() && r.weight > 0 && r.queue.len() < r.sizes.nodesPerRead {
		return
	}
	for r.weight < r.window(r.sizes.single) && w.send() {
	}
}

// send sends one request with pending reads. It returns false when none can be sent.
func (w *persistentWay) send() bool {
	e, r := w.e, &w.e.reads
	most := min(r.queue.len(), r.sizes.nodesPerRead)
	ops, many := make([]op, 0, most), make([]framework.Read, 0, most)
	var singles []op
	request, reply := 0, 0
	for len(ops) < r.sizes.nodesPerRead && request < requestLimit && reply < replyTarget &&
		r.weight+len(singles) < r.window(r.sizes.single) {
		o, light, ok := e.take()
		if !ok {
			break
		}
		if light && o.n.live && o.n.length >= bigData {
			o.kind = readStat
		}
		if r.sizes.single || o.kind == readStat {
			if singles = append(singles, o); len(ops) == 0 {
				break
			}
			continue // nodes above it are read first
		}
		ops = append(ops, o)
		path := e.store.path(o.n)
		request += len(path) + 24
		if o.kind == readList {
			many = append(many, framework.ReadChildren(path))
			reply += int(o.n.stat().NumChildren) * nameBytes
		} else {
			many = append(many, framework.ReadData(path))
			reply += r.expect(o.n) + statBytes
		}
	}
	if len(ops) > 0 {
		r.weight += manyWeight
		e.view.MultiRead().Undecompressed().InBackground().ForReads(e.ctx, many...).
			Then(func(result framework.MultiReadResult, err error) {
				e.postFor(w, func() { w.gotMany(ops, result, err) })
			})
	}
	for _, o := range singles {
		e.send(o, nil)
	}
	return len(ops)+len(singles) > 0
}

func (w *persistentWay) gotMany(ops []op, result framework.MultiReadResult, err error) {
	e := w.e
	e.reads.weight -= manyWeight
	if err != nil {
		e.undelivered(ops, true, err)
		return
	}
	bytes, nodes := 0, 0
	for i, o := range ops {
		if o.kind == readData && result.Results[i].Err == nil {
			bytes, nodes = bytes+len(result.Results[i].Data), nodes+1
		}
	}
	e.reads.delivered(nodes, bytes)
	if !w.gapOpen {
		w.zxid = max(w.zxid, result.Zxid)
	}
	anew := 0
	for i, o := range ops {
		if anew += e.got(o, &result.Results[i]); e.way != w {
			return // everything is read again
		}
	}
	e.answered(anew)
}

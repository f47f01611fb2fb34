package cache

import (
	"errors"

	"github.com/go-curator/curator/framework"
)

// send sends a read in a request of its own, with a watch if s is not nil.
func (e *engine) send(o op, s *shot) {
	e.reads.weight++
	w, path := e.way, e.store.path(o.n)
	var fired func(framework.Event)
	if s != nil {
		fired = s.hear
	}
	switch o.kind {
	case readData:
		e.view.GetData().Undecompressed().Watching(fired).InBackground().ForPath(e.ctx, path).
			Then(func(r framework.DataResult, err error) {
				e.arrived(w, o, s, &framework.ReadResult{Data: r.Data, Stat: r.Stat, Err: err}, r.Watch)
			})
	case readList:
		e.view.GetChildren().Watching(fired).InBackground().ForPath(e.ctx, path).
			Then(func(r framework.ChildrenResult, err error) {
				e.arrived(w, o, s, &framework.ReadResult{Children: r.Names, Stat: r.Stat, Err: err}, r.Watch)
			})
	case readStat:
		e.view.CheckExists().Watching(fired).InBackground().ForPath(e.ctx, path).
			Then(func(r framework.ExistsResult, err error) {
				result := &framework.ReadResult{Err: err}
				if r.Stat != nil {
					result.Stat = *r.Stat
				} else if err == nil {
					result.Err = framework.ErrNoNode
				}
				e.arrived(w, o, s, result, r.Watch)
			})
	}
}

// arrived posts the answer to send.
func (e *engine) arrived(w way, o op, s *shot, r *framework.ReadResult, watch *framework.Watch) {
	e.answer(w, watch, func() {
		e.reads.weight--
		w.got(o, s, r, watch)
	})
}

// gotOne takes the answer to a request for one node.
func (e *engine) gotOne(o op, r *framework.ReadResult) {
	if r.Err != nil && !errors.Is(r.Err, framework.ErrNoNode) && !errors.Is(r.Err, framework.ErrNoAuth) {
		e.undelivered([]op{o}, false, r.Err)
		return
	}
	e.reads.delivered(0, 0)
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

// undelivered puts reads back that came to nothing, for a reason that is not theirs.
func (e *engine) undelivered(ops []op, many bool, err error) {
	r := &e.reads
	switch {
	case errors.Is(err, framework.ErrSessionLost), errors.Is(err, framework.ErrClosed), e.ctx.Err() != nil:
		r.halted = true
	case errors.Is(err, framework.ErrAuthFailed): // which is ErrNotConnected, too, but comes at once
		r.rest()
	case errors.Is(err, framework.ErrNotConnected):
		// They wait for the next connection in the client's queue.
	case errors.Is(err, framework.ErrConnectionLoss):
		// So do they. If it was the size of the answer that broke the connection, the next will be smaller;
		// and there are servers that break it at any MultiRead.
		if s := &r.sizes; many {
			s.nodesPerRead = max(1, s.nodesPerRead/2)
			if s.losses++; s.losses == mostReadLosses {
				s.single, s.guessed = true, true
			}
		}
	case framework.Retryable(err):
		r.rest()
	case errors.Is(err, framework.ErrUnimplemented) && !r.sizes.single:
		e.log().Info("cache: the server has no multiRead: reading one by one")
		r.sizes.single = true
	case len(ops) > 1: // too large, perhaps
		r.sizes.nodesPerRead = max(1, len(ops)/2)
	default: // it would not get better by asking again at once
		for _, o := range ops {
			e.got(o, &framework.ReadResult{Err: err})
		}
		return
	}
	for _, o := range ops {
		e.back(o)
	}
}

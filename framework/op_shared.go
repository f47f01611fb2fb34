package framework

import (
	"context"
	"slices"
	"sync"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// Shared makes ForPath share the request with other goroutines of the same session, for a read that many goroutines need
// at the same time, each after a request of its own. While most requests for the same read are in flight, sent too early
// for this caller, the callers that come until one of them ends share the next one: n goroutines need not send n requests
// and have n answers in memory. The client sends it after what they have queued before, and a server executes a session's
// requests in order, so its answer is as recent as a separate one. An operation that shares a request is not reported to
// [Hooks]. A write, a read with a watch, and one that decompresses data share nothing. For authors of recipes.
func (b Background[B, T]) Shared(most int) Background[B, T] { b.most = most; return b }

// lanes has the reads of a session that goroutines share.
type lanes struct {
	mu  sync.Mutex
	all map[laneKey]lane // guarded by mu
}

type laneKey struct{ name, prefix, path string }

// lane is one read. It exists while a request for it is in flight.
type lane struct {
	flying int     // how many
	riders []rider // share the next one
}

// rider is an operation that shares a request: a *queued.
type rider interface {
	request() *wire.Call
	// ride takes the answer. decoded is empty, or as another rider has decoded it.
	ride(reply wire.Reply, decoded *any)
}

// enter counts a request that r is about to send. If most are in flight already, it makes r share the next one, and
// returns false.
func (ls *lanes) enter(key laneKey, most int, r rider) (sends bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.all[key]
	if sends = l.flying < most; sends {
		l.flying++
	} else {
		l.riders = append(l.riders, r)
	}
	if ls.all == nil {
		ls.all = map[laneKey]lane{}
	}
	ls.all[key] = l
	return sends
}

// leave is called when a request has ended. It sends the next one.
func (ls *lanes) leave(e *epoch, key laneKey) {
	ls.mu.Lock()
	l := ls.all[key]
	riders := l.riders
	if l.riders = nil; len(riders) == 0 {
		l.flying--
	}
	if ls.all[key] = l; l.flying == 0 {
		delete(ls.all, key)
	}
	ls.mu.Unlock()
	if len(riders) == 0 {
		return
	}
	call := riders[0].request()
	call.Done = func(r wire.Reply) {
		ls.leave(e, key)
		var decoded any
		for _, rider := range riders {
			rider.ride(r, &decoded)
		}
	}
	e.wire.Submit(call)
}

// cancel removes a rider, unless its request was sent.
func (ls *lanes) cancel(key laneKey, r rider) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l, ok := ls.all[key]; ok {
		l.riders = slices.DeleteFunc(l.riders, func(other rider) bool { return other == r })
		ls.all[key] = l
	}
}

func (r *run[T]) lane() laneKey { return laneKey{r.name, r.c.view.prefix, r.path} }

// leaveLane is called when the operation's own request has ended, or is not sent after all.
func (r *run[T]) leaveLane() {
	r.entered = false
	r.e.lanes.leave(r.e, r.lane())
}

// rides reports whether the operation shares a request. If not, it has to send its own.
func (q *queued[T]) rides(ctx context.Context) bool {
	r, p := &q.run, &q.Pending
	if r.write || r.watch != nil || r.lengthy || checkContext(ctx) != nil || r.enter() != nil {
		return false
	}
	if r.e.lanes.enter(r.lane(), r.most, q) {
		r.entered = true
		return false
	}
	if ctx.Done() != nil {
		p.watch(context.AfterFunc(ctx, func() {
			r.e.lanes.cancel(r.lane(), q)
			r.leave(ctx, p)
		}))
	}
	return true
}

func (q *queued[T]) request() *wire.Call { return q.run.prepare() }

func (q *queued[T]) ride(reply wire.Reply, decoded *any) {
	if reply.Err == nil && reply.Code == jute.CodeOK {
		q.run.decoded = decoded
	}
	q.run.arrived(q.ctx, &q.Pending, reply)
}

// decodeOnce decodes a shared answer for all riders: a list of n names is not decoded n times.
func (r *run[T]) decodeOnce(reply wire.Reply) (v T, err error) {
	decoded := r.decoded
	r.decoded = nil
	v, known := (*decoded).(T)
	if !known {
		if v, err = r.decode(reply.Zxid, reply.Body); err == nil {
			*decoded = v
		}
	}
	return v, err
}

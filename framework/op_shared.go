package framework

import (
	"slices"
	"sync"

	"github.com/go-curator/curator/internal/wire"
)

// lanes are the reads of a session that goroutines share, see [Background.Shared].
type lanes struct {
	mu  sync.Mutex
	all map[laneKey]lane // guarded by mu
}

type laneKey struct{ name, prefix, path string }

// lane is equal reads. It exists while one of them is in flight.
type lane struct {
	flying int
	riders []rider // share the next one, which is sent when one of them is answered
}

// rider is an operation that waits for a request of others.
type rider struct {
	call *wire.Call
	op   interface{ ride(wire.Reply, *any) }
}

// enter counts a request that is about to be sent, unless most are in flight.
func (ls *lanes) enter(key laneKey, most int) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.all[key]
	if l.flying >= most {
		return false
	}
	if l.flying++; ls.all == nil {
		ls.all = map[laneKey]lane{}
	}
	ls.all[key] = l
	return true
}

// wait makes r share the next request.
func (ls *lanes) wait(e *epoch, key laneKey, r rider) {
	ls.mu.Lock()
	l := ls.all[key]
	late := l.flying == 0 // all were answered meanwhile
	if late {
		l.flying = 1
	}
	l.riders = append(l.riders, r)
	ls.all[key] = l
	ls.mu.Unlock()
	if late {
		ls.leave(e, key)
	}
}

// leave is called when a request has been answered, or was not sent after all. It sends the next one.
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
	call := *riders[0].call // not that itself, which its operation may cancel
	call.Done = func(r wire.Reply) {
		ls.leave(e, key)
		var decoded any
		for _, rider := range riders {
			rider.op.ride(r, &decoded)
		}
	}
	e.wire.Submit(&call)
}

// cancel takes an operation back that waits. It returns false if its request was sent.
func (ls *lanes) cancel(key laneKey, call *wire.Call) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.all[key]
	i := slices.IndexFunc(l.riders, func(r rider) bool { return r.call == call })
	if i < 0 {
		return false
	}
	l.riders = slices.Delete(l.riders, i, i+1)
	ls.all[key] = l
	return true
}

func (r *run[T]) lane() laneKey { return laneKey{r.name, r.c.view.prefix, r.path} }

// enterLane decides whether a read with Shared sends its own request.
func (r *run[T]) enterLane() {
	if r.most > 0 && r.enter() == nil {
		r.entered = r.e.lanes.enter(r.lane(), r.most)
		r.rides = !r.entered
	}
}

// leaveLane is called when its own request was answered, or when there will be none.
func (r *run[T]) leaveLane() {
	if r.entered {
		r.entered = false
		r.e.lanes.leave(r.e, r.lane())
	}
}

// ride takes the answer to a shared request. A list of n names is not decoded n times: decoded has the result of the
// first.
func (q *queued[T]) ride(reply wire.Reply, decoded *any) {
	if !q.run.lengthy {
		q.run.decoded = decoded
	}
	q.answered(reply)
}

func (r *run[T]) decodeOnce(reply wire.Reply) (v T, err error) {
	decoded := r.decoded
	if r.decoded = nil; decoded == nil {
		return r.decode(reply.Zxid, reply.Body)
	}
	v, known := (*decoded).(T)
	if !known {
		if v, err = r.decode(reply.Zxid, reply.Body); err == nil {
			*decoded = v
		}
	}
	return v, err
}

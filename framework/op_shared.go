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

// sharedReads has the reads of a session that goroutines share.
type sharedReads struct {
	mu    sync.Mutex
	reads map[sharedReadKey]sharedRead // guarded by mu
}

type sharedReadKey struct{ name, prefix, path string }

// sharedRead is one read. It exists while a request for it is in flight.
type sharedRead struct {
	inFlight int          // how many
	sharers  []readSharer // share the next one
}

// readSharer is an operation that shares a request: a *backgroundRun.
type readSharer interface {
	prepareRequest() *wire.Call
	// takeSharedReply takes the answer. decoded is empty, or as another operation has decoded it.
	takeSharedReply(reply wire.Reply, decoded *any)
}

// joinOrSend counts a request that r is about to send. If most are in flight already, it makes r share the next
// one, and returns false.
func (ls *sharedReads) joinOrSend(key sharedReadKey, most int, r readSharer) (sends bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.reads[key]
	if sends = l.inFlight < most; sends {
		l.inFlight++
	} else {
		l.sharers = append(l.sharers, r)
	}
	if ls.reads == nil {
		ls.reads = map[sharedReadKey]sharedRead{}
	}
	ls.reads[key] = l
	return sends
}

// finishRequest is called when a request has ended. It sends the next one.
func (ls *sharedReads) finishRequest(e *sessionEpoch, key sharedReadKey) {
	ls.mu.Lock()
	l := ls.reads[key]
	riders := l.sharers
	if l.sharers = nil; len(riders) == 0 {
		l.inFlight--
	}
	if ls.reads[key] = l; l.inFlight == 0 {
		delete(ls.reads, key)
	}
	ls.mu.Unlock()
	if len(riders) == 0 {
		return
	}
	call := riders[0].prepareRequest()
	call.Done = func(r wire.Reply) {
		ls.finishRequest(e, key)
		var decoded any
		for _, rider := range riders {
			rider.takeSharedReply(r, &decoded)
		}
	}
	e.wire.Submit(call)
}

// removeSharer removes an operation, unless its request was sent.
func (ls *sharedReads) removeSharer(key sharedReadKey, r readSharer) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l, ok := ls.reads[key]; ok {
		l.sharers = slices.DeleteFunc(l.sharers, func(other readSharer) bool { return other == r })
		ls.reads[key] = l
	}
}

func (r *operationRun[T]) sharedReadKey() sharedReadKey {
	return sharedReadKey{r.name, r.c.view.prefix, r.path}
}

// leaveSharedRead is called when the operation's own request has ended, or is not sent after all.
func (r *operationRun[T]) leaveSharedRead() {
	r.inSharedRead = false
	r.e.sharedReads.finishRequest(r.e, r.sharedReadKey())
}

// joinSharedRead reports whether the operation shares a request. If not, it has to send its own.
func (q *backgroundRun[T]) joinSharedRead(ctx context.Context) bool {
	r, p := &q.run, &q.Pending
	if r.write || r.watch != nil || r.slowToDecode || checkContext(ctx) != nil || r.beginTry() != nil {
		return false
	}
	if r.e.sharedReads.joinOrSend(r.sharedReadKey(), r.shareAfter, q) {
		r.inSharedRead = true
		return false
	}
	if ctx.Done() != nil {
		p.watchContext(context.AfterFunc(ctx, func() {
			r.e.sharedReads.removeSharer(r.sharedReadKey(), q)
			r.abandonWait(ctx, p)
		}))
	}
	return true
}

func (q *backgroundRun[T]) prepareRequest() *wire.Call { return q.run.prepareCall() }

func (q *backgroundRun[T]) takeSharedReply(reply wire.Reply, decoded *any) {
	if reply.Err == nil && reply.Code == jute.CodeOK {
		q.run.decoded = decoded
	}
	q.run.processFirstReply(q.ctx, &q.Pending, reply)
}

// decodeShared decodes a shared answer for all sharers: a list of n names is not decoded n times.
func (r *operationRun[T]) decodeShared(reply wire.Reply) (v T, err error) {
	decoded := r.decoded
	r.decoded = nil
	v, known := (*decoded).(T)
	if !known {
		if v, err = r.decodeReply(reply.Zxid, reply.Body); err == nil {
			*decoded = v
		}
	}
	return v, err
}

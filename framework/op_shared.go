package framework

import (
	"slices"
	"sync"

	"github.com/go-curator/curator/internal/wire"
)

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
func (ls *sharedReads) finishRequest(session *wire.Session, key sharedReadKey) {
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
		ls.finishRequest(session, key)
		var decoded any
		for _, rider := range riders {
			rider.takeSharedReply(r, &decoded)
		}
	}
	session.Submit(call)
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

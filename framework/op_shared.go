package framework

import (
	"slices"
	"sync"

	"github.com/go-curator/curator/internal/wire"
)

// sharedReads has the reads of a session for which goroutines share requests: see [Background.Shared].
type sharedReads struct {
	mu    sync.Mutex
	reads map[sharedReadKey]sharedRead // guarded by mu
}

// sharedReadKey identifies a read: the operation's name, the prefix of the client's view, and the path.
type sharedReadKey struct{ name, prefix, path string }

// sharedRead is one read. It exists while a request for it is in flight.
type sharedRead struct {
	inFlight    int          // the number of requests in flight
	nextSharers []readSharer // the operations that share the next request
}

// readSharer is an operation that shares a request: a *backgroundRun.
type readSharer interface {
	prepareRequest() *wire.Call
	// takeSharedReply continues the operation with the reply. decoded is the result of the sharers: the first that
	// needs it decodes the reply into it.
	takeSharedReply(reply wire.Reply, decoded *any)
}

// joinOrSend counts a request that r must send, and returns true. If maxInFlight requests are in flight already, it lets
// r share the next one instead, and returns false.
func (s *sharedReads) joinOrSend(key sharedReadKey, maxInFlight int, r readSharer) (sends bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	read := s.reads[key]
	if sends = read.inFlight < maxInFlight; sends {
		read.inFlight++
	} else {
		read.nextSharers = append(read.nextSharers, r)
	}
	if s.reads == nil {
		s.reads = map[sharedReadKey]sharedRead{}
	}
	s.reads[key] = read
	return sends
}

// finishRequest is called when a request has its reply or was not sent. If there are sharers, it sends their request in
// its place.
func (s *sharedReads) finishRequest(session *wire.Session, key sharedReadKey) {
	s.mu.Lock()
	read := s.reads[key]
	sharers := read.nextSharers
	if read.nextSharers = nil; len(sharers) == 0 {
		read.inFlight--
	}
	if s.reads[key] = read; read.inFlight == 0 {
		delete(s.reads, key)
	}
	s.mu.Unlock()
	if len(sharers) == 0 {
		return
	}
	call := sharers[0].prepareRequest()
	call.Done = func(r wire.Reply) {
		s.finishRequest(session, key)
		var decoded any
		for _, sharer := range sharers {
			sharer.takeSharedReply(r, &decoded)
		}
	}
	session.Submit(call)
}

// removeSharer removes an operation from the sharers of the next request.
func (s *sharedReads) removeSharer(key sharedReadKey, r readSharer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if read, ok := s.reads[key]; ok {
		read.nextSharers = slices.DeleteFunc(read.nextSharers, func(other readSharer) bool { return other == r })
		s.reads[key] = read
	}
}

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
	inFlight    int          // how many
	nextSharers []readSharer // share the next one
}

// readSharer is an operation that shares a request: a *backgroundRun.
type readSharer interface {
	prepareRequest() *wire.Call
	// takeSharedReply takes the answer. decoded is empty, or as another operation has decoded it.
	takeSharedReply(reply wire.Reply, decoded *any)
}

// joinOrSend counts a request that r is about to send. If most are in flight already, it makes r share the next
// one, and returns false.
func (s *sharedReads) joinOrSend(key sharedReadKey, most int, r readSharer) (sends bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	read := s.reads[key]
	if sends = read.inFlight < most; sends {
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

// finishRequest is called when a request has ended. It sends the next one.
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

// removeSharer removes an operation, unless its request was sent.
func (s *sharedReads) removeSharer(key sharedReadKey, r readSharer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if read, ok := s.reads[key]; ok {
		read.nextSharers = slices.DeleteFunc(read.nextSharers, func(other readSharer) bool { return other == r })
		s.reads[key] = read
	}
}

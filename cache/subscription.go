package cache

import (
	"sync"
)

// subscription is one stream of events. It begins with the nodes that existed when it was made. Later events wait in a
// queue; beyond the queue's limit they are merged. So a slow reader delays neither the cache nor other readers, and takes
// limited memory.
type subscription struct {
	limit  int           // how many events queue may have; bufferBytes limits their bytes
	wakeup chan struct{} // 1 slot: there may be something to receive

	// Used by the reader only; first batch, then initial, then queue are received:
	batch   []Event
	initial *nodeCursor // the nodes that existed

	mu     sync.Mutex
	queue  fifoQueue[Event] // guarded by mu
	bytes  int              // of the events in queue, by eventBytes; guarded by mu
	merged *mergedChanges   // the changes after those in queue; guarded by mu
	endErr error            // guarded by mu
}

// bufferBytes limits the bytes of events that wait for a subscriber before they are merged, for events with much data.
const bufferBytes = 16 << 20

// eventBytes returns about how much memory an event keeps from being freed.
func eventBytes(ev Event) int {
	bytes := len(ev.Path)
	for _, n := range []*Node{ev.Old, ev.New} {
		if n != nil {
			bytes += len(n.Data)
		}
	}
	return bytes
}

// hasRoom reports whether there is room for an event. For the first there always is.
func (s *subscription) hasRoom(bytes int) bool {
	n := s.queue.len()
	return n == 0 || n < s.limit && s.bytes+bytes <= bufferBytes
}

func newSubscription(limit int) *subscription {
	return &subscription{limit: limit, wakeup: make(chan struct{}, 1)}
}

func (s *subscription) putEvent(ev Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if bytes := eventBytes(ev); s.merged == nil && s.hasRoom(bytes) {
		s.queue.push(ev)
		s.bytes += bytes
	} else {
		if s.merged == nil {
			s.merged = &mergedChanges{}
		}
		s.merged.addEvent(ev)
	}
	s.wakeReader()
}

func (s *subscription) wakeReader() {
	select {
	case s.wakeup <- struct{}{}:
	default:
	}
}

// forgetFailure drops the report that a node cannot be read, because the node is gone. Otherwise the reports
// of nodes that could never be read would pile up without limit.
func (s *subscription) forgetFailure(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.merged != nil {
		s.merged.forgetFailure(path)
	}
}

func (s *subscription) endStream(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endErr, s.queue, s.bytes, s.merged = err, fifoQueue[Event]{}, 0, nil
	s.wakeReader()
}

// nextEvent returns the next event if one waits (ok), or the error that has ended the stream.
func (s *subscription) nextEvent() (ev Event, ok bool, endErr error) {
	for {
		if endErr := s.endError(); endErr != nil {
			return ev, false, endErr
		}
		if len(s.batch) > 0 {
			ev, s.batch[0] = s.batch[0], Event{} // to free the memory that it refers to
			if s.batch = s.batch[1:]; len(s.batch) == 0 {
				s.batch = nil // and the array that contained them
			}
			return ev, true, nil
		}
		if s.initial != nil {
			if n := s.initial.next(); n != nil {
				return Event{Type: Created, Path: n.Path, New: n}, true, nil
			}
			s.initial = nil
		}
		ev, ok, rest := s.popEvent()
		if rest == nil {
			return ev, ok, nil
		}
		s.batch = rest.toEvents() // without the lock, since it may take long
	}
}

func (s *subscription) endError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endErr
}

// popEvent returns the first event of the queue or, when the queue is empty, the merged changes after it.
func (s *subscription) popEvent() (ev Event, ok bool, rest *mergedChanges) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ev, ok = s.queue.pop(); ok {
		s.bytes -= eventBytes(ev)
		return ev, true, nil
	}
	rest, s.merged = s.merged, nil
	return ev, false, rest
}

package cache

import (
	"sync"
)

// subscription is one stream of events. It begins with the nodes that existed when it was made. Later events wait in a
// queue; beyond the queue's limit they are merged into deltas. A slow reader delays neither the cache nor other
// readers, and its memory is limited by that.
type subscription struct {
	limit int           // how many events queue may have; bufferBytes limits their bytes
	more  chan struct{} // 1 slot: there may be something to receive

	// Received before anything of queue; used by the reader only:
	batch    []Event
	snapshot *cursor

	mu    sync.Mutex
	queue fifo[Event] // guarded by mu
	bytes int         // about the size of the events in queue; guarded by mu
	rest  *deltas     // the changes after those in queue; guarded by mu
	over  error       // guarded by mu
}

// bufferBytes limits the bytes of events that wait for a subscriber before they are merged, for events with much data.
const bufferBytes = 16 << 20

// weight returns about how much memory an event keeps from being freed.
func weight(ev Event) int {
	bytes := len(ev.Path)
	for _, n := range []*Node{ev.Old, ev.New} {
		if n != nil {
			bytes += len(n.Data)
		}
	}
	return bytes
}

// room reports whether there is room for an event. For the first there always is.
func (s *subscription) room(bytes int) bool {
	n := s.queue.len()
	return n == 0 || n < s.limit && s.bytes+bytes <= bufferBytes
}

func newSubscription(limit int) *subscription {
	return &subscription{limit: limit, more: make(chan struct{}, 1)}
}

// put queues an event. It never waits.
func (s *subscription) put(ev Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if bytes := weight(ev); s.rest == nil && s.room(bytes) {
		s.queue.push(ev)
		s.bytes += bytes
	} else {
		if s.rest == nil {
			s.rest = &deltas{}
		}
		s.rest.add(ev)
	}
	s.wake()
}

func (s *subscription) wake() {
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// forgetFailure drops the report that a node cannot be read, because the node is gone. Otherwise the reports
// of nodes that could never be read would pile up without limit.
func (s *subscription) forgetFailure(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rest != nil {
		s.rest.forgetFailure(path)
	}
}

func (s *subscription) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over, s.queue, s.bytes, s.rest = err, fifo[Event]{}, 0, nil
	s.wake()
}

func (s *subscription) next() (ev Event, ok bool, over error) {
	for {
		if over := s.ended(); over != nil {
			return ev, false, over
		}
		if len(s.batch) > 0 {
			ev, s.batch[0] = s.batch[0], Event{} // to free the memory that it refers to
			if s.batch = s.batch[1:]; len(s.batch) == 0 {
				s.batch = nil // and the array that contained them
			}
			return ev, true, nil
		}
		if s.snapshot != nil {
			if n := s.snapshot.next(); n != nil {
				return Event{Type: Created, Path: n.Path, New: n}, true, nil
			}
			s.snapshot = nil
		}
		ev, ok, rest := s.pop()
		if rest == nil {
			return ev, ok, nil
		}
		s.batch = rest.events() // without the lock, since it may take long
	}
}

func (s *subscription) ended() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// pop returns the first event of the queue or, when the queue is empty, the deltas after it.
func (s *subscription) pop() (ev Event, ok bool, rest *deltas) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ev, ok = s.queue.pop(); ok {
		s.bytes -= weight(ev)
		return ev, true, nil
	}
	rest, s.rest = s.rest, nil
	return ev, false, rest
}

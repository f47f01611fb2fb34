package cache

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/go-curator/curator/framework"
)

// subscription is one stream of events. It begins with what was there when it was made; what has happened
// since waits in a queue, and beyond the limit of that as deltas. A slow reader delays nobody, and costs
// no more memory than that.
type subscription struct {
	limit int           // of queue, in events; bufferBytes is that in bytes
	more  chan struct{} // 1 slot: there may be something to take

	// Of the reader only, and before the queue:
	batch    []Event
	snapshot *cursor

	mu    sync.Mutex
	queue fifo[Event] // guarded by mu
	bytes int         // what waits in queue, about; guarded by mu
	rest  *deltas     // what has happened after what is in queue; guarded by mu
	over  error       // guarded by mu
}

// bufferBytes is how much may wait for a subscriber before events are merged: a few events with much data are
// as much as many with little.
const bufferBytes = 16 << 20

// weight is how much memory an event keeps from being freed, about.
func weight(ev Event) int {
	bytes := len(ev.Path)
	for _, n := range []*Node{ev.Old, ev.New} {
		if n != nil {
			bytes += len(n.Data)
		}
	}
	return bytes
}

// room says whether there is room for an event. The first one always has it.
func (s *subscription) room(bytes int) bool {
	n := s.queue.len()
	return n == 0 || n < s.limit && s.bytes+bytes <= bufferBytes
}

func newSubscription(limit int) *subscription {
	return &subscription{limit: limit, more: make(chan struct{}, 1)}
}

// put never waits.
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

// forgetFailure is for a node that is gone: that it cannot be read need not be told any more. Of nodes that
// never could be read nothing else would, however many there were.
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
			ev, s.batch[0] = s.batch[0], Event{} // let go of what it points to
			if s.batch = s.batch[1:]; len(s.batch) == 0 {
				s.batch = nil // and of what held them
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
		s.batch = rest.events() // takes its time: not under the lock
	}
}

func (s *subscription) ended() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// pop takes the first event of the queue, or, when that is empty, the deltas after it.
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

func (e *engine) events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if ctx == nil {
			yield(Event{}, framework.ErrNilContext)
			return
		}
		sub := e.store.subscribe(e.cfg.buffer)
		defer e.store.unsubscribe(sub)
		for {
			if ctx.Err() != nil {
				yield(Event{}, fmt.Errorf("cache %s: events: %w", e.cfg.root, e.cfg.client.Left(ctx, nil)))
				return
			}
			ev, ok, over := sub.next()
			switch {
			case over != nil:
				yield(Event{}, over)
				return
			case ok:
				if !yield(ev, nil) {
					return
				}
				continue
			}
			select {
			case <-sub.more:
			case <-ctx.Done():
			}
		}
	}
}

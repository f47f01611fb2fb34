package framework

import (
	"sync"

	"github.com/go-curator/curator/internal/flow"
)

// epochs is which epoch is the current one, and whether the client is closing.
type epochs struct {
	wg     sync.WaitGroup // every goroutine of the core
	closed chan struct{}  // closed when Close begins

	mu      sync.Mutex
	current *epoch      // the last one, never nil; guarded by mu
	closing bool        // guarded by mu
	moved   flow.Signal // current is replaced, or the client is closing; guarded by mu
	back    flow.Signal // there is a new connection; guarded by mu
}

// spawn runs f on a goroutine that Close waits for. It returns false, without running f, when Close has
// begun.
func (s *epochs) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.wg.Go(f)
	return true
}

// epochNow returns the current epoch, nil when the client is closed. After a loss the lost epoch stays the
// current one until the next has begun.
func (s *epochs) epochNow() *epoch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil
	}
	return s.current
}

// epochLast is epochNow, but returns the last epoch also after Close.
func (s *epochs) epochLast() *epoch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// setEpoch makes e the current epoch; false when the client is closed.
func (s *epochs) setEpoch(e *epoch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.current = e
	s.moved.Fire()
	return true
}

// shut refuses new goroutines and epochs, and returns the last epoch.
func (s *epochs) shut() *epoch {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	s.moved.Fire()
	close(s.closed)
	return s.current
}

var closedChannel = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// movedOn returns a channel that is closed when e is no longer the current epoch, or the client is closed.
func (s *epochs) movedOn(e *epoch) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || s.current != e {
		return closedChannel
	}
	return s.moved.C()
}

// nextConnection returns a channel that is closed with the next connection of any epoch.
func (s *epochs) nextConnection() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.back.C()
}

// isBack says that there is a new connection.
func (s *epochs) isBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.back.Fire()
}

// epochView returns the epoch of the view, or the current one; the last one after Close.
func (c *Client) epochView() *epoch {
	if e := c.pinned(); e != nil {
		return e
	}
	return c.core.epochLast()
}

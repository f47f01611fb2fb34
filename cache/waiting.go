package cache

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-curator/curator/framework"
)

// syncState is whether the cache is in sync, for those who wait for it.
type syncState struct {
	mu      sync.Mutex
	synced  bool          // guarded by mu
	root    error         // why the root cannot be read; guarded by mu
	over    error         // guarded by mu
	changed chan struct{} // closed and replaced with every change; guarded by mu
}

func (s *syncState) is() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.synced
}

func (s *syncState) set(synced bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.synced != synced {
		s.synced = synced
		close(s.changed)
		s.changed = make(chan struct{})
	}
}

// rootIs notes whether the root can be read.
func (s *syncState) rootIs(t trouble) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.root = nil; t.again { // what cannot be decoded has been read
		s.root = t.err
	}
}

func (s *syncState) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over, s.synced = err, false
	close(s.changed)
	s.changed = make(chan struct{})
}

// waitSynced is [Cache.WaitSynced].
func (e *engine) waitSynced(ctx context.Context) error {
	if ctx == nil {
		return framework.ErrNilContext
	}
	for s := &e.sync; ; {
		s.mu.Lock()
		synced, root, over, changed := s.synced, s.root, s.over, s.changed
		s.mu.Unlock()
		switch {
		case over != nil:
			return over
		case synced && root != nil:
			return fmt.Errorf("cache %s: the root cannot be read: %w", e.cfg.root, root)
		case synced:
			return nil
		case ctx.Err() != nil:
			at := e.progress()
			return fmt.Errorf("cache %s: not in sync, %d of %d nodes loaded: %w", e.cfg.root, at.Loaded, at.Known, e.client.Left(ctx, nil))
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// inbox is an unbounded queue of functions for one goroutine. What others can fill it with, events of the persistent watch, has a bound in unread; answers have
// that of what is under way.
type inbox struct {
	more chan struct{} // 1 slot: there are some

	mu     sync.Mutex
	queue  []func() // guarded by mu
	closed bool     // guarded by mu
}

func (i *inbox) put(f func()) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return false
	}
	i.queue = append(i.queue, f)
	select {
	case i.more <- struct{}{}:
	default:
	}
	return true
}

func (i *inbox) take() []func() {
	i.mu.Lock()
	defer i.mu.Unlock()
	queue := i.queue
	i.queue = nil
	return queue
}

// close returns what is left, for whoever closes it to see to: it may be holding something.
func (i *inbox) close() []func() {
	i.mu.Lock()
	defer i.mu.Unlock()
	queue := i.queue
	i.closed, i.queue = true, nil
	return queue
}

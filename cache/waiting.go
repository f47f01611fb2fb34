package cache

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/flow"
)

// syncState reports whether the cache is in sync, and how far its load is.
type syncState struct {
	mu      sync.Mutex
	at      Progress    // guarded by mu
	root    error       // why the root cannot be read; guarded by mu
	over    error       // why the cache has ended; guarded by mu
	changed flow.Signal // what waits depend on has changed; guarded by mu

	// The session, and its number of connections, to which at.Synced applies. The client may have a newer connection or
	// session that the cache's goroutine has not handled yet. Guarded by mu.
	session     *framework.Session
	connections uint64
}

// about sets the session and the number of connections to which at.Synced applies.
func (s *syncState) about(session *framework.Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session, s.connections = session, session.Connections()
	s.changed.Fire()
}

// holds reports whether the cache is in sync as far as the client has come. mu is held.
func (s *syncState) holds() bool {
	return s.at.Synced && s.session.Context().Err() == nil && s.session.Connections() == s.connections
}

func (s *syncState) progress() Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at
	at.Synced = s.holds()
	return at
}

// is reports whether the cache is in sync as far as its goroutine has heard.
func (s *syncState) is() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at.Synced
}

func (s *syncState) set(synced bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at.Synced != synced {
		s.at.Synced = synced
		s.changed.Fire()
	}
}

// progressed records how many nodes are known, how many of them the load still waits for, and whether the root cannot
// be read.
func (s *syncState) progressed(known, awaited int, root failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at.Known, s.at.Loaded = known, max(0, known-awaited)
	if s.root = nil; root.again { // a root that cannot be decoded has been read
		s.root = root.err
	}
}

func (s *syncState) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over, s.at.Synced = err, false
	s.changed.Fire()
}

func (e *engine) waitSynced(ctx context.Context) error {
	if ctx == nil {
		return framework.ErrNilContext
	}
	for s := &e.sync; ; {
		s.mu.Lock()
		at, root, over, changed := s.at, s.root, s.over, s.changed.C()
		at.Synced = s.holds()
		s.mu.Unlock()
		switch {
		case over != nil:
			return over
		case at.Synced && root != nil:
			return fmt.Errorf("cache %s: the root cannot be read: %w", e.cfg.root, root)
		case at.Synced:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("cache %s: not in sync, %d of %d nodes loaded: %w",
				e.cfg.root, at.Loaded, at.Known, e.cfg.client.Left(ctx, nil))
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// Progress is the progress of a cache's load, or of its comparison after a reconnect.
type Progress struct {
	// Known is the number of nodes that the cache has found. It grows while the tree is being discovered.
	Known  int
	Loaded int  // how many of those have been read, or need not be
	Synced bool // whether WaitSynced would return immediately
}

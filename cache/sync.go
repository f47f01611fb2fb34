package cache

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/flow"
)

type syncState struct {
	mu      sync.Mutex
	at      Progress    // guarded by mu
	rootErr error       // why the root cannot be read; guarded by mu
	endErr  error       // why the cache has ended; guarded by mu
	changed flow.Signal // what waits depend on has changed; guarded by mu

	// at.Synced is about this session and connection; the client may have a newer connection that is not
	// handled yet. Guarded by mu.
	session     *framework.Session
	connections uint64
}

// beginSync records that the cache is not in sync, until setSynced is called after a later read has its reply. It is
// then about this session, and its present number of connections.
func (s *syncState) beginSync(session *framework.Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session, s.connections, s.at.Synced = session, session.Connections(), false
	s.changed.Fire()
}

// isSynced reports whether the cache is in sync for the client's present session and connection. mu is held.
func (s *syncState) isSynced() bool {
	return s.at.Synced && s.session.Context().Err() == nil && s.session.Connections() == s.connections
}

func (s *syncState) progress() Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at
	at.Synced = s.isSynced()
	return at
}

// wasSynced reports whether the cache is in sync for the session and connection of beginSync.
func (s *syncState) wasSynced() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at.Synced
}

func (s *syncState) setSynced() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at.Synced = true
	s.changed.Fire()
}

func (s *syncState) setProgress(known, awaited int, root readFailure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at.Known, s.at.Loaded = known, max(0, known-awaited)
	if s.rootErr = nil; root.isRetried { // a root that cannot be decoded has been read
		s.rootErr = root.err
	}
}

func (s *syncState) endWaits(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endErr, s.at.Synced = err, false
	s.changed.Fire()
}

func (e *engine) waitSynced(ctx context.Context) error {
	if ctx == nil {
		return framework.ErrNilContext
	}
	for s := &e.sync; ; {
		s.mu.Lock()
		at, root, endErr, changed := s.at, s.rootErr, s.endErr, s.changed.C()
		at.Synced = s.isSynced()
		s.mu.Unlock()
		switch {
		case endErr != nil:
			return endErr
		case at.Synced && root != nil:
			return fmt.Errorf("cache %s: the root cannot be read: %w", e.cfg.root, root)
		case at.Synced:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("cache %s: not in sync, %d of %d nodes loaded: %w",
				e.cfg.root, at.Loaded, at.Known, e.cfg.client.WaitError(ctx, nil))
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

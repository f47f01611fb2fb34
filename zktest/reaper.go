package zktest

import (
	"slices"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// reapLoop calls Reap every ReapInterval. Without any container or TTL node it waits without a timer.
func (s *Server) reapLoop() {
	defer s.wg.Done()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		s.mu.Lock()
		idle := s.paused || s.stopped || !s.ordersWrites() || len(s.tree.containers)+len(s.tree.ttls) == 0
		s.mu.Unlock()
		timer.Stop()
		var due <-chan time.Time
		if !idle {
			timer.Reset(s.cfg.ReapInterval - time.Since(s.started)%s.cfg.ReapInterval)
			due = timer.C
		}
		select {
		case <-due:
			s.Reap()
		case <-s.reaperWake:
		case <-s.quit:
			return
		}
	}
}

func (s *Server) wakeReaper() {
	select {
	case s.reaperWake <- struct{}{}:
	default:
	}
}

// Reap deletes containers that have lost their last child, and TTL nodes without children whose data have not been set
// for longer than their TTL. The server does the same every ReapInterval.
func (s *Server) Reap() {
	s.mu.Lock()
	defer s.unlock()
	if s.paused || s.stopped || s.closed || !s.ordersWrites() {
		return
	}
	now := time.Now().UnixMilli()
	var due []string
	for path := range s.tree.containers {
		// A container that never had a child stays: its creator may be about to add one.
		if n := s.tree.nodes[path]; len(n.children) == 0 && n.cversion > 0 {
			due = append(due, path)
		}
	}
	for path := range s.tree.ttls {
		if n := s.tree.nodes[path]; len(n.children) == 0 && now-n.mtime > n.owner&maxTTL {
			due = append(due, path)
		}
	}
	slices.Sort(due)
	for _, path := range due {
		s.trace.addEntry(traceEntry{kind: traceNote, note: "reaps " + path})
		s.proposeEntry(&logEntry{}, func(e *logEntry) { e.err = s.prepareReap(e, path) })
	}
}

// prepareReap checks the node again: in an ensemble an entry in the log may have changed it since.
func (s *Server) prepareReap(e *logEntry, path string) Error {
	p := s.preparationFor(e, 0, nil)
	n, err := p.lookup(path)
	switch {
	case err != ok:
		return err
	case n.children > 0:
		return ErrNotEmpty
	case s.tree.kindOfOwner(n.owner) == ownedBySession:
		return ErrBadVersion
	}
	p.recordDeletion(path)
	p.publishFuture()
	e.txns = []*transaction{{op: jute.OpDeleteContainer, path: path}}
	return ok
}

// recordDeletion records the effect of a deletion on the node and its parent.
func (p *preparation) recordDeletion(path string) {
	dir, _ := splitPath(path)
	if parent, err := p.lookup(dir); err == ok {
		parent.children--
		parent.pzxid = p.zxid
		p.recordFuture(dir, parent)
	}
	p.recordFuture(path, futureNode{gone: true})
}

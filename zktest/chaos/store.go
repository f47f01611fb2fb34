package chaos

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrFenced is a [Store]'s refusal of a token that is older than one it has seen.
var ErrFenced = errors.New("chaos: the store has seen a newer token")

// Store is a store that a service writes to under a right. It remembers the largest fencing token, and refuses
// smaller ones. A write takes some time, as over a network. It is a violation if the store refuses the process that
// has the right now. Its methods are safe for concurrent use.
type Store struct {
	w    *World
	name string

	mu      sync.Mutex
	token   int64
	entries []Entry
}

// Entry is a write that a [Store] has accepted.
type Entry struct {
	At    time.Duration
	By    string
	Token int64
	Value string
}

// Store makes a fenced store.
func (w *World) Store(name string) *Store { return &Store{w: w, name: name} }

// Write writes under a grant that has a token (see [Right.GrantedWith]). It fails with [ErrFenced], or with
// [ErrKilled] if the process is dead.
func (s *Store) Write(g *Grant, value string) error {
	what := fmt.Sprintf("write %q to %s", value, s.name)
	if !g.recordAct(what) {
		return ErrKilled
	}
	way := s.w.plan.Latency * time.Duration((g.number*7+len(value))%10) / 10
	time.Sleep(way)
	s.mu.Lock()
	fenced := g.Token < s.token
	if s.token = max(s.token, g.Token); !fenced {
		s.entries = append(s.entries, Entry{s.w.Elapsed(), g.who.Name(), g.Token, value})
	}
	s.mu.Unlock()
	g.right.mu.Lock()
	mine := !g.passed && g.believesHeld() && !g.isPardoned()
	g.right.mu.Unlock()
	if !fenced {
		return nil
	}
	if mine && g.right.limit == 1 {
		s.w.Violate(s.name, "refuses %v, which has %s, its token %d", g.who, g.right.name, g.Token)
	}
	g.who.Logf("%s has refused: %s", s.name, what)
	return ErrFenced
}

// Entries lists the writes that the store has accepted, in their order.
func (s *Store) Entries() []Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Entry(nil), s.entries...)
}

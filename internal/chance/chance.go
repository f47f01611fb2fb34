// Package chance is the source of random pauses before a retry and of the random order of servers, so that
// clients do not move in step. A simulation draws them from a seed, so that a run can be repeated.
package chance

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

var (
	seeded atomic.Uint64 // the seed plus one; 0: there is none

	mu      sync.Mutex
	source  *rand.Rand // what N draws from while there is a seed; guarded by mu
	sources uint64     // how many New has made; guarded by mu
)

// Seed makes all draws depend on the seed, until end is called. It acts on the whole process, so only one
// simulation may run at a time.
func Seed(seed uint64) (end func()) {
	mu.Lock()
	defer mu.Unlock()
	source, sources = rand.New(rand.NewPCG(seed, 1<<32)), 0
	seeded.Store(seed + 1)
	return func() { seeded.Store(0) }
}

// N returns a random number from 0 up to but excluding n; 0 if there is none.
func N[T ~int64](n T) T {
	switch {
	case n <= 0:
		return 0
	case seeded.Load() == 0:
		return rand.N(n)
	}
	mu.Lock()
	defer mu.Unlock()
	return T(source.Int64N(int64(n)))
}

// Shuffle puts n elements into a random order.
func Shuffle(n int, swap func(i, j int)) { shuffle(n, swap, N[int64]) }

func shuffle(n int, swap func(i, j int), draw func(int64) int64) {
	for i := n - 1; i > 0; i-- {
		swap(i, int(draw(int64(i+1))))
	}
}

// Source is what one client draws from when it looks for a server or cleans up. Many clients do so at one
// instant: in a simulation, sources of their own make the draws independent of which client comes first.
// Otherwise a Source, nil included, draws like the package's functions.
type Source struct {
	name uint64

	mu sync.Mutex
	r  *rand.Rand // nil: there is no seed; guarded by mu
}

// New makes a source. In a simulation it depends on how many were made before.
func New() *Source {
	mu.Lock()
	defer mu.Unlock()
	sources++
	return newSource(1<<63 | sources<<32)
}

func newSource(name uint64) *Source {
	s := &Source{name: name}
	if seed := seeded.Load(); seed != 0 {
		s.r = rand.New(rand.NewPCG(seed-1, name))
	}
	return s
}

// Fork makes a source for one of several things that a client does at the same time.
func (s *Source) Fork(n uint64) *Source {
	if s == nil {
		return nil
	}
	return newSource(s.name + n + 1)
}

// Duration returns a random duration from 0 up to but excluding d; 0 if there is none.
func (s *Source) Duration(d time.Duration) time.Duration { return time.Duration(s.draw(int64(d))) }

// Shuffle puts n elements into a random order.
func (s *Source) Shuffle(n int, swap func(i, j int)) { shuffle(n, swap, s.draw) }

// UpTo is like the package's UpTo.
func (s *Source) UpTo(d time.Duration) time.Duration { return d/2 + s.Duration(d/2+1) }

func (s *Source) draw(n int64) int64 {
	if s == nil || s.r == nil || n <= 0 {
		return N(n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.r.Int64N(n)
}

// UpTo returns a random duration from half of d to d: the pause before a retry.
func UpTo(d time.Duration) time.Duration { return d/2 + N(d/2+1) }

// Around returns a random duration from three quarters to five quarters of d, for what many clients do
// periodically.
func Around(d time.Duration) time.Duration { return d*3/4 + N(d/2+1) }

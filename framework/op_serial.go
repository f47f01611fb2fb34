package framework

import "sync"

// serial runs functions one after the other, in the order in which they were put in, on a goroutine that lives as long
// as there are any. Putting in never waits, and never runs a function. A function that ends the goroutine
// (runtime.Goexit) ends only itself: another goroutine goes on after it.
type serial struct {
	spawn func(func())

	mu      sync.Mutex
	queue   []batch // guarded by mu
	taken   int     // batches taken off the queue; guarded by mu
	running bool    // guarded by mu
}

// batch is what was put in at once, or a place that is kept for later.
type batch struct {
	calls []func()
	kept  bool
}

func (s *serial) put(calls ...func()) {
	if len(calls) > 0 {
		s.mu.Lock()
		s.queue = append(s.queue, batch{calls: calls})
		s.goOn()
	}
}

// keep takes a place in the queue, for fill. What is put in from now on runs after it.
func (s *serial) keep() (place int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, batch{kept: true})
	return s.taken + len(s.queue) - 1
}

// fill puts functions, or none, into a place that was kept, once.
func (s *serial) fill(place int, calls ...func()) {
	s.mu.Lock()
	s.queue[place-s.taken] = batch{calls: calls}
	s.goOn()
}

// goOn starts the goroutine if there is something to run and it does not run yet. It unlocks mu.
func (s *serial) goOn() {
	start := !s.running && !s.queue[0].kept
	s.running = s.running || start
	s.mu.Unlock()
	if start {
		s.spawn(s.run)
	}
}

func (s *serial) run() {
	done := false
	defer func() {
		if !done {
			s.spawn(s.run)
		}
	}()
	for f := s.next(); f != nil; f = s.next() {
		f()
	}
	done = true
}

// next takes the next function out. It is nil, and nothing runs any more, if there is none, or the first place is kept.
func (s *serial) next() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) > 0 && !s.queue[0].kept {
		first := &s.queue[0]
		if len(first.calls) > 0 {
			f := first.calls[0]
			first.calls[0], first.calls = nil, first.calls[1:]
			return f
		}
		*first, s.queue = batch{}, s.queue[1:]
		s.taken++
	}
	if s.running = false; len(s.queue) == 0 {
		s.queue = nil
	}
	return nil
}

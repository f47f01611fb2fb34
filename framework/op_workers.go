package framework

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-curator/curator/internal/wire"
)

// backgroundExecutors runs the functions that follow replies to operations in the background.
type backgroundExecutors struct {
	results   serialExecutor // handle replies that call users' hooks or are slow to decode
	callbacks serialExecutor // the functions given to Then, IfFailed and Watching
}

// workerGroup counts goroutines so that close can wait for them. Unlike a WaitGroup it allows new goroutines while
// close waits for the others.
type workerGroup struct {
	ctx    context.Context // ends with close
	cancel context.CancelFunc

	mu      sync.Mutex
	running int           // the number of goroutines that close waits for; guarded by mu
	idle    chan struct{} // nil before close; closed when running is 0; guarded by mu
}

// spawn runs f on a new goroutine. close waits for f, unless close has already found all goroutines ended: then f can
// only run callbacks of operations on a closed client.
func (w *workerGroup) spawn(f func()) {
	w.mu.Lock()
	counted := w.idle == nil || w.running > 0
	if counted {
		w.running++
	}
	w.mu.Unlock()
	go func() {
		if counted {
			defer w.finishWorker()
		}
		f()
	}()
}

func (w *workerGroup) finishWorker() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running--; w.running == 0 && w.idle != nil {
		close(w.idle)
	}
}

// close blocks until every goroutine has ended, and with them the last callback. It is called when the sessions have
// ended and every request has its reply or error.
func (w *workerGroup) close() {
	w.mu.Lock()
	if w.idle == nil {
		w.idle = make(chan struct{})
		w.cancel()
		if w.running == 0 {
			close(w.idle)
		}
	}
	idle := w.idle
	w.mu.Unlock()
	<-idle
}

// closeGrace limits how long CloseContext waits for the client's goroutines after the end of its context.
const closeGrace = 50 * time.Millisecond

// awaitWithGrace returns the error that is received from idle. It waits no longer than closeGrace after the end of ctx.
func awaitWithGrace(ctx context.Context, idle <-chan error) error {
	select {
	case err := <-idle:
		return err
	case <-ctx.Done():
	}
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	select {
	case err := <-idle:
		return err
	case <-timer.C:
		return fmt.Errorf("%w; some goroutines of the client are still running: %w",
			wire.ErrUnacknowledged, ctx.Err())
	}
}

// serialExecutor runs functions one after the other, in the order of enqueue, on a goroutine that ends when the queue is
// empty. enqueue does not block, and does not run a function itself. A function that ends the goroutine
// (runtime.Goexit) ends only itself: another goroutine continues with the next function.
type serialExecutor struct {
	spawn func(func()) // starts a goroutine

	mu           sync.Mutex
	queue        []functionBatch // guarded by mu
	batchesTaken int             // the number of batches ever removed from the queue; guarded by mu
	running      bool            // there is a goroutine; guarded by mu
}

// functionBatch has the functions of one enqueue or fillPlace, or is a reserved place.
type functionBatch struct {
	calls    []func()
	reserved bool
}

// enqueue queues one or more functions.
func (s *serialExecutor) enqueue(calls ...func()) {
	s.mu.Lock()
	s.queue = append(s.queue, functionBatch{calls: calls})
	s.startIfNeeded()
}

// reservePlace reserves a place in the queue and returns its number, for fillPlace. Functions that are queued later run
// after the functions of that place.
func (s *serialExecutor) reservePlace() (place int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, functionBatch{reserved: true})
	return s.batchesTaken + len(s.queue) - 1
}

// fillPlace puts functions, or none, into a reserved place. It must be called once for each place.
func (s *serialExecutor) fillPlace(place int, calls ...func()) {
	s.mu.Lock()
	s.queue[place-s.batchesTaken] = functionBatch{calls: calls}
	s.startIfNeeded()
}

// startIfNeeded starts the goroutine if there is something to run and no goroutine runs yet. It unlocks mu.
func (s *serialExecutor) startIfNeeded() {
	start := !s.running && !s.queue[0].reserved
	s.running = s.running || start
	s.mu.Unlock()
	if start {
		s.spawn(s.run)
	}
}

func (s *serialExecutor) run() {
	done := false
	defer func() {
		if !done {
			s.spawn(s.run)
		}
	}()
	for f := s.nextFunction(); f != nil; f = s.nextFunction() {
		f()
	}
	done = true
}

// next removes the next function from the queue and returns it. If there is none, or the first place is reserved, it
// returns nil, and the goroutine must end.
func (s *serialExecutor) nextFunction() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) > 0 && !s.queue[0].reserved {
		first := &s.queue[0]
		if len(first.calls) > 0 {
			f := first.calls[0]
			first.calls[0], first.calls = nil, first.calls[1:]
			return f
		}
		*first, s.queue = functionBatch{}, s.queue[1:]
		s.batchesTaken++
	}
	if s.running = false; len(s.queue) == 0 {
		s.queue = nil
	}
	return nil
}

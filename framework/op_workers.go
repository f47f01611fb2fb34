package framework

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-curator/curator/internal/chance"
)

// ops has the parts that the operations of all views of a client share: the goroutines of the callbacks, the clean-ups,
// and the count of the goroutines that work for operations. The core closes it after its last session.
type ops struct {
	log      *slog.Logger // writes to lines
	apart    *slog.Logger // has its own lines, and refers to nothing of the client
	workers  workers
	desk     desk   // for the user's operations
	own      desk   // for operations of recipes and caches, which never wait for user operations
	hooks    serial // calls hooks on behalf of goroutines that must not wait
	lines    lines
	cleanups cleanups
	queued   atomic.Int64 // operations in the background that count for the limit
}

// desk handles the answers of operations in the background.
type desk struct {
	results   serial // the work left after an answer, if that is more than to decode it
	callbacks serial // the functions given to Then and Watching
}

// newOps is called by New before the first session. current returns the current epoch; the last one after
// Close.
func newOps(current func() *epoch, handler slog.Handler, chance *chance.Source) *ops {
	o, apart := &ops{}, &lines{queue: serial{spawn: func(f func()) { go f() }}}
	o.log, o.apart = o.lines.logger(handler), apart.logger(handler)
	o.workers.ctx, o.workers.cancel = context.WithCancel(context.Background())
	for _, s := range []*serial{
		&o.desk.results, &o.desk.callbacks, &o.own.results, &o.own.callbacks, &o.hooks, &o.lines.queue,
	} {
		s.spawn = o.workers.spawn
	}
	q := &o.cleanups
	q.workers, q.current, q.log, q.chance = &o.workers, current, o.log, chance
	q.pending = map[cleanup]struct{}{}
	q.later = map[*job]*time.Timer{}
	return o
}

// workers counts goroutines so that close can wait for them. Unlike a WaitGroup it allows new goroutines
// while close waits.
type workers struct {
	ctx    context.Context // ends with close
	cancel context.CancelFunc

	mu   sync.Mutex
	n    int           // goroutines running; guarded by mu
	idle chan struct{} // nil before close, and closed when the last goroutine has ended; guarded by mu
}

// spawn runs f on a new goroutine. After close, f is not waited for: by then it can only run callbacks of operations on
// a closed client.
func (w *workers) spawn(f func()) {
	w.mu.Lock()
	counted := w.idle == nil || w.n > 0
	if counted {
		w.n++
	}
	w.mu.Unlock()
	go func() {
		if counted {
			defer w.done()
		}
		f()
	}()
}

func (w *workers) done() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.n--; w.n == 0 && w.idle != nil {
		close(w.idle)
	}
}

// close returns when every goroutine has ended, and with them the last callback. The core calls it when the
// sessions have ended and every operation has its answer.
func (w *workers) close() {
	w.mu.Lock()
	if w.idle == nil {
		w.idle = make(chan struct{})
		w.cancel()
		if w.n == 0 {
			close(w.idle)
		}
	}
	idle := w.idle
	w.mu.Unlock()
	<-idle
}

// serial runs functions one after the other, in the order of put, on a goroutine that ends when none is left. put never
// waits, and never runs a function itself. A function that ends the goroutine (runtime.Goexit) ends only itself:
// another goroutine continues with the next function.
type serial struct {
	spawn func(func())

	mu      sync.Mutex
	queue   []batch // guarded by mu
	taken   int     // batches taken off the queue; guarded by mu
	running bool    // guarded by mu
}

// batch is the functions of one put, or a place reserved for later.
type batch struct {
	calls []func()
	kept  bool
}

// put queues one function or more.
func (s *serial) put(calls ...func()) {
	s.mu.Lock()
	s.queue = append(s.queue, batch{calls: calls})
	s.goOn()
}

// keep reserves a place in the queue, for fill. Functions put from now on run after the functions of that place.
func (s *serial) keep() (place int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, batch{kept: true})
	return s.taken + len(s.queue) - 1
}

// fill puts functions, or none, into a reserved place. It is called once for each place.
func (s *serial) fill(place int, calls ...func()) {
	s.mu.Lock()
	s.queue[place-s.taken] = batch{calls: calls}
	s.goOn()
}

// goOn starts the goroutine if there is something to run and no goroutine runs yet. It unlocks mu.
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

// next takes the next function off the queue. If there is none, or the first place is reserved, it returns
// nil, and the goroutine counts as ended.
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

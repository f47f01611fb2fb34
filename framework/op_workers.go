package framework

import (
	"context"
	"log/slog"
	"sync"
)

// ops is what the operations keep for all views of a client: the goroutines of the callbacks, the janitor, and the count of the
// goroutines that work for operations. The core makes one (newOps) and closes it (close) behind its last session.
type ops struct {
	log     *slog.Logger // of lines
	workers workers
	desk    desk    // of the user's operations
	own     desk    // of those of recipes and caches: never behind one of the user's
	hooks   mailbox // what hooks are told of by goroutines that the client cannot do without
	lines   lines
	janitor janitor
}

// desk is where operations in the background come back to.
type desk struct {
	results   mailbox // what is left to do with an answer, where that is more than to decode it
	callbacks mailbox // of Then and Watching
}

// newOps is called by New before the first session. current returns the current epoch, or the last one.
func newOps(current func() *epoch, handler slog.Handler) *ops {
	o := &ops{}
	o.log = o.lines.logger(handler)
	o.workers.init()
	for _, m := range []*mailbox{&o.desk.results, &o.desk.callbacks, &o.own.results, &o.own.callbacks, &o.hooks, &o.lines.queue} {
		m.spawn = o.workers.spawn
	}
	o.janitor.init(o, current, o.log)
	return o
}

// drain waits until the janitor has nothing left to do, or ctx ends. The core calls it while the session still lives.
func (o *ops) drain(ctx context.Context) { o.janitor.drain(ctx) }

// close ends the janitor, and returns when every goroutine of the operations has ended, those of the callbacks behind the last
// callback. The core calls it when the sessions have ended, so that every operation under way has its answer.
func (o *ops) close() { o.workers.close() }

// workers counts goroutines so that close can wait for them. Unlike a WaitGroup it may be asked for more while it is waited for.
type workers struct {
	ctx    context.Context // ends with close
	cancel context.CancelFunc

	mu     sync.Mutex
	n      int           // goroutines running, guarded by mu
	closed bool          // guarded by mu
	idle   chan struct{} // closed when closed and n == 0
}

func (w *workers) init() {
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.idle = make(chan struct{})
}

// spawn runs f on a goroutine of its own. After close nobody waits for it any more: callbacks of what is done with a closed client.
func (w *workers) spawn(f func()) {
	w.mu.Lock()
	counted := !w.closed || w.n > 0
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
	if w.n--; w.n == 0 && w.closed {
		close(w.idle)
	}
}

func (w *workers) close() {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		w.cancel()
		if w.n == 0 {
			close(w.idle)
		}
	}
	w.mu.Unlock()
	<-w.idle
}

// mailbox runs functions one after the other, in the order they were put in, on a goroutine that lives as long as there are any.
// What is put in never waits, and never runs on the goroutine that put it in. A function that ends the goroutine (runtime.Goexit) ends itself only:
// another goroutine goes on behind it.
type mailbox struct {
	spawn func(func())

	mu      sync.Mutex
	queue   []letter // guarded by mu
	taken   int      // how many were taken off the queue; guarded by mu
	running bool     // guarded by mu
}

// letter is what was put in at once, or a place that somebody has kept for what is to come.
type letter struct {
	calls []func()
	kept  bool
}

func (m *mailbox) put(calls ...func()) {
	if len(calls) == 0 {
		return
	}
	m.mu.Lock()
	m.queue = append(m.queue, letter{calls: calls})
	m.goOn()
}

// keep takes a place in the queue. What is put in from now on waits behind it, for fill.
func (m *mailbox) keep() (place int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queue = append(m.queue, letter{kept: true})
	return m.taken + len(m.queue) - 1
}

// fill puts functions, or none, into a place that was kept, once.
func (m *mailbox) fill(place int, calls ...func()) {
	m.mu.Lock()
	m.queue[place-m.taken] = letter{calls: calls}
	m.goOn()
}

// goOn has the functions run if they do not yet, and may. It unlocks mu.
func (m *mailbox) goOn() {
	start := !m.running && !m.queue[0].kept
	m.running = m.running || start
	m.mu.Unlock()
	if start {
		m.spawn(m.run)
	}
}

func (m *mailbox) run() {
	done := false
	defer func() {
		if !done {
			m.spawn(m.run)
		}
	}()
	for f := m.next(); f != nil; f = m.next() {
		f()
	}
	done = true
}

// next takes the next function out; nil, and nothing runs any more, when there is none, or none yet.
func (m *mailbox) next() func() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.queue) > 0 && !m.queue[0].kept {
		first := &m.queue[0]
		if len(first.calls) > 0 {
			f := first.calls[0]
			first.calls[0], first.calls = nil, first.calls[1:]
			return f
		}
		*first, m.queue = letter{}, m.queue[1:]
		m.taken++
	}
	if m.running = false; len(m.queue) == 0 {
		m.queue = nil
	}
	return nil
}

// epochOf returns the epoch in which this view's operations run now.
func (c *Client) epochOf() (*epoch, error) {
	if c.none() {
		return nil, ErrNoClient
	}
	now, e := c.core.epochNow(), c.pinned()
	switch {
	case now == nil: // before all: who takes the end of a session for passing shall not go on
		return nil, ErrClosed
	case e == nil:
		return now, nil
	case e.ctx.Err() != nil:
		return nil, ended(e)
	}
	return e, nil
}

// ended returns why an epoch is over: ErrSessionLost or ErrClosed.
func ended(e *epoch) error {
	if cause := context.Cause(e.ctx); cause != nil {
		return cause
	}
	return ErrSessionLost
}

// pinned returns the epoch that this view is bound to, or nil.
func (c *Client) pinned() *epoch {
	if c.none() {
		return nil
	}
	return c.view.epoch
}

// none says that this is no client but a nil pointer, or the zero value.
func (c *Client) none() bool { return c == nil || c.core == nil }

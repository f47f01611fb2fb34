package framework

import (
	"context"
	"log/slog"
	"sync"

	"github.com/go-curator/curator/internal/chance"
)

// ops is what the operations of all views of a client share: the goroutines of the callbacks, the clean-ups, and the
// count of the goroutines that work for operations. The core closes it after its last session.
type ops struct {
	log      *slog.Logger // of lines
	workers  workers
	desk     desk   // of the user's operations
	own      desk   // of those of recipes and caches, which never wait for one of the user's
	hooks    serial // calls hooks on behalf of goroutines that must not wait
	lines    lines
	cleanups cleanups
}

// desk is where the answers of operations in the background are handled.
type desk struct {
	results   serial // what is left to do with an answer, where that is more than to decode it
	callbacks serial // of Then and Watching
}

// newOps is called by New before the first session. current returns the current epoch, or the last one.
func newOps(current func() *epoch, handler slog.Handler, chance *chance.Source) *ops {
	o := &ops{}
	o.log = o.lines.logger(handler)
	o.workers.init()
	for _, s := range []*serial{
		&o.desk.results, &o.desk.callbacks, &o.own.results, &o.own.callbacks, &o.hooks, &o.lines.queue,
	} {
		s.spawn = o.workers.spawn
	}
	q := &o.cleanups
	q.workers, q.current, q.log, q.chance, q.pending = &o.workers, current, o.log, chance, map[cleanup]struct{}{}
	return o
}

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

// spawn runs f on a goroutine of its own. After close nobody waits for it any more: then it runs callbacks of operations
// on a closed client.
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

// close returns when every goroutine has ended, and with them the last callback. The core calls it when the sessions
// have ended, so that every operation has its answer.
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

package framework

import (
	"container/heap"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/go-curator/curator/internal/chance"
	"github.com/go-curator/curator/internal/wire"
)

const (
	// maxCleanups bounds the janitor's memory, maxJanitors its goroutines.
	maxCleanups = 1 << 16
	maxJanitors = 32

	minCleanupPause = 100 * time.Millisecond
	maxCleanupPause = 10 * time.Second
)

// task is something to be removed: a node, or, with a guid, the protected node of a create whose outcome is unknown.
type task struct {
	path     string // full path of the node; with a guid, of the parent
	version  int32
	children bool
	guid     string
	origin   *epoch // with a guid: where the create ran
	bound    *epoch // the epoch with which the node, or the wish, goes; nil if it does not
}

// job is a task and when it is to be tried.
type job struct {
	task
	due   time.Time
	tries int
	lost  time.Time // when origin was first seen to be over
}

// janitor removes what callers have left behind (promise P3): guaranteed deletes that failed, and the nodes of protected creates that nobody
// waits for any more. It never uses a caller's context. While there is no connection its requests wait in the session's queue, so that they
// are among the first on the next one; failures are repeated with a growing pause.
type janitor struct {
	ops     *ops
	current func() *epoch
	logger  *slog.Logger
	chance  *chance.Source

	mu      sync.Mutex
	pending map[task]struct{} // queued and running; guarded by mu
	awaited int               // answers that may become tasks: their callers have left; guarded by mu
	queue   jobs              // guarded by mu
	running int               // goroutines; guarded by mu
	until   time.Time         // when the one of them that waits for a job to be due will look again; zero if none does; guarded by mu
	idle    chan struct{}     // closed when nothing is pending or awaited; nil if nobody wants to know; guarded by mu
}

func (j *janitor) init(o *ops, current func() *epoch, logger *slog.Logger) {
	j.ops, j.current, j.logger, j.pending = o, current, logger, map[task]struct{}{}
}

// PendingCleanups returns how many removals the client still owes, or may owe: guaranteed deletes that failed, and protected creates whose caller
// has left, also while their answers are still to come. For metrics.
func (c *Client) PendingCleanups() int {
	if c.none() {
		return 0
	}
	j := &c.core.ops.janitor
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.pending) + j.awaited
}

// expect counts the answers that are to come.
func (j *janitor) expect(more int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.awaited += more
	j.rest()
}

// rest tells who waits for it that nothing is left to do. mu is held.
func (j *janitor) rest() {
	if len(j.pending)+j.awaited == 0 && j.idle != nil {
		close(j.idle)
		j.idle = nil
	}
}

// add takes a task; ErrCleanupFull if there are too many. It does not block.
func (j *janitor) add(t task) error {
	if j.ops.workers.ctx.Err() != nil {
		return nil // closed: there is nobody left to do it
	}
	j.mu.Lock()
	if _, known := j.pending[t]; known {
		j.mu.Unlock()
		return nil
	}
	if len(j.pending) >= maxCleanups {
		j.mu.Unlock()
		j.logger.Warn("too many clean-ups pending, one is dropped", "path", t.path)
		return ErrCleanupFull
	}
	j.pending[t] = struct{}{}
	heap.Push(&j.queue, &job{task: t, due: time.Now()})
	start := j.more()
	j.mu.Unlock()
	if start {
		j.ops.workers.spawn(j.work)
	}
	return nil
}

// more is true when another goroutine is to be started. mu is held.
func (j *janitor) more() bool {
	if j.running >= maxJanitors || j.ops.workers.ctx.Err() != nil {
		return false
	}
	j.running++
	return true
}

// work runs jobs until there are none that are due; one goroutine waits for the others.
func (j *janitor) work() {
	for ctx := j.ops.workers.ctx; ; {
		j.mu.Lock()
		if len(j.queue) == 0 || ctx.Err() != nil || !j.until.IsZero() && !j.queue[0].due.Before(j.until) && time.Now().Before(j.until) {
			j.running--
			j.mu.Unlock()
			return
		}
		if wait := time.Until(j.queue[0].due); wait > 0 {
			j.until = j.queue[0].due
			j.mu.Unlock()
			sleep(ctx, wait)
			j.mu.Lock()
			j.until = time.Time{}
			j.mu.Unlock()
			continue
		}
		next := heap.Pop(&j.queue).(*job)
		start := len(j.queue) > 0 && !time.Now().Before(j.queue[0].due) && j.more()
		j.mu.Unlock()
		if start {
			j.ops.workers.spawn(j.work)
		}
		pause, again := j.run(ctx, next)
		j.mu.Lock()
		if again {
			next.due = time.Now().Add(pause)
			heap.Push(&j.queue, next)
		} else {
			delete(j.pending, next.task)
			j.rest()
		}
		j.mu.Unlock()
	}
}

// run tries a job once, and says whether and when to try again.
func (j *janitor) run(ctx context.Context, b *job) (pause time.Duration, again bool) {
	e := b.bound
	if e == nil {
		e = j.current()
	}
	if e == nil || b.bound != nil && e.ctx.Err() != nil {
		return 0, false // the client is closed, or the node is gone with its session
	}
	var err error
	if b.guid == "" {
		err = j.remove(ctx, e, b.task)
	} else if pause, again, err = j.search(ctx, e, b); err == nil {
		return pause, again
	}
	switch {
	case err == nil, errors.Is(err, ErrNoNode):
		return 0, false
	case errors.Is(err, ErrClosed), ctx.Err() != nil:
		return 0, false
	case !unfinished(err):
		j.logger.Warn("clean-up refused, the node stays", "path", b.path, "guid", b.guid, "err", err)
		return 0, false
	}
	pause = min(minCleanupPause<<min(b.tries, 10), maxCleanupPause)
	b.tries++
	return j.chance.UpTo(pause), true
}

// remove deletes a node, and what is below it if asked.
func (j *janitor) remove(ctx context.Context, e *epoch, t task) (err error) {
	for range rounds {
		if err = send(ctx, e, deleteCall(t.path, t.version)); !errors.Is(err, ErrNotEmpty) || !t.children {
			return err
		}
		if err = deleteChildren(ctx, e, t.path, patient); err != nil {
			return err
		}
	}
	return err
}

// search removes the node of a create with an unknown outcome. A list without it is the end in the epoch of the create. In a later one the
// request may still be under way to a member of the ensemble, for as long as that session is not gone for certain.
func (j *janitor) search(ctx context.Context, e *epoch, b *job) (pause time.Duration, again bool, err error) {
	if b.lost.IsZero() && b.origin.ctx.Err() != nil {
		b.lost = time.Now()
	}
	began := time.Now()
	found, err := search(ctx, e, b.path, b.guid, patient)
	if err != nil {
		return 0, false, err
	}
	for _, path := range found {
		if err := send(ctx, e, deleteCall(path, -1)); unlessNoNode(err) != nil {
			return 0, false, err
		}
	}
	if e == b.origin || len(found) > 0 {
		return 0, false, nil
	}
	if left := b.lost.Add(2 * b.origin.wire.Timeout()).Sub(began); left > 0 {
		return left, true, nil
	}
	return 0, false, nil
}

// drain waits until nothing is pending, or ctx ends, or there is no connection, or no session any more, with which anything could be done.
func (j *janitor) drain(ctx context.Context) {
	e := j.current()
	if e == nil || !e.wire.Connected() {
		return
	}
	j.mu.Lock()
	if len(j.pending)+j.awaited == 0 {
		j.mu.Unlock()
		return
	}
	if j.idle == nil {
		j.idle = make(chan struct{})
	}
	idle := j.idle
	j.mu.Unlock()
	select {
	case <-idle:
	case <-e.ctx.Done():
	case <-ctx.Done():
	}
}

// patient leaves a frame in the session's queue for as long as the session lives.
func patient(call *wire.Call) *wire.Call { return call }

// send sends a frame and waits for its outcome.
func send(ctx context.Context, e *epoch, call *wire.Call) error {
	r, _, err := await(ctx, e, call, nil)
	if err == nil {
		err = replyError(r)
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// jobs is a heap, the first due on top.
type jobs []*job

func (q jobs) Len() int           { return len(q) }
func (q jobs) Less(a, b int) bool { return q[a].due.Before(q[b].due) }
func (q jobs) Swap(a, b int)      { q[a], q[b] = q[b], q[a] }
func (q *jobs) Push(x any)        { *q = append(*q, x.(*job)) }
func (q *jobs) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return x
}

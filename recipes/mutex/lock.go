package mutex

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/queue"
)

// key finds the hold of a Mutex in a context.
type key struct{ m *Mutex }

// held is one node that was granted the lock, and the Locks that share it.
type held struct {
	grant *queue.Grant // set before anybody else sees the held

	mu    sync.Mutex
	count int // Locks that were not released, guarded by mu
}

// Lock is the lock in the caller's hand, until Release or the loss of it. Safe for concurrent use: any goroutine may release it.
type Lock struct {
	m        *Mutex
	h        *held
	released atomic.Bool
	cleanup  runtime.Cleanup
}

func newLock(m *Mutex, h *held) *Lock {
	l := &Lock{m: m, h: h}
	l.cleanup = runtime.AddCleanup(l, forgotten, forgottenLock{h, m.line.Client.Logger()})
	return l
}

// forgottenLock is what remains of a Lock that was garbage collected.
type forgottenLock struct {
	h   *held
	log *slog.Logger
}

// forgotten only warns: somebody may still work under the lock's context. It runs on the collector's goroutine and touches as little as possible.
func forgotten(f forgottenLock) {
	f.log.Warn("a lock was dropped without Release; it is held until its session ends", "path", f.h.grant.Path)
}

// reenter returns one more Lock on the hold that ctx carries, nil if there is none, or not any more.
func (m *Mutex) reenter(ctx context.Context) *Lock {
	h, _ := ctx.Value(key{m}).(*held)
	if h == nil || !h.grant.Hold.Valid() {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count == 0 {
		return nil
	}
	h.count++
	return newLock(m, h)
}

// Context is the one to work under: it ends when the lock is lost or finally released, and context.Cause says which: ErrSessionLost,
// ErrNodeDeleted, ErrSuspended, ErrReleased, or framework.ErrClosed. When the session is lost it ends before the servers can give the lock
// to somebody else. It has the values of the context that the lock was acquired with, but neither its end nor its deadline. Acquire with
// it re-enters. Locks that share a hold share the context.
//
// Its Err also looks at the clock, like Valid; that of contexts derived from it does not.
func (l *Lock) Context() context.Context { return l.h.grant.Hold.Context() }

// Valid says, from the clock, whether the lock is certainly held now. Ask it after anything that may have taken long, right before what
// must not happen without the lock.
func (l *Lock) Valid() bool { return !l.released.Load() && l.h.grant.Hold.Valid() }

// Remaining is for how long the lock is certainly held if nothing is heard of the servers any more; 0 if it is not. It is renewed all the
// time while the connection works.
func (l *Lock) Remaining() time.Duration {
	if l.released.Load() {
		return 0
	}
	return l.h.grant.Hold.Remaining()
}

// FencingToken is a number that grows from holder to holder (the czxid of the lock's node). A store that remembers the largest one it has
// seen and refuses smaller ones cannot be written to by a former holder. It is the same for all Locks that share a hold. It is larger than that of
// every earlier holder as long as the ensemble keeps its data: restoring a backup, or moving to another ensemble, may set it back.
func (l *Lock) FencingToken() int64 { return l.h.grant.Czxid }

// Guard is an operation for [framework.Client.Transaction], of any client of the same ensemble: the transaction is only executed while the
// lock is held, and otherwise fails with ErrNoNode. It decides at the server, at the moment of the commit: no clock is involved.
func (l *Lock) Guard() framework.TransactionOp {
	return l.m.line.Client.TransactionOp().Check().ForPath(l.h.grant.Path)
}

// Path is that of the lock's node.
func (l *Lock) Path() string { return l.h.grant.Path }

// Node is the name of the lock's node.
func (l *Lock) Node() string { return l.h.grant.Name }

// Release gives the lock back. With the last Release of those that share the hold, the context ends, at once, and the node is deleted, by
// its own, unique name: a later holder is not affected. Release waits until the server has confirmed that. When ctx ends first, or the connection
// is lost, the client finishes the job for as long as the session lives, and the error says why Release did not wait.
//
// A second Release of the same Lock returns ErrReleased and does nothing. If the hold was lost before, the error of the last Release says
// how (ErrSessionLost, …): what was done under the lock may not have been protected to its end. Release is needed then, too: the node
// may still be there.
func (l *Lock) Release(ctx context.Context) error {
	if ctx == nil {
		return l.m.failed("release", framework.ErrNilContext)
	}
	if l.released.Swap(true) {
		return l.m.failed("release", ErrReleased)
	}
	l.cleanup.Stop()
	l.h.mu.Lock()
	l.h.count--
	last := l.h.count == 0
	l.h.mu.Unlock()
	if !last {
		return nil
	}
	lost := l.lost()
	err := l.h.grant.Release(ctx)
	if lost != nil {
		// What is left to be removed goes with the session, or the client removes it; the loss is what matters.
		err = lost
	}
	if err != nil {
		return l.m.failed("release", err)
	}
	return nil
}

// lost returns how the hold was lost, nil if it was not.
func (l *Lock) lost() error {
	if l.h.grant.Hold.Valid() {
		return nil
	}
	if cause := context.Cause(l.Context()); !errors.Is(cause, ErrReleased) {
		return cause
	}
	return nil
}

// workContext is a context derived from a hold's whose Err looks at the clock, as that of the hold does.
type workContext struct {
	context.Context
	lock *Lock
}

// Err implements [context.Context].
func (c workContext) Err() error {
	c.lock.h.grant.Hold.Valid() // ends the hold, and what is derived from it, when its time is over
	return c.Context.Err()
}

// within returns the context for work under the lock on behalf of ctx.
func (l *Lock) within(ctx context.Context) (context.Context, func()) {
	work, cancel := context.WithCancelCause(l.Context())
	deadline, timed := ctx.Deadline()
	stop := context.AfterFunc(ctx, func() {
		if timed && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return // the work has a deadline of its own, and its error is to say so
		}
		cancel(context.Cause(ctx))
	})
	if !timed {
		return workContext{work, l}, func() { stop(); cancel(nil) }
	}
	limited, cancelLimited := context.WithDeadline(work, deadline)
	return workContext{limited, l}, func() { stop(); cancelLimited(); cancel(nil) }
}

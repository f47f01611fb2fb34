package mutex

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// Held is what a [Multi] needs to know of a lock that it has acquired: [Lock] is one, and so are the locks of
// the other recipes.
type Held interface {
	Context() context.Context
	Valid() bool
	Remaining() time.Duration
	Release(ctx context.Context) error
}

// Part is one of the locks of a [Multi]. Make it with [Of].
type Part struct {
	acquire, try acquireFunc
}

type acquireFunc func(context.Context) (Held, error)

// Of makes a Part of anything that has the shape of a [Mutex]: a Mutex, either side of a read-write lock, a
// Multi.
func Of[L Held](lock interface {
	Acquire(ctx context.Context) (L, error)
	TryAcquire(ctx context.Context) (L, error)
}) Part {
	return Part{of(lock.Acquire), of(lock.TryAcquire)}
}

// of keeps the nil of a failed acquire from becoming a Held.
func of[L Held](acquire func(context.Context) (L, error)) acquireFunc {
	return func(ctx context.Context) (Held, error) {
		lock, err := acquire(ctx)
		if err != nil {
			return nil, err
		}
		return lock, nil
	}
}

// Multi is several locks taken as one: all or none. Safe for concurrent use.
//
// They are acquired in the order given, each with its place in line, while the earlier ones are held. So all
// that need some of the same locks should name them in the same order; in different orders they may wait for
// each other until a deadline ends it. Corresponds to Curator's InterProcessMultiLock, whose timeout is for
// each lock anew, and which goes on acquiring after a failure; here ctx is for all.
type Multi struct {
	parts []Part
	err   error // of NewMulti: every method returns it
}

// NewMulti makes one lock of several. It sends nothing. A mistake in the arguments (no part, or one that was
// not made with [Of]) is reported by every method (framework.ErrBadArguments).
func NewMulti(parts ...Part) *Multi {
	m := &Multi{parts: append([]Part{}, parts...)}
	if len(parts) == 0 {
		m.err = fmt.Errorf("%w: a multi-lock needs at least one part", framework.ErrBadArguments)
	}
	for i, part := range parts {
		if part.acquire == nil && m.err == nil {
			m.err = fmt.Errorf("%w: part %d of %d was not made with mutex.Of",
				framework.ErrBadArguments, i+1, len(parts))
		}
	}
	return m
}

// Acquire acquires the locks one after the other, until it has them all or ctx ends. At the first failure,
// also the loss of an earlier lock while it waits for a later one, it gives back what it has, in reverse
// order, and returns that failure, which says which lock it was. When ctx ends it returns at once, and the
// client removes what is left on the server.
//
// The locks re-enter as they do alone, also with the Context of the [MultiLock]; a part that occurs twice is
// entered twice.
func (m *Multi) Acquire(ctx context.Context) (*MultiLock, error) {
	return m.acquire(ctx, "acquire", func(p Part) acquireFunc { return p.acquire })
}

// TryAcquire does not wait: ErrNotAcquired as soon as one of the locks is not available.
func (m *Multi) TryAcquire(ctx context.Context) (*MultiLock, error) {
	return m.acquire(ctx, "try to acquire", func(p Part) acquireFunc { return p.try })
}

func (m *Multi) acquire(ctx context.Context, verb string, how func(Part) acquireFunc) (*MultiLock, error) {
	switch {
	case m.err != nil:
		return nil, wrap(verb, m.err)
	case len(m.parts) == 0:
		return nil, wrap(verb, framework.ErrNoClient)
	case ctx == nil:
		return nil, wrap(verb, framework.ErrNilContext)
	}
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	l := &MultiLock{ctx: &multiContext{life, end, nil}}
	complete := false
	defer func() { // also when a part panics
		if !complete {
			_ = l.Release(ctx) // whatever becomes of that, the client finishes it
		}
	}()
	for i, part := range m.parts {
		if err := l.add(ctx, how(part)); err != nil {
			return nil, fmt.Errorf("multi-lock: %s part %d of %d: %w", verb, i+1, len(m.parts), err)
		}
	}
	complete = true
	return l, nil
}

// Do runs f while holding all the locks, and releases them, also when f panics. f's context ends with ctx and
// with any of the locks, and re-enters them; its deadline is that of ctx. When not all locks are acquired f
// is not called. For the error, and for how long it waits for the release of all of them together, see
// [Mutex.Do].
func (m *Multi) Do(ctx context.Context, f func(ctx context.Context) error) error {
	acquire := func(ctx context.Context) (allHeld, error) {
		lock, err := m.Acquire(ctx)
		return allHeld{lock}, err
	}
	return queue.Do(ctx, acquire, wrap, f)
}

// allHeld is a MultiLock for [queue.Do]. It judges for each part whether the release was refused.
type allHeld struct{ *MultiLock }

func (h allHeld) Lost() error { return lost(h.parts) }

func (h allHeld) Release(ctx context.Context) error {
	return h.release(func(part Held) error { return queue.ReleaseAfterWork(ctx, part.Release) })
}

func wrap(verb string, err error) error { return queue.Wrap("multi-lock", "", verb, err) }

// MultiLock is all locks of a [Multi], which the caller holds. Safe for concurrent use.
type MultiLock struct {
	parts    []Held
	ctx      *multiContext // ends with any of parts, and carries what they do
	unhook   []func() bool // stops the parts from ending ctx
	released atomic.Bool
}

func (l *MultiLock) add(ctx context.Context, acquire acquireFunc) error {
	wait, stop := queue.WorkContext(ctx, l.Context()) // for as long as all before are held
	defer stop()
	part, err := acquire(wait)
	if lost := lost(l.parts); lost != nil {
		// That may have ended acquire, whose error would look like ctx's then.
		if err == nil {
			_ = part.Release(ctx)
		}
		return fmt.Errorf("an earlier lock was lost: %w", lost)
	}
	if err != nil {
		return err
	}
	life, end := part.Context(), l.ctx.end
	l.unhook = append(l.unhook, context.AfterFunc(life, func() { end(context.Cause(life)) }))
	l.parts = append(l.parts, part)
	l.ctx = &multiContext{queue.CarryFrom(l.ctx.Context, life), end, l.parts}
	return nil
}

// Parts returns the locks in the order in which they were acquired: for the FencingToken and the Guard of
// each, by their types.
func (l *MultiLock) Parts() []Held { return append([]Held{}, l.parts...) }

// Context is the one to work under: it ends when any of the locks is lost, or with Release; context.Cause
// says which. It has the values of the context passed to Acquire, and re-enters each of the locks. Its Err
// also looks at the clock, like Valid.
func (l *MultiLock) Context() context.Context { return l.ctx }

type multiContext struct {
	context.Context
	end   context.CancelCauseFunc
	parts []Held
}

func (c *multiContext) Err() error {
	if lost := lost(c.parts); lost != nil {
		c.end(lost)
	}
	return c.Context.Err()
}

func lost(parts []Held) error {
	for _, part := range parts {
		if part.Context().Err() != nil {
			return context.Cause(part.Context())
		}
	}
	return nil
}

// Valid says, from the clock, whether all locks are certainly held now.
func (l *MultiLock) Valid() bool { return l.Remaining() > 0 }

// Remaining is for how long all locks are certainly held if nothing is heard of the servers any more; 0 if
// one is not.
func (l *MultiLock) Remaining() time.Duration {
	if l.released.Load() {
		return 0
	}
	least := time.Duration(math.MaxInt64)
	for _, part := range l.parts {
		if !part.Valid() {
			return 0
		}
		least = min(least, part.Remaining())
	}
	return least
}

// Release ends Context, and gives the locks back in reverse order, one after the other, each as its own
// Release does: all of them, whatever becomes of one. The error is joined of theirs. A second Release returns
// ErrReleased and does nothing.
func (l *MultiLock) Release(ctx context.Context) error {
	if ctx == nil {
		return wrap("release", framework.ErrNilContext)
	}
	return l.release(func(part Held) error { return part.Release(ctx) })
}

// ReleaseInBackground is Release for a caller that does not wait: the locks are given back in reverse order,
// each as its own ReleaseInBackground does. then, if given, gets the errors of all of them, when the last one
// is known. A part of a type without that method is released on a goroutine of its own.
func (l *MultiLock) ReleaseInBackground(then ...func(err error)) {
	tell := func(err error) {
		for _, f := range then {
			if f != nil {
				f(err)
			}
		}
	}
	if !l.end() {
		go tell(wrap("release", ErrReleased))
		return
	}
	var (
		mu     sync.Mutex // of parts of several clients
		failed []error
		left   = len(l.parts)
	)
	done := func(err error) {
		mu.Lock()
		if err != nil {
			failed = append(failed, err)
		}
		left--
		all := left == 0
		mu.Unlock()
		if all {
			tell(joined(failed))
		}
	}
	release(l.parts, func(part Held) error {
		if p, ok := part.(interface{ ReleaseInBackground(then ...func(error)) }); ok {
			p.ReleaseInBackground(done)
		} else {
			go func() { done(part.Release(context.Background())) }()
		}
		return nil
	})
}

// end is true for the first call. It ends the context.
func (l *MultiLock) end() bool {
	if l.released.Swap(true) {
		return false
	}
	l.ctx.end(ErrReleased)
	for _, unhook := range l.unhook {
		unhook()
	}
	return true
}

func joined(failed []error) error {
	if len(failed) == 0 {
		return nil
	}
	return fmt.Errorf("multi-lock: %w", errors.Join(failed...))
}

func (l *MultiLock) release(give func(Held) error) error {
	if !l.end() {
		return wrap("release", ErrReleased)
	}
	return joined(release(l.parts, give))
}

// release gives the last of the locks back first, and the others also if that does not return.
func release(parts []Held, give func(Held) error) (failed []error) {
	if len(parts) == 0 {
		return nil
	}
	last := len(parts) - 1
	defer func() { failed = append(failed, release(parts[:last], give)...) }()
	if err := give(parts[last]); err != nil {
		return []error{err}
	}
	return nil
}

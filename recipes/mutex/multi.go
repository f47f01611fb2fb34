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
	"github.com/go-curator/curator/recipes/internal/line"
)

// Held is an acquired lock, as far as a [Multi] needs it. [Lock] implements it, and so do the locks of the
// other recipes.
type Held interface {
	Context() context.Context
	Valid() bool
	Remaining() time.Duration
	Release(ctx context.Context) error
}

// Part is one of the locks that a [Multi] acquires. Make it with [Of].
type Part struct {
	acquire, try acquireFunc
}

type acquireFunc func(context.Context) (Held, error)

// Of makes a Part of anything with the methods Acquire and TryAcquire: a [Mutex], either side of a read-write
// lock, a Multi.
func Of[L Held](lock interface {
	Acquire(ctx context.Context) (L, error)
	TryAcquire(ctx context.Context) (L, error)
}) Part {
	return Part{asAcquireFunc(lock.Acquire), asAcquireFunc(lock.TryAcquire)}
}

// asAcquireFunc keeps the nil pointer of a failed acquire from becoming a Held that is not nil.
func asAcquireFunc[L Held](acquire func(context.Context) (L, error)) acquireFunc {
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
// A Multi acquires its locks one after the other, in the order given, and holds the earlier ones while it waits for
// the next. So all callers that need some of the same locks should name them in the same order. In different orders
// they can deadlock, until a context ends. Corresponds to Curator's InterProcessMultiLock, whose timeout applies to
// each lock separately, and which continues with the next lock after a failure; here ctx limits all of it.
type Multi struct {
	parts []Part
	err   error // the mistake in NewMulti's arguments: every method returns it
}

// NewMulti makes one lock of several. It sends nothing. With no part, or a part that was not made with [Of],
// every method returns framework.ErrBadArguments.
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

// Acquire acquires the locks one after the other, until it has them all or ctx ends. If one fails, or if an earlier
// lock is lost while it waits for a later one, Acquire releases the locks that it has, in reverse order, and returns
// an error that names the failed lock. When ctx ends it returns immediately, and the client deletes the remaining
// nodes in the background.
//
// Each lock re-enters as it does alone, also with the Context of the [MultiLock]. If a lock occurs twice
// among the parts, its second Acquire re-enters.
func (m *Multi) Acquire(ctx context.Context) (*MultiLock, error) {
	return m.acquireParts(ctx, "acquire", func(p Part) acquireFunc { return p.acquire })
}

// TryAcquire is Acquire without waiting: it returns ErrNotAcquired as soon as one of the locks is not free.
func (m *Multi) TryAcquire(ctx context.Context) (*MultiLock, error) {
	return m.acquireParts(ctx, "try to acquire", func(p Part) acquireFunc { return p.try })
}

func (m *Multi) acquireParts(ctx context.Context, verb string, how func(Part) acquireFunc) (*MultiLock, error) {
	switch {
	case m.err != nil:
		return nil, wrapMultiError(verb, m.err)
	case len(m.parts) == 0:
		return nil, wrapMultiError(verb, framework.ErrNoClient)
	case ctx == nil:
		return nil, wrapMultiError(verb, framework.ErrNilContext)
	}
	l := &MultiLock{}
	complete := false
	defer func() { // also when a part panics
		if !complete {
			_ = l.Release(ctx) // on an error the client finishes the release
		}
	}()
	for i, part := range m.parts {
		if err := l.acquirePart(ctx, how(part)); err != nil {
			return nil, fmt.Errorf("multi-lock: %s part %d of %d: %w", verb, i+1, len(m.parts), err)
		}
	}
	l.ctx, l.stop = line.WorkContext(context.WithoutCancel(ctx), l.holds...)
	complete = true
	return l, nil
}

// Do acquires all the locks, runs f, and releases the locks, also when f panics. The context of f ends with
// ctx or with any of the locks, has the deadline of ctx, and re-enters the locks. If a lock cannot be
// acquired, f is not called. For the error, and the time that Do waits for the release of all locks together,
// see [Mutex.Do].
func (m *Multi) Do(ctx context.Context, f func(ctx context.Context) error) error {
	acquire := func(ctx context.Context) (heldMultiLock, error) {
		lock, err := m.Acquire(ctx)
		return heldMultiLock{lock}, err
	}
	return line.Do(ctx, acquire, wrapMultiError, f)
}

// heldMultiLock is a MultiLock for [line.Do]: its Release releases each part with ReleaseAfterWork.
type heldMultiLock struct{ *MultiLock }

func (h heldMultiLock) Lost() error { return firstLoss(h.holds) }

func (h heldMultiLock) Release(ctx context.Context) error {
	return h.releaseParts(func(part Held) error { return line.ReleaseAfterWork(ctx, part.Release) })
}

func wrapMultiError(verb string, err error) error { return line.WrapError("multi-lock", "", verb, err) }

// MultiLock is the acquired locks of a [Multi]. Safe for concurrent use.
type MultiLock struct {
	parts    []Held
	holds    []context.Context       // their Contexts
	ctx      context.Context         // ends with any of parts; Acquire with it re-enters them
	stop     context.CancelCauseFunc // ends ctx; nil until all parts are acquired
	released atomic.Bool
}

func (l *MultiLock) acquirePart(ctx context.Context, acquire acquireFunc) error {
	wait, stop := line.WorkContext(ctx, l.holds...) // ends when an earlier lock is lost
	defer stop(nil)
	part, err := acquire(wait)
	if lost := firstLoss(l.holds); lost != nil {
		// The loss may have ended acquire, with an error that looks as if ctx had ended.
		if err == nil {
			_ = part.Release(ctx)
		}
		return fmt.Errorf("an earlier lock was lost: %w", lost)
	}
	if err != nil {
		return err
	}
	l.parts, l.holds = append(l.parts, part), append(l.holds, part.Context())
	return nil
}

// Parts returns the locks in the order of their acquisition. For FencingToken and Guard assert the type of the lock:
// *[Lock], say.
func (l *MultiLock) Parts() []Held { return append([]Held{}, l.parts...) }

// Context returns the context for the work that needs the locks. It ends when any of the locks is lost, or with
// Release; context.Cause returns the reason. It has the values of the context passed to Acquire, and Acquire with it
// re-enters each of the locks. Its Err also checks the clock, like Valid.
func (l *MultiLock) Context() context.Context { return l.ctx }

func firstLoss(holds []context.Context) error {
	for _, hold := range holds {
		if hold.Err() != nil {
			return context.Cause(hold)
		}
	}
	return nil
}

// Valid reports whether the caller certainly holds all the locks now, computed from the clock.
func (l *MultiLock) Valid() bool { return l.Remaining() > 0 }

// Remaining returns how long all the locks certainly last if no server answers from now on; 0 if any of them
// is lost or released.
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

// Release ends Context and releases all the locks, in reverse order, one after the other, each by its own Release. If
// one fails, the others are released nevertheless. The error joins all failures. A second Release returns ErrReleased
// and does nothing.
func (l *MultiLock) Release(ctx context.Context) error {
	if ctx == nil {
		return wrapMultiError("release", framework.ErrNilContext)
	}
	return l.releaseParts(func(part Held) error { return part.Release(ctx) })
}

// ReleaseInBackground is Release for a caller that does not wait: the locks are released in reverse order, each as
// its own ReleaseInBackground does. then, if given, gets the errors of all of them, after the last result. A part of
// a type without that method is released on a separate goroutine.
func (l *MultiLock) ReleaseInBackground(then ...func(err error)) {
	report := func(err error) {
		for _, f := range then {
			if f != nil {
				f(err)
			}
		}
	}
	if !l.endContext() {
		go report(wrapMultiError("release", ErrReleased))
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
			report(joinErrors(failed))
		}
	}
	releaseReversed(l.parts, func(part Held) error {
		if p, ok := part.(interface{ ReleaseInBackground(then ...func(error)) }); ok {
			p.ReleaseInBackground(done)
		} else {
			go func() { done(part.Release(context.Background())) }()
		}
		return nil
	})
}

// endContext ends the context. It returns true for the first call.
func (l *MultiLock) endContext() bool {
	if l.released.Swap(true) {
		return false
	}
	if l.stop != nil {
		l.stop(ErrReleased)
	}
	return true
}

func joinErrors(failed []error) error {
	if len(failed) == 0 {
		return nil
	}
	return fmt.Errorf("multi-lock: %w", errors.Join(failed...))
}

func (l *MultiLock) releaseParts(release func(Held) error) error {
	if !l.endContext() {
		return wrapMultiError("release", ErrReleased)
	}
	return joinErrors(releaseReversed(l.parts, release))
}

// releaseReversed calls release for each lock, the last one first. If release panics or ends the goroutine, it is called
// for the others nevertheless.
func releaseReversed(parts []Held, release func(Held) error) (failed []error) {
	if len(parts) == 0 {
		return nil
	}
	last := len(parts) - 1
	defer func() { failed = append(failed, releaseReversed(parts[:last], release)...) }()
	if err := release(parts[last]); err != nil {
		return []error{err}
	}
	return nil
}

package line

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/fencing"
)

// ErrNotReleased means that the work was done, but the server refuses to delete the hold's node, which stays until its
// session ends.
var ErrNotReleased = errors.New("the work was done, but the server refused to release the lock, lease or " +
	"leadership, which stays taken until the session ends")

// releaseTimeout limits the time for which Do waits for the server to confirm the release. The client continues with it
// after that.
const releaseTimeout = time.Second

// Held is a lock or lease for [Do].
type Held interface {
	Context() context.Context
	Lost() error
	Release(ctx context.Context) error
}

// HeldShare is a Share for [Do].
type HeldShare struct{ *Share }

func (h HeldShare) Lost() error                       { return h.grant.Lost() }
func (h HeldShare) Release(ctx context.Context) error { return Release(ctx, h.Share) }

// Do acquires, runs f with a [WorkContext] of ctx, and releases, also when f panics. If acquire fails f is not called.
//
// The error is f's, joined with the cause if the hold was lost before f returned. A later loss is not reported: the work
// was protected to its end. Of the release only ErrNotReleased is reported, see [ReleaseAfterWork]. wrap wraps the errors
// that are not f's.
func Do[H Held](
	ctx context.Context, acquire func(context.Context) (H, error), wrap func(verb string, err error) error,
	f func(context.Context) error,
) (err error) {
	if f == nil {
		return wrap("do", fmt.Errorf("%w: the function is nil", framework.ErrBadArguments))
	}
	held, err := acquire(ctx)
	if err != nil {
		return err
	}
	work, stop := WorkContext(ctx, held.Context())
	defer func() {
		stop(nil)
		lost := held.Lost()
		refused := ReleaseAfterWork(ctx, held.Release)
		switch {
		case lost != nil:
			err = errors.Join(err, wrap("do", fmt.Errorf("the lock or lease was lost before the function "+
				"returned: %w", lost)))
		case refused != nil:
			err = errors.Join(err, wrap("do", refused))
		}
	}()
	return f(work)
}

// ReleaseAfterWork calls release and waits for it until ctx ends, at most a second. The error matches ErrNotReleased, and
// means that the server has refused. It is nil if the session has ended, and also if the server has not confirmed the
// release in that time or without a connection, since the client continues.
func ReleaseAfterWork(ctx context.Context, release func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	err := release(ctx)
	switch {
	case err == nil, errors.Is(err, ErrNotReleased):
		return err
	case ctx.Err() != nil && !errors.Is(err, framework.ErrCleanupFull), !IsRefused(err):
		return nil
	}
	return fmt.Errorf("%w: %w", ErrNotReleased, err)
}

// IsRefused reports whether the error of a release means that the node stays until the session ends, since the server has
// refused the delete or the client cannot repeat it.
func IsRefused(err error) bool {
	switch {
	case err == nil:
		return false
	case errors.Is(err, framework.ErrCleanupFull):
		return true
	case framework.Retryable(err):
		return false
	}
	for _, other := range []error{
		framework.ErrSessionLost, framework.ErrClosed, framework.ErrNodeDeleted, framework.ErrSuspended,
		framework.ErrTimeoutTooShort, framework.ErrReleased, framework.ErrNotReadOnly,
		framework.ErrNotConnected, // also with ErrAuthFailed, which is not Retryable
	} {
		if errors.Is(err, other) {
			return false
		}
	}
	return true
}

// WorkContext returns the context for work under holds, derived from ctx. It also ends with any of the holds, carries their
// grants, and its Err also calls theirs, which read the clock. Call stop, with the cause, when the work is done.
func WorkContext(ctx context.Context, holds ...context.Context) (work context.Context, stop context.CancelCauseFunc) {
	w := &workContext{holds: holds, grants: carriedGrants(ctx)}
	w.Context, w.cancel = context.WithCancelCause(ctx)
	stop = w.cancel
	for _, hold := range holds {
		w.grants = w.grants.mergeHeld(carriedGrants(hold))
		unhook, others := context.AfterFunc(hold, func() { w.cancel(context.Cause(hold)) }), stop
		stop = func(cause error) { unhook(); others(cause) }
	}
	return w, stop
}

type workContext struct {
	context.Context
	holds  []context.Context
	grants *carriedGrant
	cancel context.CancelCauseFunc
}

// Err implements [context.Context].
func (c *workContext) Err() error {
	for _, hold := range c.holds {
		if hold.Err() != nil {
			c.cancel(context.Cause(hold))
		}
	}
	return c.Context.Err()
}

// Value implements [context.Context].
func (c *workContext) Value(key any) any {
	switch key := key.(type) {
	case grantsContextKey:
		return c.grants
	case *fencing.List:
		for _, hold := range c.holds {
			_ = hold.Value(key)
		}
	}
	return c.Context.Value(key)
}

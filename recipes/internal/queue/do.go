package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/framework"
)

// ErrNotReleased says that what was acquired could not be given back, for a reason that does not pass: it stays taken until its session ends. Of the work
// that was done with it, it says nothing bad.
var ErrNotReleased = errors.New("the work was done, but the server refuses to take back what it was done under, which stays taken until the session ends")

// releaseWait is for how long a Do waits for the server to confirm that what was acquired is given back. Nothing depends on it: the client goes on
// with that, and whoever is next hears of it from the server. It only has those who come after Do find the place free, where all is well.
const releaseWait = time.Second

// Held is what a function is run under.
type Held interface {
	Context() context.Context
	// Lost returns how it was lost, nil if it was not.
	Lost() error
	Release(ctx context.Context) error
}

// Do acquires, runs f on behalf of ctx under that, and then gives it back, also when f panics. When it is not acquired f is not called.
//
// What became of f and what became of the release are told apart: the error is f's, joined with how held was lost if that was before f returned. A loss
// after that is none: the work is done, and was protected to its end. So is the release's error left out, but for ErrNotReleased, see GiveBack. failed
// puts the recipe's name in front of what is not f's.
func Do[H Held](ctx context.Context, acquire func(context.Context) (H, error), failed func(verb string, err error) error, f func(context.Context) error) (err error) {
	if f == nil {
		return failed("do", fmt.Errorf("%w: the function is nil", framework.ErrBadArguments))
	}
	held, err := acquire(ctx)
	if err != nil {
		return err
	}
	work, stop := Work(ctx, held.Context())
	defer func() {
		stop()
		lost := held.Lost()
		refused := GiveBack(ctx, held.Release)
		switch {
		case lost != nil:
			err = errors.Join(err, failed("do", fmt.Errorf("lost before the function returned: %w", lost)))
		case refused != nil:
			err = errors.Join(err, failed("do", refused))
		}
	}()
	return f(work)
}

// GiveBack releases on behalf of ctx, and waits for that for as long as ctx allows, but no longer than a second. The error matches ErrNotReleased: it
// was refused. That it was not confirmed yet, or that the member at hand cannot do it, or that the session has ended meanwhile, is none: the client goes on
// with the first two, and with the last there is nothing left to give back.
func GiveBack(ctx context.Context, release func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, releaseWait)
	defer cancel()
	err := release(ctx)
	switch {
	case err == nil, errors.Is(err, ErrNotReleased):
		return err
	case errors.Is(err, framework.ErrCleanupFull):
	case ctx.Err() != nil, framework.Retryable(err):
		return nil
	default:
		for _, fine := range []error{
			framework.ErrSessionLost, framework.ErrClosed, framework.ErrNodeDeleted, framework.ErrSuspended, framework.ErrTimeoutTooShort, framework.ErrReleased,
			framework.ErrNotReadOnly, framework.ErrNotConnected, // the latter with ErrAuthFailed, which no Retryable tells of
		} {
			if errors.Is(err, fine) {
				return nil
			}
		}
	}
	return fmt.Errorf("%w: %w", ErrNotReleased, err)
}

package retry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/go-curator/curator/internal/flow"
)

// ErrBadArguments is returned if [Do] is called with a nil context, function or option. Nothing was attempted.
var ErrBadArguments = errors.New("retry: bad arguments")

// Option changes how [Do] works. If one is given several times the last counts.
type Option func(*config)

type config struct {
	retryable func(error) bool
	notify    func(error, time.Duration)
	interrupt <-chan struct{}
	ready     func(error) <-chan struct{}
}

// WithRetryable limits which errors are retried: if retryable returns false for op's error, [Do] returns that error
// immediately and unchanged, whatever the policy allows. Default: every error is retried.
func WithRetryable(retryable func(error) bool) Option {
	return func(c *config) {
		if retryable != nil {
			c.retryable = retryable
		}
	}
}

// WithNotify calls notify before each wait, with the error that caused the wait and the length of the wait.
// notify runs on the caller's goroutine, and delays the retry for as long as it runs. It is not called for
// the error that [Do] returns. Default: no function.
func WithNotify(notify func(err error, wait time.Duration)) Option {
	return func(c *config) {
		if notify != nil {
			c.notify = notify
		}
	}
}

// WithInterrupt ends retries when done is closed: a wait between attempts ends immediately, op is called a last
// time, and [Do] returns what op returns. It is for events that make retries pointless, such as the close of
// a client: the last call gives op the opportunity to return the proper error. Default: only ctx ends a wait.
func WithInterrupt(done <-chan struct{}) Option {
	return func(c *config) { c.interrupt = done }
}

// WithReady can shorten the first wait. Before that wait [Do] calls ready with the error that caused the wait, and
// ends the wait early when the channel that ready returns is closed. A nil channel shortens nothing. ready is called
// once; later waits have their full length. Default: no wait is shortened.
func WithReady(ready func(err error) <-chan struct{}) Option {
	return func(c *config) { c.ready = ready }
}

// Permanent marks err as an error that must not be retried: if op returns it, [Do] stops and returns err
// without the mark. Permanent(nil) is nil. The mark is that of github.com/cenkalti/backoff, so Do also
// recognises errors marked by that package, and marked errors that are wrapped.
func Permanent(err error) error { return backoff.Permanent(err) }

// Do calls op until op succeeds, op returns an error that is not retried, the policy allows no more retries,
// or ctx ends. The policy sets the waits between attempts; the end of ctx ends a wait. op gets ctx unchanged and
// should return when ctx ends, since Do waits for it.
//
// Do returns
//   - nil when op succeeded;
//   - op's last error when the policy allows no more retries or the error is not retryable (err, if the last
//     error is [Permanent](err));
//   - when ctx ended, an error that matches (errors.Is) op's last error, ctx.Err() and context.Cause(ctx). If
//     ctx ended before the first attempt, op is not called and the error matches only the last two.
//
// A nil policy means one attempt. A negative wait from a policy means that it allows no more retries. Do
// starts no goroutine and is safe for concurrent use.
func Do(ctx context.Context, policy Policy, op func(ctx context.Context) error, opts ...Option) error {
	switch {
	case ctx == nil:
		return fmt.Errorf("%w: nil context; pass context.Background() for a context that never ends",
			ErrBadArguments)
	case op == nil:
		return fmt.Errorf("%w: the function is nil", ErrBadArguments)
	case slices.ContainsFunc(opts, func(opt Option) bool { return opt == nil }):
		return fmt.Errorf("%w: an option is nil; leave it out", ErrBadArguments)
	}
	var b backoff.BackOff
	switch policy.(type) {
	case nil, ExponentialBackoff, BoundedExponentialBackoff, RetryNTimes, RetryOneTime, RetryForever:
		// The waits of these policies do not depend on when the operation began, so their backoff is made
		// only after a failure.
	default:
		b = newBackOff(policy)
	}
	if ctx.Err() != nil {
		return contextError(ctx, nil)
	}
	err := op(ctx)
	if err == nil {
		return nil // the usual case: no backoff was made
	}
	return retryOperation(ctx, policy, b, op, opts, err)
}

// retryOperation continues after the first failure, last. It makes the policy's backoff if b is nil.
func retryOperation(ctx context.Context, policy Policy, b backoff.BackOff, op func(ctx context.Context) error,
	opts []Option, last error) error {
	c := config{retryable: func(error) bool { return true }, notify: func(error, time.Duration) {}}
	for _, opt := range opts {
		opt(&c)
	}
	if b == nil {
		b = newBackOff(policy)
	}
	for final := false; ; { // final is true after the attempt that an interrupt has caused
		var permanent *backoff.PermanentError
		if errors.As(last, &permanent) {
			return permanent.Err
		}
		// The end of ctx has caused the error, so report that end.
		if ctx.Err() != nil && errors.Is(last, ctx.Err()) {
			break
		}
		if final || !c.retryable(last) {
			return last
		}
		if ctx.Err() != nil {
			break
		}
		backoffCtx := ctx
		if carrier, ok := b.(backoff.BackOffContext); ok { // made by backoff.WithContext
			backoffCtx = carrier.Context()
		}
		wait := b.NextBackOff()
		switch {
		case wait < 0 && backoffCtx.Err() != nil:
			return contextError(backoffCtx, last)
		case wait < 0:
			return last
		}
		c.notify(last, wait)
		var ready <-chan struct{}
		if c.ready != nil {
			ready, c.ready = c.ready(last), nil
		}
		ended, interrupted := sleep(ctx, backoffCtx, c.interrupt, ready, wait)
		if ended != nil {
			return contextError(ended, last)
		}
		final = interrupted
		if ctx.Err() != nil {
			break
		}
		if last = op(ctx); last == nil {
			return nil
		}
	}
	return contextError(ctx, last)
}

// newBackOff makes the backoff of one operation. It calls Reset, as the loop of cenkalti's package does, since some
// backoffs work only after that.
func newBackOff(policy Policy) backoff.BackOff {
	if policy != nil {
		if b := policy.NewBackOff(); b != nil {
			b.Reset()
			return b
		}
	}
	return &backoff.StopBackOff{}
}

// sleep waits for the time wait, or until one of the contexts ends or one of the channels is closed. It returns the
// context that has ended the wait, if one has, and whether interrupt has.
func sleep(ctx, backoffCtx context.Context, interrupt, ready <-chan struct{},
	wait time.Duration) (ended context.Context, interrupted bool) {
	if wait == 0 {
		return nil, false // the loop checks ctx next
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx, false
	case <-backoffCtx.Done():
		return backoffCtx, false
	case <-interrupt:
		return nil, true
	case <-timer.C:
		return nil, false
	case <-ready:
		return nil, false
	}
}

// contextError joins op's last error, if there is one, with the reason why the context ended.
func contextError(ctx context.Context, last error) error {
	switch {
	case errors.Is(last, ctx.Err()) && errors.Is(last, context.Cause(ctx)):
		return last
	case last == nil:
		return fmt.Errorf("retry: not attempted: %w", flow.Ended(ctx))
	}
	return fmt.Errorf("%w (no more retries: %w)", last, flow.Ended(ctx))
}

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

// ErrBadArguments says that [Do] was called with a nil context, function or option: nothing was tried.
var ErrBadArguments = errors.New("retry: bad arguments")

// Option changes how [Do] works.
type Option func(*config)

type config struct {
	retryable func(error) bool
	notify    func(error, time.Duration)
	interrupt <-chan struct{}
	ready     func(error) <-chan struct{}
}

// WithRetryable limits what is repeated: an error for which the function says false is returned at once, as
// it is, and the policy is not asked. Default: every error may be repeated.
func WithRetryable(retryable func(error) bool) Option {
	return func(c *config) {
		if retryable != nil {
			c.retryable = retryable
		}
	}
}

// WithNotify calls the function before each wait, with the error that caused the wait and its length by the
// policy. The function runs on the caller's goroutine, and delays the retry for as long as it takes. It is
// not called for the error that Do returns. Default: no function.
func WithNotify(notify func(err error, wait time.Duration)) Option {
	return func(c *config) {
		if notify != nil {
			c.notify = notify
		}
	}
}

// WithInterrupt ends the wait between attempts as soon as the channel is closed: op is called once more, at
// once, and Do returns what op returns. Use it when retries have become pointless, as when a client closes;
// op runs once more to return the proper error. Default: only ctx ends the wait.
func WithInterrupt(done <-chan struct{}) Option {
	return func(c *config) { c.interrupt = done }
}

// WithReady shortens the first wait: ready is called before it, with the error that causes it, and the wait
// ends when the channel that ready returns is closed, or when the policy's wait is over. A nil channel is
// never closed. Later waits are as long as the policy says. Default: all waits are the policy's.
func WithReady(ready func(err error) <-chan struct{}) Option {
	return func(c *config) { c.ready = ready }
}

// Permanent marks an error as not to be repeated: [Do] stops and returns err itself, without the mark.
// Permanent(nil) is nil. It is the mark of github.com/cenkalti/backoff: Do also understands marks made there,
// and wrapped ones.
func Permanent(err error) error { return backoff.Permanent(err) }

// Do calls op until it succeeds, fails for good, or the policy has no more retries, waiting in between as the
// policy says. op gets ctx unchanged and should end when ctx ends: Do waits for it. The wait between attempts
// ends when ctx does.
//
// Do returns
//   - nil when op succeeded;
//   - op's last error when the policy allows no more retries, or the error is not retryable; for
//     [Permanent](err) it is err;
//   - an error matching, by errors.Is, both op's last error and ctx.Err() and context.Cause(ctx), when ctx
//     ended. When it had ended before the first attempt op is not called, and there is no error of op to
//     match.
//
// A nil policy means one attempt. A negative wait from a policy means stop. Do keeps no goroutine and is safe
// for concurrent use.
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
	c := config{retryable: func(error) bool { return true }, notify: func(error, time.Duration) {}}
	for _, opt := range opts {
		opt(&c)
	}
	var b backoff.BackOff
	switch policy.(type) {
	case nil, ExponentialBackoff, BoundedExponentialBackoff, RetryNTimes, RetryOneTime, RetryForever:
		// Their waits do not depend on when the operation began: one that does not fail needs no backoff.
	default:
		b = newBackOff(policy)
	}

	var last error
	for final := false; ctx.Err() == nil; {
		last = op(ctx)
		if last == nil {
			return nil
		}
		var permanent *backoff.PermanentError
		if errors.As(last, &permanent) {
			return permanent.Err
		}
		// An op that gave up because ctx ended has not failed by itself: the error says that ctx ended.
		if ctx.Err() != nil && errors.Is(last, ctx.Err()) {
			break
		}
		if final || !c.retryable(last) {
			return last
		}
		if ctx.Err() != nil {
			break
		}
		if b == nil {
			b = newBackOff(policy)
		}
		own := ctx
		if carrier, ok := b.(backoff.BackOffContext); ok { // made by backoff.WithContext: it has one of its own
			own = carrier.Context()
		}
		wait := b.NextBackOff()
		switch {
		case wait < 0 && own.Err() != nil:
			return ended(own, last)
		case wait < 0:
			return last
		}
		c.notify(last, wait)
		var ready <-chan struct{}
		if c.ready != nil {
			ready, c.ready = c.ready(last), nil
		}
		first, interrupted := sleep(ctx, own, c.interrupt, ready, wait)
		if first != nil {
			return ended(first, last)
		}
		final = interrupted
	}
	return ended(ctx, last)
}

// newBackOff starts the state of one operation. The reset is for backoffs that are only ready after one, as
// in cenkalti's own loop.
func newBackOff(policy Policy) backoff.BackOff {
	if policy != nil {
		if b := policy.NewBackOff(); b != nil {
			b.Reset()
			return b
		}
	}
	return &backoff.StopBackOff{}
}

// sleep waits, and returns the one of the two contexts that ended it, or whether it was interrupted.
func sleep(ctx, own context.Context, interrupt, ready <-chan struct{},
	wait time.Duration) (first context.Context, interrupted bool) {
	if wait == 0 {
		return nil, false // the loop looks at ctx next
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx, false
	case <-own.Done():
		return own, false
	case <-interrupt:
		return nil, true
	case <-timer.C:
		return nil, false
	case <-ready:
		return nil, false
	}
}

// ended joins op's last error, if there is one, with the reason why the context ended.
func ended(ctx context.Context, last error) error {
	switch {
	case errors.Is(last, ctx.Err()) && errors.Is(last, context.Cause(ctx)):
		return last // it has said so
	case last == nil:
		return fmt.Errorf("retry: not attempted: %w", flow.Ended(ctx))
	}
	return fmt.Errorf("%w (no more retries: %w)", last, flow.Ended(ctx))
}

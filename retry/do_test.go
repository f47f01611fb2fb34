package retry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/retry"
)

var (
	errDown  = errors.New("down")
	errFatal = errors.New("fatal")
	errCause = errors.New("shutting down")
)

// failing returns each of the errors in turn, then succeeds, and counts the calls.
type failing struct {
	errs  []error
	calls int
}

// down returns n errors.
func down(n int) (errs []error) {
	for i := range n {
		errs = append(errs, fmt.Errorf("attempt %d: %w", i+1, errDown))
	}
	return errs
}

func (f *failing) op(context.Context) error {
	f.calls++
	if f.calls <= len(f.errs) {
		return f.errs[f.calls-1]
	}
	return nil
}

func TestDoFollowsThePolicy(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy retry.Policy
		fails  int
		calls  int
		took   time.Duration
		err    string
	}{
		{"success at once", retry.RetryNTimes{Retries: 3, Sleep: time.Second}, 0, 1, 0, ""},
		{"success at last", retry.RetryNTimes{Retries: 3, Sleep: time.Second}, 3, 4, 3 * time.Second, ""},
		{"the last error is returned", retry.RetryNTimes{Retries: 3, Sleep: time.Second}, 9, 4, 3 * time.Second,
			"attempt 4: down"},
		{"one time", retry.RetryOneTime{Sleep: time.Minute}, 9, 2, time.Minute, "attempt 2: down"},
		{"nil policy", nil, 9, 1, 0, "attempt 1: down"},
		{"zero value", retry.ExponentialBackoff{}, 9, 1, 0, "attempt 1: down"},
		{"no wait", retry.RetryNTimes{Retries: 5}, 9, 6, 0, "attempt 6: down"},
		{"forever", retry.RetryForever{Sleep: time.Hour}, 1000, 1001, 1000 * time.Hour, ""},
		{"policy without a backoff", noBackOff{}, 9, 1, 0, "attempt 1: down"},
		{"a cenkalti backoff", retry.Backoff(func() backoff.BackOff {
			return backoff.WithMaxRetries(backoff.NewConstantBackOff(time.Second), 2)
		}), 9, 3, 2 * time.Second, "attempt 3: down"},
		{"one that needs a Reset first", retry.Backoff(func() backoff.BackOff {
			return &needsReset{}
		}), 2, 3, 2 * time.Second, ""},
		{"a negative wait is a stop", retry.Backoff(func() backoff.BackOff {
			return backoff.NewConstantBackOff(-time.Hour)
		}), 9, 1, 0, "attempt 1: down"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, f := time.Now(), failing{errs: down(c.fails)}
				err := retry.Do(t.Context(), c.policy, f.op)
				if c.err == "" {
					assert.NoError(t, err)
				} else {
					assert.EqualError(t, err, c.err)
					assert.ErrorIs(t, err, errDown)
				}
				assert.Equal(t, c.calls, f.calls)
				assert.Equal(t, c.took, time.Since(began))
			})
		})
	}
}

type noBackOff struct{}

func (noBackOff) NewBackOff() backoff.BackOff { return nil }

type needsReset struct{ wait time.Duration }

func (b *needsReset) Reset()                     { b.wait = time.Second }
func (b *needsReset) NextBackOff() time.Duration { return b.wait }

func TestWhatIsNotRepeated(t *testing.T) {
	forever := retry.RetryForever{Sleep: time.Second}
	onlyDown := retry.WithRetryable(func(err error) bool { return errors.Is(err, errDown) })
	wrapped := fmt.Errorf("create /a: %w", errFatal)
	for _, c := range []struct {
		name string
		errs []error
		opts []retry.Option
		want error
	}{
		{"not retryable", []error{errDown, errDown, wrapped, errDown}, []retry.Option{onlyDown}, wrapped},
		{"permanent", []error{errDown, errDown, retry.Permanent(wrapped), errDown}, nil, wrapped},
		{"permanent beats retryable", []error{errDown, errDown, retry.Permanent(errDown), errDown},
			[]retry.Option{onlyDown}, errDown},
		{"permanent inside another", []error{errDown, errDown, fmt.Errorf("x: %w", retry.Permanent(wrapped))}, nil,
			wrapped},
		{"cenkalti's permanent", []error{errDown, errDown, backoff.Permanent(wrapped)}, nil, wrapped},
		{"nil predicate is none", []error{errDown, errDown},
			[]retry.Option{retry.WithRetryable(nil), retry.WithNotify(nil)}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := failing{errs: c.errs}
				assert.Equal(t, c.want, retry.Do(t.Context(), forever, f.op, c.opts...),
					"exactly the error, without a wrap")
				assert.Equal(t, 3, f.calls)
			})
		})
	}
	assert.NoError(t, retry.Permanent(nil))
}

func TestNotifyBeforeEachWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var told []string
		f := failing{errs: []error{errDown, errFatal, errDown}}
		err := retry.Do(t.Context(), retry.RetryNTimes{Retries: 2, Sleep: time.Second}, f.op,
			retry.WithNotify(func(err error, wait time.Duration) {
				told = append(told, fmt.Sprintf("%v, wait %v at %v", err, wait, time.Since(began)))
			}))
		assert.Equal(t, errDown, err)
		assert.Equal(t, []string{"down, wait 1s at 0s", "fatal, wait 1s at 1s"}, told,
			"and not for the error that is returned")
	})
}

func TestContextEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 2500*ms)
		defer cancel()
		f := failing{errs: []error{errDown, errDown, errDown, errDown}}
		err := retry.Do(ctx, retry.RetryForever{Sleep: time.Second}, f.op)
		assert.Equal(t, 2500*ms, time.Since(began), "not a moment later")
		assert.Equal(t, 3, f.calls)
		assert.ErrorIs(t, err, errDown)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.EqualError(t, err, "down (no more retries: context deadline exceeded)")
	})
}

func TestContextCauseIsInTheError(t *testing.T) {
	for name, cause := range map[string]error{
		"a cause":                           errCause,
		"a cause that wraps the ctx error":  fmt.Errorf("stop: %w", context.Canceled),
		"no cause besides the cancellation": nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				go func() { time.Sleep(10 * ms); cancel(cause) }()
				f := failing{errs: []error{errDown}}
				err := retry.Do(ctx, retry.RetryForever{Sleep: time.Hour}, f.op)
				for _, want := range []error{errDown, context.Canceled, context.Cause(ctx)} {
					assert.ErrorIs(t, err, want)
				}
			})
		})
	}
}

func TestContextEndsDuringAnAttempt(t *testing.T) {
	run := func(t *testing.T, fail error, opts ...retry.Option) (calls int, err error) {
		ctx, cancel := context.WithCancelCause(t.Context())
		err = retry.Do(ctx, retry.RetryForever{}, func(context.Context) error {
			calls++
			cancel(errCause)
			return fail
		}, opts...)
		return calls, err
	}
	never := retry.WithRetryable(func(error) bool { return false })

	t.Run("no further attempt", func(t *testing.T) {
		calls, err := run(t, errDown)
		assert.Equal(t, 1, calls)
		assert.ErrorIs(t, err, errDown)
		assert.ErrorIs(t, err, context.Canceled)
		assert.ErrorIs(t, err, errCause)
	})
	t.Run("success is success", func(t *testing.T) {
		_, err := run(t, nil)
		assert.NoError(t, err)
	})
	t.Run("a definite answer is not dressed up", func(t *testing.T) {
		_, err := run(t, errFatal, never)
		assert.Equal(t, errFatal, err)
	})
	t.Run("op's own ctx error gets the cause, retryable or not", func(t *testing.T) {
		_, err := run(t, context.Canceled, never)
		assert.ErrorIs(t, err, context.Canceled)
		assert.ErrorIs(t, err, errCause)
	})
}

func TestEndedContextMeansNoAttempt(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errCause)
	f := failing{}
	err := retry.Do(ctx, retry.RetryForever{}, f.op)
	assert.Zero(t, f.calls)
	assert.ErrorIs(t, err, context.Canceled)
	assert.ErrorIs(t, err, errCause)
	assert.EqualError(t, err, "retry: not attempted: context canceled (shutting down)")
}

// A context error of an inner deadline is a failure like any other while the caller's context lives.
func TestForeignContextErrorIsRetried(t *testing.T) {
	f := failing{errs: []error{context.DeadlineExceeded, context.Canceled}}
	assert.NoError(t, retry.Do(t.Context(), retry.RetryNTimes{Retries: 2}, f.op))
	assert.Equal(t, 3, f.calls)
}

func TestNilContextIsAnError(t *testing.T) {
	f := failing{}
	var none context.Context
	require.ErrorContains(t, retry.Do(none, nil, f.op), "nil context")
	assert.Zero(t, f.calls)
}

// A context given to the backoff itself ends the wait as well.
func TestBackoffWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own, cancel := context.WithCancel(t.Context())
		policy := retry.Backoff(func() backoff.BackOff {
			return backoff.WithContext(backoff.NewConstantBackOff(time.Hour), own)
		})
		go func() { time.Sleep(time.Minute); cancel() }()
		began, f := time.Now(), failing{errs: []error{errDown, errDown}}

		err := retry.Do(t.Context(), policy, f.op)
		assert.Equal(t, time.Minute, time.Since(began))
		assert.ErrorIs(t, err, errDown)
		assert.ErrorIs(t, err, context.Canceled)

		err = retry.Do(t.Context(), policy, f.op) // it had ended before
		assert.Equal(t, time.Minute, time.Since(began))
		assert.ErrorIs(t, err, errDown)
		assert.ErrorIs(t, err, context.Canceled)
	})
}

func TestOneValueManyOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var policy retry.Policy = retry.RetryNTimes{Retries: 3, Sleep: time.Second}
		done := make(chan int)
		for range 10 {
			go func() {
				f := failing{errs: []error{errDown, errDown, errDown}}
				_ = retry.Do(t.Context(), policy, f.op)
				done <- f.calls
			}()
		}
		for range 10 {
			assert.Equal(t, 4, <-done)
		}
	})
}

func TestInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, f, done := time.Now(), failing{errs: down(10)}, make(chan struct{})
		time.AfterFunc(90*time.Minute, func() { close(done) })
		err := retry.Do(t.Context(), retry.RetryForever{Sleep: time.Hour}, f.op, retry.WithInterrupt(done))
		assert.EqualError(t, err, "attempt 3: down")
		assert.Equal(t, 90*time.Minute, time.Since(began))
		assert.Equal(t, 3, f.calls, "at once, after an hour, and a last time")

		f = failing{errs: down(10)}
		assert.EqualError(t, retry.Do(t.Context(), retry.RetryForever{Sleep: time.Hour}, f.op,
			retry.WithInterrupt(done)), "attempt 2: down", "it is over already")
		assert.Equal(t, 2, f.calls)
		assert.Equal(t, 90*time.Minute, time.Since(began))
	})
}

// The first wait, and only that, ends early when the WithReady channel is closed.
func TestTheFirstRetryNeedNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, ready := range []time.Duration{0, time.Second, time.Hour} {
			f := &failing{errs: down(10)}
			start, asked := time.Now(), 0
			err := retry.Do(t.Context(), retry.RetryNTimes{Retries: 2, Sleep: time.Minute}, f.op,
				retry.WithReady(func(err error) <-chan struct{} {
					asked++
					assert.EqualError(t, err, "attempt 1: down")
					done := make(chan struct{})
					time.AfterFunc(ready, func() { close(done) })
					return done
				}))
			require.Error(t, err)
			assert.Equal(t, min(ready, time.Minute)+time.Minute, time.Since(start))
			assert.Equal(t, 1, asked)
			time.Sleep(time.Hour)
		}
		start := time.Now()
		none := func(error) <-chan struct{} { return nil }
		require.Error(t, retry.Do(t.Context(), retry.RetryOneTime{Sleep: time.Minute},
			(&failing{errs: down(10)}).op, retry.WithReady(none)))
		assert.Equal(t, time.Minute, time.Since(start))
	})
}

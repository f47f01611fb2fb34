// Package retry has the six retry policies of Curator, and a loop that follows them.
//
// The six are plain values, comparable and printable; every policy is safe for concurrent use. For each
// logical operation a policy makes a fresh backoff of github.com/cenkalti/backoff/v4, which counts that
// operation's attempts. Conversely [Backoff] makes a policy of any backoff of that library, or written for
// it.
//
// All times are [time.Duration]. The number of attempts is one more than the number of retries. The zero
// value of every policy is usable; its fields say what it means, and a negative value is as 0.
package retry

import (
	"math"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/go-curator/curator/internal/chance"
)

// Policy decides how often and after which waits an operation is repeated. A nil Policy means: never.
// Corresponds to Curator's RetryPolicy.
type Policy interface {
	// NewBackOff returns the state of one logical operation, counting from here. It is not shared: the next
	// operation gets its own. NewBackOff is safe for concurrent use, what it returns is not.
	NewBackOff() backoff.BackOff
}

// Backoff makes a policy of any cenkalti backoff. The function is called once per logical operation, possibly
// from several goroutines, and must return a new backoff each time:
//
//	retry.Backoff(func() backoff.BackOff { return backoff.NewExponentialBackOff() })
//
// A nil function and a nil backoff mean: no retry.
func Backoff(newBackOff func() backoff.BackOff) Policy { return backoffPolicy(newBackOff) }

type backoffPolicy func() backoff.BackOff

func (f backoffPolicy) NewBackOff() backoff.BackOff {
	if f != nil {
		if b := f(); b != nil {
			return b
		}
	}
	return &backoff.StopBackOff{}
}

// defaultSleep is what a policy without a limit on attempts waits when no wait was given, so that it cannot
// spin.
const defaultSleep = time.Second

// RetryNTimes repeats up to Retries times, waiting Sleep before each. Corresponds to Curator's RetryNTimes.
type RetryNTimes struct {
	Retries int           // the number of attempts after the first; default 0: none
	Sleep   time.Duration // the wait before each retry; default 0: at once
}

// NewBackOff implements [Policy].
func (p RetryNTimes) NewBackOff() backoff.BackOff {
	return &counted{retries: p.Retries, wait: func(int) time.Duration { return max(p.Sleep, 0) }}
}

// RetryOneTime repeats once, after Sleep. Corresponds to Curator's RetryOneTime.
type RetryOneTime struct {
	Sleep time.Duration // the wait before the retry; default 0: at once
}

// NewBackOff implements [Policy].
func (p RetryOneTime) NewBackOff() backoff.BackOff {
	return RetryNTimes{Retries: 1, Sleep: p.Sleep}.NewBackOff()
}

// RetryForever repeats without end, waiting Sleep before each retry: only the context ends it. Corresponds to
// Curator's RetryForever, which refuses a sleep of 0.
type RetryForever struct {
	Sleep time.Duration // the wait before each retry; default 0: one second, since the loop would spin
}

// NewBackOff implements [Policy].
func (p RetryForever) NewBackOff() backoff.BackOff {
	sleep := p.Sleep
	if sleep <= 0 {
		sleep = defaultSleep
	}
	return backoff.NewConstantBackOff(sleep)
}

// RetryUntilElapsed repeats every Sleep until MaxElapsed has passed since the operation began. Corresponds to
// Curator's RetryUntilElapsed, with one difference. Curator sleeps in full before it looks at the clock: its
// last attempt may start up to Sleep late, and then it sleeps once more before it gives up. Here the last
// wait is cut so that the last attempt starts at MaxElapsed, and a failure after that is returned at once.
// With 1s and 300ms Curator attempts at 0, 300, 600, 900, 1200 ms and returns at 1500 ms; this attempts at 0,
// 300, 600, 900, 1000 ms and returns.
type RetryUntilElapsed struct {
	// MaxElapsed is the time after which no retry starts, counted from the operation's beginning and
	// including the time that its attempts take. Default 0: no retry.
	MaxElapsed time.Duration
	Sleep      time.Duration // the wait before each retry; default 0: one second
}

// NewBackOff implements [Policy].
func (p RetryUntilElapsed) NewBackOff() backoff.BackOff {
	sleep := p.Sleep
	if sleep <= 0 {
		sleep = defaultSleep
	}
	return &untilElapsed{max: p.MaxElapsed, sleep: sleep, began: time.Now()}
}

type untilElapsed struct {
	max, sleep time.Duration
	began      time.Time
}

func (b *untilElapsed) Reset() { b.began = time.Now() }

func (b *untilElapsed) NextBackOff() time.Duration {
	left := b.max - time.Since(b.began)
	if left <= 0 {
		return backoff.Stop
	}
	return min(b.sleep, left)
}

// counted allows a number of retries; wait gives the time before retry n, counted from 0.
type counted struct {
	retries, n int
	wait       func(n int) time.Duration
}

func (b *counted) Reset() { b.n = 0 }

func (b *counted) NextBackOff() time.Duration {
	if b.n >= b.retries {
		return backoff.Stop
	}
	b.n++
	return b.wait(b.n - 1)
}

const (
	// MaxRetries is the most that the exponential policies repeat: a larger number is taken as this one, as
	// in Curator.
	MaxRetries = 29

	// maxSleep is Curator's default cap: the largest 32-bit number of milliseconds, nearly 25 days.
	maxSleep = math.MaxInt32 * time.Millisecond
)

// ExponentialBackoff waits longer before each retry, at random, so that clients which failed together do not
// come back together. Before retry n, counted from 0, it waits
//
//	Base × max(1, a random whole number from 0 up to but excluding 2^(n+1))
//
// and never longer than Max. Corresponds to Curator's ExponentialBackoffRetry, and there the arithmetic
// overflows to negative waits from about the 20th retry on; here it stops at Max.
type ExponentialBackoff struct {
	Base time.Duration // the unit of the waits, and the shortest one; default 0: every retry is made at once
	Max  time.Duration // the longest wait; default 0: 2147483647 ms, as in Curator
	// Retries is the number of attempts after the first, [MaxRetries] at most. Default 0: none.
	Retries int
}

// NewBackOff implements [Policy].
func (p ExponentialBackoff) NewBackOff() backoff.BackOff { return p.newBackOff(chance.N[int64]) }

// newBackOff takes the source of random numbers: uniform in [0, n).
func (p ExponentialBackoff) newBackOff(random func(n int64) int64) backoff.BackOff {
	base, limit := max(p.Base, 0), p.Max
	if limit <= 0 {
		limit = maxSleep
	}
	return &counted{
		retries: min(p.Retries, MaxRetries),
		wait: func(n int) time.Duration {
			times := time.Duration(max(1, random(1<<(n+1))))
			if base > limit/times { // base × times would be more than the limit, perhaps more than an int64 holds
				return limit
			}
			return base * times
		},
	}
}

// BoundedExponentialBackoff is [ExponentialBackoff] under Curator's second name, for ported code: the same
// fields, waits, min(Max, …), and limits. But Curator takes a Max of 0 literally and does not wait at all.
// Corresponds to Curator's BoundedExponentialBackoffRetry.
type BoundedExponentialBackoff ExponentialBackoff

// NewBackOff implements [Policy].
func (p BoundedExponentialBackoff) NewBackOff() backoff.BackOff {
	return ExponentialBackoff(p).NewBackOff()
}

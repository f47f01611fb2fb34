// Package retry has the six retry policies of Curator, and [Do], a loop that retries an operation by such a
// policy.
//
// The six are plain values, comparable and printable; every policy is safe for concurrent use. For each
// logical operation a policy makes a fresh backoff of github.com/cenkalti/backoff/v4, which counts that
// operation's attempts. Conversely [Backoff] makes a policy of any backoff that implements the interface of
// that library.
//
// All times are [time.Duration]. The number of attempts is one more than the number of retries. The zero
// value of every policy is usable: the documentation of each field describes 0. A negative value means
// the same as 0.
package retry

import (
	"math"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/go-curator/curator/internal/chance"
)

// Policy decides how often an operation is retried, and how long to wait before each retry. A nil Policy
// means no retry. Corresponds to Curator's RetryPolicy.
type Policy interface {
	// NewBackOff returns the backoff for one logical operation that begins now. Operations must not share a
	// backoff: each calls NewBackOff. NewBackOff is safe for concurrent use; the backoff is not.
	NewBackOff() backoff.BackOff
}

// Backoff makes a policy of any cenkalti backoff. The function is called once per logical operation, possibly
// from several goroutines, and must return a new backoff each time:
//
//	retry.Backoff(func() backoff.BackOff { return backoff.NewExponentialBackOff() })
//
// If the function is nil, or returns nil, nothing is retried.
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

// defaultSleep is the wait of a policy that does not limit the number of attempts, if its Sleep is 0. Without
// it such a policy would retry in a busy loop.
const defaultSleep = time.Second

// RetryNTimes retries up to Retries times, and waits Sleep before each retry. Corresponds to Curator's
// RetryNTimes.
type RetryNTimes struct {
	Retries int           // the most retries after the first attempt; 0: no retry
	Sleep   time.Duration // the wait before each retry; default 0: none
}

// NewBackOff implements [Policy].
func (p RetryNTimes) NewBackOff() backoff.BackOff {
	return &countedBackOff{retries: p.Retries, wait: func(int) time.Duration { return max(p.Sleep, 0) }}
}

// RetryOneTime retries once, after Sleep. Corresponds to Curator's RetryOneTime.
type RetryOneTime struct {
	Sleep time.Duration // the wait before the retry; 0: no wait
}

// NewBackOff implements [Policy].
func (p RetryOneTime) NewBackOff() backoff.BackOff {
	return RetryNTimes{Retries: 1, Sleep: p.Sleep}.NewBackOff()
}

// RetryForever retries until the operation's context ends, and waits Sleep before each retry. Corresponds to
// Curator's RetryForever, which refuses a sleep of 0.
type RetryForever struct {
	Sleep time.Duration // the wait before each retry; 0 means one second, not a busy loop
}

// NewBackOff implements [Policy].
func (p RetryForever) NewBackOff() backoff.BackOff {
	sleep := p.Sleep
	if sleep <= 0 {
		sleep = defaultSleep
	}
	return backoff.NewConstantBackOff(sleep)
}

// RetryUntilElapsed retries until MaxElapsed has passed since the operation began, and waits Sleep before
// each retry. Corresponds to Curator's RetryUntilElapsed, with one difference. Curator always sleeps in full:
// its last attempt may start up to Sleep after MaxElapsed, and it sleeps once more before it returns the
// failure. Here the last wait is shortened so that the last attempt starts at MaxElapsed, and its failure is
// returned immediately. With 1s and 300ms Curator attempts at 0, 300, 600, 900, 1200 ms and returns at 1500 ms;
// this attempts at 0, 300, 600, 900, 1000 ms and returns.
type RetryUntilElapsed struct {
	// MaxElapsed is the time since the operation began after which no retry starts. It includes the time that the
	// attempts themselves take. 0 means no retry, not "no limit".
	MaxElapsed time.Duration
	Sleep      time.Duration // the wait before each retry; 0 means one second
}

// NewBackOff implements [Policy].
func (p RetryUntilElapsed) NewBackOff() backoff.BackOff {
	sleep := p.Sleep
	if sleep <= 0 {
		sleep = defaultSleep
	}
	return &elapsedBackOff{max: p.MaxElapsed, sleep: sleep, began: time.Now()}
}

type elapsedBackOff struct {
	max, sleep time.Duration
	began      time.Time
}

func (b *elapsedBackOff) Reset() { b.began = time.Now() }

func (b *elapsedBackOff) NextBackOff() time.Duration {
	left := b.max - time.Since(b.began)
	if left <= 0 {
		return backoff.Stop
	}
	return min(b.sleep, left)
}

// countedBackOff allows a number of retries.
type countedBackOff struct {
	retries int                       // the most retries
	retried int                       // the retries so far
	wait    func(n int) time.Duration // returns the wait before retry n, counted from 0
}

func (b *countedBackOff) Reset() { b.retried = 0 }

func (b *countedBackOff) NextBackOff() time.Duration {
	if b.retried >= b.retries {
		return backoff.Stop
	}
	b.retried++
	return b.wait(b.retried - 1)
}

const (
	// MaxRetries is the largest number of retries of the exponential policies. A larger Retries means
	// MaxRetries, as in Curator.
	MaxRetries = 29

	// maxSleep is Curator's default cap: the largest 32-bit number of milliseconds, nearly 25 days.
	maxSleep = math.MaxInt32 * time.Millisecond
)

// ExponentialBackoff waits a random time before each retry, longer on average from retry to retry, so that
// clients that failed together do not retry together. Before retry n, counted from 0, it waits
//
//	Base × max(1, a random whole number from 0 up to but excluding 2^(n+1))
//
// and never longer than Max. Corresponds to Curator's ExponentialBackoffRetry. There the arithmetic overflows
// to negative waits from about the 20th retry on; here the wait is Max then.
type ExponentialBackoff struct {
	Base time.Duration // the unit of the waits, and the shortest wait; 0: no waits
	Max  time.Duration // the longest wait; 0 means 2147483647 ms (25 days), as in Curator
	// Retries is the most retries after the first attempt, [MaxRetries] at most. 0 means no retry.
	Retries int
}

// NewBackOff implements [Policy].
func (p ExponentialBackoff) NewBackOff() backoff.BackOff { return p.newBackOff(chance.N[int64]) }

// newBackOff is NewBackOff with a source of random numbers: random(n) returns a number from 0 to n-1, each with the same
// probability.
func (p ExponentialBackoff) newBackOff(random func(n int64) int64) backoff.BackOff {
	base, limit := max(p.Base, 0), p.Max
	if limit <= 0 {
		limit = maxSleep
	}
	return &countedBackOff{
		retries: min(p.Retries, MaxRetries),
		wait: func(n int) time.Duration {
			times := time.Duration(max(1, random(1<<(n+1))))
			if base > limit/times { // base × times exceeds limit, and may exceed an int64
				return limit
			}
			return base * times
		},
	}
}

// BoundedExponentialBackoff is [ExponentialBackoff] under Curator's second name, for ported code. Corresponds
// to Curator's BoundedExponentialBackoffRetry, with one difference: there a maximum of 0 means no waits, here
// it means the default of Max.
type BoundedExponentialBackoff ExponentialBackoff

// NewBackOff implements [Policy].
func (p BoundedExponentialBackoff) NewBackOff() backoff.BackOff {
	return ExponentialBackoff(p).NewBackOff()
}

package retry

import (
	"math"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/go-curator/curator/internal/chance"
)

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
	// Base is the unit of the waits, and the shortest one. Default 0, and negative: every retry is made at
	// once.
	Base time.Duration
	// Max is the longest wait. Default 0, and negative: 2147483647 ms, Curator's default.
	Max time.Duration
	// Retries is the number of attempts after the first. Default 0, and negative: none. More than
	// [MaxRetries] is MaxRetries.
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
// waits, min(Max, …), the same limits. Corresponds to Curator's BoundedExponentialBackoffRetry.
type BoundedExponentialBackoff struct {
	// Base is the unit of the waits, and the shortest one. Default 0, and negative: every retry is made at
	// once.
	Base time.Duration
	// Max is the longest wait. Default 0, and negative: 2147483647 ms. Curator takes 0 literally and does not
	// wait at all.
	Max time.Duration
	// Retries is the number of attempts after the first. Default 0, and negative: none. More than
	// [MaxRetries] is MaxRetries.
	Retries int
}

// NewBackOff implements [Policy].
func (p BoundedExponentialBackoff) NewBackOff() backoff.BackOff {
	return ExponentialBackoff(p).NewBackOff()
}

package retry_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/retry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ms = time.Millisecond

// waits returns the first n waits of a backoff, fewer if it stops.
func waits(b backoff.BackOff, n int) []time.Duration {
	var got []time.Duration
	for range n {
		wait := b.NextBackOff()
		if wait == backoff.Stop {
			break
		}
		got = append(got, wait)
	}
	return got
}

// The waits were recorded by running Curator 5.4, except where the documentation says that they differ.
func TestFixedPolicies(t *testing.T) {
	for _, c := range []struct {
		policy retry.Policy
		want   []time.Duration // the first five
	}{
		{retry.RetryNTimes{Retries: 3, Sleep: 50 * ms}, []time.Duration{50 * ms, 50 * ms, 50 * ms}},
		{retry.RetryNTimes{Retries: 2}, []time.Duration{0, 0}},
		{retry.RetryNTimes{Retries: 2, Sleep: -1}, []time.Duration{0, 0}},
		{retry.RetryNTimes{Retries: -1, Sleep: 50 * ms}, nil},
		{retry.RetryNTimes{}, nil},
		{retry.RetryOneTime{Sleep: 50 * ms}, []time.Duration{50 * ms}},
		{retry.RetryOneTime{}, []time.Duration{0}},
		{retry.RetryOneTime{Sleep: -time.Hour}, []time.Duration{0}},
		{retry.RetryForever{Sleep: 5 * ms}, []time.Duration{5 * ms, 5 * ms, 5 * ms, 5 * ms, 5 * ms}},
		{retry.RetryForever{}, []time.Duration{time.Second, time.Second, time.Second, time.Second, time.Second}},
		{retry.RetryForever{Sleep: -1}, []time.Duration{time.Second, time.Second, time.Second, time.Second,
			time.Second}},
		{retry.RetryUntilElapsed{}, nil},
		{retry.RetryUntilElapsed{MaxElapsed: -1, Sleep: ms}, nil},
		{retry.ExponentialBackoff{}, nil},
		{retry.ExponentialBackoff{Base: ms, Retries: -3}, nil},
		{retry.ExponentialBackoff{Retries: 2}, []time.Duration{0, 0}},
		{retry.ExponentialBackoff{Base: -5 * ms, Retries: 2}, []time.Duration{0, 0}},
		{retry.ExponentialBackoff{Base: 5 * ms, Max: ms, Retries: 2}, []time.Duration{ms, ms}},
		{retry.BoundedExponentialBackoff{}, nil},
		{retry.BoundedExponentialBackoff{Base: 5 * ms, Max: ms, Retries: 2}, []time.Duration{ms, ms}},
		{retry.Backoff(nil), nil},
		{retry.Backoff(func() backoff.BackOff { return nil }), nil},
		{retry.Backoff(func() backoff.BackOff {
			return backoff.NewConstantBackOff(ms)
		}), []time.Duration{ms, ms, ms, ms, ms}},
	} {
		t.Run(fmt.Sprintf("%T%+[1]v", c.policy), func(t *testing.T) {
			b := c.policy.NewBackOff()
			assert.Equal(t, c.want, waits(b, 5))
			b.Reset()
			assert.Equal(t, c.want, waits(b, 5), "after Reset it starts anew")
			assert.Equal(t, c.want, waits(c.policy.NewBackOff(), 5), "every operation gets its own count")
		})
	}
}

// Curator: base × max(1, uniform[0, 2^(n+1))), at most max.
func TestExponentialFormula(t *testing.T) {
	smallest := func(int64) int64 { return 0 }
	largest := func(n int64) int64 { return n - 1 }
	for _, c := range []struct {
		name   string
		policy retry.ExponentialBackoff
		random func(int64) int64
		want   []time.Duration
	}{
		{"a random 0 counts as 1", retry.ExponentialBackoff{Base: 100 * ms, Retries: 4}, smallest,
			[]time.Duration{100 * ms, 100 * ms, 100 * ms, 100 * ms}},
		{"largest", retry.ExponentialBackoff{Base: 100 * ms, Retries: 4}, largest,
			[]time.Duration{100 * ms, 300 * ms, 700 * ms, 1500 * ms}},
		{"capped", retry.ExponentialBackoff{Base: 100 * ms, Max: 250 * ms, Retries: 4}, largest,
			[]time.Duration{100 * ms, 250 * ms, 250 * ms, 250 * ms}},
		{"cap of exactly the wait", retry.ExponentialBackoff{Base: 100 * ms, Max: 700 * ms, Retries: 3}, largest,
			[]time.Duration{100 * ms, 300 * ms, 700 * ms}},
		{"a cap that is no multiple of the base", retry.ExponentialBackoff{Base: 2, Max: 7, Retries: 3}, largest, []time.Duration{2, 6, 7}},
		{"no overflow", retry.ExponentialBackoff{Base: math.MaxInt64, Max: math.MaxInt64, Retries: 2}, largest,
			[]time.Duration{math.MaxInt64, math.MaxInt64}},
		{"negative cap is the default", retry.ExponentialBackoff{Base: 500 * time.Hour, Max: -1, Retries: 2},
			largest, []time.Duration{500 * time.Hour, math.MaxInt32 * ms}},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.want, waits(retry.NewBackOffWith(c.policy, c.random), 99))
		})
	}

	t.Run("the range doubles, 29 times at most", func(t *testing.T) {
		var ranges []int64
		b := retry.NewBackOffWith(retry.ExponentialBackoff{Base: ms, Retries: 1000}, func(n int64) int64 {
			ranges = append(ranges, n)
			return n - 1
		})
		got := waits(b, 2000)
		require.Len(t, got, retry.MaxRetries)
		for i, n := range ranges {
			assert.Equal(t, int64(1)<<(i+1), n)
		}
		assert.Equal(t, (1<<29-1)*ms, got[28], "where Curator has long overflowed")
	})
}

func TestExponentialIsRandom(t *testing.T) {
	policy := retry.ExponentialBackoff{Base: ms, Retries: retry.MaxRetries}
	assert.NotEqual(t, waits(policy.NewBackOff(), 29), waits(policy.NewBackOff(), 29))
}

func FuzzExponentialStaysInBounds(f *testing.F) {
	f.Add(int64(100*ms), int64(5*time.Second), 10, uint64(1))
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), 29, uint64(2))
	f.Add(int64(math.MinInt64), int64(math.MinInt64), math.MinInt, uint64(3))
	f.Add(int64(1), int64(0), math.MaxInt, uint64(4))
	f.Fuzz(func(t *testing.T, base, limit int64, retries int, seed uint64) {
		policy := retry.ExponentialBackoff{Base: time.Duration(base), Max: time.Duration(limit), Retries: retries}
		least, most := policy.Base, policy.Max
		if most <= 0 {
			most = math.MaxInt32 * ms
		}
		least = min(max(least, 0), most)
		got := waits(retry.NewBackOffWith(policy, rand.New(rand.NewPCG(seed, 0)).Int64N), 100)
		if want := min(max(retries, 0), retry.MaxRetries); len(got) != want {
			t.Fatalf("%+v allowed %d retries, want %d", policy, len(got), want)
		}
		for n, wait := range got {
			if wait < least || wait > most {
				t.Fatalf("%+v: wait %d is %v, not within %v and %v", policy, n, wait, least, most)
			}
		}
	})
}

func TestUntilElapsedCutsTheLastWait(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy retry.RetryUntilElapsed
		takes  time.Duration // the time of each attempt
		want   []time.Duration
		ends   time.Duration
	}{
		{"cut", retry.RetryUntilElapsed{MaxElapsed: 1000 * ms, Sleep: 300 * ms}, 0,
			[]time.Duration{0, 300 * ms, 600 * ms, 900 * ms, 1000 * ms}, 1000 * ms},
		{"even", retry.RetryUntilElapsed{MaxElapsed: 900 * ms, Sleep: 300 * ms}, 0,
			[]time.Duration{0, 300 * ms, 600 * ms, 900 * ms}, 900 * ms},
		{"sleep longer than all", retry.RetryUntilElapsed{MaxElapsed: 100 * ms, Sleep: time.Hour}, 0,
			[]time.Duration{0, 100 * ms}, 100 * ms},
		{"attempts count", retry.RetryUntilElapsed{MaxElapsed: 1000 * ms, Sleep: 300 * ms}, 400 * ms,
			[]time.Duration{0, 700 * ms}, 1100 * ms},
		{"an attempt that took too long", retry.RetryUntilElapsed{MaxElapsed: 1000 * ms, Sleep: 300 * ms},
			1000 * ms, []time.Duration{0}, 1000 * ms},
		{"default sleep", retry.RetryUntilElapsed{MaxElapsed: 2500 * ms}, 0,
			[]time.Duration{0, 1000 * ms, 2000 * ms, 2500 * ms}, 2500 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var at []time.Duration
				err := retry.Do(t.Context(), c.policy, func(context.Context) error {
					at = append(at, time.Since(began))
					time.Sleep(c.takes)
					return errDown
				})
				assert.Equal(t, errDown, err)
				assert.Equal(t, c.want, at)
				assert.Equal(t, c.ends, time.Since(began), "no wait after the last attempt")
			})
		})
	}
}

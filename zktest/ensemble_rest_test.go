package zktest_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// A client is idle for a while, then gets a lock through a follower, and that follower is immediately cut off from its
// leader. The leader learns of the session only from the follower's reports, twice in a tick, and counts the session's
// time from them. The holder's context ends before the next contender gets the lock, by the whole margin.
func TestAHoldThatBeginsAfterARestIsLostInTime(t *testing.T) {
	cuts := []fault{troubles[0].begin, troubles[1].begin, troubles[2].begin}
	for _, timeout := range []time.Duration{4, 6, 10, 20, 26, 30, 40, 60, 120} {
		timeout *= time.Second
		for _, waits := range []bool{false, true} {
			t.Run(fmt.Sprintf("T = %v, waits: %v", timeout, waits), func(t *testing.T) {
				least, losses := time.Hour, 0
				phases := time.Duration(24)
				if testing.Short() {
					phases = 3
				}
				for n := range phases {
					// The rest varies against pings, ticks and the cut.
					rest := timeout/8 + n*timeout/27 + n*37*time.Millisecond
					margin := lossAfterRest(t, timeout, rest, n%4*300*time.Millisecond, waits, cuts[n%3])
					least, losses = min(least, margin), losses+1
					require.GreaterOrEqual(t, margin, min(timeout/10, time.Second), "after a rest of %v", rest)
				}
				assert.EqualValues(t, phases, losses)
				t.Logf("%d losses in time by %v at least", losses, least)
			})
		}
	}
}

// lossAfterRest returns the time between the end of the first hold and the grant of the second. The first contender's
// session rests before it acquires the lock, or while it waits for it.
func lossAfterRest(t *testing.T, timeout, rest, after time.Duration, waits bool, begin fault) (margin time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		e := zktest.RunEnsembleT(t, 3, zktest.Config{MaxSessionTimeout: 2 * time.Minute})
		leader := e.Leader()
		followers := slices.DeleteFunc([]int{0, 1, 2}, func(m int) bool { return m == leader })
		contender := func(member int) *mutex.Mutex {
			client, err := framework.New(e.Member(member).Addr(), framework.WithDialer(e.Dial),
				framework.WithSessionTimeout(timeout))
			require.NoError(t, err)
			t.Cleanup(func() { _ = client.Close() })
			require.NoError(t, client.WaitConnected(t.Context()))
			return mutex.New(client, "/lock")
		}
		first, second := contender(followers[0]), contender(followers[1])
		var lock *mutex.Lock
		if waits {
			before, err := second.Acquire(t.Context())
			require.NoError(t, err)
			time.AfterFunc(rest, func() { assert.NoError(t, before.Release(context.Background())) })
		} else {
			time.Sleep(rest)
		}
		lock, err := first.Acquire(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan time.Time, 1)
		go func() {
			if lock, err := second.Acquire(ctx); err == nil {
				got <- time.Now()
				_ = lock.Release(context.Background())
			}
			close(got)
		}()
		time.Sleep(after)
		begin(e, followers[0], leader)
		gone := make(chan time.Time, 1)
		context.AfterFunc(lock.Context(), func() { gone <- time.Now() })
		time.Sleep(3 * timeout)
		margin = (<-got).Sub(<-gone)
		require.NoError(t, e.Heal())
		cancel()
		_ = lock.Release(context.Background())
		for range got {
		}
	})
	return margin
}

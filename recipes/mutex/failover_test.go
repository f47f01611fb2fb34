package mutex_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// A release hands the lock over within one round trip: the delete to the server, and the event from it.
func TestHandOverTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trip = 10 * time.Millisecond
		s := zktest.RunT(t)
		lock := acquire(t, mutex.New(newClient(t, s), path))
		var line []*call
		for range 5 {
			line = append(line, waiting(t, background, mutex.New(newClient(t, s), path)))
		}
		s.Delay(0, trip) // replies and events
		for _, next := range line {
			began := time.Now()
			go func() { _ = lock.Release(background) }()
			o := next.End()
			require.NoError(t, o.Err)
			require.Equal(t, trip, o.At.Sub(began), "the events are on their way with the reply to the delete")
			lock = o.Value
			time.Sleep(time.Second)
		}
		release(t, lock)
		clean(t, s, path)
	})
}

// A holder dies without closing its session. The next waiter is granted when that session expires: within the timeout and one
// tick, since the server rounds expiries up to multiples of its tick. With a tick of a second or less that is at most the timeout
// plus a second.
func TestFailOverAfterAKill(t *testing.T) {
	const timeout = 4 * time.Second
	for _, tick := range []time.Duration{200 * time.Millisecond, time.Second, 2 * time.Second} {
		longest := time.Duration(0)
		for phase := time.Duration(0); phase < 2*tick; phase += tick / 10 {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t, zktest.Config{TickTime: tick})
				dying := newClient(t, s, framework.WithSessionTimeout(timeout))
				lock := acquire(t, mutex.New(dying, path))
				next := waiting(t, background, mutex.New(newClient(t, s), path))
				time.Sleep(10*time.Second + phase)
				gone := s.Inject(zktest.Fault{Op: "connect", Times: -1, Action: zktest.CutBefore})
				died := time.Now()
				// for the server the client is dead, but the test still sees when the client notices
				s.BlackHole(session(t, dying), zktest.Both)
				ended := make(chan time.Time, 1)
				context.AfterFunc(lock.Context(), func() { ended <- time.Now() })
				o := next.End()
				require.NoError(t, o.Err)
				longest = max(longest, o.At.Sub(died))
				require.LessOrEqual(t, o.At.Sub(died), timeout+tick)
				require.True(t, (<-ended).Before(o.At))
				gone.Remove()
				release(t, o.Value)
			})
		}
		t.Logf("session timeout %v, tick %v: handed on after %v at the latest", timeout, tick, longest)
	}
}

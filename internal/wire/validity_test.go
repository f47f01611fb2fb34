package wire

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// connectedNow returns a validity whose session was established by a request sent now.
func connectedNow(t *testing.T, rule Servers, timeout time.Duration) *Validity {
	t.Helper()
	v := newValidity(always(rule), timeout)
	require.False(t, v.Valid(), "nothing is valid before the handshake")
	sent := readClock()
	v.recordConnecting(sent)
	require.True(t, v.recordConnected(sent, timeout, false))
	require.False(t, v.RecordVerdict(Member))
	return v
}

func TestValidityOfAStandaloneServerIsSentPlusTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := connectedNow(t, Servers{Standalone: true}, 10*time.Second)
		time.Sleep(3 * time.Second)
		sent := readClock()
		time.Sleep(2 * time.Second) // the reply is slow; only the moment of sending counts
		require.True(t, v.recordReply(sent, Local))
		assert.Equal(t, 8*time.Second, v.Remaining())
		time.Sleep(8*time.Second - time.Nanosecond)
		assert.True(t, v.Valid())
		time.Sleep(time.Nanosecond)
		assert.False(t, v.Valid())
	})
}

func TestALapseIsFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := connectedNow(t, Servers{Standalone: true}, time.Second)
		sent := readClock()
		sent.t = sent.t.Add(900 * time.Millisecond)
		time.Sleep(time.Second)
		assert.False(t, v.recordReply(sent, Local), "an answer that comes too late is no answer")
		assert.True(t, v.Lost())
		assert.Zero(t, v.Remaining())
		assert.False(t, v.recordConnected(readClock(), time.Minute, false), "not even a re-attach brings it back")
		assert.False(t, v.Valid())
	})
}

func TestAnUnansweredConnectRequestCountsWithTheLowestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := connectedNow(t, Servers{Standalone: true}, 20*time.Second)
		require.True(t, v.recordConnected(readClock(), 4*time.Second, false), "another member grants less")
		require.True(t, v.recordConnected(readClock(), 20*time.Second, false))
		require.True(t, v.recordReply(readClock(), Committed))
		assert.Equal(t, 4*time.Second, v.Remaining(), "it may yet report a touch")
		v.recordConnecting(readClock())
		time.Sleep(time.Second)
		v.recordConnecting(readClock()) // the first request without a reply counts
		assert.Equal(t, 3*time.Second, v.Remaining(),
			"a member with the low limit may have replaced the expiry")
		require.True(t, v.recordConnected(readClock(), 20*time.Second, false))
		assert.Equal(t, 4*time.Second, v.Remaining())
	})
}

// A new leader, and a server that has restarted, keep a session for the timeout of its creation, whatever it has been
// granted since.
func TestASessionNeverCountsForLongerThanWhenItWasCreated(t *testing.T) {
	for name, rule := range map[string]Servers{
		"exact": {Standalone: true}, "bound": {Stale: time.Second}, "heartbeat": {Report: time.Second},
	} {
		t.Run(name, bubbled(func(t *testing.T) {
			v := connectedNow(t, rule, 4*time.Second)
			require.True(t, v.recordConnected(readClock(), 20*time.Second, false))
			for range 3 {
				require.True(t, v.recordReply(readClock(), Committed))
			}
			assert.Positive(t, v.Remaining())
			assert.LessOrEqual(t, v.Remaining(), 4*time.Second)
			assert.Equal(t, 4*time.Second, v.Standing().Timeout)
		}))
	}
}

// A leader without a quorum may grant any timeout, and a member that has granted less may report a touch when the client is
// connected to another one.
func TestATimeoutNeverGrowsAgain(t *testing.T) {
	for name, rule := range map[string]Servers{"bound": {Stale: time.Second}, "heartbeat": {Report: time.Second}} {
		t.Run(name, bubbled(func(t *testing.T) {
			v := connectedNow(t, rule, 20*time.Second)
			require.True(t, v.recordConnected(readClock(), 4*time.Second, false))
			require.True(t, v.recordReply(readClock(), Committed))
			require.True(t, v.BeginHold())
			require.False(t, v.RecordVerdict(Member))
			require.True(t, v.recordConnected(readClock(), 20*time.Second, false))
			require.True(t, v.recordReply(readClock(), Local))
			before := v.Remaining()
			assert.Positive(t, before)
			assert.LessOrEqual(t, before, 4*time.Second)
			assert.Equal(t, 4*time.Second, v.Standing().Timeout)
			require.False(t, v.RecordVerdict(Member))
			require.True(t, v.recordReply(readClock(), Committed))
			assert.Equal(t, 4*time.Second, v.Standing().Timeout)
			assert.GreaterOrEqual(t, v.Remaining(), before, "what was certain stays so")
			assert.LessOrEqual(t, v.Remaining(), 4*time.Second)
		}))
	}
}

func TestAReadOnlyMemberProvesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := connectedNow(t, Servers{Standalone: true}, 10*time.Second)
		time.Sleep(4 * time.Second)
		require.True(t, v.recordConnected(readClock(), 10*time.Second, true))
		assert.Equal(t, 6*time.Second, v.Remaining())
	})
}

func TestASessionOfAReadOnlyMemberIsNeverValidAndNeverLapses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newValidity(always(Servers{Standalone: true}), 10*time.Second)
		v.recordConnecting(readClock())
		require.True(t, v.recordConnected(readClock(), 10*time.Second, true))
		assert.False(t, v.Valid())
		time.Sleep(time.Hour)
		assert.False(t, v.Lost(), "it would be lost and opened again every ten seconds")
		require.True(t, v.recordConnected(readClock(), 10*time.Second, false))
		assert.True(t, v.Valid(), "a quorum has taken it over")
	})
}

// byServer counts a member's replies only if they are commits.
func byServer(timeout time.Duration, alone bool) Servers {
	return Servers{Standalone: alone, Report: timeout / 8}
}

// The time that a standalone server has granted stays certain when the server has become a member, and no reply of the
// member extends it.
func TestAHoldGoesOverToHeartbeats(t *testing.T) {
	for name, commits := range map[string]bool{"commits": true, "no commit": false} {
		t.Run(name, bubbled(func(t *testing.T) {
			const T = 4 * time.Second
			v := newValidity(byServer, T)
			require.True(t, v.recordConnected(readClock(), T, false))
			require.False(t, v.RecordVerdict(Standalone))
			require.True(t, v.BeginHold())
			time.Sleep(time.Second)
			v.recordConnecting(readClock())
			require.True(t, v.recordConnected(readClock(), T, false))
			assert.Equal(t, T-time.Second, v.Remaining(), "the handshake proves nothing yet")
			time.Sleep(time.Second)
			require.True(t, v.recordReply(readClock(), Local))
			require.False(t, v.RecordVerdict(Member))
			assert.Equal(t, T-2*time.Second, v.Remaining())
			if commits {
				require.True(t, v.recordReply(readClock(), Committed))
				assert.Equal(t, T-time.Second, v.Remaining(), "the reconnect counts now")
				return
			}
			time.Sleep(T - 2*time.Second - time.Nanosecond)
			require.True(t, v.recordReply(readClock(), Local))
			assert.True(t, v.Valid())
			left, _ := v.timeToLapse()
			assert.Equal(t, time.Nanosecond, left, "the session lapses with its hold")
			time.Sleep(time.Nanosecond)
			assert.False(t, v.Valid())
			assert.True(t, v.Lost())
		}))
	}
}

// A handshake replaces the session timeout: a hold stays certain for the shortest timeout that may have been granted since,
// at most.
func TestLessIsGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newValidity(func(timeout time.Duration, _ bool) Servers {
			if timeout < 20*time.Second {
				return Servers{Report: time.Second}
			}
			return Servers{Report: time.Second, Stale: 10 * time.Second}
		}, 30*time.Second)
		require.True(t, v.recordConnected(readClock(), 30*time.Second, false))
		require.False(t, v.RecordVerdict(Member))
		require.True(t, v.BeginHold())
		time.Sleep(time.Second)
		assert.Equal(t, 29*time.Second, v.Remaining())
		v.recordConnecting(readClock())
		require.True(t, v.recordConnected(readClock(), 6*time.Second, false))
		assert.Equal(t, 5*time.Second, v.Remaining())
		left, _ := v.timeToLapse()
		assert.Equal(t, 5*time.Second, left)
	})
}

// A hold that lapses takes its session with it, whichever call was the first to look at the clock.
func TestALostHoldTakesTheSessionWithIt(t *testing.T) {
	for name, look := range map[string]func(*Validity) bool{
		"Remaining": func(v *Validity) bool { return v.Remaining() <= 0 },
		"Valid":     func(v *Validity) bool { return !v.Valid() },
		"Hold":      func(v *Validity) bool { return !v.BeginHold() },
		"Unhold":    func(v *Validity) bool { v.EndHold(); return true },
	} {
		t.Run(name, bubbled(func(t *testing.T) {
			v := connectedNow(t, byServer(4*time.Second, false), 4*time.Second)
			require.True(t, v.recordReply(readClock(), Committed))
			require.True(t, v.recordReply(readClock(), Committed))
			require.True(t, v.BeginHold())
			for v.Remaining() > time.Nanosecond {
				time.Sleep(v.Remaining() - time.Nanosecond)
				require.True(t, v.recordReply(readClock(), Local))
			}
			_, changed, _ := v.nextCheck()
			time.Sleep(time.Nanosecond)
			require.True(t, look(v))
			<-changed // the wait for the lapse ends
			left, _ := v.timeToLapse()
			assert.Zero(t, left)
			assert.False(t, v.recordReply(readClock(), Local))
		}))
	}
}

// The grant of a member without a quorum does not count, nor does it change the session timeout.
func TestAReadOnlyMemberGrantsNothing(t *testing.T) {
	for name, granted := range map[string]time.Duration{"more": 40 * time.Second, "less": 5 * time.Second} {
		t.Run(name, bubbled(func(t *testing.T) {
			v := connectedNow(t, Servers{Stale: 10 * time.Second}, 30*time.Second)
			require.True(t, v.BeginHold())
			time.Sleep(4 * time.Second)
			require.True(t, v.recordConnected(readClock(), granted, true))
			assert.Equal(t, 26*time.Second, v.Remaining())
			require.False(t, v.RecordVerdict(Member))
			assert.Equal(t, 26*time.Second, v.Remaining())
			left, _ := v.timeToLapse()
			assert.Equal(t, 26*time.Second, left)
			assert.Equal(t, 30*time.Second, v.Standing().Timeout)
		}))
	}
}

// A session may live longer than its holds are certain: no hold begins when the last certain instant has come.
func TestNoHoldBeginsWhenNoTimeIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := connectedNow(t, Servers{Report: time.Second}, 4*time.Second)
		time.Sleep(2 * time.Second)
		require.True(t, v.recordReply(readClock(), Local))
		time.Sleep(2*time.Second - time.Nanosecond)
		require.True(t, v.BeginHold())
		v.EndHold()
		time.Sleep(time.Nanosecond)
		assert.False(t, v.BeginHold())
		assert.False(t, v.Lost())
	})
}

package wire

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// connectedAt is a validity whose session was established by a request sent now.
func connectedNow(t *testing.T, rule Rule, timeout time.Duration) *Validity {
	t.Helper()
	v := newValidity(rule, timeout)
	require.False(t, v.Valid(), "nothing is valid before the handshake")
	sent := time.Now()
	v.connecting(sent)
	require.True(t, v.connected(sent, timeout, false, rule))
	return v
}

func TestValidityOfAStandaloneServerIsSentPlusTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := connectedNow(t, Rule{}, 10*time.Second)
		time.Sleep(3 * time.Second)
		sent := time.Now()
		time.Sleep(2 * time.Second) // the answer takes its time; only the moment of sending counts (R2)
		require.True(t, v.answer(sent))
		assert.Equal(t, 8*time.Second, v.Remaining())
		time.Sleep(8*time.Second - time.Nanosecond)
		assert.True(t, v.Valid())
		time.Sleep(time.Nanosecond)
		assert.False(t, v.Valid())
	})
}

func TestALapseIsFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := connectedNow(t, Rule{}, time.Second)
		sent := time.Now().Add(900 * time.Millisecond)
		time.Sleep(time.Second)
		assert.False(t, v.answer(sent), "an answer that comes too late is no answer (R3)")
		assert.True(t, v.Lapsed())
		assert.Zero(t, v.Remaining())
		assert.False(t, v.connected(time.Now(), time.Minute, false, Rule{}), "not even a re-attach brings it back")
		assert.False(t, v.Valid())
	})
}

func TestTheBoundIsTakenOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := connectedNow(t, Rule{Kind: RuleBound, Bound: 13 * time.Second, Margin: time.Second}, 30*time.Second)
		assert.Equal(t, 16*time.Second, v.Remaining())
	})
}

func TestAnUnansweredConnectRequestCountsWithTheLowestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := connectedNow(t, Rule{}, 4*time.Second)
		require.True(t, v.connected(time.Now(), 20*time.Second, false, Rule{}), "another member grants more")
		assert.Equal(t, 20*time.Second, v.Remaining())
		time.Sleep(time.Second)
		v.connecting(time.Now())
		time.Sleep(time.Second)
		v.connecting(time.Now()) // the first unanswered one counts
		assert.Equal(t, 3*time.Second, v.Remaining(), "a member with the low limit may have replaced the expiry (R4)")
		require.True(t, v.connected(time.Now(), 20*time.Second, false, Rule{}))
		assert.Equal(t, 20*time.Second, v.Remaining())
	})
}

func TestAReadOnlyMemberProvesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := connectedNow(t, Rule{}, 10*time.Second)
		time.Sleep(4 * time.Second)
		require.True(t, v.connected(time.Now(), 10*time.Second, true, Rule{}))
		assert.Equal(t, 6*time.Second, v.Remaining())
	})
}

func TestASessionOfAReadOnlyMemberIsNeverValidAndNeverLapses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newValidity(Rule{}, 10*time.Second)
		v.connecting(time.Now())
		require.True(t, v.connected(time.Now(), 10*time.Second, true, Rule{}))
		assert.False(t, v.Valid())
		time.Sleep(time.Hour)
		assert.False(t, v.Lapsed(), "it would be lost and opened again every ten seconds")
		require.True(t, v.connected(time.Now(), 10*time.Second, false, Rule{}))
		assert.True(t, v.Valid(), "a quorum has taken it over")
	})
}

func TestHeartbeatsCountFromTheLastButOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const T = 6 * time.Second
		v := connectedNow(t, Rule{Kind: RuleHeartbeat, Tick: 2 * time.Second, Jitter: 500 * time.Millisecond}, T)
		v.Hold()
		assert.False(t, v.Valid(), "no hold without committed writes")
		assert.False(t, v.Lapsed(), "but the session lives")
		first := time.Now()
		require.True(t, v.answer(first))
		v.committed(first)
		assert.False(t, v.Valid(), "one is not enough")
		time.Sleep(time.Second)
		second := time.Now()
		require.True(t, v.answer(second))
		v.committed(second)
		// T - tick/2 - ping gap (T/6) - jitter, from the first.
		assert.Equal(t, T-time.Second-time.Second-500*time.Millisecond-time.Second, v.Remaining())

		// Pings alone do not help a hold, and its lapse is the session's.
		for range 5 {
			time.Sleep(500 * time.Millisecond)
			v.answer(time.Now())
		}
		assert.False(t, v.Valid())
		assert.True(t, v.Lapsed())
	})
}

func TestWritesOfLongAgoDoNotLapseAFreshHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := connectedNow(t, Rule{Kind: RuleHeartbeat, Tick: time.Second}, 6*time.Second)
		v.committed(time.Now())
		v.committed(time.Now())
		for range 10 {
			time.Sleep(3 * time.Second)
			require.True(t, v.answer(time.Now()))
		}
		v.Hold()
		assert.False(t, v.Lapsed())
		assert.False(t, v.Valid())
		v.committed(time.Now())
		v.committed(time.Now())
		assert.True(t, v.Valid())
		v.Unhold()
		time.Sleep(5 * time.Second)
		assert.False(t, v.Lapsed(), "without holds the session's own time counts")
	})
}

func TestElapsedTakesTheLargerOfBothClocks(t *testing.T) {
	from := time.Now()
	// A reading whose wall clock is an hour ahead of its monotonic clock, as after a suspended night.
	suspended := time.Now().Round(0).Add(time.Hour)
	assert.GreaterOrEqual(t, elapsed(from, suspended), time.Hour)
	assert.GreaterOrEqual(t, elapsed(from, time.Now()), time.Duration(0))
}

func TestPaceLeavesTimeToFindAnotherServer(t *testing.T) {
	for _, c := range []struct {
		rule          Rule
		timeout       time.Duration
		ping, silence time.Duration
	}{
		{Rule{}, 6 * time.Second, time.Second, 2 * time.Second},
		{Rule{Bound: 12 * time.Second}, 30 * time.Second, 3 * time.Second, 6 * time.Second},
		{Rule{Bound: 13 * time.Second}, 4 * time.Second, 4 * time.Second / 6, 4 * time.Second / 3}, // no room for the bound at all
		{Rule{Kind: RuleHeartbeat, Bound: 13 * time.Second}, 6 * time.Second, time.Second, 2 * time.Second},
	} {
		ping, silence := c.rule.pace(c.timeout)
		assert.Equal(t, c.ping, ping, "%+v", c)
		assert.Equal(t, c.silence, silence, "%+v", c)
	}
}

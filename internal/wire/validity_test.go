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
	v := newValidity(always(rule), timeout)
	require.False(t, v.Valid(), "nothing is valid before the handshake")
	sent := now()
	v.connecting(sent)
	require.True(t, v.connected(sent, timeout, false))
	require.False(t, v.Answered(Member))
	return v
}

func TestValidityOfAStandaloneServerIsSentPlusTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := connectedNow(t, Rule{}, 10*time.Second)
		time.Sleep(3 * time.Second)
		sent := now()
		time.Sleep(2 * time.Second) // the answer takes its time; only the moment of sending counts (R2)
		require.True(t, v.answer(sent, false))
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
		sent := now()
		sent.t = sent.t.Add(900 * time.Millisecond)
		time.Sleep(time.Second)
		assert.False(t, v.answer(sent, false), "an answer that comes too late is no answer (R3)")
		assert.True(t, v.Lapsed())
		assert.Zero(t, v.Remaining())
		assert.False(t, v.connected(now(), time.Minute, false), "not even a re-attach brings it back")
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
		v := connectedNow(t, Rule{}, 20*time.Second)
		require.True(t, v.connected(now(), 4*time.Second, false), "another member grants less")
		require.True(t, v.connected(now(), 20*time.Second, false))
		require.True(t, v.answer(now(), true))
		assert.Equal(t, 20*time.Second, v.Remaining())
		time.Sleep(time.Second)
		v.connecting(now())
		time.Sleep(time.Second)
		v.connecting(now()) // the first unanswered one counts
		assert.Equal(t, 3*time.Second, v.Remaining(),
			"a member with the low limit may have replaced the expiry (R4)")
		require.True(t, v.connected(now(), 20*time.Second, false))
		assert.Equal(t, 20*time.Second, v.Remaining())
	})
}

// A new leader, and a server that has restarted, give a session the time with which it was created, whatever
// it has been granted since (R9).
func TestASessionNeverCountsForLongerThanWhenItWasCreated(t *testing.T) {
	for name, rule := range map[string]Rule{
		"exact": {}, "bound": {Bound: time.Second}, "heartbeat": {Kind: RuleHeartbeat, Tick: time.Second},
	} {
		t.Run(name, bubbled(func(t *testing.T) {
			v := connectedNow(t, rule, 4*time.Second)
			require.True(t, v.connected(now(), 20*time.Second, false))
			for range 3 {
				require.True(t, v.answer(now(), true))
			}
			assert.Positive(t, v.Remaining())
			assert.LessOrEqual(t, v.Remaining(), 4*time.Second)
			assert.Equal(t, 4*time.Second, v.Standing().Timeout)
		}))
	}
}

// A leader without a quorum grants what it likes. The others may count with the least that they have granted,
// until a write has shown that it is not so.
func TestATimeoutThatGrowsAgainCountsFromACommittedWrite(t *testing.T) {
	for name, rule := range map[string]Rule{
		"bound": {Bound: time.Second}, "heartbeat": {Kind: RuleHeartbeat, Tick: time.Second},
	} {
		t.Run(name, bubbled(func(t *testing.T) {
			v := connectedNow(t, rule, 20*time.Second)
			require.True(t, v.connected(now(), 4*time.Second, false))
			for range 2 { // as many as the heartbeat rule asks for
				require.True(t, v.answer(now(), true))
			}
			require.True(t, v.Hold())
			require.False(t, v.Answered(Member))
			require.True(t, v.connected(now(), 20*time.Second, false))
			require.True(t, v.answer(now(), false))
			before := v.Remaining()
			assert.Positive(t, before)
			assert.Less(t, before, 4*time.Second)
			assert.Equal(t, 4*time.Second, v.Standing().Timeout)
			require.False(t, v.Answered(Member))
			require.True(t, v.answer(now(), true))
			assert.Equal(t, 20*time.Second, v.Standing().Timeout)
			assert.True(t, v.Standing().Asked, "that stays known")
			assert.GreaterOrEqual(t, v.Remaining(), before, "what was certain stays so")
			require.True(t, v.answer(now(), true))
			assert.Greater(t, v.Remaining(), 10*time.Second)
		}))
	}
}

func TestAReadOnlyMemberProvesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := connectedNow(t, Rule{}, 10*time.Second)
		time.Sleep(4 * time.Second)
		require.True(t, v.connected(now(), 10*time.Second, true))
		assert.Equal(t, 6*time.Second, v.Remaining())
	})
}

func TestASessionOfAReadOnlyMemberIsNeverValidAndNeverLapses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newValidity(always(Rule{}), 10*time.Second)
		v.connecting(now())
		require.True(t, v.connected(now(), 10*time.Second, true))
		assert.False(t, v.Valid())
		time.Sleep(time.Hour)
		assert.False(t, v.Lapsed(), "it would be lost and opened again every ten seconds")
		require.True(t, v.connected(now(), 10*time.Second, false))
		assert.True(t, v.Valid(), "a quorum has taken it over")
	})
}

func TestHeartbeatsCountFromTheLastButOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const T = 6 * time.Second
		v := connectedNow(t, Rule{Kind: RuleHeartbeat, Tick: 2 * time.Second, Jitter: 500 * time.Millisecond}, T)
		assert.False(t, v.Hold(), "no hold without committed writes")
		assert.False(t, v.Valid())
		assert.False(t, v.Lapsed(), "but the session lives")
		first := now()
		require.True(t, v.answer(first, true))
		assert.False(t, v.Valid(), "one is not enough")
		time.Sleep(time.Second)
		second := now()
		require.True(t, v.answer(second, true))
		require.True(t, v.Hold())
		// T - tick/2 - ping gap (T/6) - jitter, from the first.
		assert.Equal(t, T-time.Second-time.Second-500*time.Millisecond-time.Second, v.Remaining())

		// Pings alone do not help a hold, and its lapse is the session's.
		for range 5 {
			time.Sleep(500 * time.Millisecond)
			v.answer(now(), false)
		}
		assert.False(t, v.Valid())
		assert.True(t, v.Lapsed())
	})
}

func TestWritesOfLongAgoDoNotLapseAFreshHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := connectedNow(t, Rule{Kind: RuleHeartbeat, Tick: time.Second}, 6*time.Second)
		require.True(t, v.answer(now(), true))
		require.True(t, v.answer(now(), true))
		for range 10 {
			time.Sleep(3 * time.Second)
			require.True(t, v.answer(now(), false))
		}
		assert.False(t, v.Hold())
		assert.False(t, v.Lapsed())
		assert.False(t, v.Valid())
		require.True(t, v.answer(now(), true))
		require.True(t, v.answer(now(), true))
		assert.True(t, v.Hold())
		assert.True(t, v.Valid())
		v.Unhold()
		time.Sleep(5 * time.Second)
		assert.False(t, v.Lapsed(), "without holds the session's own time counts")
	})
}

func TestPaceLeavesTimeToFindAnotherServer(t *testing.T) {
	for _, c := range []struct {
		rule          Rule
		timeout       time.Duration
		ping, silence time.Duration
	}{
		{Rule{}, 6 * time.Second, time.Second, 2 * time.Second},
		{Rule{Bound: 12 * time.Second}, 30 * time.Second, 3 * time.Second, 6 * time.Second},
		// no room for the bound at all
		{Rule{Bound: 13 * time.Second}, 4 * time.Second, 4 * time.Second / 6, 4 * time.Second / 3},
		{Rule{Kind: RuleHeartbeat, Bound: 13 * time.Second}, 6 * time.Second, time.Second, 2 * time.Second},
	} {
		ping, silence := c.rule.pace(c.timeout)
		assert.Equal(t, c.ping, ping, "%+v", c)
		assert.Equal(t, c.silence, silence, "%+v", c)
	}
}

// byServer is the plan that takes a member's word for nothing but commits.
func byServer(timeout time.Duration, alone bool) Rule {
	if alone {
		return Rule{}
	}
	return Rule{Kind: RuleHeartbeat, Tick: timeout / 4}
}

func TestTheRuleTurns(t *testing.T) {
	const T = 4 * time.Second
	alone, member := byServer(T, true), byServer(T, false)
	known := Standing{Timeout: T, Known: true, Alone: true, Asked: true}
	for _, tt := range []struct {
		name string
		s    Standing
		n    news
		held int
		left time.Duration
		want Standing
		o    outcome
	}{
		{"the first handshake", Standing{}, news{granted: T}, 0, 0, Standing{Timeout: T},
			outcome{member, false, true}},
		{"it cannot say right now", Standing{Timeout: T}, news{verdict: Later}, 0, T, Standing{Timeout: T},
			outcome{member, false, true}},
		{"it stands alone", Standing{Timeout: T}, news{verdict: Alone}, 0, T, known, outcome{alone, false, false}},
		{"it is a member", Standing{Timeout: T}, news{verdict: Member}, 0, T, Standing{T, true, false, true},
			outcome{member, false, false}},
		{"a reconnect: what is known stays known, and does not count yet", known, news{granted: T}, 0, T,
			Standing{T, true, true, false}, outcome{member, false, true}},
		{"the same under a hold: what was certain stays so", known, news{granted: T}, 1, time.Second,
			Standing{T, true, true, false}, outcome{member, true, true}},
		{"nothing is left to keep", known, news{granted: T}, 1, 0, Standing{T, true, true, false},
			outcome{member, false, true}},
		{"less is granted", known, news{granted: T / 2}, 2, time.Second, Standing{T / 2, true, true, false},
			outcome{byServer(T/2, false), true, true}},
		{"a timeout has been proved: nothing else changes", known, news{grown: 2 * T}, 1, time.Second,
			Standing{2 * T, true, true, true}, outcome{byServer(2*T, true), true, false}},
		{"refused for now under a hold", Standing{T, true, true, false}, news{verdict: Later}, 1, time.Second,
			Standing{T, true, true, false}, outcome{member, true, true}},
		{"it stands alone still", Standing{T, true, true, false}, news{verdict: Alone}, 1, time.Second, known,
			outcome{alone, true, false}},
		{"it does not any more", Standing{T, true, true, false}, news{verdict: Member}, 1, time.Second,
			Standing{T, true, false, true}, outcome{member, true, false}},
		{"a member has become one that stands alone", Standing{T, true, false, false}, news{verdict: Alone}, 1,
			time.Second, known, outcome{alone, true, false}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, o := tt.s.next(tt.n, byServer, tt.held, tt.left)
			assert.Equal(t, tt.want, s)
			assert.Equal(t, tt.o, o)
		})
	}
}

// What a server that stands alone has answered for stays true when it has become a member, and no answer of
// the member adds to it.
func TestAHoldGoesOverToHeartbeats(t *testing.T) {
	for name, commits := range map[string]bool{"commits": true, "no commit": false} {
		t.Run(name, bubbled(func(t *testing.T) {
			const T = 4 * time.Second
			v := newValidity(byServer, T)
			require.True(t, v.connected(now(), T, false))
			require.False(t, v.Answered(Alone))
			require.True(t, v.Hold())
			time.Sleep(time.Second)
			v.connecting(now())
			require.True(t, v.connected(now(), T, false))
			assert.Equal(t, T-time.Second, v.Remaining(), "the handshake proves nothing yet")
			time.Sleep(time.Second)
			require.True(t, v.answer(now(), false))
			require.False(t, v.Answered(Member))
			assert.Equal(t, T-2*time.Second, v.Remaining())
			if commits {
				for range 2 {
					require.True(t, v.answer(now(), true))
				}
				assert.Greater(t, v.Remaining(), T-2*time.Second)
				return
			}
			time.Sleep(T - 2*time.Second - time.Nanosecond)
			require.True(t, v.answer(now(), false))
			assert.True(t, v.Valid())
			left, _ := v.lapseIn()
			assert.Equal(t, time.Nanosecond, left, "the session lapses with its hold")
			time.Sleep(time.Nanosecond)
			assert.False(t, v.Valid())
			assert.True(t, v.Lapsed())
		}))
	}
}

// A handshake replaces the session's time: what was certain is so at most for as long as the shortest that
// may have been granted since.
func TestLessIsGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newValidity(func(timeout time.Duration, _ bool) Rule {
			if timeout < 20*time.Second {
				return Rule{Kind: RuleHeartbeat}
			}
			return Rule{Bound: 10 * time.Second}
		}, 30*time.Second)
		require.True(t, v.connected(now(), 30*time.Second, false))
		require.False(t, v.Answered(Member))
		require.True(t, v.Hold())
		time.Sleep(time.Second)
		assert.Equal(t, 19*time.Second, v.Remaining())
		v.connecting(now())
		require.True(t, v.connected(now(), 6*time.Second, false))
		assert.Equal(t, 6*time.Second, v.Remaining())
		left, _ := v.lapseIn()
		assert.Equal(t, 6*time.Second, left)
	})
}

// A hold that is lost by the clock takes the session with it, whoever looks first.
func TestALostHoldTakesTheSessionWithIt(t *testing.T) {
	for name, look := range map[string]func(*Validity) bool{
		"Remaining": func(v *Validity) bool { return v.Remaining() <= 0 },
		"Valid":     func(v *Validity) bool { return !v.Valid() },
		"Hold":      func(v *Validity) bool { return !v.Hold() },
		"Unhold":    func(v *Validity) bool { v.Unhold(); return true },
	} {
		t.Run(name, bubbled(func(t *testing.T) {
			v := connectedNow(t, byServer(4*time.Second, false), 4*time.Second)
			require.True(t, v.answer(now(), true))
			require.True(t, v.answer(now(), true))
			require.True(t, v.Hold())
			for v.Remaining() > time.Nanosecond {
				time.Sleep(v.Remaining() - time.Nanosecond)
				require.True(t, v.answer(now(), false))
			}
			_, changed, _ := v.watch()
			time.Sleep(time.Nanosecond)
			require.True(t, look(v))
			<-changed // whoever waits for the time's end hears of it
			left, _ := v.lapseIn()
			assert.Zero(t, left)
			assert.False(t, v.answer(now(), false))
		}))
	}
}

// Whoever waits for the time's end has to look again when a hold makes it come earlier, and only then.
func TestAHoldThatShortensTheTimeWakesGuard(t *testing.T) {
	for name, rule := range map[string]Rule{"bound": {}, "heartbeat": {Kind: RuleHeartbeat, Tick: time.Second}} {
		t.Run(name, bubbled(func(t *testing.T) {
			v := connectedNow(t, rule, 6*time.Second)
			require.True(t, v.answer(now(), true))
			require.True(t, v.answer(now(), true))
			_, changed, _ := v.watch()
			without, _ := v.lapseIn()
			require.True(t, v.Hold())
			with, _ := v.lapseIn()
			woken := false
			select {
			case <-changed:
				woken = true
			default:
			}
			assert.Equal(t, name == "heartbeat", with < without)
			assert.Equal(t, with < without, woken)
		}))
	}
}

// A member without a quorum has no say, whatever it grants: not about the session's time either.
func TestAReadOnlyMemberGrantsNothing(t *testing.T) {
	for name, granted := range map[string]time.Duration{"more": 40 * time.Second, "less": 5 * time.Second} {
		t.Run(name, bubbled(func(t *testing.T) {
			v := connectedNow(t, Rule{Bound: 10 * time.Second}, 30*time.Second)
			require.True(t, v.Hold())
			time.Sleep(4 * time.Second)
			require.True(t, v.connected(now(), granted, true))
			assert.Equal(t, 16*time.Second, v.Remaining())
			require.False(t, v.Answered(Member))
			assert.Equal(t, 16*time.Second, v.Remaining())
			left, _ := v.lapseIn()
			assert.Equal(t, 16*time.Second, left)
			assert.Equal(t, 30*time.Second, v.Standing().Timeout)
		}))
	}
}

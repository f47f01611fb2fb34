package wire

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const s = time.Second

// at is a moment at which the machine has never been suspended.
func at(d time.Duration) Instant { return Instant{d, d} }

// lives returns the Liveness of a session that was created at 0 with a timeout of 40 s, on a member of an ensemble with the
// usual tick.
func lives() *Liveness {
	l := &Liveness{lowestTimeout: 40 * s}
	l.Assume(Servers{Report: 3 * s, Stale: 13 * s, Margin: s})
	l.RecordConnecting(at(0))
	l.RecordConnected(at(0), at(0), 40*s, false)
	return l
}

func TestATouchCountsWhenALaterReplyProvesIt(t *testing.T) {
	for _, tt := range []struct {
		name  string
		proof Proof
		sent  time.Duration // of the proof; the touch was sent at 10 s, and its reply came at 11 s
		want  time.Duration
	}{
		{"a ping too early", Local, 24 * s, 0},
		{"a ping", Local, 24*s + 1, 10 * s},
		{"a write too early", Committed, 14 * s, 0},
		{"a write", Committed, 14*s + 1, 10 * s},
	} {
		l := lives()
		l.RecordReply(Local, at(10*s), at(11*s))
		l.RecordReply(tt.proof, at(tt.sent), at(tt.sent+s))
		assert.Equal(t, tt.want, l.countedTouch, tt.name)
		assert.Equal(t, tt.want+40*s-s-(tt.sent+s), l.HoldLeft(at(tt.sent+s)), tt.name)
	}
}

func TestOnlyWritesCountWhereTheBoundIsNotKnown(t *testing.T) {
	l := lives()
	l.Assume(Servers{Report: 3 * s, Margin: s})
	for d := s; d < 30*s; d += s {
		l.RecordReply(Local, at(d), at(d))
	}
	assert.Zero(t, l.countedTouch)
	l.RecordReply(Committed, at(30*s), at(30*s))
	assert.Equal(t, 26*s, l.countedTouch)
}

func TestAStandaloneServerTouchesAtOnce(t *testing.T) {
	l := lives()
	l.RecordReply(Local, at(10*s), at(10*s))
	assert.Zero(t, l.countedTouch, "a member, as long as it has not answered what it is")
	assert.True(t, l.RecordVerdict(Later))
	assert.False(t, l.RecordVerdict(Standalone))
	l.Assume(Servers{Standalone: true, Report: 3 * s, Stale: 13 * s, Margin: s})
	assert.Equal(t, 10*s, l.countedTouch)
	l.RecordReply(Local, at(12*s), at(20*s))
	assert.Equal(t, 12*s, l.countedTouch)
}

// The member has asked its leader about the session. That leader may have been deposed; it is not if a write is committed.
func TestAReconnect(t *testing.T) {
	l := lives()
	l.RecordConnecting(at(20 * s))
	l.RecordConnected(at(20*s), at(21*s), 40*s, false)
	assert.Equal(t, 7*s, l.countedTouch)
	l.RecordReply(Committed, at(22*s), at(23*s))
	assert.Equal(t, 20*s, l.countedTouch)

	l = lives()
	l.RecordReply(Local, at(10*s), at(10*s))
	l.RecordConnected(at(12*s), at(12*s), 40*s, false)
	l.RecordReply(Local, at(25*s), at(25*s))
	assert.Zero(t, l.countedTouch, "another member answers for its own touches only")
}

// 1. The new leader handles a connect request and grants less; the reply is lost. 2. A deposed leader replies to the next
// request and grants more: that proves nothing about the timeout that the new leader has.
func TestAConnectRequestCountsUntilALaterOneIsProved(t *testing.T) {
	for _, p := range []Proof{Committed, Local} {
		l := lives()
		l.lowestTimeout = 20 * s
		l.RecordConnecting(at(10 * s))
		l.RecordConnecting(at(11 * s))
		l.RecordConnected(at(11*s), at(11*s), 40*s, false)
		assert.Equal(t, 10*s+20*s-s-12*s, l.HoldLeft(at(12*s)))
		l.RecordReply(Local, at(24*s), at(24*s))
		assert.Equal(t, 10*s+20*s-s-24*s, l.HoldLeft(at(24*s)))
		l.RecordReply(p, at(25*s), at(25*s))
		assert.Equal(t, 11*s+40*s-s-25*s, l.HoldLeft(at(25*s)), "the authority has this connection's timeout")
	}
}

// 1. A member that grants less has the session in its table. 2. The client connects to a server that grants more, and a
// write is committed. 3. The first member reports its table: the smaller timeout begins again.
func TestTheSmallestGrantCounts(t *testing.T) {
	l := lives()
	l.RecordConnecting(at(10 * s))
	l.RecordConnected(at(10*s), at(10*s), 20*s, false)
	l.RecordReply(Local, at(11*s), at(11*s))
	l.RecordConnecting(at(12 * s))
	l.RecordConnected(at(12*s), at(12*s), 40*s, false)
	l.RecordReply(Committed, at(13*s), at(13*s))
	assert.Equal(t, 12*s+20*s-s-13*s, l.HoldLeft(at(13*s)))
}

// A suspension of the machine counts as time that has passed, and nothing was proved in it.
func TestASuspendedMachine(t *testing.T) {
	l := lives()
	l.RecordReply(Local, at(5*s), at(5*s))
	awake := Instant{Mono: 6 * s, Boot: 30 * s} // 24 s asleep
	l.RecordReply(Committed, awake, awake)
	assert.Zero(t, l.countedTouch, "one second of the clock that proves")
	assert.Equal(t, 9*s, l.HoldLeft(awake))
}

func TestNothingThatCountsIsTakenBack(t *testing.T) {
	for _, then := range []Servers{
		{Standalone: true, Margin: s}, {Report: 3 * s, Margin: s}, {Report: 9 * s, Stale: 13 * s, Margin: s},
	} {
		l := lives()
		l.RecordReply(Committed, at(10*s), at(10*s))
		l.RecordReply(Committed, at(20*s), at(20*s))
		before := l.HoldLeft(at(20 * s))
		l.Assume(then)
		assert.GreaterOrEqual(t, l.HoldLeft(at(20*s)), before)
		l.RecordConnected(at(20*s), at(20*s), 40*s, false)
		assert.GreaterOrEqual(t, l.HoldLeft(at(20*s)), before)
	}
}

// Without holds the last reply counts, until a connect request is sent, which may make the timeout smaller.
func TestWhatIsLeftOfASession(t *testing.T) {
	l := lives()
	l.RecordReply(Local, at(10*s), at(11*s))
	assert.Equal(t, 10*s+40*s-s-12*s, l.SessionLeft(at(12*s)))
	l.AddHolds(1, at(12*s))
	assert.Equal(t, 40*s-s-12*s, l.SessionLeft(at(12*s)))
	l.AddHolds(-1, at(12*s))
	l.lowestTimeout = 20 * s
	l.RecordConnecting(at(15 * s))
	l.RecordConnecting(at(16 * s))
	assert.Equal(t, 15*s+20*s-s-17*s, l.SessionLeft(at(17*s)))
}

// A hold that begins has half of what remains of the timeout after the time of a proof; otherwise a write comes first.
func TestWhenAHoldWouldBeShort(t *testing.T) {
	for _, tt := range []struct {
		servers Servers
		now     time.Duration
		wait    time.Duration
		short   bool
	}{
		{Servers{Report: 3 * s, Stale: 13 * s, Margin: s}, 25*s + s/2, 0, false},
		{Servers{Report: 3 * s, Stale: 13 * s, Margin: s}, 25*s + s/2 + 1, 5*s + 3*s + 1 - (25*s + s/2 + 1), true},
		{Servers{Report: 3 * s, Margin: s}, 20*s + s/2, 0, false},
		{Servers{Report: 3 * s, Margin: s}, 20*s + s/2 + 1, 5*s + 3*s + 1 - (20*s + s/2 + 1), true},
		{Servers{Standalone: true, Margin: s}, 39*s - 1, 0, false},
		{Servers{Standalone: true, Margin: s}, 39 * s, 0, true},
	} {
		l := &Liveness{lowestTimeout: 40 * s}
		l.Assume(tt.servers)
		l.RecordConnected(at(0), at(5*s), 40*s, false)
		l.Assume(tt.servers) // the server's kind is known
		wait, short := l.Short(at(tt.now))
		assert.Equal(t, tt.short, short, "%+v", tt)
		assert.Equal(t, tt.wait, wait, "%+v", tt)
	}
}

// However many requests are sent, the recorded touches reach back as far as is needed, with a loss of a twelfth of that at
// most.
func TestTouchesInAFixedSpace(t *testing.T) {
	for _, every := range []time.Duration{time.Millisecond, 300 * time.Millisecond, s, 2 * s} {
		for _, stale := range []time.Duration{0, 13 * s} {
			l := lives()
			l.Assume(Servers{Report: 3 * s, Stale: stale, Margin: s})
			for d := every; d < 60*s; d += every {
				l.RecordReply(Local, at(d), at(d))
				if d > 30*s && stale > 0 {
					require.LessOrEqual(t, d-l.countedTouch, 13*s+l.servers.touchDistance(40*s)+2*every)
				}
				if every >= s && d > 30*s {
					l.RecordReply(Committed, at(d+1), at(d+1))
					require.LessOrEqual(t, d-l.countedTouch, 3*s+l.servers.touchDistance(40*s)+2*every)
				}
			}
		}
	}
}

// usual returns the framework's assumptions about servers with that tick and syncLimit, for a session timeout.
func usual(timeout, tick time.Duration, syncLimit int) Servers {
	s := Servers{Report: tick/2 + min(timeout/8, tick), Margin: min(timeout/10, time.Second)}
	if stale := time.Duration(2*syncLimit+3) * tick / 2; timeout >= 2*stale {
		s.Stale = stale
	}
	return s
}

// The remaining time of a hold, when servers reply immediately: at its grant, whether that follows the reply to its create
// or an event after any rest; and later. The writes are those that Short and WriteDue require, the pings those of Rest and
// Pace.
func TestWhatIsLeftOfAHold(t *testing.T) {
	for _, tick := range []time.Duration{s / 2, 2 * s} {
		for _, timeout := range []time.Duration{4 * s, 6 * s, 10 * s, 20 * s, 26 * s, 30 * s, 40 * s, 60 * s, 120 * s} {
			for _, created := range []bool{true, false} {
				t.Run(fmt.Sprint(timeout, tick, created), func(t *testing.T) {
					grant, dip, steady, writes := life(usual(timeout, tick, 5), timeout, created)
					servers := usual(timeout, tick, 5)
					assert.GreaterOrEqual(t, steady, servers.Steady(timeout))
					if servers.Stale > 0 {
						assert.GreaterOrEqual(t, grant, (timeout-servers.Stale)/2, "or a write comes first")
						assert.LessOrEqual(t, writes, 1, "one makes it whole")
					} else {
						assert.GreaterOrEqual(t, grant, timeout/4)
					}
					assert.Positive(t, dip)
					t.Logf("left at the grant %v, then at least %v, in the long run %v; %d writes; pings a minute at rest %.1f",
						grant.Round(s/10), dip.Round(s/10), steady.Round(s/10), writes, 60/servers.Rest(timeout).Seconds())
				})
			}
		}
	}
}

// life simulates rests of every phase, a grant, and a hold of four timeouts. It returns the least remaining time at the
// grant, the least until the hold has its full time, and the least afterwards; and the writes during the hold, unless only
// writes count.
func life(servers Servers, timeout time.Duration, created bool) (grant, dip, steady time.Duration, writes int) {
	rest := servers.Rest(timeout)
	held, _ := servers.Pace(timeout)
	step := held / 128
	grant, dip, steady = timeout, timeout, timeout
	for phase := time.Duration(0); phase < rest; phase += rest / 16 {
		l := Liveness{lowestTimeout: timeout}
		l.Assume(servers)
		l.RecordConnected(at(0), at(0), timeout, false)
		l.RecordVerdict(Member)
		begin := (4+timeout/rest)*rest + phase
		for d := rest; d <= begin; d += rest {
			l.RecordReply(Local, at(d), at(d))
		}
		if created {
			l.RecordReply(Committed, at(begin), at(begin))
		}
		now := begin
		for { // before the grant
			wait, short := l.Short(at(now))
			if !short {
				break
			}
			now += max(wait, 0)
			l.RecordReply(Committed, at(now), at(now))
		}
		l.AddHolds(1, at(now))
		grant = min(grant, l.HoldLeft(at(now)))
		for from := now; now < from+4*timeout; now += step {
			left := l.HoldLeft(at(now))
			if now < from+servers.Report+timeout/4 {
				dip = min(dip, left)
			} else {
				steady = min(steady, left)
			}
			if in, due := l.WriteDue(at(now)); due && in == 0 {
				l.RecordReply(Committed, at(now), at(now))
				if servers.Stale > 0 && phase == 0 {
					writes++
				}
			}
			if now-l.lastSent >= held {
				l.RecordReply(Local, at(now), at(now))
			}
		}
	}
	return grant, dip, steady, writes
}

// The rest between pings is as long as intended: the traffic of a client without holds.
func TestPingsAtRest(t *testing.T) {
	for timeout, most := range map[time.Duration]float64{10 * s: 36.1, 20 * s: 18.1, 30 * s: 11, 40 * s: 7, 60 * s: 4, 120 * s: 2} {
		perMinute := 60 / usual(timeout, 2*s, 5).Rest(timeout).Seconds()
		assert.LessOrEqual(t, perMinute, most, timeout)
	}
	alone := Servers{Standalone: true, Margin: s}
	assert.Equal(t, 3*s, alone.Rest(10*s))
}

func TestPaceLeavesTimeToFindAnotherServer(t *testing.T) {
	for _, c := range []struct {
		servers       Servers
		timeout       time.Duration
		ping, silence time.Duration
	}{
		{Servers{Standalone: true, Stale: 13 * s}, 6 * s, s / 2, 2 * s},
		{Servers{Stale: 12 * s}, 30 * s, 3 * s / 2, 6 * s},
		{Servers{Stale: 13 * s}, 4 * s, 4 * s / 12, 4 * s / 3}, // no room for the bound at all
		{Servers{}, 6 * s, s / 2, 2 * s},
	} {
		ping, silence := c.servers.Pace(c.timeout)
		assert.Equal(t, c.ping, ping, "%+v", c)
		assert.Equal(t, c.silence, silence, "%+v", c)
	}
}

func TestSteadyAndRest(t *testing.T) {
	for _, tt := range []struct {
		servers               Servers
		timeout, steady, rest time.Duration
	}{
		{Servers{Standalone: true, Margin: s}, 12 * s, 12*s - s - 2*s, 4*s - s/3},
		{Servers{Report: 3 * s, Stale: 13 * s, Margin: s}, 40 * s, 40*s - s - 2*(27*s/12) - 13*s - 13*s/12,
			(40*s - s - 27*s/2 + 40*s/100) / 3},
		{Servers{Stale: 49 * s}, 150 * s, 150*s - 2*(101*s/12) - 49*s - 49*s/12, 101 * s / 3},
		{Servers{Report: 3 * s, Margin: s}, 60 * s, 60*s - s - 5*s - 10*s - 3*s, 10 * s},
	} {
		assert.Equal(t, tt.steady, tt.servers.Steady(tt.timeout), "%+v", tt)
		assert.Equal(t, tt.rest, tt.servers.Rest(tt.timeout), "%+v", tt)
	}
}

// The beginning of the first of several holds counts.
func TestAWriteIsDueForTheFirstHold(t *testing.T) {
	l := lives()
	l.RecordReply(Local, at(20*s), at(20*s))
	l.RecordReply(Committed, at(30*s), at(30*s))
	for _, step := range []struct {
		now   time.Duration
		holds int
	}{{32 * s, 1}, {33 * s, 1}, {34 * s, -1}} {
		l.AddHolds(step.holds, at(step.now))
		in, due := l.WriteDue(at(step.now))
		assert.True(t, due)
		assert.Equal(t, 32*s+3*s, step.now+in, "half a tick and a pause after the hold began")
	}
}

func TestWhenAWriteIsDue(t *testing.T) {
	due := func(l *Liveness, now time.Duration, want time.Duration) {
		t.Helper()
		in, ok := l.WriteDue(at(now))
		assert.Equal(t, want >= 0, ok)
		if ok {
			assert.Equal(t, want, in)
		}
	}
	l := lives()
	due(l, 0, -1) // there is no hold
	l.RecordReply(Local, at(20*s), at(20*s))
	l.RecordReply(Committed, at(30*s), at(30*s))
	l.AddHolds(1, at(30*s))
	due(l, 31*s, 2*s+1) // half a tick and a pause after the create that ended the rest
	l.RecordReply(Committed, at(33*s+1), at(33*s+1))
	assert.Equal(t, 30*s, l.countedTouch)
	due(l, 34*s, -1) // it has its full time, so pings are enough
	l.RecordConnected(at(40*s), at(40*s), 40*s, false)
	due(l, 40*s, 0) // immediately: it proves the reconnect
	l.RecordReply(Committed, at(41*s), at(41*s))
	due(l, 42*s, -1)
	l.RecordReply(Local, at(41*s+2*l.heldPingInterval()), at(46*s))
	due(l, 46*s, -1)                         // one ping is late
	l.RecordReply(Local, at(51*s), at(52*s)) // the link has stalled
	due(l, 52*s, 3*s+1)
	l.AddHolds(-1, at(54*s))
	due(l, 60*s, -1)

	l = lives()
	l.Assume(Servers{Report: 3 * s, Margin: s})
	l.AddHolds(1, at(0))
	due(l, 0, 0) // only writes count, and there was none
	l.RecordReply(Committed, at(s), at(2*s))
	due(l, 3*s, 40*s/6-2*s)

	l = lives()
	l.AddHolds(1, at(0))
	l.RecordVerdict(Standalone)
	l.RecordConnected(at(9*s), at(9*s), 40*s, false)
	due(l, 9*s, -1) // the server has not yet replied whether it is still standalone
}

package wire

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

func TestSleepIsCountedByTheClockThatGoesOn(t *testing.T) {
	var at time.Duration
	s := newSleepMeter(func() time.Duration { return at })
	when := time.Now()
	slept := func() time.Duration {
		when = when.Add(recentReading)
		return s.timeAsleep(when)
	}
	assert.Zero(t, slept())
	at = clockNoise
	assert.Zero(t, slept(), "two clocks are never read at one instant")
	at = 8 * time.Hour
	assert.Equal(t, 8*time.Hour, slept())
	at += clockNoise / 2
	assert.Equal(t, 8*time.Hour, slept())
	at += time.Minute
	assert.Equal(t, 8*time.Hour+time.Minute+clockNoise/2, slept())
	at += 40 * 365 * 24 * time.Hour
	assert.Equal(t, 8*time.Hour+time.Minute+clockNoise/2, slept(), "a clock that was set from 1970 to today")
	at += time.Second
	assert.Equal(t, 8*time.Hour+time.Minute+clockNoise/2+time.Second, slept())
	at += longestSleep
	assert.Equal(t, 8*time.Hour+time.Minute+clockNoise/2+time.Second+longestSleep, slept())
}

func TestTheMachineIsAskedOnceAMoment(t *testing.T) {
	asked := 0
	s := newSleepMeter(func() time.Duration { asked++; return 0 })
	asked = 0
	at := time.Now()
	for range 10 {
		s.timeAsleep(at)
	}
	s.timeAsleep(at.Add(recentReading - 1))
	assert.Equal(t, 1, asked)
	s.timeAsleep(at.Add(recentReading))
	assert.Equal(t, 2, asked)
}

func TestInSleepTheWallClockGoesOn(t *testing.T) {
	for _, tt := range []struct {
		byGo, byWall time.Duration
		awake        bool
	}{
		{0, 0, true},
		{recentReading - 1, recentReading - 1, true},
		{1 - recentReading, 1 - recentReading, true}, // another goroutine has read the clock since
		{recentReading, recentReading, false},
		{-recentReading, -recentReading, false},
		{recentReading * 9 / 10, recentReading + clockNoise/3, true},
		{0, clockNoise / 2, false},
		{0, clockNoise, false},
		{recentReading / 2, 8 * time.Hour, false},
		{recentReading / 2, -time.Second, false}, // the clock was set back, for example after a sleep
		{time.Hour, 0, false},
	} {
		assert.Equal(t, tt.awake, isUndisturbed(tt.byGo, tt.byWall), "%v, %v", tt.byGo, tt.byWall)
	}
}

// The machine's own clocks: in a bubble only virtual time passes, and outside the machine sleeps for no longer than the test
// takes.
func TestTheMachinesClocks(t *testing.T) {
	before, wall := readClock(), time.Now()
	for range 1000 {
		assert.GreaterOrEqual(t, elapsed(before, readClock()), time.Duration(0))
	}
	assert.LessOrEqual(t, elapsed(before, readClock()), time.Since(wall)+time.Minute)
	synctest.Test(t, func(t *testing.T) {
		from := readClock()
		time.Sleep(24 * time.Hour)
		assert.Equal(t, 24*time.Hour, elapsed(from, readClock()))
		Sleep(time.Hour)
		assert.Equal(t, 25*time.Hour, elapsed(from, readClock()))
	})
}

// After a sleep of the machine the session has lapsed at the first look at the clock; without a call that looks, it lapses
// within a moment, although every timer has stood still.
func TestASessionEndsWhenTheMachineHasSlept(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		time.Sleep(time.Minute)
		Sleep(9 * time.Second)
		assert.True(t, c.Validity().Valid())
		time.Sleep(time.Minute)
		srv.Pause()
		c.await(Disconnected)
		Sleep(9 * time.Second)
		assert.False(t, c.Validity().Valid())
		began := time.Now()
		ev := c.await(Lost)
		require.ErrorIs(t, ev.Err, ErrLapsed)
		assert.Less(t, time.Since(began), time.Second)
	})
}

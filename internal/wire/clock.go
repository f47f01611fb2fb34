package wire

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// clockReading is a reading of the clock by which sessions live: Go's monotonic clock, which is never set,
// and the time that the machine has slept by then. On most systems Go's clock stands still while the machine sleeps. In
// a test's bubble it is virtual, and the machine sleeps only if the test says so.
type clockReading struct {
	t     time.Time
	slept time.Duration
}

func readClock() clockReading {
	at := time.Now()
	return clockReading{at, machineSleep.timeAsleep(at)}
}

// elapsed is the time between two readings, sleep included.
func elapsed(from, to clockReading) time.Duration { return to.t.Sub(from.t) + to.slept - from.slept }

// sleepMeter measures the time that the machine has slept, as the difference between a clock that continues in sleep
// and one that stops.
type sleepMeter struct {
	clockLead func() time.Duration // by how much the first clock is ahead; 0 if the system has no such clock

	mu         sync.Mutex
	measuredAt time.Time     // when clockLead was called last
	baseLead   time.Duration // the lead that total accounts for
	total      time.Duration // slept so far

	injected atomic.Int64 // by tests
}

// longestSleep is the longest difference that counts as sleep: a machine without a battery-backed clock is set from 1970
// to today.
const longestSleep = 10 * 365 * 24 * time.Hour

var machineSleep = newSleepMeter(clockLead)

func newSleepMeter(ahead func() time.Duration) *sleepMeter {
	s := &sleepMeter{clockLead: ahead}
	for range 8 { // a process that is suspended between the two readings sees too little
		s.baseLead = max(s.baseLead, ahead())
	}
	return s
}

// recentReading limits the age of a reading that is used again: a reading takes two system calls, and each request reads the
// clock a few times.
const recentReading = time.Millisecond

// timeAsleep returns the time that the machine has slept by now; at was read just before.
func (s *sleepMeter) timeAsleep(at time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !isUndisturbed(at.Sub(s.measuredAt), at.Round(0).Sub(s.measuredAt.Round(0))) {
		s.measuredAt = at
		s.measureSleep()
	}
	return s.total + time.Duration(s.injected.Load())
}

// isUndisturbed reports whether the machine certainly has not slept between two moments: hardly any time has passed by
// Go's clock, and the same by the wall clock, which continues in sleep.
func isUndisturbed(byGo, byWall time.Duration) bool {
	return byGo.Abs() < recentReading && (byWall-byGo).Abs() < clockNoise/2
}

// measureSleep adds a sleep since the last measurement to total.
func (s *sleepMeter) measureSleep() {
	ahead := s.clockLead()
	switch more := ahead - s.baseLead; {
	case more > longestSleep:
		s.baseLead = ahead
	case more > clockNoise:
		s.baseLead, s.total = ahead, s.total+more
	case more < -clockNoise && sleepClockSettable:
		s.baseLead = ahead // it was set back: from here on it may go ahead again, or sleep
	}
}

// Sleep makes it seem as if the machine had slept for d, in all sessions of the process. For tests.
func Sleep(d time.Duration) { machineSleep.injected.Add(int64(d)) }

// sleepContext waits, and returns false if ctx has ended.
func sleepContext(ctx context.Context, d time.Duration) bool {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

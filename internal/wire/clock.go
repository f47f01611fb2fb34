package wire

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// instant is a reading of the clock by which sessions live (rule R8): Go's monotonic clock, which is never set, and the
// time that the machine has slept by then. On most systems Go's clock stands still while the machine sleeps. In a
// test's bubble it is virtual, and the machine sleeps only if the test says so.
type instant struct {
	t     time.Time
	slept time.Duration
}

func now() instant {
	at := time.Now()
	return instant{at, machine.slept(at)}
}

// elapsed is the time between two readings, sleep included.
func elapsed(from, to instant) time.Duration { return to.t.Sub(from.t) + to.slept - from.slept }

// sleeper measures the time that the machine has slept, as the difference between a clock that continues in sleep and
// one that stops.
type sleeper struct {
	ahead func() time.Duration // of the one clock before the other; 0 if the system has no such clock

	mu    sync.Mutex
	asked time.Time     // when ahead was called last
	base  time.Duration // the farthest that it was ahead
	total time.Duration

	injected atomic.Int64 // by tests
}

// longestSleep is the longest sleep that is believed: a machine without a battery-backed clock is set from 1970 to
// today.
const longestSleep = 10 * 365 * 24 * time.Hour

var machine = newSleeper(ahead)

func newSleeper(ahead func() time.Duration) *sleeper {
	s := &sleeper{ahead: ahead}
	for range 8 { // a process that is suspended between the two readings sees too little
		s.base = max(s.base, ahead())
	}
	return s
}

// recent is for how long the machine is not asked again: it takes two system calls, and each request reads the clock a
// few times.
const recent = time.Millisecond

// slept returns the time that the machine has slept by now; at was read just before.
func (s *sleeper) slept(at time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !undisturbed(at.Sub(s.asked), at.Round(0).Sub(s.asked.Round(0))) {
		s.asked = at
		s.look()
	}
	return s.total + time.Duration(s.injected.Load())
}

// undisturbed reports whether the machine certainly has not slept between two moments: hardly any time has passed by
// Go's clock, and the same by the wall clock, which continues in sleep.
func undisturbed(byGo, byWall time.Duration) bool {
	return byGo.Abs() < recent && (byWall-byGo).Abs() < noise/2
}

// look asks the machine.
func (s *sleeper) look() {
	ahead := s.ahead()
	switch more := ahead - s.base; {
	case more > longestSleep:
		s.base = ahead
	case more > noise:
		s.base, s.total = ahead, s.total+more
	case more < -noise && settable:
		s.base = ahead // it was set back: from here on it may go ahead again, or sleep
	}
}

// Sleep makes it seem as if the machine had slept for d, in all sessions of the process. For tests.
func Sleep(d time.Duration) { machine.injected.Add(int64(d)) }

// sleep waits, and returns false if ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
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

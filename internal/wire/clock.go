package wire

import (
	"sync"
	"sync/atomic"
	"time"
)

// instant is a reading of the clock by which sessions live (rule R8): Go's monotonic clock, which nobody sets, and how long the machine has slept by then.
// Go's clock stands still in between on most systems, and it is virtual in a test's bubble, where the machine never sleeps but when the test says so.
type instant struct {
	t     time.Time
	slept time.Duration
}

func now() instant { return instant{time.Now(), machine.slept()} }

func (i instant) zero() bool { return i.t.IsZero() }

// elapsed is how much time has passed between two readings, sleep included.
func elapsed(from, to instant) time.Duration { return to.t.Sub(from.t) + to.slept - from.slept }

// sleeper counts for how long the machine has slept, by how far a clock that goes on meanwhile is ahead of one that does not.
type sleeper struct {
	ahead func() time.Duration // of what it is at least; nil: the system has no such clock

	mu    sync.Mutex
	base  time.Duration // the farthest that it was ahead
	total time.Duration

	injected atomic.Int64 // by tests
}

// longest is the longest sleep that we believe in: a machine that starts without a clock of its own is set from 1970 to today.
const longest = 10 * 365 * 24 * time.Hour

var machine = newSleeper(ahead)

func newSleeper(ahead func() time.Duration) *sleeper {
	s := &sleeper{ahead: ahead}
	for range 8 { // a process that is set aside between the two readings sees too little
		s.base = max(s.base, ahead())
	}
	return s
}

func (s *sleeper) slept() time.Duration {
	ahead := s.ahead()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch more := ahead - s.base; {
	case more > longest:
		s.base = ahead
	case more > noise:
		s.base, s.total = ahead, s.total+more
	case more < -noise && settable:
		s.base = ahead // it was set back: from here on it may go ahead again, or sleep
	}
	return s.total + time.Duration(s.injected.Load())
}

// Sleep makes it seem as if the machine had slept for d, in all sessions of the process. For tests.
func Sleep(d time.Duration) { machine.injected.Add(int64(d)) }

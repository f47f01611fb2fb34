//go:build !linux && !windows

package wire

import "time"

// sleepClockSettable reports whether the clock that shows sleep can be set.
const sleepClockSettable = true

// clockNoise limits the variation of the difference of the two clocks. A drift counts each time that it has added up to
// this.
const clockNoise = 10 * time.Millisecond

var processStart = time.Now()

// clockLead returns how far the wall clock is ahead of Go's. Here no clock that continues while the machine sleeps, and
// is not set, can be read without C. So a step of the wall clock cannot be told from a sleep, and counts as one unless
// it is longer than any sleep: needlessly careful, but safe. A clock that is set back changes nothing. In a test's
// bubble both clocks are virtual, and neither is ever ahead.
func clockLead() time.Duration {
	at := time.Now()
	return at.Round(0).Sub(processStart.Round(0)) - at.Sub(processStart)
}

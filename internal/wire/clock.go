package wire

import "time"

// elapsed is how much time has passed between two readings of the clock: the larger of what the monotonic and the wall clock say (rule R8).
// Go's monotonic clock stands still while a machine is suspended or a virtual machine paused; the wall clock is set right afterwards. A wall
// clock that is set forward makes us careful for nothing, one that is set back changes nothing.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

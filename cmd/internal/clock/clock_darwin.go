package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now returns the time since some moment in the past, sleep included: on macOS this clock runs during sleep.
func Now() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return time.Duration(ts.Nano())
}

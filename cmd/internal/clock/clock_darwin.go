package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now is the time since some moment in the past, sleep included: on macOS this clock goes on.
func Now() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return time.Duration(ts.Nano())
}

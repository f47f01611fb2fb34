package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now is the time since the machine was started, sleep included.
func Now() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil { // a sandbox without it, which does not sleep either
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	}
	return time.Duration(ts.Nano())
}

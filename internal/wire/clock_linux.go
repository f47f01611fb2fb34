package wire

import (
	"syscall"
	"time"
	"unsafe"
)

// settable says that somebody may set the clock by which sleep is noticed.
const settable = false

// noise is what the difference of the two clocks may vary by. Nothing sleeps for so short a time.
const noise = 10 * time.Millisecond

const (
	clockMonotonic = 1 // stands still while the machine sleeps, and is what Go's clock is
	clockBoottime  = 7 // goes on
)

// ahead reads the clock that goes on first: a process that is suspended between the two readings sees too
// little once, never too much.
func ahead() time.Duration {
	var on, awake syscall.Timespec
	_, _, err := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&on)), 0)
	if err == 0 {
		_, _, err = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&awake)), 0)
	}
	if err != 0 {
		return 0 // older than Linux 2.6.39, or forbidden
	}
	return time.Duration(on.Nano() - awake.Nano())
}

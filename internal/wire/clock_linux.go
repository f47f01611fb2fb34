package wire

import (
	"syscall"
	"time"
	"unsafe"
)

// sleepClockSettable reports whether the clock that shows sleep can be set.
const sleepClockSettable = false

// clockNoise limits the variation of the difference of the two clocks. No machine sleeps for so short a time.
const clockNoise = 10 * time.Millisecond

const (
	clockMonotonic = 1 // stands still while the machine sleeps; the source of Go's monotonic clock
	clockBoottime  = 7 // continues
)

// clockLead reads the clock that continues first: a process that is suspended between the two readings sees too little
// once, never too much.
func clockLead() time.Duration {
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

package wire

import (
	"syscall"
	"time"
	"unsafe"
)

// sleepClockSettable reports whether the clock that shows sleep can be set.
const sleepClockSettable = false

// clockNoise limits the variation of the difference of the two clocks. One of them moves in steps.
const clockNoise = 50 * time.Millisecond

var (
	kernel32  = syscall.NewLazyDLL("kernel32.dll")
	tickCount = kernel32.NewProc("GetTickCount64")             // continues while the machine sleeps
	awake     = kernel32.NewProc("QueryUnbiasedInterruptTime") // stands still
	hasClocks = tickCount.Find() == nil && awake.Find() == nil
)

// clockLead reads the clock that continues first, which moves in steps of 16 ms: it sees too little once, never too
// much. (If Go's own clock continues, too, a sleep is counted twice, which is safe.)
func clockLead() time.Duration {
	if !hasClocks {
		return 0
	}
	low, high, _ := tickCount.Call()
	ms := uint64(low)
	if unsafe.Sizeof(low) == 4 {
		ms |= uint64(high) << 32
	}
	var hundredNanos uint64
	if ok, _, _ := awake.Call(uintptr(unsafe.Pointer(&hundredNanos))); ok == 0 {
		return 0
	}
	return time.Duration(ms)*time.Millisecond - time.Duration(hundredNanos)*100
}

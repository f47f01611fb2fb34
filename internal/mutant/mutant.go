// Package mutant says which deliberate bug is switched on. The shipped code does not know it: the replacements of
// zktest/simulation/bugs, which only go build's -overlay puts in its place, do.
package mutant

import (
	"sync/atomic"
	"time"
)

var (
	active atomic.Value
	wall   atomic.Int64
)

// On says whether the bug of this name is switched on.
func On(name string) bool {
	is, _ := active.Load().(string)
	return is == name
}

// Set chooses the bug; "" is none.
func Set(name string) {
	active.Store(name)
	wall.Store(0)
}

// SetWallClock sets the machines' wall clocks ahead by d. A bubble has no wall clock, and the shipped code never reads
// one, so it has no effect but in the bug that reads it.
func SetWallClock(d time.Duration) { wall.Add(int64(d)) }

// WallClock is how far the wall clock was set ahead, if the bug that counts that is switched on.
func WallClock() time.Duration {
	if !On("the wall clock counts") {
		return 0
	}
	return time.Duration(wall.Load())
}

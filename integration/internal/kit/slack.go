package kit

import (
	"fmt"
	"os"
	"runtime"
	"time"
)

// Slack is by how much whatever happens at a certain time may be late by the wall clock: a second, and one more for each
// process that each processor has to run. Every test that holds something to a time limit adds it: only a machine that is
// busy allows for more.
func Slack() time.Duration {
	load, _ := os.ReadFile("/proc/loadavg") // none: not Linux
	return slack(string(load), runtime.NumCPU())
}

// slack is Slack for a machine with so many processors.
func slack(loadavg string, processors int) time.Duration {
	var running float64 // on average, in the last minute
	_, _ = fmt.Sscan(loadavg, &running)
	return time.Second + time.Duration(running/float64(processors)*float64(time.Second))
}

// Package bench compares this library with Curator for Java, go-zookeeper's Lock and bare clients that send the
// least: the same work on one server, in rounds that take turns, with requests counted at the server. The usual test
// plays a short round of everything, and fails if a cycle costs this library more requests than it should. `make
// bench-peers` measures, and writes docs/measured.md.
package bench

import "time"

// Job is work that contenders do, each again and again, as fast as they can.
type Job struct {
	Work       string        // mutex, shared (one lock object for all), semaphore, semaphore-mutex, counter
	Sessions   int           // how many; contenders are spread over them
	Contenders int           // goroutines or threads
	Leases     int           // of a semaphore; 1 for locks
	Hold       time.Duration // how long each holds, or rests after an addition
	Path       string        // of the recipe
}

// Sample is the work between two marks.
type Sample struct {
	Took      time.Duration
	Cycles    int64           // holds, or additions
	CPU       time.Duration   // of the process of the client
	Bytes     int64           // allocated
	Objects   int64           // allocated; 0 for Java, which does not report it
	Overlaps  int64           // grants that came while others held all there is
	Slowest   int64           // cycles of the contender that had the fewest
	Fastest   int64           // cycles of the contender that had the most
	HandOvers []time.Duration // sorted: from the begin of a release to the next grant, or additions; some thousand samples and the longest
}

// HandOver is the time that the given part of the hand-overs did not exceed, as a quantile.
func (s Sample) HandOver(part float64) time.Duration {
	if len(s.HandOvers) == 0 {
		return 0
	}
	return s.HandOvers[int(part*float64(len(s.HandOvers)-1))]
}

// Rate is cycles a second.
func (s Sample) Rate() float64 { return float64(s.Cycles) / s.Took.Seconds() }

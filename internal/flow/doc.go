// Package flow is how goroutines of this module tell each other something without waiting: a [Queue] has all
// of it taken in order by one goroutine, a [Signal] wakes everyone who waits for a change, and [Ended] is the
// error of whoever stopped waiting because a context ended.
package flow

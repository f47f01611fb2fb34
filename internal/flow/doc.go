// Package flow lets goroutines of this module notify each other without blocking the notifier. A [Queue]
// delivers values in order to one goroutine. A [Signal] wakes all goroutines that wait for a change. [Ended]
// returns the error of a wait that a context has ended.
package flow

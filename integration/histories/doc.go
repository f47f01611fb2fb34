// Package histories records the operations of clients on a real ensemble of three while members are killed, stopped
// and cut off from each other and from their clients at random, and has porcupine find out whether some order of the
// operations explains their results.
//
//	lock, election   a hold begins only after the one before has ended, and tokens grow
//	counter          compare-and-set by version: each increment that succeeded counted once, each that was
//	                 refused was refused for a reason, and reads that the ensemble confirmed saw the latest
//	guarded writes   a write under a guard was made by the holder of that time: no older token after a newer
//
// An operation has a call time and a return time, by one clock, and takes effect in between. An operation with an
// unknown outcome (framework.ErrOutcomeUnknown) may take effect at any time after its call, or never; one that failed
// otherwise has no effect. A hold ends between the last instant of its certain validity and the instant when its end
// was seen, or its release was confirmed.
//
// A history that no order explains is kept as a picture, an HTML file in the directory CURATOR_TEST_ARTIFACTS, or
// else in a new one below the system's temporary directory; the failure names it. CURATOR_TEST_HISTORIES is the time
// to record (default 30s), CURATOR_TEST_SEED is the seed of the faults.
//
// The histories of simulated schedules (the directory simulation) go through the same models; CURATOR_TEST_SIMULATED
// is the number of schedules.
//
// Two deliberate faults show that the models find violations: a counter that does not compare, and a lock whose
// holder ignores its context.
package histories

// Package clock reads the clock that times a command: the same for all processes of the machine, not affected by
// setting the time, and running while the machine sleeps.
package clock

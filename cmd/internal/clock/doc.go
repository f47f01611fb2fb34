// Package clock reads the clock by which a command's time is counted: the same for all processes of the
// machine, set by nobody, and going on while the machine sleeps.
package clock

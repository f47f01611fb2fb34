// Package mutant switches deliberate bugs on, to see that the simulation (internal/sim) finds them. Without
// the build tag mutants, which only the simulation's own check uses, On is a constant false: the compiler
// removes the bugs, and nothing at run time can switch them on.
package mutant

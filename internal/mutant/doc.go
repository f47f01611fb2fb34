// Package mutant switches deliberate bugs on, to see that the simulation (internal/sim) finds them. Without the build tag mutants, which only the
// simulator's own check uses, On is a constant false: the compiler removes the bugs, and nothing outside can bring them back.
package mutant

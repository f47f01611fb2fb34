// Package simulation runs the whole library against an ensemble of package zktest through a schedule of faults, in
// virtual time, and checks the promises meanwhile: it looks for two holders, tokens that go back, frozen
// queues, lost events, leftovers. See docs/simulation.md.
//
// A schedule is made from its seed, a number, before the run: the size of the ensemble, timeouts, clients,
// what they do, and every fault with its time. Each client decides with a random source of its own. The seed
// does not decide in which order goroutines run that are ready at one virtual instant.
package simulation

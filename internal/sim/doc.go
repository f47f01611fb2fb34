// Package sim runs the whole library against an ensemble of package zktest through a schedule of faults, in virtual time, and watches over the
// promises meanwhile: two holders, tokens that go back, frozen queues, lost events, what is left behind. See docs/simulation.md.
//
// A schedule is made from a number, its seed, before the run: the size of the ensemble, timeouts, clients, what they do, and every fault with its
// time. Each client decides with a random source of its own. What the seed does not decide is in which order goroutines run that are ready at one
// virtual instant.
package sim

// Package simulation runs the whole library through schedules of faults, in virtual time, and checks the promises
// meanwhile: it looks for two holders, tokens that go back, frozen queues, lost events, leftovers. All of it is
// tests: a scenario of zktest/chaos, whose plans, faults, processes and reports it uses. See docs/simulation.md.
//
// A schedule is made from its seed, a number, before the run: the size of the ensemble, timeouts, clients,
// what they do, and every fault with its time. Each client decides with a random source of its own. The seed
// does not decide in which order goroutines run that are ready at one virtual instant.
package simulation

// Package stories tells one and the same suite of stories on every kind of server group that there is: members of zktest over TCP, one real
// server, three as child processes, three in containers.
//
// A group of clients, each first connected to another member, works at all recipes and caches at once, each at a path of its own (workloads),
// while one thing after the other goes wrong (faults). Always:
//
//   - never are two contexts of exclusive holders alive at the same instant, by one clock, and never more leases than there are,
//   - tokens grow from holder to holder,
//   - an error is one of those that tell of a bad connection or a lost session, or that of the caller's own context,
//   - nobody gets through a barrier before its time,
//   - when a fault is over everybody is served again in bounded time, and caches and what their events played back come to equal the tree,
//
// and in the end no node is left, and no clean-up pending.
//
// A slow disk cannot be had without privileges that a test should not need. Instead "stutters" has the members stand still in short bursts, one
// after the other, which is what a server looks like whose disk or collector keeps it waiting.
//
// What each workload got done under each fault is told by the report of ../run: one table for each kind of server.
package stories

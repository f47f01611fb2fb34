// Package stories is a table of fault × recipe × language, played on every kind of group of real servers: three as child
// processes, three in containers, and one beside Java.
//
// A group of clients, each first connected to a different member, uses all recipes and caches at the same time, each
// at a separate path (workloads), while one fault follows the other. Always:
//
//   - no two contexts of exclusive holders are alive at the same instant, by one clock, and no more leases
//     are held than there are,
//   - tokens grow from holder to holder,
//   - an error is about a bad connection, a lost session, or the end of the caller's context,
//   - no client gets through a barrier before its time,
//   - an item that was put into a queue is handled: without a lock path once, or its consumer reports that this is
//     unknown; with one never by two at a time,
//   - the function of a slot never runs twice at a time, nor again after it was reported as done; with
//     once.AtMostOnce it is called once,
//   - an item of an assignment has one owner,
//   - when a fault is over every client is served again in bounded time; the caches, and the trees made from their
//     events, become equal to the tree; and kept nodes, members and service instances are there, of the present
//     sessions and with their last data, and seen by all,
//
// and in the end no node is left, and no clean-up pending.
//
// On one server a Java process on Curator takes part in the workloads that it has a recipe for: all ways to hold a mutex,
// the read-write lock, with readers that share nodes, the semaphore, elections, queues, kept nodes, groups and services.
// What it holds excludes Go's, and the other way round, in the order of their nodes; each is granted what the other has
// lost. It expires and is killed as well. Only the promises of Curator are demanded of it: it does not notice that it has
// lost a lock, so its hold counts only while its node exists; it may put an item twice, and without a lock path it may lose
// one that it has taken, so that it only puts items there; and it may leave the lock of an item until its session ends.
//
// A slow disk takes privileges that a test should not need. Instead "stutters" stops the members in short bursts, one
// after the other: a server with a slow disk or long garbage collections behaves like that.
//
// On three processes there are also stories of a few recipes alone: an election through rolling restarts, how soon the next
// one leads after a resignation or holds after a killed holder, and a rolling upgrade. The worst cases for P1 are in package
// promises.
//
// The report of ../run has the progress of each workload under each fault: one table for each kind of server.
package stories

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
//     events, become equal to the tree; and kept nodes, members and service instances exist, in the present sessions and
//     with their last data, and all clients see them,
//
// and in the end no node is left, and no clean-up pending.
//
// On one server a Java process on Curator takes part in each workload for whose recipe there is a class of Curator: all ways
// to hold a mutex, the read-write lock, also with readers that share nodes, the semaphore, elections, queues, kept nodes,
// groups and services. Holds of Go and Java exclude each other, in the order of their nodes, and each is granted a lock that
// the other has lost. Java's session expires, too, and its process is killed. Java keeps only the promises of Curator: since
// it does not notice the loss of a lock, its hold counts only while its node exists; since it may put an item twice, its
// items may be handled twice; since it may lose an item without a lock path, it consumes only with one; and there it may
// leave an item's lock until its session ends.
//
// A slow disk takes privileges that a test should not need. Instead "stutters" stops the members in short bursts, one
// after the other: a server with a slow disk or long garbage collections behaves like that.
//
// On three processes there are also stories of a few recipes alone: an election through rolling restarts, how soon the next
// leader follows a resignation, and the next holder a killed one, and a rolling upgrade. The worst cases for P1 are in package
// promises.
//
// The report of ../run has the progress of each workload under each fault: one table for each kind of server.
package stories

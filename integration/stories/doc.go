// Package stories runs one suite of stories on every kind of group of real servers: one, three as child processes,
// three in containers.
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
// A slow disk takes privileges that a test should not need. Instead "stutters" stops the members in short bursts, one
// after the other: a server with a slow disk or long garbage collections behaves like that.
//
// On three processes there are also stories of a few recipes alone: an election through a rolling restart and a
// leader that is cut off, how soon the next one leads after a resignation or holds after a killed holder, and turns
// at a lock and at leading under one fault after the other. The worst cases for P1 are in package promises.
//
// The report of ../run has the progress of each workload under each fault: one table for each kind of server.
package stories

// Package stories runs one suite of stories on every kind of group of real servers: one, three as child
// processes, three in containers.
//
// A group of clients, each first connected to a different member, uses all recipes and caches at once, each
// at a path of its own (workloads), while one fault follows the other. Always:
//
//   - no two contexts of exclusive holders are alive at the same instant, by one clock, and no more leases
//     are held than there are,
//   - tokens grow from holder to holder,
//   - an error is one of those for a bad connection or a lost session, or that of the caller's own context,
//   - nobody gets through a barrier before its time,
//   - an item that was put into a queue is handled: without a lock path once, or its consumer says that nobody can
//     know; with one never by two at a time,
//   - the function of a slot never runs twice at a time, nor again when somebody was told that it is done; with
//     once.AtMostOnce it is called once,
//   - an item of an assignment has one owner,
//   - when a fault is over everybody is served again in bounded time; the caches, and the trees made from their
//     events, become equal to the tree; and kept nodes, members and service instances are there, of the present
//     sessions and with their last data, and seen by all,
//
// and in the end no node is left, and no clean-up pending.
//
// A slow disk takes privileges that a test should not need. Instead "stutters" stops the members in short
// bursts, one after the other: that is how a server behaves whose disk or garbage collector keeps it waiting.
//
// On three processes there are also stories of a few recipes alone: an election through a rolling restart and
// a leader that is cut off, how soon the next one leads after a resignation or holds after a killed holder,
// and turns at a lock and at leading while one thing after the other goes wrong. The worst cases for P1 are
// in package promises.
//
// The report of ../run says how much each workload got done under each fault: one table for each kind of
// server.
package stories

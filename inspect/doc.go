// Package inspect reads which contender holds a lock, which ones wait for it and since when, from the lock's nodes:
// for tools and pages of your own. It reads the lines of Curator for Java, of this library, of kazoo and of
// go-zookeeper alike.
//
//   - [Who] reads one path: its kind, its holders, and its waiters in order.
//   - [Locks] finds every line below a path, the one that has waited longest first.
//   - [FollowWho] and [FollowLocks] do the same after every change.
//   - [Why] makes a graph of which session waits for which, across locks, and finds the circles in it.
//     [Graph.Findings] lists further reasons why a line may not move.
//   - [Servers] and [Connections] return the servers' own reports, and the connections of their clients.
//   - [WhyIn] does the same from a cache, as often as you like; package inspect/http is a page made of it.
//   - [Doctor] examines the client and its servers: the rule that keeps holds safe, the latency of replies, and the
//     problems found, with advice.
//
// # Guarantees
//
// It only reads, except for [WithProbe]: it leaves no node, no watch and no session, and waits for no contender. Each
// function blocks until it has its replies. The end of ctx ends it, with the error of ctx. After a lost connection
// the client's retry policy decides; then the error is framework.ErrConnectionLoss or framework.ErrNotConnected. The
// functions are safe for concurrent use.
//
// Memory is bounded, however large the tree is: at most [WithMostNodes] nodes are read, with at most [WithMostData]
// bytes kept of each, and a list of children, which the client bounds (framework.WithMaxReply). The result reports
// omissions. A node that may not be read, has too much data, or has data that are not text, hides no other
// node. Names and data are returned unchanged: to print them use [Line.String] and the like, which escape unprintable
// characters.
//
// # Limits
//
// The result is not a snapshot: nodes are read one after the other, from the server that the client is connected to,
// which may be behind. For a result that is not older than the call, call client.Sync() first.
//
// The time of a lock's grant is not recorded. Participant.Since is the time at which the participant joined the line,
// by the servers' clock. [Connections] reports the address of a session's owner only if the servers allow it
// (4lw.commands.whitelist); Curator by default writes the address into the data of the nodes.
//
// A mutex and a leader selector write the same nodes. A semaphore's number of leases is known to its users only,
// except for kazoo's. The first Java contender in a semaphore's line has its lease's node before it has the lease.
// Java and this library do not take kazoo's nodes for contenders, nor does kazoo theirs: if both are on one path, the
// smaller group is among the foreign children.
//
// The names distinguish Java's InterProcessReadWriteLock and this library's from a mutex. A line of kazoo's writers
// alone looks like a mutex's.
//
// Corresponds to Curator's getParticipantNodes and getParticipants, of each recipe, and to kazoo's contenders and
// lease_holders.
package inspect

// Package inspect tells who holds a lock, who waits for it and since when, from what the nodes say: for tools
// and pages of your own. It reads the lines of Curator for Java, of this library, of kazoo and of
// go-zookeeper alike.
//
//   - [Who] looks at one path: what it is, who holds it, who waits, in order.
//   - [Locks] finds every line below a path, the one that has waited longest first.
//   - [FollowWho] and [FollowLocks] do the same whenever something has changed.
//   - [Why] makes a graph of who waits for whom, across locks, and finds the circles in it.
//     [Graph.Findings] says what else may be why a line does not move.
//   - [Servers] and [Connections] are what the servers say of themselves, and of who is connected to them.
//   - [WhyIn] does the same for what a cache has, as often as you like; package inspect/http is a page made of it.
//   - [Doctor] looks at the client and its servers: the rule that keeps holds safe, how long answers take,
//     and what to do about what is wrong.
//
// # What it promises
//
// It only reads, except for [WithProbe]: no node, no watch and no session of its own is left, and it waits for
// nobody. Each function blocks until it has its answers. The end of ctx ends it, with the error of ctx. After
// a lost connection the client's retry policy decides; then the error is framework.ErrConnectionLoss or
// framework.ErrNotConnected. The functions are safe for concurrent use.
//
// Memory is bounded, whatever the tree has: by [WithMostNodes] nodes, of which at most [WithMostData] bytes
// each are kept, and a list of children, which the client bounds (framework.WithMaxReply). The answer says
// what was left out. A node that may not be read, has too much data or data that are not text, hides no other
// one. Names and data are returned as they are: to print them use [Line.String] and the like, which escape
// what is not printable.
//
// # What it cannot know
//
// The answer is no snapshot: nodes are read one after the other, from the server that the client is connected
// to, which may be behind. For an answer that is not older than the question, call client.Sync() first.
//
// When a lock was granted is recorded nowhere. Participant.Since is when the participant joined the line, by
// the servers' clock. At which address the owner of a session is, [Connections] says only if the servers may
// tell (4lw.commands.whitelist); people put that into the data of the nodes, as Curator does unless it is
// told otherwise.
//
// A mutex and a leader selector write the same nodes. A semaphore's number of leases is known to its users
// only, unless they are kazoo's. The first Java contender in a semaphore's line has its lease's node before
// it has the lease. Java and this library do not take kazoo's nodes for contenders, nor does kazoo theirs: if
// both are on one path, the smaller group is among the foreign children.
//
// Java's InterProcessReadWriteLock and this library's are told from a mutex by the names. A line of kazoo's
// writers alone looks like that of a mutex.
//
// Corresponds to Curator's getParticipantNodes and getParticipants, of each recipe, and to kazoo's contenders
// and lease_holders.
package inspect

// Package line implements the line of contenders on which the recipes are built. Each contender has an ephemeral
// sequential node in a directory. The smallest number goes first, and each other contender watches its predecessor. It
// corresponds to Curator's LockInternals.
//
// [Order.Decide] is a pure function: it returns the conclusion from a list of children for the owner of a node. [Line]
// sends the requests: it creates, lists and watches, begins again when the session or the node is lost, and deletes the
// node when the caller gives up. A [Grant] is the hold of a contender. [Line.AcquireShare] and [Line.Reenter] let
// several callers share a grant, each with a [Share]. A [Front] lets the callers of a process use one grant, one after
// the other or together, as its pure function Limits.next decides; each has a [Turn].
//
// For recipes with and without a line: [Configure] and [CheckCall] for arguments, [Attempts] and [RetryThrough] for
// failures, [AwaitEvent] for events, [Do] for work under a lock, [WrapError] for errors.
//
// The promises to the recipes:
//
//   - A grant belongs to the session that created the node. All requests of one attempt run on a view pinned to that
//     session. When the session is lost the attempt ends, and Acquire starts again at the end of the line in the next
//     session.
//   - A list is believed only if the own node is in it and the server has confirmed the create.
//   - A waiter is granted only in the ways listed in arm.go. If its node is deleted it learns of that at the latest by
//     its recheck, about once per session timeout.
//   - When a caller leaves the line, for whatever reason, the client deletes its node, and repeats that until it has
//     succeeded or the session has ended.
package line

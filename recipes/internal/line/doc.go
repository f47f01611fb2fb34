// Package line implements the line of contenders on which the recipes are built. Each contender has an ephemeral
// sequential node in a directory. The smallest number goes first, and each other contender watches its predecessor. It
// corresponds to Curator's LockInternals.
//
// [Order.Decide] is a pure function: it returns the conclusion from a list of children for the owner of a node. [Line]
// sends the requests: it creates, lists and watches, begins again when the session or the node is lost, and removes
// everything when the caller gives up. A [Grant] is a granted place in line. [Line.AcquireShare] and [Line.Reenter] let
// several callers share one, each with a [Share]. A [Front] lets the callers of a process use one grant in turn, or
// together, as its pure function Limits.next decides; each has a [Turn].
//
// It also has helpers for recipes with and without a line: [Configure] and [CheckCall] for arguments, [Attempts] and
// [RetryThrough] for failures, [AwaitEvent] for events, [Do] for work under a lock, [WrapError] for errors.
//
// The promises to the recipes:
//
//   - A grant belongs to the session that created the node. All requests of one attempt run on a view pinned to that
//     session. When the session is lost the attempt ends, and Acquire starts again at the end of the line in the next
//     session.
//   - A list is believed only if the own node is in it and the server has confirmed the create.
//   - A grant without a fresh list is given only when a watch, armed while the predecessor's node existed, has reported
//     its deletion, and it was the last node ahead in the order that Java uses over all children: by the own list, or
//     because its holder has left a mark (arm.go). There was no reconnect since the list, and the own node, which is
//     watched, still exists. A node that was deleted while another was ahead of it is never granted; its owner notices
//     the deletion at the latest by its recheck, about once per session timeout.
//   - When a caller leaves the line, for whatever reason, the client deletes its node, and repeats that until it has
//     succeeded or the session has ended.
package line

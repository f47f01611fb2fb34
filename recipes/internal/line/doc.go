// Package line is what all recipes are built on: the line of waiters. Each contender has an ephemeral
// sequential node in a directory. The smallest number goes first, and everybody else watches the node ahead.
// It corresponds to Curator's LockInternals.
//
// [Order.Decide] is a pure function: it says what a list of children means for the owner of a node. [Line]
// does the requests: it creates, lists and watches, begins again when the session or the node is lost, and
// removes everything when the caller gives up. A [Grant] is a place that has been reached. [Line.Enter] and
// [Line.Reenter] let several callers share one, each with a [Handle].
//
// Besides, it has what recipes with and without a line need: [Configure] and [Ready] for arguments,
// [Attempts] and [Outlast] for failures, [Await] for events, [Do] for work under a lock, [Wrap] for
// errors.
//
// What the line promises to the recipes:
//
//   - A grant belongs to the session that created the node. All requests of one attempt run on a view pinned
//     to that session. When the session is lost the attempt is over, and Acquire starts again at the end of
//     the line in the next session.
//   - A list is believed only if the own node is in it and the server has confirmed the create.
//   - A grant without a fresh list is given only when a watch, armed while the node ahead existed, has seen
//     that node deleted, and it was the last one ahead in the order that Java uses over all children: by the own
//     list, or because its holder has left a mark (arm.go). There was no reconnect since the list, and the own
//     node, which is watched, is still there. A node that was deleted while another was ahead of it is never
//     granted; its owner learns that at the latest when it looks, about once per session timeout.
//   - A caller that leaves the line, for whatever reason, hands its node to the client, which deletes it for
//     certain.
package line

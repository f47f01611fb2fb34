// Package queue is the waiting line that every recipe stands in: one ephemeral sequential node per contender in a directory, the
// one with the smallest number goes first, everybody else watches the node ahead. It corresponds to Curator's LockInternals.
//
// Two halves. [Order.Decide] is a pure function: what does this list of children mean for the owner of that node. [Line] is the
// engine around it: it creates, lists, watches, goes back into the line when the session or the node is lost, and leaves nothing
// behind when the caller goes.
//
// Around a [Grant] there is what locks have in common: a [Share] of it for each who acquires again under it, and [Carry], by which a context tells
// who that is.
//
// What the engine promises to the recipes:
//
//   - A grant belongs to the session that created the node. All requests of one attempt run on a view pinned to that session; when
//     it is lost the attempt is over and Acquire starts again, at the end of the line, in the next session.
//   - A list is believed only if the own node is in it and the server has confirmed the create.
//   - A grant without a fresh list is given only when the one node ahead, in the order that Java uses over all children, was seen
//     to be deleted by a watch armed on it while it existed, with no reconnect since the list and nothing reported about the own node.
//   - Whoever leaves the line, for whatever reason, hands the node to the session layer, which deletes it for certain.
package queue

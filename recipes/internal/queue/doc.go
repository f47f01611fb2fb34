// Package queue is the line of waiters that every recipe uses. Each contender has an ephemeral sequential
// node in a directory; the smallest number goes first, and everybody else watches the node ahead. It
// corresponds to Curator's LockInternals.
//
// It has two halves. [Order.Decide] is a pure function: it says what a list of children means for the owner
// of a node. [Line] is the engine around it: it creates, lists and watches, joins the line again when the
// session or the node is lost, and removes everything when the caller gives up.
//
// Around a [Grant] there is what locks have in common: a [Share] for each caller that re-enters, and [Carry],
// by which a context says that it may. [Line.Enter] and [Line.Reenter] are the two together.
//
// And there is what all recipes do alike, with a line or without: [Configure] and [Ready] before they begin,
// [Stays] and [Patiently] while they wait, [Do] for the work, [Failed] for the error.
//
// What the engine promises to the recipes:
//
//   - A grant belongs to the session that created the node. All requests of one attempt run on a view pinned
//     to that session; when it is lost, the attempt is over, and Acquire starts again at the end of the line
//     in the next session.
//   - A list is believed only if the own node is in it and the server has confirmed the create.
//   - A grant without a fresh list is given only when the one node ahead, in the order that Java uses over
//     all children, was seen to be deleted by a watch armed on it while it existed, with no reconnect since
//     the list and nothing reported about the own node.
//   - A caller that leaves the line, for whatever reason, hands its node to the session layer, which deletes
//     it for certain.
package queue

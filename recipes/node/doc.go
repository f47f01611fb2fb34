// Package node keeps nodes where they are: a registration that follows the session ([Keeper]), and a name
// that one process has at a time ([Claim]).
//
//	k, err := node.NewKeeper(client, "/services/web/10.0.0.7", address)
//	defer k.Close(ctx)
//
// # A keeper's node
//
// The node is made in the background, with the parents it lacks, and made anew whenever it is gone: after the
// end of the session, and after somebody has deleted it. It has the data of the last [Keeper.SetData],
// however long the connection was away in between.
//
//   - It is never mistaken for another's: an ephemeral node counts only if it belongs to the present session.
//     The node of an earlier session, of this process or of a predecessor, is waited out: it goes with that
//     session. If it is not one of this client's, a warning says whose session it is, and so does [Status].
//     With [WithTakeover] the keeper replaces it when it starts, once, in one transaction, so that
//     nobody sees the path without a node. Two keepers of one path never take it from each other for ever.
//   - A deletion is noticed, also between the create and the watch, and while the connection is away.
//   - [Keeper.Status] and [Keeper.Follow] tell when the node is there, when it is not, and when that is not
//     known. This is no right: where two must never act at the same time take a [Claim], or a lock.
//   - What fails is tried again, ever less often, at last about every ten seconds; [Keeper.WaitCreated] and
//     [Status] tell why.
//   - [Keeper.Close] takes the node away for certain, and nobody else's. A process that ends without it
//     leaves an ephemeral node until its session ends, a session timeout later.
//
// Two keepers of one client at one path share the session, and so the node: use one.
//
// The data that others write into the node stay, until the next SetData, or until the node has to be made
// anew.
//
// # What it costs
//
// At rest nothing is written. A new node takes a create and an exists, which watches it; SetData takes a
// setData and an exists; Close a delete; a reconnect an exists. Besides there is an exists about every
// session timeout, since events can get lost. [WithTTL] writes, once in half the TTL.
//
// # Rights
//
// A keeper, and a claim, needs READ, or else ADMIN, on its own node: without either, servers since 3.8.4 and 3.9.2 do
// not tell whose node it is. [Keeper.WaitCreated] and [Claim.Release] then fail with framework.ErrNoAuth. With ADMIN
// alone each exists is followed by a getACL, and a deletion is noticed within about a session timeout.
//
// # Curator for Java
//
// The nodes are those of PersistentNode and PersistentTtlNode. Where Java's meets a node it takes it for its
// own and writes its data into it, whoever made it, as a keeper does only with persistent nodes. Beside such
// a peer give each its own path.
package node

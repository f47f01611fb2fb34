// Package node maintains nodes: a registration that is recreated in each session ([Keeper]; [Set] for several), and a
// name that one process holds at a time ([Claim], by [TryClaim] or [AwaitClaim]).
//
//	k, err := node.NewKeeper(client, "/services/web/10.0.0.7", address)
//	defer k.Close(ctx)
//
// # A keeper's node
//
// The node is created in the background, with missing parents, and recreated whenever it is gone: after the end of
// the session, and after another client has deleted it. It has the data of the last [Keeper.SetData], however long
// the connection was suspended in between.
//
//   - It is never confused with another client's: an ephemeral node counts only if it belongs to the present session.
//     If the node belongs to an earlier session, of this process or a former one, the keeper waits until the servers
//     delete it with that session. If that is not a session of this client, a warning and [Status] name it. With
//     [WithTakeover] the keeper replaces the node when it starts, once, in one transaction, so the path always has a
//     node. Two keepers of one path do not replace each other's node for ever.
//   - A deletion is detected, also between the create and the watch, and while the connection is suspended.
//   - [Keeper.Status] and [Keeper.Follow] report when the node is there, when it is not, and when that is unknown.
//     This gives no exclusion: where two clients must never act at the same time use a [Claim], or a lock.
//   - Failed operations are repeated, ever less often, at last about every ten seconds; [Keeper.WaitCreated] and
//     [Status] report the error.
//   - [Keeper.Close] deletes the node for certain, and no other client's. A process that ends without it leaves an
//     ephemeral node until its session expires, a session timeout later.
//
// Two keepers of one client at one path share the session, and so the node: use one.
//
// Data that other clients write into the node stay until the next SetData, or until the node has to be recreated.
//
// # Requests
//
// At rest nothing is written. A new node takes a create and an exists, which watches it; SetData takes a setData and
// an exists; Close a delete; a reconnect an exists. In addition there is an exists about every session timeout, since
// events can get lost. [WithTTL] writes, once in half the TTL.
//
// # Rights
//
// A keeper, and a claim, needs READ, or else ADMIN, on its own node: without either, servers since 3.8.4 and 3.9.2 do
// not report the owner of the node. [Keeper.WaitCreated] and [Claim.Release] then fail with framework.ErrNoAuth. With
// ADMIN alone each exists is followed by a getACL, and a deletion is noticed within about a session timeout.
//
// # Curator for Java
//
// The nodes have the layout of PersistentNode and PersistentTtlNode. These take any node at their path for their own,
// and write their data into it; a keeper does so only with persistent nodes. Give each process a separate path if any
// of them uses PersistentNode.
package node

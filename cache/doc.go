// Package cache keeps local copies of a node, its children or a subtree, and reports changes.
//
//	c, err := cache.New(client, "/config")     // root and everything below
//	defer c.Close()
//	err = c.WaitSynced(ctx)
//	node, ok := c.Get("/config/limits")
//	for path, node := range c.All() { … }
//	for event, err := range c.Events(ctx) { … }
//
// [New] corresponds to Curator's CuratorCache, [NewTree] to its TreeCache (a depth limit, filters),
// [NewPathChildren] to its PathChildrenCache and [NewNode] to its NodeCache. All use the same engine.
// [NewTyped] decodes the data in a cache. [FollowNode] and [FollowChildren] are for programs that need only the latest
// state, on a channel.
//
// # What is promised
//
// A cache survives every disconnect and every expired session: a program need not react to a reconnect. The
// cache goes through the states of the tree in their order, as the connected server has them, but may skip
// states that were replaced before they could be read. When the writes stop, it becomes equal to the part of
// the tree that the client has permission to READ.
//
// Once it has been in sync, a cache shows the tree as it was at one moment: a transaction is seen as a whole
// or not at all. For that it withholds changes until it has read all nodes for which it has received events,
// also after a reconnect. Two calls may show two moments; one [Cache.All] or [Cache.Children] shows one.
//
// There are three exceptions:
//
//   - Changes may come so fast that for a second there was no moment at which everything was read. Then changes are
//     shown as they are read, until there is such a moment: each node is in a state that it had, below a parent that
//     existed, but two nodes may show different moments. With the persistent watch this happens only if ever new nodes
//     change, more than one per round trip; with one-shot watches any nodes suffice.
//   - The same holds for the first load, and for a comparison after a reconnect that takes longer than a
//     second.
//   - The fields of a Stat that describe a node's children are updated separately.
//
// Events lead from one such moment to the next: first deletions, children before their parents, then
// creations and changes, parents before their children. So a subscriber that drops everything below a deleted
// node ends up with the tree. A node is reported after its parent, unless the parent cannot be read. A change
// of the connection is reported before the changes that it revealed.
//
// A node that was deleted and created again, also while there was no connection, is reported as both: Stat.Czxid
// distinguishes nodes of the same path. The data count as changed when Stat.Mzxid has changed, even if the bytes are
// the same. Changes of a node's list of children are not reported for that node; its Stat follows within about a
// second, if the children belong to the cache. ZooKeeper sends no events for changes of the ACL: Stat.Aversion is as of
// the last read.
//
// # Nodes without permission to read
//
// A node that the client has no permission to READ is reported as [Failed] with framework.ErrNoAuth. The cache tries it
// again, first after a second and later once a minute, and keeps the node's earlier state. When the node can be read
// again, it is read, listed and watched as if for the first time.
//
// Since ZooKeeper 3.8.4 and 3.9.2 (and in older versions with that fix, such as Debian's 3.8.0) a server sends no
// events of a node to a client without permission to READ it, and never an event for a change of permissions. So a
// cache that had no reason to read such a node in that time does not notice that it has missed an event. With the
// persistent watch it continues showing earlier data, and misses a new node, until the next change of that node that
// the client has permission to READ; a deleted node stays until a node is created in its place. A reconnect may reveal
// this earlier, if it makes the cache compare the tree.
//
// With one-shot watches, and so with [NewNode], an event that was not sent has used up its watch. The list of
// the parent's children, if the client can read it and it belongs to the cache, still shows nodes that are
// created and deleted. But the cache notices no further changes of the node itself, or of a list that it
// could not read, until there is a new connection. From then on it notices later changes.
//
// A new session, or a new cache, finds everything. So grant READ when the node is created. If READ was
// revoked for a while, make a new cache when it is granted again.
//
// # What it costs
//
// On ZooKeeper 3.6 and later there is one persistent recursive watch. The tree is loaded by MultiRead, up to
// 256 nodes to a request, and leaves are not listed: 100,000 nodes with little data take about 410 requests.
// After that each node that was created, changed or deleted (a deleted node may exist again) is read once,
// together with the parent if it was deleted; nodes that change at the same time share a request. One such
// request is in flight at a time, unless the waiting reads fill several.
//
// After a reconnect in the same session one request finds out whether the server has executed any transaction in
// between, by any client. If so every node is compared, since a server does not send persistent watches the events that
// they have missed. The comparison takes as few requests as the load, and compares only the Stat of nodes with 4 KiB of
// data or more. In a new session everything is compared, too. Only differences are reported.
//
// Before the first cache of a session a server is asked whether it has persistent watches: one request, or two before
// 3.9, which cost no connection.
//
// Some servers are too old for that, or report wrong paths to recursive watches (some versions of ClickHouse Keeper
// do); the cache recognises them at run time. With them it uses one-shot watches: one of the data of each node, and one
// of the children of each node whose children belong to the cache. To load takes a read per node, a list per node with
// children, and a request per 512 leaves; to close takes a request per node. After a reconnect in the same session only
// changed nodes are read, since the server fires one-shot watches for changes that they have missed. [NewNode] always
// uses one-shot watches, which cost least for one node.
//
// Reading a cache costs no request. A node with little data takes about 105 bytes of memory with its name, 24
// more once its data was set, and 48 more if it has or had children or is ephemeral. A one-shot watch takes
// about 190 bytes: go test -run TestHeapPerNode -v ./cache
//
// A cache needs about as much memory as the servers, except for decoded data: [WithDataLimit] limits those. Nothing
// limits the number of nodes: a hostile client with permission to create nodes below the root can make every cache of
// it as large as the servers let the tree become.
//
// # Beginning with a snapshot
//
// A cache of a very large tree need not begin empty. [Snapshot] has the contents of a cache at one moment, and can be
// written to a file. A new cache that is made [WithSnapshot] begins with its nodes, compares them with the tree as
// after a reconnect, and reports the differences. Of nodes with 4 KiB of data or more that have not changed only the
// Stat is read.
//
// # Files
//
//	cache.go                     the kinds of cache; typed.go decoded views; options.go
//	engine.go                    the goroutine that owns it all: sessions, loading, time
//	watch_strategy.go            the two ways to watch: persistent.go with its MultiReads, oneshot.go
//	node_state.go                which reads of a node are missing, and how reliable the earlier ones are
//	reads.go requests.go         the queue of reads, and single requests; replies.go the changes that a reply makes
//	tree.go store.go             the nodes in memory; readers.go reading them
//	changes.go                   the changes of each path until they are published, and their order as events
//	publish.go sync.go           when changes are published; when the cache is in sync
//	events.go follow.go          the events, and their streams; filter.go; subscription.go fifo.go the queue of each stream
//	failures.go                  reads that have failed, and nodes that cannot be read: when they are read again
//	snapshot.go                  beginning with the contents of another cache; snapshot_format.go in a file
package cache

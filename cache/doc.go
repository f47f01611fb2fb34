// Package cache keeps local copies of a node, its children or a subtree, and says what has changed.
//
//	c, err := cache.New(client, "/config")     // root and everything below
//	defer c.Close()
//	err = c.WaitSynced(ctx)
//	node, ok := c.Get("/config/limits")
//	for path, node := range c.All() { … }
//	for event, err := range c.Events(ctx) { … }
//
// [New] is Curator's CuratorCache, [NewTree] its TreeCache (a depth limit, filters), [NewPathChildren] its
// PathChildrenCache and [NewNode] its NodeCache. They are one engine with different reach. [NewTyped] decodes
// what is in them.
//
// # What is promised
//
// A cache goes on through every disconnect and expiry: there is nothing to do on a reconnect. It goes through
// the states of the tree in their order, as the connected server has them, but may skip states that were
// replaced before they could be read. When the writes stop, it becomes equal to the tree, as far as the
// client may READ it.
//
// Once it has been in sync, it shows the tree as it was at one moment: a transaction is seen whole or not at
// all. For that it keeps changes back until it has read all those that it has heard of, also those of a
// reconnect. Two calls may show two moments; one [Cache.All] or [Cache.Children] shows one.
//
// There are three exceptions. First, changes may come so fast that for a second there was no moment at which
// all was known. Then they are shown as they are read, until there is such a moment: each node is in a state
// that it had, below a parent that existed, but two nodes may be of different moments. With the persistent
// watch this takes changes of ever new nodes, more than one per round trip; with one-shot watches changes of
// any nodes. Second, the same holds for the first load, and for a comparison after a reconnect that takes
// longer than a second. Third, the fields of a Stat that describe a node's children are updated separately.
//
// Events lead from one such moment to the next: first deletions, children before their parents, then
// creations and changes, parents before their children. So a subscriber that drops everything below a deleted
// node ends up with the tree. A node is reported after its parent, unless that cannot be read. A change of
// the connection is reported before the changes that it revealed.
//
// A node that was deleted and created again, also while there was no connection, is reported as both:
// Stat.Czxid distinguishes nodes of the same path. A change of the data is reported when Stat.Mzxid has
// changed, also if the bytes are the same. Changes of a node's list of children are not reported for that
// node; its Stat follows within about a second, if the cache holds its children. Changes of the ACL are not
// announced by ZooKeeper: Stat.Aversion is that of the last read.
//
// # Nodes that may not be read
//
// A node that the client may not READ is reported as [Failed] with framework.ErrNoAuth and tried again, first
// after a second and later once a minute. The cache keeps what it had of the node. When the node can be read
// again, it is read, listed and watched as if for the first time.
//
// Since ZooKeeper 3.8.4 and 3.9.2 (and in older versions with that fix, such as Debian's 3.8.0) a server
// sends no events of a node that the client may not READ, and never one for a change of rights. A cache that
// had no reason to try such a node meanwhile does not know that it has missed something. With the persistent
// watch it goes on showing earlier data, and misses a new node, until that node's next change that the client
// may READ; a deleted node stays until one is created in its place. A reconnect may reveal this earlier, if
// the cache has anything to compare then.
//
// With one-shot watches, and so with [NewNode], a watch whose event was not sent is used up. The parent's
// list, if that may be read and belongs to the cache, still shows nodes that come and go. But of the node
// itself, or of the list of a parent that might not be read, nothing more is noticed until there is a new
// connection: from then on later changes are.
//
// A new session, or a new cache, finds all of it. So grant READ with the creation. If READ was revoked for a
// while, make a new cache when it is granted again.
//
// # What it costs
//
// On ZooKeeper 3.6 and later there is one persistent recursive watch. The tree is loaded by MultiRead, up to
// 256 nodes to a request, and leaves are not listed: 100,000 nodes with little data take about 410 requests.
// After that each node that was created, changed or deleted (it may exist again) is read once, several in one
// request if they come together, and the parent of a deleted one with it. One such request is in flight at a
// time, unless there are reads for several full ones.
//
// After a reconnect in the same session one request finds out whether the server has executed any transaction
// meanwhile, of any client. If so every node is compared, since a server does not tell persistent watches
// what they have missed: with as few requests as the load took, and nodes with 4 KiB of data or more by their
// Stat alone. In a new session everything is compared, too. Only differences are reported.
//
// Older servers, and those that report wrong paths to recursive watches (some versions of ClickHouse Keeper
// do), are recognised at run time. With them the cache uses one-shot watches: two per node, two reads per
// node to load, and a request for each watch when the cache is closed. After a reconnect in the same session
// only what has changed is read, since the server tells. [NewNode] always works like that, since for one node
// it costs least.
//
// Reading a cache costs no request. A node with little data takes about 105 bytes of memory with its name, 24
// more once its data was set, and 48 more if it has or had children or is ephemeral: go test -run
// TestHeapPerNode -v ./cache
//
// A cache holds at most what the servers hold, except for what a decoder makes of it: that is bounded by
// [WithDataLimit]. Nothing bounds the number of nodes: a hostile client that may create nodes below the root
// can make every cache of it as large as the servers let the tree become.
//
// # Files
//
//	cache.go               the kinds of cache; typed.go decoded views; options.go
//	events.go              what is reported; subscription.go to which subscriber; delta.go merged
//	engine.go              the goroutine that owns it all: sessions, loading, time
//	way.go                 what the two ways of watching have to say: persistent.go, oneshot.go
//	reads.go requests.go   what is to be read, and in which requests; replies.go what the answers change
//	tree.go store.go       the nodes in memory, and who changes them; readers.go reading; fifo.go a queue
//	show.go                what is kept back, and until when; waiting.go waiting for sync
//	failures.go            what cannot be read
package cache

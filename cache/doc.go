// Package cache keeps local copies of a node, its children or a subtree, and says what has changed.
//
//	c, err := cache.New(client, "/config")     // root and everything below
//	defer c.Close()
//	err = c.WaitSynced(ctx)
//	node, ok := c.Get("/config/limits")
//	for path, node := range c.All() { … }
//	for event, err := range c.Events(ctx) { … }
//
// [New] is Curator's CuratorCache, [NewTree] its TreeCache (a depth limit, filters), [NewPathChildren] its PathChildrenCache and [NewNode] its
// NodeCache. They are one engine with different reach. [NewTyped] decodes what is in them.
//
// # What is promised
//
// A cache registers itself again through every disconnect and expiry; there is nothing to be done on a reconnect. It goes through the states of the
// tree in their order, as the connected server has them; it may skip states that were replaced before they could be read. When the writing stops, it
// is equal to the tree, as far as the client may READ it: see below.
//
// Once it has been in sync, what can be read in it at one moment is what the tree was at one moment: who looks between two halves of a transaction
// sees neither. For that it keeps back what it has heard of until it has read all that it has heard of, also what a reconnect has brought; until then
// it shows what was before, and is a little behind. Two calls are two moments; [Cache.All] and [Cache.Children] are one.
//
// Three things are excepted. When changes come so fast that for a second there was no moment at which all was known, they are shown as they are read
// until there is one: then each node is in a state that it had, below a parent that was there, but two nodes may be of different moments. With the
// persistent watch that takes changes of ever other nodes, more than one for each round trip to the server; with one-shot watches changes of any,
// since each is read by a request of its own. The same goes for the first load, and for a comparison after a reconnect that takes longer than a second.
// And what a Stat tells of a node's children follows by itself.
//
// Subscribers are told the way from one such moment to the next, node by node: first of what is gone, children before their parents, then of what is
// new or has changed, parents before their children. So whoever drops all that is below a deleted node ends with the tree. A node is told of below its
// parent always, but for a parent that cannot be read. The change of the connection is told before what it has brought.
//
// A node that was deleted and created again, also while there was no connection, is reported as deleted and created: what tells nodes of the same
// path apart is Stat.Czxid. A change of the data is reported when Stat.Mzxid has changed, also if the bytes are the same. Changes of a node's list of
// children alone are not reported for that node; its Stat follows within about a second, if the cache holds its children. Changes of the ACL are not
// announced by ZooKeeper: Stat.Aversion is that of the last read.
//
// # Nodes that may not be read
//
// A node that the client may not READ is reported as [Failed] with framework.ErrNoAuth and tried again, after a second at first and once a minute later
// on; what the cache had of it, it keeps. When the node can be read again it is read, listed and watched as if for the first time.
//
// From ZooKeeper 3.8.4 and 3.9.2 on (and in older ones with that fix, such as Debian's 3.8.0) a server does not tell of what happens to a node while
// the client may not READ it, and it tells nobody of a change of rights. A cache that had no reason to try such a node meanwhile does not know that
// there is anything to be found out, and asks for nothing. With the persistent watch
//
//   - data set meanwhile are those of before, until the node's next change that the client may READ;
//   - a node created meanwhile, which it may not READ from its creation on, is missing, also when READ is granted, until its own next change;
//   - a node deleted meanwhile stays, until one is created in its place.
//
// A reconnect may find it earlier, if the cache has anything to compare then.
//
// With one-shot watches, and so with [NewNode], a watch that was not told is used up. Where the parent may be read and belongs to the cache, nodes
// that come and go are found by its list. But of the node itself nothing more is noticed, neither what was missed nor any later change, until there is
// a new connection: then later changes are. Where it was the parent that might not be read, that goes for its list, too.
//
// In a new session, and by a new cache, all of it is found. So grant READ with the creation, and rather than revoke it for a while make a new cache
// when it is granted again.
//
// # What it costs
//
// On ZooKeeper 3.6 and later there is one persistent recursive watch. The tree is loaded by MultiRead, up to 256 nodes to a request, and leaves are
// not listed: 100,000 nodes with little data take about 410 requests. Then a node created or changed is one read, and several in one request when
// they come together; so is a node deleted, since it may be there again, and its parent is read with it. There is one such request under way at a time,
// unless there is enough for several full ones: what comes meanwhile goes together.
//
// After a reconnect in the same session one request finds out whether the server has executed anything at all meanwhile, for whomever. If not, that
// was all. If so every node is compared, since a server does not tell persistent watches what they have missed: by as few requests as it took to load
// them, nodes with 4 KiB of data or more by their Stat alone. In a new session everything is compared, too, and only differences are reported.
//
// Older servers, and those that report wrong paths to recursive watches (some versions of ClickHouse Keeper do), are found out while it runs and
// served with one-shot watches: two per node, two reads per node to load, and a request for each watch when it is closed. After a reconnect in the same
// session only what has changed is read, since the server tells. [NewNode] always works like that, since for one node it is the least.
//
// Reading a cache costs no request. A node with little data takes about 105 bytes of memory with its name, 24 more once its data was set, and 48 more
// if it has or had children or is ephemeral: go test -run TestHeapPerNode -v ./cache
//
// # Files
//
//	cache.go children.go node.go   the faces; typed.go decoded views; options.go
//	events.go                      what is reported, subscription.go to whom, delta.go what a slow one gets
//	tree.go store.go               the nodes in memory, and who changes them; snapshot.go iterating them
//	draft.go                       what is kept back until all is known; failures.go what cannot be read
//	engine.go                      the goroutine that owns it all: sessions, gaps, time; waiting.go who waits for it, and its inbox
//	reads.go                       what is to be read, in which requests; replies.go what comes of it
//	notices.go                     what watches report
package cache

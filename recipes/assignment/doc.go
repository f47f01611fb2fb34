// Package assignment shares a set of items among the members of a group: shards, tenants, partitions of a
// topic. Every item has one owner at a time, and a function works on it there.
//
//	shards := []string{"shard-0", "shard-1", "shard-2"}
//	a := assignment.New(client, "/indexer", shards)
//	err := a.Run(ctx, func(ctx context.Context, item assignment.Item) error {
//		return index(ctx, item.Name(), item.FencingToken()) // until ctx ends
//	})
//
// # Plan and ownership
//
// A plan in the tree assigns each item to a member. It is computed from the members, their weights, the items, and
// the previous plan: each member has its share by weight, rounded down or up, and no more items move than needed for
// that. Any member may write a new plan when the present one does not fit any more, provided that it has not changed
// since it was read.
//
// The owner of an item is the holder of the item's lock, of package mutex's layout. A member to which the plan
// assigns an item waits for its lock; the present holder ends the function's context, waits until the function has
// returned, and releases the lock. So two members with different views of the group never hold one item at the same
// time, and [Item] and the function's context have the guarantees of a mutex: the context ends before another member
// can acquire the item, and [Item.FencingToken] grows from owner to owner.
//
// # Changes and failures
//
//   - A member joins: it receives its share from members with more than theirs. When a member leaves (Run's context
//     ends), its items move to members with less, as soon as its functions have returned. When a member dies, they
//     move when its session expires.
//   - A member is suspended: its functions continue as long as its session certainly lives, and then their contexts
//     end. In its next session it is a member again.
//   - The function does not return although its context has ended: the member keeps the item until its
//     session ends, and the next owner waits. Run does not return either.
//   - The function returns early, with an error or without: the item's lock is released, and the member acquires it
//     again after a pause: between 50 and 100 ms, and twice as long after each return in a row, up to between five
//     and ten seconds; work of a minute ends the series. The item does not move to another member for that. Errors
//     are logged.
//   - The plan's node is deleted, or overwritten with something else: the members write the last plan that they have
//     read. Until then nothing moves.
//
// Without failures, an item that moves is without an owner for about a round trip after the former owner's release. A
// new plan is written after the settle time ([WithSettle]), and if the member that should write it hangs, by the next
// one after another settle time.
//
// # Items
//
// The list of items belongs to the group, not to a member: it is part of the plan. The last member to set it
// determines it, with [New], at the start of Run, or with [Assignment.SetItems]. Members with different lists do not
// compete: each sets its list once. Note that a restarted process with an old list sets the old list. A member with
// nil for its list uses the group's. An item that was removed from the list is taken from its owner.
//
// # Requests
//
// At rest nothing is sent, except one exists per member about once per session timeout. A change of the
// members costs one list and one write, and of each member one or two reads. An item that moves costs its new owner a
// create, a list and two watches, and its old owner a delete; its first owner ever also the creation of its
// directory.
//
// The plan is one node, so all items and their owners together must fit into a request: at ZooKeeper's default limit
// of 1 MiB some 70,000 items with names like "shard-12345". Use hundreds or thousands at most: each item is a node,
// and a goroutine in its owner.
//
// Curator has nothing like it; kazoo's SetPartitioner comes nearest. The znodes are in docs/znodes.md.
package assignment

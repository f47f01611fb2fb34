// Package assignment shares a set of items among the members of a group: shards, tenants, partitions of a
// topic. Every item has one owner at a time, and a function works on it there.
//
//	shards := []string{"shard-0", "shard-1", "shard-2"}
//	a := assignment.New(client, "/indexer", shards)
//	err := a.Run(ctx, func(ctx context.Context, item assignment.Item) error {
//		return index(ctx, item.Name(), item.FencingToken()) // until ctx ends
//	})
//
// # Who is to have an item, and who has it
//
// These are two things. A plan in the tree says who is to have each item. It is computed from the members,
// their weights, the items, and the plan before: each member has its part by weight, rounded down or up, and
// no more items move than that takes. Any member may write a new plan when the old one no longer fits,
// provided that it has not changed since it was read.
//
// Who has an item is decided by the item's own lock, of package mutex's layout. A member that is to have an
// item queues for its lock; the member that has it ends the function's context, waits until the function has
// returned, and gives the lock back. So two members with different views of the group never have one item at
// the same time, and what [Item] and the function's context promise is what a mutex promises: the context
// ends before the servers can give the item to somebody else, and [Item.FencingToken] grows from owner to
// owner.
//
// # What happens when
//
//   - A member joins: it takes its part from those that have more than theirs. One that leaves (Run's context
//     ends) gives its items to those that have less, as soon as its functions have returned. One that dies
//     does the same when its session expires.
//   - A member is cut off: its functions go on as long as its session certainly lives, and then end. With the
//     next session it is a member again.
//   - The function does not return although its context has ended: the member keeps the item until its
//     session ends, and the next owner waits. Run does not return either.
//   - The function returns early, with an error or without: the item's lock is given back, and the member
//     takes it again after a pause: between 50 and 100 ms, and twice as long after each return in a row, up
//     to between five and ten seconds; work of a minute ends the series. The item does not move to another
//     member for that. Errors are logged.
//   - The plan's node is deleted, or overwritten with something else: the members write the plan that they
//     have known last. Meanwhile nothing moves.
//
// While all is well, an item that moves is without an owner for about a round trip, from when the former
// owner has let go. A change of the members is acted upon after the settle time ([WithSettle]), and if the
// member that should write the plan does not, because it hangs, by the next one after another settle time.
//
// # Items
//
// The list of items is the group's, not a member's: it is part of the plan. It is that of the last member
// that has set it, with [New], at the start of Run, or with [Assignment.SetItems]. Members with different
// lists do not fight: each sets its own once. Note that a process with an old list that is started again sets
// the old list. A member with nil for its list takes that of the group. An item that is no longer in the list
// is taken from its owner.
//
// # What it costs
//
// At rest nothing is sent, except one exists per member about once per session timeout. A change of the
// members costs one list and one write, and of each member one or two reads. An item that moves costs its new owner a
// create, a list and two watches, and its old owner a delete; its first owner ever also the creation of its
// directory.
//
// The plan is one node, so all items and their owners together must fit into a request: at ZooKeeper's default
// limit of 1 MiB some 70,000 items with names like "shard-12345". Think of hundreds or thousands: each is a
// node and a goroutine of its owner.
//
// Curator has nothing like it; kazoo's SetPartitioner comes nearest. The znodes are in docs/znodes.md.
package assignment

// Package counter keeps numbers and other values in nodes: numbers that many processes add to ([Long],
// [Integer]), values that are set, compared and set, and watched ([Value], [Count]), and numbers handed out
// in blocks ([IDs]).
//
// # Exactly once
//
// What [Number.Add], [Value.CompareAndSet] and [Value.Update] write is written once or not at all, also when
// replies are lost, and they know which. A write whose reply was lost is not repeated blindly, which could
// count twice, and not looked for in the data either, which may be the same as somebody else's or overwritten
// since. Instead every write is a transaction that first changes a mark, an ephemeral node of this client
// below the value's, and then the value: a repeat of it is refused because of the mark if it was executed,
// and not otherwise. The mark is made before the first write, and deleted when nothing was written for ten
// seconds: two requests. In between it costs none.
//
// The outcome stays unknown, and the error matches framework.ErrOutcomeUnknown, when a reply was lost and
//
//   - the retry policy or the caller's context ends before the connection is back;
//   - the session ends, and the mark with it, and meanwhile the node was changed to what this write would
//     have made of it, or more than once. (If it was not changed, or otherwise, the outcome is known.)
//   - the mark was deleted by somebody else;
//   - the server takes no mark: without the right to CREATE children of the node there is none, and the
//     outcome is known only if the data tell it. DELETE is needed to remove the mark before the session ends.
//
// If an error does not match it, nothing was changed. [Value.Set] overwrites in any case, and is repeated.
//
// A value's node is persistent. Do not put a value into a container, which ZooKeeper deletes after its last
// child has gone.
//
// # Many at a time
//
// What goroutines add through one [Number] at the same time goes into one write, so keep one and share it.
// A process reads once, and then writes without reading. When others write, too, it reads before each write
// that does not follow its last one at once: that is two requests, where a write that is refused and repeated
// would make it three. Processes that overtake each other pause for random times, in units of what a write
// takes, and each writes several times in a row; see [WithLock] for turns in order. Nobody waits for a
// process that does not write.
//
// # Watching
//
// [Value.Watch] yields the latest value, [Value.Follow] everything that was read, in order, and the
// connection's state with it. For a local copy, which is read without a request, use cache.NewNode.
//
// # Curator for Java
//
// The nodes are those of DistributedAtomicLong, DistributedAtomicInteger, DistributedAtomicValue, SharedCount
// and SharedValue, which may use them at the same time: they do not look at children. Curator's writes stay
// as exact as Curator makes them: it repeats a write whose reply was lost, and may add twice.
package counter

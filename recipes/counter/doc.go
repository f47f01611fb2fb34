// Package counter keeps numbers and other values in nodes: numbers that many processes add to ([Long],
// [Integer]), values that are set, compared and set, and watched ([Value], [Count]), and numbers handed out
// in blocks ([IDs]).
//
// # Exactly once
//
// [Number.Add], [Value.CompareAndSet] and [Value.Update] write once or not at all, also when replies are lost, and
// report which. A write whose reply was lost is not repeated blindly, which could count twice. It is not looked for
// in the data either: another client may have written the same, or overwritten it since. Instead every write is a
// transaction that first changes a mark, an ephemeral node of this client below the value's, and then the value: a
// repeat of it is refused because of the mark if it was executed, and not otherwise. The mark is made before the
// first write, and deleted when nothing was written for ten seconds: two requests. In between it costs none.
//
// The outcome stays unknown, and the error matches framework.ErrOutcomeUnknown, when a reply was lost and
//
//   - the retry policy or the caller's context ends before the connection is back;
//   - the session ends, and the mark with it, and until then the node was changed to the data of this write, or more
//     than once. (If it was not changed, or once to other data, the outcome is known.)
//   - another client deleted the mark;
//   - the server refuses the mark, which needs the right to CREATE children of the node: then the outcome is known
//     only if the data show it. DELETE is needed to remove the mark before the session ends.
//
// If an error does not match it, nothing was changed. [Value.Set] overwrites in any case, and is repeated.
//
// A value's node is persistent. Do not put a value into a container, which ZooKeeper deletes after its last
// child has gone.
//
// # Many at a time
//
// The deltas that goroutines add through one [Number] at the same time go into one write, so keep one and share it. A
// process reads once, and then writes without reading. When others write as well, it reads before each write that
// does not follow its last one immediately: two requests, where a refused and repeated write would take three.
// Processes that write at the same time wait in line for turns of five writes each, or more if few wait: each makes an
// ephemeral sequential node below the value's, and waits for the one before it. That costs about four requests in a
// turn, and decides nothing: a write is refused if another came first. A process that does not write is not in line. One
// that hangs in its turn is passed: the next in line waits for it for a fifth of a second, or for the time of forty
// writes. A process that may not make and delete children waits for random times instead.
//
// Curator's clients do not wait in line. Those whose replies take longer than ours get few turns beside a process that
// adds without a rest, and none if it is alone; see [WithLock].
//
// # Watching
//
// [Value.Watch] yields the latest value, [Value.Follow] every value that was read, in order, with the connection's
// state. For a local copy, which is read without a request, use cache.NewNode.
//
// # Curator for Java
//
// The nodes are shared with DistributedAtomicLong, DistributedAtomicInteger, DistributedAtomicValue, SharedCount and
// SharedValue, which may use them at the same time: they do not look at children. Curator's writes stay as exact as
// Curator makes them: it repeats a write whose reply was lost, and may add twice.
package counter

// Package queue keeps queues of work in znodes: producers put items, and consumers, of any number of
// processes, share them. [Queue] is first in first out, or by priority, by time, or by id; [Simple] has one item
// per node, as plain data. They correspond to Curator's DistributedQueue, DistributedPriorityQueue,
// DistributedDelayQueue, DistributedIdQueue and SimpleDistributedQueue, and share their queues
// (docs/znodes.md).
//
//	q := queue.New(client, "/queues/mail", queue.WithLockPath("/queues/mail-locks"))
//	err := q.Put(ctx, item)
//	…
//	err := q.Consume(ctx, func(ctx context.Context, item []byte) error {
//		return send(ctx, item)
//	})
//
// # What ZooKeeper is not for
//
// ZooKeeper is made for coordination, and a queue in it is for work that coordinates: some hundred items, of
// some kilobytes, and at most some hundred a second. For more take a message broker. The limits:
//
//   - An item, or all of a PutMany, must be smaller than the servers' packet limit, jute.maxbuffer, which is
//     one MiB by default.
//   - Consumers list the whole queue. A name takes 20 bytes of the reply, a name with a due time 33 or more. Java
//     clients refuse replies above a MiB, that is 52,000 items, or 31,000 with due times: such a queue can no longer
//     be consumed, nor easily be deleted. This library refuses replies above 32 MiB (framework.WithMaxReply). Use
//     [WithBound], well below.
//   - Every server keeps all items in memory, and writes each put and each take to its disk.
//   - Each put and each take wakes all consumers that have nothing to do, and each of them lists: ten idle consumers
//     cost ten lists for every item.
//   - A queue's node numbers 2,147,483,647 items in its life, and no more (ErrSequenceExhausted): at a hundred
//     a second, eight months.
//
// # At most once, at least once
//
// Without [WithLockPath] an item is taken off the queue before it is handled: at most once. It is lost if the
// process dies, or its handler fails, after that.
//
// With it an item is locked by an ephemeral node while it is handled, and taken off, in one transaction with the
// lock, when the handler has returned nil: at least once. It is handled again, by this consumer or another, if the
// handler fails; if the process dies; or if the session or the lock is lost before it is taken off. In the last case
// the handler's context ends before another consumer can lock the item, as with package mutex: a handler that stops
// at once never runs concurrently with another consumer's. If a consumer dies the item is free when its session ends.
//
// # Lost replies
//
// Puts and takes are executed once or not at all, also when their replies are lost, and the result reports which.
// Each put, and without a lock path each take, is one transaction with a mark, an ephemeral node next to the queue's,
// which shows after a lost reply whether the write was executed. A search for the item could not show that, since a
// consumer may have taken the item off in between. With a lock path the lock serves as the mark of a take. A mark costs
// no request except its creation and its deletion; it is deleted ten seconds after the last put, or when Consume
// returns.
//
// The outcome of a write whose reply was lost remains unknown, and the error matches
// framework.ErrOutcomeUnknown, if
//
//   - the caller's context ends while the write is in flight, or before the connection is back; a put's retry policy
//     may also end before that;
//   - the session ends, and the mark with it;
//   - another client deletes or changes the mark;
//   - the server refuses the mark, which needs CREATE on the directory of the marks, or on the parent of the queue if
//     that directory is missing, and DELETE to remove marks before the session ends.
//
// A Put can then be repeated if it does no harm to have the item twice. A consumer does not handle an item that it may
// have taken off, since another consumer may have taken it: the item is passed to [OnFailure].
//
// # Order
//
// A single consumer handles items in order. Several begin about in order: a consumer that loses a race for an item
// tries one of the next few. Items by priority are in order within the last list; a consumer lists again after a
// change, but first works off a hundredth of a long list. Items that are put back go to the end of their priority.
// Due times are compared with the consumer's clock.
//
// # Curator for Java
//
// Its producers and consumers may use a queue at the same time. All consumers must agree on the lock path. Java
// processes behave as before. After a lost reply they may put an item twice. They delete items that they cannot read.
// An item that they put back loses its priority or its time. With a lock path they find the item of a dead consumer
// only when the queue changes next, while this library's consumers watch the lock.
//
// Close a Curator queue before its client, as docs/from-java-curator.md says: otherwise an item may be handled and
// left on the queue.
package queue

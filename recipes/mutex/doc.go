// Package mutex is a distributed lock: at most one holder at a time, among all processes that use its path.
// It corresponds to Curator's InterProcessMutex, and shares the lock with it: the znodes and the order of
// waiters are the same (docs/znodes.md).
//
//	m := mutex.New(client, "/locks/orders")
//	err := m.Do(ctx, func(ctx context.Context) error {
//		return work(ctx) // ctx ends when the lock is lost
//	})
//
// or, with the lock in hand:
//
//	lock, err := m.Acquire(ctx)
//	if err != nil {
//		return err
//	}
//	defer lock.ReleaseInBackground()
//	return work(lock.Context())
//
// # Guarantees of a lock
//
// A distributed lock can be lost while it is held: its session ends because the process was stopped for too long, or
// because the network failed. Curator does not report that to the holder. Here Context of a [Lock] ends, with a cause,
// before another contender can acquire the lock, and Valid computes from the clock, at any moment, whether the
// lock is still certain. Work that checks neither is not protected. Even work that does is not protected completely:
// the process may be stopped after the check and before its request takes effect in another system. Where that
// matters, send [Lock.FencingToken] with each request and let the other system refuse smaller tokens; if the other
// system is ZooKeeper, put [Lock.Guard] into the transaction.
//
// One case is not covered: an administrator deletes the lock's node. The holder then gets the event at about the same
// time as the next holder, so that for a moment both act as holders.
//
// A holder that reads with the client of its lock sees at least all that earlier holders have written to ZooKeeper,
// whichever member it reads from (except one without a quorum, see framework.WithReadOnly).
//
// # Fairness
//
// First come, first served, in the order of the requests' arrival at the servers. When a holder or waiter leaves,
// only the waiter right after it is woken. A waiter whose session is lost rejoins at the end of the line, within the
// same call of Acquire.
//
// # Several locks, and locks on request
//
// [Multi] acquires several locks as one, all or none, under one deadline. With [WithRevocation] another client's
// request for the lock ([Revoke], or Curator's Revoker) is reported to the holder.
//
// # Many goroutines, and repeated use of a lock
//
// A [Cohort] has one node for all goroutines of a process: they wait in a local line, and the lock passes between
// them without a request, until other processes have their turn. With [WithKept] it also stays with the process while
// no other contender waits, and acquiring it again costs no request. Its holds, of type [Turn], have no fencing
// token.
//
//	c := mutex.NewCohort(client, "/locks/orders", mutex.WithKept(time.Minute))
//	err := c.Do(ctx, work)
//
// # Forgetting to release
//
// A lock that is never released stays locked until the client is closed or its session ends. When a [Lock] is
// garbage collected before its release, the client logs a warning. The lock stays locked even then, since its
// context may still be in use.
package mutex

// Package mutex is a lock for processes all over a cluster: one holds it at a time. It corresponds to
// Curator's InterProcessMutex, and shares the lock with it: same nodes, same order (docs/znodes.md).
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
// # What a lock is worth
//
// A distributed lock can be lost while it is held: the session ends because the process stood still, or the
// network failed. Curator does not tell its holder. Here [Lock.Context] ends, with a cause, before the
// servers can give the lock to somebody else, and [Lock.Valid] says the same from the clock at any moment.
// Work that looks at neither is not protected by any lock. And after a look the process may stand still
// before its request takes effect in another system. Where that matters, give that system the
// [Lock.FencingToken] and let it refuse smaller ones, or, if it is ZooKeeper, put [Lock.Guard] into the
// transaction.
//
// If an administrator deletes the lock's node, the holder learns of it within a delivery time, at about the
// same time as the next holder: that is not covered.
//
// # Fairness
//
// First come, first served, by the order in which the servers got the requests. When a contender leaves, only
// the waiter after it is woken. A waiter whose session is lost begins again at the end of the line, within
// the same call of Acquire.
//
// # Several locks, and locks on request
//
// [Multi] acquires several locks as one, all or none, under one deadline. With [WithRevocation] a holder
// learns when somebody asks for the lock ([Revoke], or Curator's Revoker).
//
// # Forgetting to release
//
// A lock that is not released is held until the client is closed or its session ends. When a [Lock] is
// garbage collected before it was released, the client's logger gets a warning; the lock stays held, since
// its context may still be in use.
package mutex

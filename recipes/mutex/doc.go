// Package mutex is a lock that processes all over a cluster take turns at. It corresponds to Curator's InterProcessMutex, and shares the
// lock with it: same nodes, same order (docs/znodes.md).
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
//	defer lock.Release(context.Background())
//	return work(lock.Context())
//
// # What a lock is worth
//
// A distributed lock can be lost while it is held: the session ends because the process stood still, or the network did. Curator does not
// tell its holder. Here [Lock.Context] ends, with a cause, before the servers can give the lock to somebody else, and [Lock.Valid] says
// the same from the clock at any moment. Work that does not look at either is not protected by any lock; and between a look and the
// effect of a request to some other system there is always time for the process to stand still. Where that matters, give that system
// the [Lock.FencingToken] and let it refuse smaller ones, or, if it is ZooKeeper, put [Lock.Guard] into the transaction.
//
// Not covered is an administrator who deletes the lock's node: the holder learns of it within a delivery time, at about the same time as
// the next holder.
//
// # Fairness
//
// First come, first served, by the order in which the servers got the requests. Who waits is woken when the one ahead leaves, and nobody
// else is. A waiter whose session is lost begins again at the end of the line, within the same call of Acquire.
//
// # Several locks, and locks on request
//
// [Multi] takes several locks as one, all or none, under one deadline. With [WithRevocation] a holder hears when somebody asks for the lock
// ([Revoke], or Curator's Revoker).
//
// # Forgetting to release
//
// A lock that is not released is held until the client is closed or its session ends. When a [Lock] is garbage collected before it was
// released, the client's logger gets a warning; the lock stays held, since its context may still be in use.
package mutex

// Package semaphore hands out a limited number of leases all over a cluster: at most so many holders at a time. It corresponds to Curator's
// InterProcessSemaphoreV2, and shares the leases with it: same nodes, same count (docs/znodes.md).
//
//	s := semaphore.New(client, "/limits/exports", 5)
//	err := s.Do(ctx, 1, func(ctx context.Context) error {
//		return export(ctx) // one of five at most; ctx ends when the lease is lost
//	})
//
// or, with the lease in hand:
//
//	lease, err := s.Acquire(ctx, 2) // two of the five, or none
//	if err != nil {
//		return err
//	}
//	defer lease.Release(context.Background())
//	return work(lease.Context())
//
// # How many
//
// The limit is an agreement: everybody at a path has to use the same one. [WithSharedCount] keeps it in a node, Curator's SharedCount, where it
// may change while people hold leases and wait for them: when it grows, waiters go on; when it shrinks, holders finish, and nobody
// gets a lease until enough of them have. [Count] reads and sets it.
//
// # What a lease is worth
//
// As with a lock: [Lease.Context] ends, with a cause, before the servers can give the lease to somebody else, and [Lease.Valid] says the same from
// the clock at any moment; see package mutex. An administrator who deletes the lease's node ends it within a delivery time.
//
// There is no fencing token: a store that refuses smaller numbers would refuse rightful holders, since several hold leases at a time, and the one
// who came first is not the former one. [Lease.ID] only tells them apart. [Lease.Guard] works: it asks for the lease and nothing else.
//
// # Fairness
//
// Who finds enough leases free, and nobody in line, takes them at once. Everybody else stands in line; the first of the line waits until there are
// as many leases as it wants, all at a time, and nobody passes it. So it does not matter how many leases one wants: two who want several cannot take
// them away from each other one by one, and somebody who wants many is not passed for ever by those who want few. A release wakes the first
// of the line only.
//
// Curator for Java takes several leases one by one, and holds those it has while it waits for more. When the first in line waits for such a part it
// lets those with parts go first, after a while without any change; what that costs it is a place at the end of the line. So ours never wait for
// Java, nor Java for ours, without an end. Two takers of several in Java can wait for each other: between them nobody can help.
//
// # Not re-entrant
//
// Every Acquire takes leases of its own, whatever context it gets, as in Curator. Who holds all the leases and acquires one more would wait for itself: with
// the context of the lease that is refused at once (ErrSelfWait), with another one nobody can know.
//
// # Forgetting to release
//
// A lease that is not released is held until the client is closed or its session ends. When a [Lease] is garbage collected before it was
// released, the client's logger gets a warning; the lease stays taken, since its context may still be in use.
package semaphore

// Package semaphore limits how many leases processes all over a cluster hold at a time. It corresponds to
// Curator's InterProcessSemaphoreV2, and shares the leases with it: same nodes, same count (docs/znodes.md).
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
//	defer lease.ReleaseInBackground()
//	return work(lease.Context())
//
// # How many
//
// The limit is an agreement: all processes at a path have to use the same one. [WithSharedCount] keeps it in
// a node, Curator's SharedCount, where it may change while leases are held and waited for. When it grows,
// waiters go on; when it shrinks, holders keep their leases, and nobody gets another until enough of them
// were released. [Count] reads and sets it.
//
// # What a lease is worth
//
// As with a lock: [Lease.Context] ends, with a cause, before the servers can give the lease to somebody else,
// and [Lease.Valid] says the same from the clock at any moment; see package mutex. An administrator that
// deletes the lease's node ends it within a delivery time.
//
// There is no fencing token: several hold leases at a time, and a store that refuses smaller numbers would
// refuse rightful holders. [Lease.ID] only tells leases apart. [Lease.Guards] work: they check only that the
// lease exists.
//
// # Fairness
//
// A caller that finds enough leases free, and nobody in line, takes them at once. Everybody else waits in
// line. The first in line waits until as many leases as it wants are free, takes all of them at once, and
// nobody passes it. So the number of leases that a caller wants does not matter: two callers that want
// several cannot take them away from each other one by one, and a caller that wants many is not passed for
// ever by those that want few. A release wakes only the first in line.
//
// Curator for Java takes several leases one by one, and holds those it has while it waits for more. If our
// first in line waits for leases of such a Java client, it lets that client go first, after a while without
// any change, and goes to the end of the line itself. So ours and Java's never wait for each other without an
// end. Two Java clients that want several can wait for each other; this library cannot prevent that.
//
// # Not re-entrant
//
// Every Acquire takes leases of its own, whatever context it gets, as in Curator. A caller that holds all the
// leases and acquires one more waits for itself. With the context of the lease that is refused at once
// (ErrSelfWait); with another context it cannot be noticed.
//
// # Forgetting to release
//
// A lease that is not released is held until the client is closed or its session ends. When a [Lease] is
// garbage collected before it was released, the client's logger gets a warning; the lease stays taken, since
// its context may still be in use.
package semaphore

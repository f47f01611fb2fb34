// Package semaphore limits how many leases are taken at a time, among all processes that use a path. It
// corresponds to Curator's InterProcessSemaphoreV2, and shares the leases with it: the znodes and the way of
// counting are the same (docs/znodes.md).
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
// The limit is an agreement: all processes at a path have to use the same limit. [WithSharedCount] keeps the limit in
// a node, Curator's SharedCount, where it can be changed at any time. When it grows, waiters get leases. When it
// shrinks, holders keep their leases, a caller that has created its nodes before may still get its own, and no other
// caller gets a lease until enough of them were released. So there are never more leases than the limit at the grant
// of the last created one. [Count] reads and sets the limit.
//
// # Guarantees of a lease
//
// A lease can be lost like a lock, see package mutex. [Lease.Context] ends, with a cause, before another caller can
// acquire the lease, and [Lease.Valid] computes from the clock, at any moment, whether the lease is still certain. If
// an administrator deletes the lease's node, the lease ends when the event arrives.
//
// Leases have no fencing token. Several are valid at a time, so a store that refuses smaller numbers would refuse
// rightful holders. [Lease.ID] only identifies a lease. [Lease.Guards] can be used: they check only that the lease
// exists.
//
// # Fairness
//
// A caller that finds enough leases free, and the line empty, takes them immediately. Every other caller waits in
// the line. The first in the line waits until it can take all its leases together, and no waiter passes it. So two
// callers that want several leases do not deadlock, each with a part of them. And a caller that wants many leases is
// not passed for ever by callers that want few. A release wakes only the first in the line, and rarely a few callers that
// have left it for a lease that was not free.
//
// Curator for Java takes several leases one by one, and keeps those it has while it waits for more. If the
// first in the line is a client of this library, and waits for leases of such a Java client, it steps back
// after a while without any change: it goes to the end of the line. So a client of this library and a Java
// client do not deadlock. Two Java clients that each want several leases can deadlock; this library cannot
// prevent that.
//
// # Not re-entrant
//
// Every Acquire takes new leases, whatever context it gets, as in Curator. A caller that has all the leases and
// acquires one more waits for itself. If it passes the context of its lease, that is refused immediately
// (ErrSelfWait). With any other context it is not detected.
//
// # Forgetting to release
//
// A lease that is never released stays taken until the client is closed or its session ends. When a [Lease]
// is garbage collected before its release, the client logs a warning. The lease stays taken even then, since
// its context may still be in use.
package semaphore

// Package rwlock is a lock for processes all over a cluster, with many readers or one writer at a time. It
// corresponds to Curator's InterProcessReadWriteLock, and shares the lock with it: same nodes, same order
// (docs/znodes.md).
//
//	rw := rwlock.New(client, "/locks/stock")
//	err := rw.ReadLock().Do(ctx, func(ctx context.Context) error {
//		return look(ctx) // beside other readers; ctx ends when the lock is lost
//	})
//	err = rw.WriteLock().Do(ctx, func(ctx context.Context) error {
//		return change(ctx) // alone
//	})
//
// Both sides have the shape of package mutex: Acquire, TryAcquire and Do; a [Lock] with Context, Valid,
// FencingToken, Guard and Release. What package mutex says about what a lock is worth, about losing one and
// about forgetting to release it holds here, too.
//
// # Fairness
//
// First come, first served, by the order in which the servers got the requests. Neighbouring readers hold the
// lock together. A reader does not pass a writer that waits, so a stream of readers starves nobody. Each
// reader watches the nearest writer ahead: it is woken once, when it is its turn or when that writer gives
// up, and not by writers farther ahead. (In Curator the first writer wakes all readers.)
//
// # Both locks at once
//
// The Context of a [Lock], and one derived from it, carries the hold. A caller that acquires with it gets:
//
//	holding  acquires
//	read     read      the same hold once more, without asking the server
//	write    write     the same
//	write    read      at once, even if others wait: a downgrade, if the write lock is released first
//	read     write     ErrUpgrade, at once: two readers that both wait for the other would wait for ever
//
// After a downgrade the read lock has the place of the write lock in the line, and no writer that waited gets
// in between.
//
// # Fencing tokens
//
// Readers that hold the lock together have different tokens in no particular order. A store that protects
// itself refuses a read whose token is smaller than the largest that came with a write, and a write whose
// token is smaller than the largest that came with anything. The read lock of a downgrade has the token of
// its write lock.
//
// # What cannot be defended
//
// Curator for Java up to 5.4 gives a reader that downgrades a place at the end of the line. A writer that
// waits then gets the lock as soon as the write lock is released, while that Java reader still believes in
// its read lock (CURATOR-621). Such a reader looks like one that waits, so this library cannot prevent it:
// first update the Java clients of that age that write or downgrade. Our own downgrade uses the newer form,
// which old and new writers respect.
package rwlock

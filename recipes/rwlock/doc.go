// Package rwlock is a distributed read-write lock: many readers or one writer at a time, among all processes
// that use its path. It corresponds to Curator's InterProcessReadWriteLock, and shares the lock with it: the
// znodes and the order of waiters are the same (docs/znodes.md).
//
//	rw := rwlock.New(client, "/locks/stock")
//	err := rw.ReadLock().Do(ctx, func(ctx context.Context) error {
//		return look(ctx) // together with other readers; ctx ends when the lock is lost
//	})
//	err = rw.WriteLock().Do(ctx, func(ctx context.Context) error {
//		return change(ctx) // alone
//	})
//
// Both sides have the methods of a mutex.Mutex: Acquire, TryAcquire and Do. A [Lock] has the methods of a mutex.Lock:
// Context, Valid, FencingToken, Guard and Release. The documentation of package mutex on the loss of a lock, and on
// forgetting to release it, applies here as well.
//
// # Fairness
//
// First come, first served, in the order of the requests' arrival at the servers. Readers with no writer between them
// have the lock together. A reader does not pass a writer that waits, so a stream of readers starves no writer; where
// readers share a node, they pass a waiting writer for a bounded time (see below). Each reader watches the nearest
// writer ahead, and is woken only when that writer releases the lock or stops waiting, not by writers farther ahead.
// (In Curator the first writer wakes all readers.)
//
// # Many goroutines that read
//
// A [Readers] has one node for all goroutines of a process that read at the same time: a caller that arrives while
// others read joins them without a request, until later callers have to wait behind the waiting writers
// ([WithJoins]). Its holds, of type [Reading], each have a Context, which ends with their own release.
//
//	stock := rwlock.NewReaders(client, "/locks/stock")
//	err := stock.Do(ctx, look)
//
// # Both locks at once
//
// The Context of a [Lock], or a context derived from it, carries that lock. Acquire with it does:
//
//	holding  acquires
//	read     read      the same hold once more, without a request
//	write    write     the same
//	write    read      immediately, even if others wait: a downgrade, if the write lock is released first
//	read     write     ErrUpgrade, immediately: two readers that both wait for the other would wait for ever
//
// After a downgrade the read lock has the write lock's place in the line, so no waiting writer gets in between. The
// same holds for a [Readers], whose Readings re-enter; a read lock with a separate node and a shared one do not mix
// (ErrSelfWait).
//
// # Fencing tokens
//
// Readers that have the lock together have different tokens, in no particular order, or, if they share a node, the
// same. So a store should compare tokens as described at [Lock.FencingToken]. The read lock of a downgrade has the
// token of its write lock.
//
// # Old Java clients
//
// Curator for Java up to 5.4 puts the read lock of a downgrade at the end of the line. A waiting writer then gets
// the lock as soon as the write lock is released, although that Java client still acts as the holder of the read lock
// (CURATOR-621). Its node looks like a waiting reader's, so this library cannot prevent this. Before you mix clients,
// update such old Java clients if they write or downgrade. The downgrade of this library uses the newer layout, which
// old and new writers respect.
package rwlock

// Package rwlock is a distributed read-write lock: many readers or one writer at a time, among all processes
// that use its path. It corresponds to Curator's InterProcessReadWriteLock, and shares the lock with it: the
// znodes and the order of waiters are the same (docs/znodes.md).
//
//	rw := rwlock.New(client, "/locks/stock")
//	err := rw.ReadLock().Do(ctx, func(ctx context.Context) error {
//		return look(ctx) // beside other readers; ctx ends when the lock is lost
//	})
//	err = rw.WriteLock().Do(ctx, func(ctx context.Context) error {
//		return change(ctx) // alone
//	})
//
// Both sides have the methods of a mutex.Mutex: Acquire, TryAcquire and Do. A [Lock] has those of a
// mutex.Lock: Context, Valid, FencingToken, Guard and Release. What package mutex says about the loss of a
// lock, and about forgetting to release it, is true here, too.
//
// # Fairness
//
// First come, first served, by the order in which the servers got the requests. Readers with no writer
// between them have the lock together. A reader does not pass a writer that waits, so a stream of readers
// starves no writer; where readers share a node, they pass it for a bounded time (see below). Each reader
// watches the nearest writer ahead, and is woken only when that writer releases the lock or stops waiting,
// not by writers farther ahead. (In Curator the first writer wakes all readers.)
//
// # Many goroutines that read
//
// A [Readers] has one node for all goroutines of a process that read at the same time: whoever comes while
// others read joins them without a request, until newcomers have to go behind the writers that wait
// ([WithJoins]). What it grants, a [Reading], has its own Context, which ends with its own release.
//
//	stock := rwlock.NewReaders(client, "/locks/stock")
//	err := stock.Do(ctx, look)
//
// # Both locks at once
//
// The Context of a [Lock], or a context derived from it, says which lock its user has. Acquire with it does:
//
//	holding  acquires
//	read     read      the same hold once more, without asking the server
//	write    write     the same
//	write    read      at once, even if others wait: a downgrade, if the write lock is released first
//	read     write     ErrUpgrade, at once: two readers that both wait for the other would wait for ever
//
// After a downgrade the read lock has the write lock's place in the queue, so no waiting writer gets in
// between. The same holds for a [Readers], whose Readings re-enter; a read lock with a node of its own and
// one that shares a node do not mix (ErrSelfWait).
//
// # Fencing tokens
//
// Readers that have the lock together have different tokens, in no particular order, or, if they share a
// node, the same. So a store should compare tokens as [Lock.FencingToken] says. The read lock of a downgrade
// has the token of its write lock.
//
// # What cannot be defended
//
// Curator for Java up to 5.4 puts the read lock of a downgrade at the end of the queue. A waiting writer then
// gets the lock as soon as the write lock is released, although that Java client still believes that it has
// the read lock (CURATOR-621). Its node looks like that of a waiting reader, so this library cannot prevent
// this. Before you mix clients, update such old Java clients if they write or downgrade. The downgrade of
// this library uses the newer layout, which old and new writers respect.
package rwlock

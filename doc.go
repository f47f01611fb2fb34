// Package curator is the map of Curator for Go; it holds no code.
//
// It coordinates Go services on Apache ZooKeeper, with the same znodes as Apache Curator for Java:
//
//   - [github.com/go-curator/curator/framework]: the client: sessions, operations, transactions, watches.
//   - [github.com/go-curator/curator/recipes/mutex]: the exclusive lock, revocable locks, several locks at
//     once.
//   - [github.com/go-curator/curator/recipes/rwlock]: the read-write lock.
//   - [github.com/go-curator/curator/recipes/semaphore]: counting leases, and the shared count that may limit
//     them.
//   - [github.com/go-curator/curator/recipes/leader]: leader election: latch, selector, observers.
//   - [github.com/go-curator/curator/recipes/barrier]: barrier and double barrier.
//   - [github.com/go-curator/curator/cache]: local copies of nodes, children and subtrees.
//   - [github.com/go-curator/curator/retry]: when to try again.
//   - [github.com/go-curator/curator/zktest]: an in-process ZooKeeper for tests, with faults and virtual
//     time.
//
// Begin with framework.New and mutex.New; `go run ./examples/quickstart` shows them at work. DESIGN.md says
// what is promised and how the code is laid out, docs/znodes.md what is written into ZooKeeper.
package curator

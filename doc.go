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
//   - [github.com/go-curator/curator/recipes/counter]: numbers that many add to, values that are compared,
//     set and watched, ids in blocks.
//   - [github.com/go-curator/curator/recipes/queue]: queues of work.
//   - [github.com/go-curator/curator/recipes/once]: a job that is done once per slot, by one of many
//     processes.
//   - [github.com/go-curator/curator/recipes/node]: nodes that are kept, and claims on a name.
//   - [github.com/go-curator/curator/recipes/group]: the members of a group.
//   - [github.com/go-curator/curator/recipes/assignment]: items such as shards, shared among the members of a
//     group.
//   - [github.com/go-curator/curator/recipes/discovery]: services and their instances.
//   - [github.com/go-curator/curator/cache]: local copies of nodes, children and subtrees.
//   - [github.com/go-curator/curator/inspect]: who holds a lock, and who waits for it.
//   - [github.com/go-curator/curator/retry]: when to try again.
//   - [github.com/go-curator/curator/zktest]: an in-process ZooKeeper for tests, with faults and virtual
//     time.
//   - [github.com/go-curator/curator/zktest/chaos]: a service of yours through schedules of faults.
//
// Begin with framework.New and mutex.New; `go run ./examples/quickstart` shows them at work. docs/promises.md
// says what is promised, DESIGN.md how the code is laid out, docs/znodes.md what is written into ZooKeeper.
package curator

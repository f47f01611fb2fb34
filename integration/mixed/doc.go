// Package mixed has processes of this library and of Curator for Java work at the same paths of a real server, for a
// while, and makes faults: connections are cut, sessions expire, processes are killed and started again, and the
// server is. It makes sure that
//
//   - two contenders that exclude each other never hold a lock at the same time, no more leases are held than
//     there are, and locks are granted in the order of their nodes: every way of this library to hold a mutex,
//     alone and all together, with Java's InterProcessMutex; the semaphore with InterProcessSemaphoreV2; writers,
//     readers, and readers that share nodes, with InterProcessReadWriteLock, with tokens that grow;
//   - queues of all kinds lose and duplicate no item against their promises, together with Java's;
//   - kept nodes, members and service instances are right in the end, and seen alike by both;
//   - numbers are exact;
//   - no client waits for ever after the faults, and no node is left.
//
// Java's processes are killed with SIGKILL. A Go process is killed by taking its network away for ever and forgetting
// it, which is the same to the server.
//
// The tests demand only the promises of Curator for Java: it does not notice that it has lost a lock, so its hold
// counts only while its node exists; it may put an item twice; without a lock path it may lose an item with the reply
// to a delete, and when its queue is closed. Its queues are closed before its client: otherwise it handles items that
// it leaves on the queue. CURATOR_TEST_LASTING is the length of the faults (20s; 3m, for example), CURATOR_TEST_SEED
// the seed of their plan.
package mixed

// Package mixed has processes of this library and of Curator for Java do the same things at the same paths of a
// real server, for a while, and makes trouble: connections are cut, sessions expire, processes are killed and
// started again, and the server is. It makes sure that
//
//   - two that must not have a lock at the same time never have it, no more leases are out than there are, and
//     locks are granted in the order of their nodes: every way in which this library holds a mutex, alone and all
//     together, beside Java's InterProcessMutex; the semaphore beside InterProcessSemaphoreV2; writers, readers, and
//     readers that share nodes, beside InterProcessReadWriteLock, with tokens that grow;
//   - queues of all kinds lose nothing and double nothing of what is promised, beside Java's;
//   - kept nodes, members and service instances are right in the end, and seen alike by both;
//   - numbers are exact;
//   - nobody waits for ever when the trouble is over, and nothing is left.
//
// Java's processes are killed with SIGKILL. A Go process is killed by taking its network away for ever and forgetting
// it, which is the same to the server.
//
// What Curator for Java does not promise is not asked of it: it does not notice that it has lost a lock, so its
// hold counts only while its node is there; it may put an item twice; without a lock path it may lose an item
// with the reply to a delete, and when its queue is closed. Its queues are closed before its client: otherwise
// it handles items that it leaves on the queue. CURATOR_TEST_LASTING is how long the trouble lasts (20s; 3m,
// for example), CURATOR_TEST_SEED what goes wrong when.
package mixed

// Package framework is a ZooKeeper client that outlives connections and sessions, with the operations of
// Apache Curator's framework.
//
// # A client, its sessions and its states
//
// [New] makes a [Client], which connects and reconnects by itself until [Client.Close]. It always has exactly one
// session, numbered by an epoch. When a session is lost, the client begins the next. A request is executed in the session
// in which it was submitted, or not at all; only a retry may run in the next session, and not even that for operations
// of [Session.Client]. [Client.StateChanges] reports the changes:
//
//	Connected ── Suspended ── Reconnected (same epoch)
//	                 └─ Lost ── Reconnected (next epoch)
//
// For correctness use contexts rather than states. The context of a [Session] ends with the session. The context of a
// [Hold] (a lock, a lease, a term of leadership) ends before another client can get the lock, even if this process was
// paused or cut off. [Rule] has the two methods by which the client ensures that, [Client.Safety] the method in force.
//
// # Operations
//
// Operations are built and then run by ForPath, which takes a context and blocks until the reply arrives, the context
// ends, or the retry policy ([WithRetry]) allows no further try:
//
//	create := client.Create().CreatingParentsIfNeeded().WithMode(framework.Ephemeral)
//	path, err := create.ForPath(ctx, "/services/a", data)
//
// InBackground before ForPath queues the request and returns a [Pending] immediately. Requests queued by one goroutine
// are executed in that order.
//
// An error that matches ErrOutcomeUnknown leaves open whether the operation was executed; after any other error it was
// not (except for operations of several steps). See [OpError] and the list of errors below. Errors also match those of
// go-zookeeper (zk.ErrNoNode, …).
//
// [WithHooks] installs functions for traces and metrics; [Client.Health] returns the state for probes. See
// docs/observability.md.
//
// A client and everything it returns is safe for concurrent use unless documented otherwise.
//
// Most files begin with a word for their subject:
//
//	net_       the servers, connecting, and the reasons for a missing connection
//	session_   the goroutine that owns the sessions, the state machine, its subscribers
//	hold_      holds, and the rules that keep them safe
//	op_        the execution of operations; one file for each operation
//	watch_     watches
//	for_recipes.go   the API for authors of recipes
package framework

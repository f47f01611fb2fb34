// Package framework is a ZooKeeper client that outlives connections and sessions, with the operations of
// Apache Curator's framework.
//
// # A client, its sessions and its states
//
// [New] makes a [Client], which connects by itself and continues until [Client.Close]. It always has exactly one
// session, numbered by an epoch. When a session is lost, the client begins the next; an operation submitted in one
// session is executed in that session or fails. [Client.StateChanges] reports the changes:
//
//	Connected ── Suspended ── Reconnected (same epoch)
//	                 └─ Lost ── Reconnected (next epoch)
//
// For correctness use contexts rather than states. The context of a [Session] ends with the session. The context of a
// [Hold] (a lock, a lease, a term of leadership) ends before the servers can give the lock to another client, even if
// this process was paused or cut off. [Client.Safety] reports the rule in force; see [Rule].
//
// # Operations
//
// Operations are built and then run by ForPath, which takes a context and blocks until the answer, the end of
// the context, or the end of the retry policy ([WithRetry]):
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
// [WithHooks] reports what a client does, [Client.Health] how it is doing; see docs/observability.md.
//
// A client and everything it returns is safe for concurrent use unless documented otherwise.
//
// The files are named by what they belong to:
//
//	client.go, options.go, errors.go, health.go
//	net_       the servers, connecting, and the reasons for a missing connection
//	session_   the goroutine that owns the sessions, the state machine, its subscribers
//	hold_      holds, and the rules that keep them safe
//	op_        the execution of operations; one file for each
//	watch_     watches, view_ chroot and namespace, data_ compression, acl_ ACLs
//	hooks_     the reports to hooks; log_ the log lines, and the secrets that are never printed
//	for_recipes.go   the API for authors of recipes
package framework

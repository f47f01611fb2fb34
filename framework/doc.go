// Package framework is a ZooKeeper client that outlives connections and sessions, with the operations of Apache Curator's framework.
//
// # A client, its sessions and its states
//
// [New] makes a [Client], which connects by itself and goes on until [Client.Close]. It always has exactly one session, numbered by an epoch;
// when one is lost the next is begun, and what was submitted in one is executed there or fails. [Client.StateChanges] tells what happens:
//
//	Connected ── Suspended ── Reconnected (same epoch)
//	                 └─ Lost ── Reconnected (next epoch)
//
// React to the states if you must, but for correctness use contexts: that of a [Session] ends with it, and that of a [Hold] ends before the
// servers can give to somebody else what it stands for, also when this process was paused or cut off. Which rule sees to that is told by
// [Client.Safety]; see [Rule].
//
// # Operations
//
// Operations are built and then run by ForPath, which takes a context and blocks until the answer, the end of the context, or the end of the
// retry policy ([WithRetry]):
//
//	path, err := client.Create().CreatingParentsIfNeeded().WithMode(framework.Ephemeral).ForPath(ctx, "/services/a", data)
//
// InBackground in front of ForPath queues the request and returns a [Pending] at once: a sequence of them is executed in that order.
//
// Errors say what is known: errors.Is(err, ErrOutcomeUnknown) finds those after which an operation may have been executed or not. See
// [OpError] and the list of errors below; those of go-zookeeper (zk.ErrNoNode, …) are found as well.
//
// What a client does can be watched with [WithHooks], and how it is doing with [Client.Health]; docs/observability.md is about both.
//
// A client and everything it hands out is safe for concurrent use unless it says otherwise.
//
//	client.go            New, Close, WaitConnected
//	options.go           the options, connstring.go the list of servers, dial.go connections and TLS
//	state.go             the state machine as a pure function; states_subscribe.go who hears of it
//	session.go           the goroutine that owns the epochs, and Session
//	safety.go            which rule keeps holds safe; hold.go holds; heartbeat.go the writes of one of the rules
//	call.go              how an operation is run; one file per operation
//	walk.go              whole subtrees; deltree.go, dump.go and restore.go too, all by flight.go
//	servers.go           which servers; ensemble.go what the ensemble says about itself
//	hooks.go             who looks on; health.go how the client is doing
//	errors.go            the errors of operations; others stand where they arise
package framework

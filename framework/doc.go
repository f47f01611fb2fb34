// Package framework is a ZooKeeper client that outlives connections and sessions, with the operations of
// Apache Curator's framework.
//
// # A client, its sessions and its states
//
// [New] makes a [Client], which connects by itself and goes on until [Client.Close]. It always has exactly
// one session, numbered by an epoch; when one is lost the next is begun, and what was submitted in one is
// executed in it or fails. [Client.StateChanges] reports the changes:
//
//	Connected ── Suspended ── Reconnected (same epoch)
//	                 └─ Lost ── Reconnected (next epoch)
//
// For correctness use contexts rather than states: that of a [Session] ends with it, and that of a [Hold]
// ends before the servers can give to somebody else what it stands for, also when this process was paused or
// cut off. [Client.Safety] says by which rule; see [Rule].
//
// # Operations
//
// Operations are built and then run by ForPath, which takes a context and blocks until the answer, the end of
// the context, or the end of the retry policy ([WithRetry]):
//
//	path, err := client.Create().CreatingParentsIfNeeded().WithMode(framework.Ephemeral).ForPath(ctx, "/services/a", data)
//
// InBackground before ForPath queues the request and returns a [Pending] at once. Requests queued by one
// goroutine are executed in that order.
//
// Errors say what is known: those that match ErrOutcomeUnknown leave open whether the operation was executed.
// See [OpError] and the list of errors below. Errors also match those of go-zookeeper (zk.ErrNoNode, …).
//
// [WithHooks] reports what a client does, [Client.Health] how it is doing; see docs/observability.md.
//
// A client and everything it hands out is safe for concurrent use unless it says otherwise.
//
//	client.go            New, Close, WaitConnected
//	options.go           the options, connstring.go the list of servers, dial.go connections and TLS
//	session.go           Session; session_epoch.go one session of the client, session_manager.go their owner
//	session_state.go     the state machine as a pure function; session_board.go its subscribers
//	hold.go              holds; hold_end.go how they end, hold_safety.go the rule that keeps them safe
//	op.go                what an operation is, and what follows from an error; op_run.go runs it
//	op_create.go …       one file per operation; op_cleanup.go what callers have left behind
//	walk.go              whole subtrees; deltree.go, dump.go and restore.go too, by the flights of op_request.go
//	servers.go           the list of servers; ensemble.go the ensemble's configuration
//	hooks.go             hooks; health.go how the client is doing
//	errors.go            the errors of operations; others are where they arise
package framework

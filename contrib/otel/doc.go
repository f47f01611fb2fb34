// Package curatorotel reports to OpenTelemetry what clients of package framework do: spans of operations, of the wait
// for a lock and of the time that it is held, and metrics.
//
//	observed, err := curatorotel.New()
//	…
//	client, err := framework.New(connect, framework.WithHooks(observed.Hooks()))
//	…
//	stop, err := observed.Watch("orders", client)
//
// # Spans
//
//	curator mutex acquire    one acquisition; its operations and waits are inside
//	curator mutex wait       the wait for one node in line; linked to that node's acquisition (WithLinks)
//	curator mutex hold       inside the acquisition, from grant to end; work under the lock's context is inside
//	curator getData          one operation, with all its tries
//
// Operations without a waiting caller, such as the deletion of a left-over node, have spans, too.
//
// # Predecessors
//
// A wait has the attributes curator.predecessor.node, curator.predecessor.session and curator.predecessor.token of
// the node ahead. A hold has curator.node, curator.session and curator.token. So the waits for a hold can be found by
// these values, across processes, without writing anything. If the data of the nodes may be used for it, [WithLinks]
// makes links.
//
// It is a separate module, so that users of the library do not get OpenTelemetry.
package curatorotel

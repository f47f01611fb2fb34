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
//	curator mutex acquire    an acquisition; the parent of its operations, its waits and its hold
//	curator mutex wait       the wait for a predecessor; linked to the predecessor's acquisition (WithLinks)
//	curator mutex hold       a hold, from grant to end; the parent of work with the hold's context
//	curator getData          an operation, with all its tries
//
// Operations without a waiting caller, such as the deletion of a left-over node, have spans, too.
//
// # Predecessors
//
// A wait has the attributes curator.predecessor.node, curator.predecessor.session and curator.predecessor.token. A hold
// has the same values in curator.node, curator.session and curator.token. So you can find the waits for a hold by these
// values, across processes, and the client writes nothing for that. With [WithLinks] the client writes trace contexts into
// the nodes, and waits get links.
//
// It is a separate module, so that users of the library do not get OpenTelemetry.
package curatorotel

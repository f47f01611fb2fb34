// Package curatorotel shows what clients of package framework do to OpenTelemetry: spans of operations, of the wait for a lock and of the time that it
// is held, and metrics.
//
//	observed, err := curatorotel.New()
//	…
//	client, err := framework.New(connect, framework.WithHooks(observed.Hooks()))
//	…
//	stop, err := observed.Watch("orders", client)
//
// # Spans
//
//	curator mutex acquire    one acquisition, the operations and waits that it consists of inside
//	curator mutex wait       behind one node in line; linked to the acquisition of the one who stood there, if its node says which (WithLinks)
//	curator mutex hold       inside the acquisition, from the grant to the end of the hold; work under the lock's context is inside
//	curator getData          one operation, with all its tries
//
// Operations of which nobody waits for the result, as for the deletion of a node that was left behind, have spans, too.
//
// # Who is waited for
//
// A wait has the attributes curator.behind.node, curator.behind.session and curator.behind.token of the node in front. A hold has curator.node, curator.session and
// curator.token: so the waits for it are found by them, across processes, without anything written for that. Where the data of the nodes may
// be used for it, [WithLinks] makes them links.
//
// It is a module of its own, so that the library does not bring OpenTelemetry to those who do not use it.
package curatorotel

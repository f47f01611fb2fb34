// Package wire implements ZooKeeper sessions over one or more connections.
//
// A session dials, shakes hands, presents credentials and arms its watches again before any other request is
// sent. It pings at the pace of the rule that keeps promise P1. It repeats nothing by itself. Another client
// library can share the session as its Guest.
//
//	Session    one epoch: one ZooKeeper session over any number of connections    session.go, config.go
//	run        dials, and watches the clock                                       run.go
//	ending     how it ends, and how holds end                                     ending.go
//	calls      its requests: from Submit to the answer, and how many may be       calls.go, patience.go, old.go
//	           in flight
//	ops        the operations: what each changes, proves, returns and arms         ops.go
//	identity   its id, and sessions that a handshake may have left at a server    identity.go
//	registry   the watches: one on the server per path and kind                  watches.go, fired.go,
//	                                                                              rearm.go, watching.go
//	admission  servers that refuse the client                                     admission.go
//	fences     earlier sessions that may live                                     fence.go
//	attempt    from a dialled connection to one that is ready                     handshake.go, login.go
//	link       one connection: reader, writer, watchdog                           link.go, keeper.go
//	incoming   a frame from the server, and its limits                            incoming.go
//	errors     of callers, and why connections end                                api.go, diagnosis.go
//	Guest      go-zookeeper's requests (internal/guest)                           guest.go
//	Validity   until when the session is certain to live (promise P1)             validity.go, liveness.go
//	hosts      the server list and the backoff between passes over it             hosts.go
//
// Locks: Session.mu guards the owners that Session names below it, and a link's output, window and pulse. It is never
// held across I/O, a channel wait or a callback, except the guest's methods that are documented so.
package wire

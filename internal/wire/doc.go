// Package wire implements ZooKeeper sessions over one or more connections.
//
// A session dials, shakes hands, presents credentials and arms its watches again before any other request is
// sent. It pings at the pace of the rule that keeps promise P1. It repeats no request. Another client library can
// share the session as its Guest.
//
// Session composes the owners of its state, most of them in files that do not use the session:
//
//	Config           settings, credentials, limits, events                              config.go
//	pendingCalls     requests without a reply, in order; how long they wait            calls.go
//	watchRegistry    the watches: one on the server per path and kind                   watches.go, watch.go
//	sessionIdentity  the session's id, and sessions that a handshake may have left      identity.go
//	hostProvider     the server list and the backoff between passes over it             hosts.go
//	connection       one connection: its output, window, pulse and end                  connection_state.go, frames.go
//	Validity         until when the session is certain to live (promise P1)             validity.go, liveness.go
//	clockReading     the clock by which sessions live: sleep of the machine counts      clock.go
//	operations       what each operation changes, proves, returns and arms              ops.go
//	errors           of callers, and why connections end                                errors.go
//
// Its methods are in the file of their part of the work:
//
//	session.go        one epoch: one ZooKeeper session over any number of connections
//	run.go            dials, looks for a quorum, and watches the clock
//	handshake.go      from a dialled connection to one that is ready; login.go presents the credentials
//	connection.go     the goroutines of a connection: reader, writer, keeper
//	requests.go       from Submit to the reply, and operations that old servers do not know
//	subscriptions.go  watches that begin, fire and end
//	refusals.go       refusalRecord: servers that refuse the client
//	fence.go          openFences: earlier sessions that may live
//	ending.go         sessionEnd: all ends of a session
//	guest.go          the guest's requests (internal/guest)
//
// Locks: Session.mu guards the owners that Session names below it, and a connection's output, window and pulse. It is never
// held across I/O, a channel wait or a callback, except the guest's methods that are documented so.
package wire

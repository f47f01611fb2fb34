// Package wire keeps ZooKeeper sessions.
//
// A session dials, shakes hands, presents credentials and arms its watches again before any other request is
// sent. It pings at the pace of the rule that keeps promise P1. It repeats nothing by itself. Code that is
// written for go-zookeeper can share the session: that library is a guest, whose frames go over our
// connection beside ours. It sees a connection that never fails to write, never times out and ends when ours
// has ended.
//
//	Session    one epoch: one ZooKeeper session over any number of connections        session.go
//	run        dials, and watches the clock                                           run.go
//	           requests: queue, window, answers                                       calls.go
//	           how it ends                                                            ending.go
//	handshake  from a dialled connection to one that is ready                         handshake.go
//	birth      sessions that a handshake may have left at a server                    birth.go
//	admission  servers that do not let us in                                          admission.go
//	fences     sessions before this one that may live                                 fence.go
//	link       one connection: reader, writer, watchdog                               link.go
//	incoming   a frame from the server, and its limits                                incoming.go
//	room       how much may be in flight on it, by the delay of answers               room.go
//	guest      go-zookeeper's connection, and the net.Conn that it holds              guest.go, libconn.go
//	registry   the watches: one on the server per path and kind, many subscribers     watches.go, watching.go
//	Validity   until when the server cannot have expired the session (promise P1)     validity.go
//	hosts      the server list and the back-off between passes over it                hosts.go
//
// Locks: Session.mu guards a session's queue, calls in flight, watches and its link's output buffer. It is
// never held across I/O, a channel wait or a callback.
package wire

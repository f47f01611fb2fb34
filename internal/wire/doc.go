// Package wire keeps ZooKeeper sessions: it is the connection tap under go-zookeeper.
//
// go-zookeeper decides when to connect and to which server; everything that matters happens here, behind the net.Conn that its dialer hook gets.
// The tap shakes hands itself, so that it controls the session id, the highest zxid and the credentials of every connection; it arms our watches
// before anything else can be read; it pings at its own pace; it writes our requests as frames of their own, next to those of the library.
// What the library sees is a connection that never fails to write, never times out and ends when ours has ended.
//
//	Session    one epoch: one ZooKeeper session over any number of connections        session.go
//	link       one connection: handshake, reader, writer, watchdog                    link.go
//	room       how much may be under way on it, by how long answers take              room.go
//	libConn    the net.Conn that the library holds                                    libconn.go
//	registry   the watches: one on the server per path and kind, many subscribers     watches.go
//	Validity   until when the server cannot have expired the session (promise P1)     validity.go
//	hosts      the server list and the back-off between passes over it                hosts.go
//
// Locks: Session.mu guards a session's queue, calls in flight, watches and its link's output buffer. It is never held across I/O, a channel
// wait or a callback.
package wire

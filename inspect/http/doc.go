// Package inspecthttp is a live page that shows the holders and waiters of locks, and since when they hold or wait:
// to be mounted in a service.
//
//	page, err := inspecthttp.New(client, "/locks")
//	mux.Handle("/debug/curator/", page)
//	…
//	page.Close()
//
// It shows the lines below a path with their holders and waiters, the last grants of each, a graph of the waits,
// possible deadlocks, the sessions, and the client's health: state changes, and how long its holds are certain. A
// participant whose session is silent for more than half of its timeout, or has no connection, is marked if the
// servers report their connections (inspect.Connections); the ZooKeeper protocol itself does not report other
// sessions. It reads the lines of Curator for Java, of this library, of kazoo and of go-zookeeper; its limits are in
// the documentation of package inspect. It corresponds to nothing in Curator.
//
// # Who may see it
//
// Every client that can reach the page sees the names and data of all participants that the ZooKeeper client may
// read. Mount it where /debug/pprof would be mounted: behind a login, or on a port that only operators reach. A page
// on a loopback or on an internal address needs [WithHosts]: otherwise any web page that an operator visits can have
// its own name point there, and read it (DNS rebinding).
//
// The page changes nothing, except with [WithDelete]. Then every client that can reach it can take locks away. A POST
// has to come from the page itself: with its token, and from its origin (Sec-Fetch-Site, or else Origin, which must
// have the request's Host: a proxy in front must pass the Host header on).
//
// Names and data are shown as text, with unprintable characters escaped, and cut. The page loads nothing from
// elsewhere, and its Content-Security-Policy forbids that.
//
// # Cost
//
// Nothing before the first viewer. Then one cache (package cache) of everything below the root serves all viewers: it
// has a recursive watch, and reads each node that changes once. Of data of more than 1 KiB it keeps nothing. It ends
// ten minutes after the last viewer has left, together with the history of grants. The number of nodes is not
// limited, as in every cache: give the page a root with locks below it, not a tree of a million jobs.
//
// The lines are computed from the cache at most ten times a second, and less often if that is slow: after each
// computation the page rests ten times as long. While sessions wait for each other in a ring it sends a sync every
// few seconds, since only a reply of the servers proves that the ring still exists. A grant that ends between two
// computations is not in a line's history. Each viewer gets the changes since its last message in one message: a slow
// viewer gets fewer messages, delays no other, and has no queue in memory. A viewer that takes no message for ten
// seconds is dropped, and its browser reconnects.
//
// While a browser shows the page, the servers are asked for their connections every five seconds: one small read, and
// one connection to each server for the four-letter word cons; once a minute if none of them allows it.
//
// At most 1000 lines, and 5000 participants of them, are sent, the longest waits first; the others are counted. At
// most 64 viewers are served at the same time, others get 503.
package inspecthttp

// Package inspecthttp is a page that shows who holds what, who waits and since when, live: to be mounted in a
// service.
//
//	page, err := inspecthttp.New(client, "/locks")
//	mux.Handle("/debug/curator/", page)
//	…
//	page.Close()
//
// It shows the lines below a path with their holders and waiters, the last grants of each, who waits for whom
// drawn as a graph, possible deadlocks, the sessions, and the client's health: state changes, and how long its holds
// are certain. A participant whose session is silent for more than half of its timeout, or has no connection, is marked
// if the servers say who is connected (inspect.Connections); the ZooKeeper protocol itself says nothing of other sessions. It reads the lines of Curator for Java, of this library, of kazoo and of go-zookeeper; what it
// cannot know is in the documentation of package inspect. It corresponds to nothing in Curator.
//
// # Who may see it
//
// Whoever can reach the page sees the names and data of all participants that the client may read. Mount it
// where /debug/pprof would be mounted: behind a login, or on a port that only operators reach. A page on a
// loopback or on an internal address needs [WithHosts]: otherwise any web page that an operator visits can
// have its own name point there, and read it (DNS rebinding).
//
// The page changes nothing, except with [WithDelete]. Then whoever can reach it can take locks away. A POST
// has to come from the page itself: with its token, and from its origin (Sec-Fetch-Site, or else Origin,
// which must have the request's Host: a proxy in front must pass the Host header on).
//
// What is in names and data is shown as text, with everything that is not printable escaped, and cut. The
// page loads nothing from elsewhere, and its Content-Security-Policy forbids that.
//
// # What it costs
//
// Nothing before somebody looks. Then one cache (package cache) of everything below the root serves all
// viewers: it has a recursive watch, and reads each node that changes once. Of data of more than 1 KiB it
// keeps nothing. It ends ten minutes after the last viewer has gone, and with it what the page knows of
// earlier grants. The number of nodes is not limited, as in every cache: give the page a root with locks
// below it, not a tree of a million jobs.
//
// The lines are made of the cache at most ten times a second, and less often if that takes long: after each
// time the page rests ten times as long. While sessions wait for each other in a ring it sends a sync every few
// seconds, since only an answer of the servers tells that the ring is still there. A grant that is over
// before the next look is not in a line's history. Each viewer gets what has changed since what it got last,
// in one message: one that is slow gets fewer messages and delays nobody, and nothing waits for it in memory.
// A viewer that takes no message for ten seconds is dropped, and its browser comes back.
//
// While a browser shows the page, the servers are asked for their connections every five seconds: one small read, and one connection to
// each server for the four-letter word cons; once a minute if none of them allows it.
//
// At most 1000 lines, and 5000 participants of them, are sent, those that wait longest first; the others are
// counted. At most 64 viewers are served at once, others get 503.
package inspecthttp

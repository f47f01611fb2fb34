// Package zktest is a ZooKeeper server in Go, in process: for tests, and for embedding where a throw-away coordination service will do.
//
//	func TestSomething(t *testing.T) {
//		server := zktest.RunT(t, zktest.Config{Listen: "127.0.0.1:0"})
//		conn, _, err := zk.Connect([]string{server.Addr()}, 10*time.Second)
//		…
//	}
//
// It speaks ZooKeeper's protocol over TCP (Config.Listen) and over an in-memory network ([Server.Dial], [Server.Dialer] for go-zookeeper). With
// the latter it lives in a [testing/synctest] bubble: start server and clients inside the bubble, and ten minutes of outage take no time.
//
// # Looking inside and breaking things
//
// [Server.Create], [Server.Set], [Server.Delete] and the like change the tree as an administrator would. [Server.Tree], [Server.Diff],
// [Server.Sessions], [Server.Watches], [Server.Counts] and [Server.Trace] show what there is and what went on. [Server.Expire], [Server.Cut],
// [Server.Stop], [Server.Wipe], [Server.Pause], [Server.BlackHole] and [Server.Delay] break the server or the network; [Server.Inject] strikes
// single requests: lost before execution, lost after it, parked, answered with an error.
//
// # What it does like the real server
//
// Replies were compared byte by byte with recordings of a real 3.8.0, and random histories of all operations with a running one.
//
//	sessions      ids; passwords that follow from the ids; bounded timeouts; re-attach, which closes the old connection first (even when the
//	              password is wrong) and replaces the expiry; expiry in ticks; every request of the pipeline touches, auth does not; clients
//	              that have seen a later zxid are refused without an answer; full timeouts after a restart
//	operations    create, create2, createContainer, createTTL, delete, exists, getData, setData, getACL, setACL, getChildren, getChildren2, sync,
//	              check, multi, multiRead, setWatches, setWatches2, addWatch, checkWatches, removeWatches, auth, whoAmI, getEphemerals,
//	              getAllChildrenNumber, ping, closeSession; unknown ones are answered with -6, and the connection is closed
//	nodes         persistent, ephemeral, sequential, container, TTL (Config.ExtendedTypes); /zookeeper, its quota and config nodes; the order of
//	              getChildren is that of Java's HashSet; sequence numbers stick at 2147483647
//	watches       data, exists, child, persistent, recursive; events stand before the reply of the read that shows the change; one mode per
//	              connection and path before 3.9, where a one-shot watch destroys a persistent one; events dropped for lack of READ since 3.8.4
//	ACL           world, auth, digest, ip (IPv4), the super user; Config.RequireAuth
//	errors        codes, their order of precedence, the layout of failed multis; a failed write takes a zxid, too; a check that succeeds
//	              outside a multi is never answered
//	limits        frame length, path rules, quotas (Config.EnforceQuota)
//	words         ruok srvr stat mntr cons wchs conf isro, none of them forbidden
//	versions      Config.Profile: 3.5, 3.8, 3.8.4, 3.9
//
// # What it does not do
//
//	ensembles     one server; sync has nothing to wait for, reconfig is always disabled
//	read-only     the server is never read-only; it accepts clients that would allow it
//	SASL, x509    sasl is answered as by a server without a login: no error, no token. TLS: wrap the listener yourself
//	local         no local sessions
//	throttling    no limit on outstanding requests or on connections per address
//	disk          nothing is kept; Stop and Start keep the data in memory
//	flaws         requests that kill a real 3.8 (createTTL without a TTL mode) are answered with -8
//	              strings that are not UTF-8 are echoed as they are, those beyond U+FFFF as UTF-8
//	              writes of one connection that arrive together are executed one by one, so that a sequence counter at its end sticks at once
//
// # How it is built
//
// One file per family of operations (op_create.go, op_watch.go, …), all state under one mutex that is never held while waiting or writing, a
// reader and a writer goroutine per connection, and one goroutine each for expiry and for the reaper, which have no timer running while there is
// nothing to wait for.
package zktest

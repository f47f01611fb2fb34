// Package zktest is a ZooKeeper server in Go that runs inside your process. It is for tests, and for programs
// that need a coordination service only while they run.
//
//	func TestSomething(t *testing.T) {
//		server := zktest.RunT(t, zktest.Config{Listen: "127.0.0.1:0"})
//		conn, _, err := zk.Connect([]string{server.Addr()}, 10*time.Second)
//		…
//	}
//
// It speaks ZooKeeper's protocol over TCP (Config.Listen) and over an in-memory network ([Server.Dial],
// [Server.Dialer] for go-zookeeper). The in-memory network works in a [testing/synctest] bubble: start server
// and clients inside the bubble, and an outage of ten virtual minutes takes milliseconds.
//
// # Looking inside and breaking things
//
// [Server.Create], [Server.Set], [Server.Delete] and the like change the tree as an administrator would.
// [Server.Tree], [Server.Diff], [Server.Sessions], [Server.Watches], [Server.Counts] and [Server.Trace] show
// the present state and the past requests. [Server.Expire], [Server.Cut], [Server.Stop], [Server.Wipe],
// [Server.Pause], [Server.BlackHole], [Server.Delay] and [Server.SkewClock] break the server or the network;
// [Server.Inject] makes single requests fail: it loses the request, loses the reply, delays either, or
// answers with an error.
//
// # Ensembles
//
// [RunEnsembleT] and [NewEnsemble] start several servers with one ordered log; [Ensemble.Member] returns each
// of them as a [Server]. Members apply the log with a lag, elect leaders, and can be cut from each other
// ([Ensemble.Partition], [Ensemble.CutLink], [Ensemble.ResetPeers]), hung, stopped and wiped, each by itself.
// [Ensemble.Play] runs a schedule of faults. An ensemble shows the surprises of real ensembles:
//
//   - Reads can be stale.
//   - A member that has lost its leader, or a leader that has lost its followers, goes on answering pings,
//     reads and sync for SyncLimit ticks. Meanwhile the other members can expire the sessions of its clients.
//   - A write in flight when the leader dies may or may not be executed, and the client does not learn which.
//
// For example, to cut the leader from the other members:
//
//	ensemble := zktest.RunEnsembleT(t, 3)
//	client, err := framework.New(ensemble.ConnectString(), framework.WithDialer(ensemble.Dial))
//	…
//	ensemble.Partition(ensemble.Leader())
//
// # What it does like the real server
//
// Random histories of all operations, and malformed requests, were compared with those of a running server of each
// release in [Config].Profile, and replies byte by byte with recordings of Debian's 3.8.0.
//
//	sessions      ids; passwords that follow from the ids; bounded timeouts; re-attach, which closes the old
//	              connection first (even when the password is wrong) and replaces the expiry; expiry in ticks;
//	              every request of the pipeline touches the session, auth does not; clients that have seen a
//	              later zxid are refused without an answer; full timeouts after a restart
//	operations    create, create2, createContainer, createTTL, delete, exists, getData, setData, getACL,
//	              setACL, getChildren, getChildren2, sync, check, multi, multiRead, setWatches, setWatches2,
//	              addWatch, checkWatches, removeWatches, auth, whoAmI, getEphemerals, getAllChildrenNumber,
//	              ping, closeSession, reconfig; unknown ones are answered with -6, and the connection is closed
//	nodes         persistent, ephemeral, sequential, container, TTL (Config.ExtendedTypes); /zookeeper, its
//	              quota and config nodes; the order of getChildren is that of Java's HashSet; sequence numbers
//	              stick at 2147483647, or wrap (3.5)
//	watches       data, exists, child, persistent, recursive; events come before the reply of the read that
//	              shows the change; one mode per connection and path before 3.9, where a one-shot watch
//	              destroys a persistent one; events dropped for lack of READ since 3.8.4
//	ACL           exists needs READ since 3.8.4 and 3.9.2; world, auth, digest, ip (IPv4), sasl (DIGEST-MD5), the super user; Config.RequireAuth,
//	              Config.RequireSASL
//	errors        codes, their order of precedence, the layout of failed multis; a failed write takes a zxid,
//	              too; a check outside a multi is unknown, or never answered if it succeeds; null and negative
//	              lengths are taken, or stumbled over, as by the release
//	limits        frame length, path rules, quotas (Config.EnforceQuota), connections per address
//	              (Config.MaxClientConns); no requests are read of a connection for which 4 MiB wait to be
//	              taken by its client, or 1000 requests for the log
//	words         ruok srvr stat mntr cons wchs conf envi isro, none of them forbidden
//	ensembles     a leader commits what a majority has; epochs; the newest log wins an election, and what is
//	              in it becomes committed; the rest is cut off; sessions belong to the ensemble: every half
//	              tick members tell the leader which sessions they have heard of, the leader expires those
//	              that it hears nothing of, and a new leader gives all their full timeout; they move between
//	              members, and writes at the old member are refused; writes of a connection are pipelined,
//	              later requests wait for them; sync comes back after the leader's commits
//	reconfig      Config.Reconfig: members leave, join, become observers or participants, all or some of them;
//	              what is refused, for which of several reasons; from the proposal on both configurations have
//	              to agree; the node's data, with version -1, and its two events; a leader that is removed
//	              answers, and another is elected
//	read-only     Config.ReadOnlyMode: a member without a leader serves reads to those who allow it, refuses
//	              writes and sync with -119, and drops its clients when there is a leader; with
//	              Config.LocalSessions it opens sessions, which are its own and end then
//	releases      Config.Profile: 3.9.5, 3.8.6, Debian's 3.8.0, 3.7.2, 3.6.4, 3.5.10
//
// # What it does not do
//
//	ensembles     a member that joins always takes over its leader's whole state; no groups, no weights, and
//	              an observer is a follower that does not count; no server starts or ends, or serves at another
//	              address, by a reconfiguration; votes travel by no network: a majority that is connected both
//	              ways elects after Config.ElectionTime; what a member has acknowledged survives its end, as
//	              with forceSync; the leader has no lag
//	x509          TLS: wrap the listener yourself; there are no identities by certificate, and no SASL
//	              mechanism but DIGEST-MD5
//	local         no local sessions, except with Config.LocalSessions
//	disk          nothing is kept; Stop and Start keep the data in memory
//	flaws         requests that kill a real 3.8 (createTTL without a TTL mode) are answered with -8
//	              strings that are not UTF-8 are echoed as they are, characters beyond U+FFFF as UTF-8
//	              writes that arrive together are executed one by one, so that a sequence counter at its end
//	              sticks at once; the real server checks a write before those ahead of it are done: by the old
//	              ACL, by the old use of a quota, by what a multi it could not read was about to do
//
// # How it is built
//
// There is one file per family of operations (op_create.go, op_watch.go, …). One mutex guards all state, and
// no goroutine holds it while it waits or writes to the network. Each connection has a reader and a writer
// goroutine. Session expiry and the reaper have a goroutine each, which run no timer while there is nothing
// to wait for.
//
// In an ensemble all members share that mutex. A write becomes an entry of the log (log.go) that the leader
// proposes and every member applies by the same code as a standalone server (member.go). Messages between
// members are functions in the queues of links (bond.go). One goroutine calls them when they are due, and
// also does what depends on the time (quorum.go).
package zktest

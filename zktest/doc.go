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
//   - A member that has lost its leader, or a leader that has lost its followers, still replies to pings, reads
//     and sync for SyncLimit ticks. During that time the other members can expire the sessions of its clients.
//   - A write in flight when the leader dies may or may not be executed: to the client its outcome is unknown.
//
// For example, to cut the leader from the other members:
//
//	ensemble := zktest.RunEnsembleT(t, 3)
//	client, err := framework.New(ensemble.ConnectString(), framework.WithDialer(ensemble.Dial))
//	…
//	ensemble.Partition(ensemble.Leader())
//
// # Same as the real server
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
//	              quota and config nodes; getChildren in the order of Java's HashSet; sequence numbers stick
//	              at 2147483647, or wrap (3.5)
//	watches       data, exists, child, persistent, recursive; events come before the reply of the read that
//	              shows the change; one mode per connection and path before 3.9, where a one-shot watch
//	              destroys a persistent one; events dropped for lack of READ since 3.8.4
//	ACL           exists needs READ since 3.8.4 and 3.9.2; world, auth, digest, ip (IPv4), sasl (DIGEST-MD5), the super user; Config.RequireAuth,
//	              Config.RequireSASL
//	errors        codes, their order of precedence, the layout of failed multis; a failed write also takes a
//	              zxid; a check outside a multi is unknown, or never answered if it succeeds; null and negative
//	              lengths are accepted, or make the request fail, as in the release
//	limits        frame length, path rules, quotas (Config.EnforceQuota), connections per address
//	              (Config.MaxClientConns); no request is read from a connection while 4 MiB wait for its
//	              client to read them, or 1000 of its requests for the log
//	words         ruok srvr stat mntr cons wchs conf envi isro, none of them forbidden
//	ensembles     a leader commits the entries that a majority has; epochs; the newest log wins an election,
//	              and all its entries become committed; other entries are discarded; sessions belong to the
//	              ensemble: every half tick the members report to the leader which sessions have sent a
//	              request, the leader expires a session that no member reports for its timeout, and a new leader
//	              gives all sessions their full timeout; a session moves between members, and then a write at the old
//	              member is refused; writes of a connection are pipelined, later requests wait for them; the
//	              reply to sync comes after the leader's commits
//	reconfig      Config.Reconfig: members leave, join, become observers or participants, all or some of them;
//	              the refusals, and which of several reasons comes first; from the proposal until the commit
//	              both configurations have to agree; the node's data, with version -1, and its two events; a
//	              leader that is removed replies, and another is elected
//	read-only     Config.ReadOnlyMode: a member without a leader serves reads to clients that allow it, refuses
//	              writes and sync with -119, and drops its clients when there is a leader; with
//	              Config.LocalSessions it opens local sessions, which end then
//	releases      Config.Profile: 3.9.5, 3.8.6, Debian's 3.8.0, 3.7.2, 3.6.4, 3.5.10
//
// # Different from the real server
//
//	ensembles     a member that joins always takes over its leader's whole state; no groups, no weights, and
//	              an observer is a follower that does not count; no server starts or ends, or serves at another
//	              address, by a reconfiguration; votes are not messages: a majority that is connected both
//	              ways elects after Config.ElectionTime; entries that a member has acknowledged survive its
//	              end, as with forceSync; the leader has no lag
//	x509          no TLS: wrap the listener yourself; no identities by certificate, and no SASL mechanism but
//	              DIGEST-MD5
//	local         no local sessions, except with Config.LocalSessions
//	disk          nothing is kept; Stop and Start keep the data in memory
//	flaws         requests that kill a real 3.8 (createTTL without a TTL mode) are answered with -8
//	              strings that are not UTF-8 are echoed as they are, characters beyond U+FFFF as UTF-8
//	              writes that arrive together are executed one by one, so that a sequence counter at its end
//	              sticks immediately; the real server checks a write before the writes ahead of it are
//	              executed: by the old ACL, by the old use of a quota, by the changes of a multi that it
//	              could not decode to its end
//
// # How it is built
//
// There is one file per family of operations (op_create.go, op_watch.go, …). One mutex guards all state, and
// no goroutine holds it while it waits or writes to the network. Each connection has a reader and a writer
// goroutine. Session expiry and the reaper have a goroutine each, which runs a timer only while a session,
// a container or a TTL node exists.
//
// In an ensemble all members share that mutex. A write becomes an entry of the log (log.go) that the leader
// proposes and every member applies by the same code as a standalone server (member.go). Messages between
// members are functions in the queues of links (link.go). One goroutine calls them when they are due, and
// also does what depends on the time (quorum.go).
package zktest

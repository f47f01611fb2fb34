package clients

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/javapeer"
)

// java is a client of ZooKeeper's own library, which a test controls.
type java struct {
	*javapeer.ZooKeeper
	t    *testing.T
	seen int
}

func connectJava(t *testing.T, peer *javapeer.Peer, name, addr string) *java {
	t.Helper()
	client, err := peer.ZooKeeper(kit.Context(t), name, addr, sessionTimeout)
	require.NoError(t, err)
	return &java{client, t, 0}
}

// says calls an operation, and requires this result.
func (j *java) says(want []string, operation string, arguments ...string) {
	j.t.Helper()
	got, err := j.Do(kit.Context(j.t), operation, arguments...)
	require.NoError(j.t, err)
	assert.Equal(j.t, want, append([]string{}, got...), "%s %q", operation, arguments)
}

// fails calls an operation, and requires a KeeperException of this kind.
func (j *java) fails(kind, operation string, arguments ...string) {
	j.t.Helper()
	_, err := j.Do(kit.Context(j.t), operation, arguments...)
	var failure *javapeer.Error
	require.ErrorAs(j.t, err, &failure, "%s %q", operation, arguments)
	assert.Equal(j.t, "org.apache.zookeeper.KeeperException$"+kind+"Exception", failure.Class)
}

// hears waits for the next event of a watch.
func (j *java) hears(kind, path string) {
	j.t.Helper()
	seen, err := j.Await(kit.Context(j.t), j.seen, "SyncConnected", kind, path)
	require.NoError(j.t, err)
	j.seen = seen
}

// becomes waits for a state of the connection.
func (j *java) becomes(state string) {
	j.t.Helper()
	seen, err := j.Await(kit.Context(j.t), j.seen, state, "None", "")
	require.NoError(j.t, err)
	j.seen = seen
}

func (j *java) session() int64 {
	j.t.Helper()
	id, err := j.SessionID(kit.Context(j.t))
	require.NoError(j.t, err)
	return id
}

func TestJavaClient(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, server target) {
		peer := javapeer.Start(t)
		a, b := connectJava(t, peer, "a", server.addr), connectJava(t, peer, "b", server.addr)
		javaOperations(a, b)
		javaMulti(a)
		javaWatches(a, b)
		javaCut(server, a, b)
		javaExpiry(server, a, b)
		b.says([]string{}, "close")
		require.NoError(t, peer.Quit(kit.Context(t)))
	})
}

func javaOperations(a, b *java) {
	none := []string{}
	a.says([]string{"/ops", "0"}, "create", "/ops", "x", "PERSISTENT")
	a.fails("NodeExists", "create", "/ops", "x", "PERSISTENT")
	a.says([]string{"/ops/e", "0"}, "create", "/ops/e", "", "EPHEMERAL")
	a.says([]string{"/ops/s-0000000001", "0"}, "create", "/ops/s-", "", "PERSISTENT_SEQUENTIAL")
	a.says([]string{"/ops/s-0000000002", "0"}, "create", "/ops/s-", "", "EPHEMERAL_SEQUENTIAL")
	a.says([]string{"/ops/c", "0"}, "create", "/ops/c", "", "CONTAINER")
	a.says([]string{"/ops/t", "0"}, "create", "/ops/t", "", "PERSISTENT_WITH_TTL", "60000")
	a.fails("NoChildrenForEphemerals", "create", "/ops/e/x", "", "PERSISTENT")
	a.fails("NoNode", "create", "/nothing/x", "", "PERSISTENT")
	b.says([]string{"x", "0"}, "get", "/ops")
	b.says([]string{"1"}, "set", "/ops", "yy", "0")
	b.fails("BadVersion", "set", "/ops", "zz", "0")
	b.says([]string{"1", "5", "0"}, "exists", "/ops")
	b.says(none, "exists", "/nothing")
	b.says([]string{"c", "e", "s-0000000001", "s-0000000002", "t"}, "children", "/ops")
	b.says([]string{"5"}, "count", "/ops")
	a.says([]string{"/ops/e", "/ops/s-0000000002"}, "ephemerals", "/ops")
	b.says(none, "ephemerals", "/")
	b.fails("NotEmpty", "delete", "/ops", "-1")
	b.says(none, "delete", "/ops/t", "0")
	b.says(none, "sync", "/ops")

	a.says(none, "auth", "u:p")
	a.says([]string{"digest:u", "ip:127.0.0.1"}, "who-am-i")
	a.says([]string{"/ops/private"}, "create-private", "/ops/private")
	b.fails("NoAuth", "get", "/ops/private")
	b.fails("NoAuth", "set-acl", "/ops/private", "31", "world", "anyone")
	a.says([]string{"1"}, "set-acl", "/ops/private", "1", "world", "anyone")
	b.says([]string{"1:world:anyone"}, "get-acl", "/ops/private")
	a.fails("InvalidACL", "set-acl", "/ops/c", "31", "nosuch", "x")
}

func javaMulti(a *java) {
	a.says([]string{"CreateResult", "CheckResult", "SetDataResult", "DeleteResult"}, "multi",
		"create", "/m", "1", "check", "/m", "0", "set", "/ops", "3", "delete", "/m", "0")
	a.says([]string{"0", "-103", "-2"}, "multi", "create", "/m", "1", "check", "/ops", "99", "delete", "/m", "0")
	a.says([]string{}, "exists", "/m")
	a.says([]string{"GetDataResult", "GetChildrenResult", "-101"}, "multi", "get", "/ops", "", "children",
		"/ops", "", "get", "/nothing", "")
}

func javaWatches(a, b *java) {
	b.says([]string{"/w", "0"}, "create", "/w", "", "PERSISTENT")
	a.says([]string{"", "0"}, "get", "/w", "watch")
	a.says([]string{}, "exists", "/w/x", "watch")
	a.says([]string{}, "children", "/w", "watch")
	b.says([]string{"1"}, "set", "/w", "1", "-1")
	a.hears("NodeDataChanged", "/w")
	b.says([]string{"/w/x", "0"}, "create", "/w/x", "", "PERSISTENT")
	a.hears("NodeCreated", "/w/x")
	a.hears("NodeChildrenChanged", "/w")

	a.says([]string{}, "add-watch", "/w/x", "PERSISTENT")
	a.says([]string{}, "add-watch", "/tree", "PERSISTENT_RECURSIVE")
	b.says([]string{"1"}, "set", "/w/x", "1", "-1")
	b.says([]string{"2"}, "set", "/w/x", "2", "-1")
	b.says([]string{"/w/x/y", "0"}, "create", "/w/x/y", "", "PERSISTENT")
	b.says([]string{"/tree", "0"}, "create", "/tree", "", "PERSISTENT")
	b.says([]string{"/tree/deep", "0"}, "create", "/tree/deep", "", "PERSISTENT")
	b.says([]string{"1"}, "set", "/tree/deep", "", "-1")
	b.says([]string{}, "delete", "/tree/deep", "-1")
	for _, event := range [][2]string{{"NodeDataChanged", "/w/x"}, {"NodeDataChanged", "/w/x"},
		{"NodeChildrenChanged", "/w/x"}, {"NodeCreated", "/tree"},
		{"NodeCreated", "/tree/deep"}, {"NodeDataChanged", "/tree/deep"}, {"NodeDeleted", "/tree/deep"}} {
		a.hears(event[0], event[1])
	}
	a.says([]string{}, "remove-watches", "/w/x", "Any")
	a.hears("PersistentWatchRemoved", "/w/x")
	a.fails("NoWatcher", "remove-watches", "/w/x", "Any")
}

// The connection breaks: the session stays, ephemeral nodes stay, and all watches stay, whatever happened in between.
func javaCut(server target, a, b *java) {
	a.says([]string{"2", "1", "0"}, "exists", "/w/x", "watch")
	session := a.session()
	server.cut()
	a.becomes("Disconnected")
	a.becomes("SyncConnected")
	require.Equal(a.t, session, a.session())
	a.says([]string{"/ops/e", "/ops/s-0000000002"}, "ephemerals", "/ops")
	b.becomes("SyncConnected")
	b.says([]string{"3"}, "set", "/w/x", "3", "-1")
	a.hears("NodeDataChanged", "/w/x")
	b.says([]string{"/tree/late", "0"}, "create", "/tree/late", "", "PERSISTENT")
	a.hears("NodeCreated", "/tree/late")
}

func javaExpiry(server target, a, b *java) {
	b.says([]string{"0", "0", formatted(a.session())}, "exists", "/ops/e", "watch")
	server.expire(a.session())
	b.hears("NodeDeleted", "/ops/e")
	a.becomes("Expired")
	a.fails("SessionExpired", "exists", "/ops")
}

package clients

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/integration/internal/kit"
)

func formatted(id int64) string { return strconv.FormatInt(id, 10) }

// golang is a client of go-zookeeper and its session's events.
type golang struct {
	*zk.Conn
	t      *testing.T
	events <-chan zk.Event
}

func connectGo(t *testing.T, addr string) *golang {
	t.Helper()
	// The library's own channel has room for six events, watch events included, and drops later ones.
	events := make(chan zk.Event, 10_000)
	sessions := zk.WithEventCallback(func(event zk.Event) {
		if event.Type == zk.EventSession {
			events <- event
		}
	})
	conn, _, err := zk.Connect([]string{addr}, sessionTimeout, zk.WithLogger(silent{}), sessions)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	g := &golang{conn, t, events}
	g.becomes(zk.StateHasSession)
	return g
}

type silent struct{}

func (silent) Printf(string, ...any) {}

func (g *golang) becomes(state zk.State) {
	g.t.Helper()
	for event := kit.Receive(g.t, state.String(), g.events); event.State != state; {
		event = kit.Receive(g.t, state.String(), g.events)
	}
}

func (g *golang) hears(events <-chan zk.Event, kind zk.EventType, path string) {
	g.t.Helper()
	event := kit.Receive(g.t, kind.String()+" "+path, events)
	assert.Equal(g.t, kind, event.Type)
	assert.Equal(g.t, path, event.Path)
}

func TestGoZookeeper(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, server target) {
		a, b := connectGo(t, server.addr), connectGo(t, server.addr)
		goOperations(a, b)
		goWatches(a, b)
		goLock(a, b)
		goCut(server, a)
		goExpiry(server, a, b)
	})
}

func goOperations(a, b *golang) {
	t, open := a.t, zk.WorldACL(zk.PermAll)
	create := func(path string, flags int32) string {
		created, err := a.Create(path, []byte("x"), flags, open)
		require.NoError(t, err)
		return created
	}
	assert.Equal(t, "/ops", create("/ops", 0))
	assert.Equal(t, "/ops/e", create("/ops/e", zk.FlagEphemeral))
	assert.Equal(t, "/ops/s-0000000001", create("/ops/s-", zk.FlagSequence))
	assert.Equal(t, "/ops/s-0000000002", create("/ops/s-", zk.FlagEphemeral|zk.FlagSequence))
	_, err := a.CreateContainer("/ops/c", nil, zk.FlagContainer, open)
	require.NoError(t, err)
	_, err = a.CreateTTL("/ops/t", nil, 5, open, time.Minute)
	require.NoError(t, err)
	protected, err := a.CreateProtectedEphemeralSequential("/ops/p-", nil, open)
	require.NoError(t, err)
	assert.Regexp(t, "^/ops/_c_[0-9a-f]{32}-p-0000000005$", protected)
	_, err = a.Create("/ops", nil, 0, open)
	require.ErrorIs(t, err, zk.ErrNodeExists)
	_, err = a.Create("/ops/e/x", nil, 0, open)
	require.ErrorIs(t, err, zk.ErrNoChildrenForEphemerals)

	data, stat, err := b.Get("/ops")
	require.NoError(t, err)
	assert.Equal(t, "x", string(data))
	assert.Equal(t, int32(6), stat.NumChildren)
	_, err = b.Set("/ops", []byte("y"), 0)
	require.NoError(t, err)
	_, err = b.Set("/ops", []byte("z"), 0)
	require.ErrorIs(t, err, zk.ErrBadVersion)
	children, _, err := b.Children("/ops")
	require.NoError(t, err)
	assert.Len(t, children, 6)
	found, _, err := b.Exists("/nothing")
	require.NoError(t, err)
	assert.False(t, found)
	require.ErrorIs(t, b.Delete("/ops", -1), zk.ErrNotEmpty)
	require.NoError(t, b.Delete("/ops/t", 0))
	path, err := b.Sync("/ops")
	require.NoError(t, err)
	assert.Equal(t, "/ops", path)

	require.NoError(t, a.AddAuth("digest", []byte("u:p")))
	_, err = a.Create("/ops/private", nil, 0, zk.AuthACL(zk.PermAll))
	require.NoError(t, err)
	_, _, err = b.Get("/ops/private")
	require.ErrorIs(t, err, zk.ErrNoAuth)
	acl, _, err := a.GetACL("/ops/private")
	require.NoError(t, err)
	assert.Equal(t, zk.DigestACL(zk.PermAll, "u", "p"), acl)
	_, err = a.SetACL("/ops/private", open, 0)
	require.NoError(t, err)
	_, _, err = b.Get("/ops/private")
	require.NoError(t, err)

	results, err := a.Multi(&zk.CreateRequest{Path: "/m", Acl: open}, &zk.CheckVersionRequest{Path: "/m"},
		&zk.SetDataRequest{Path: "/ops", Version: 1},
		&zk.DeleteRequest{Path: "/m"})
	require.NoError(t, err)
	require.Len(t, results, 4)
	assert.Equal(t, int32(2), results[2].Stat.Version)
	results, err = a.Multi(&zk.CreateRequest{Path: "/m", Acl: open},
		&zk.DeleteRequest{Path: "/ops", Version: 99})
	require.ErrorIs(t, err, zk.ErrBadVersion)
	require.Len(t, results, 2)
	_, err = a.Reconfig([]string{"server.1=x:1:2;3"}, -1)
	require.Error(t, err)
	_, err = a.IncrementalReconfig([]string{"server.1=x:1:2;3"}, nil, -1)
	require.Error(t, err)
}

func goWatches(a, b *golang) {
	t := a.t
	_, err := b.Create("/w", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	_, _, data, err := a.GetW("/w")
	require.NoError(t, err)
	_, _, kids, err := a.ChildrenW("/w")
	require.NoError(t, err)
	found, _, absent, err := a.ExistsW("/w/x")
	require.NoError(t, err)
	assert.False(t, found)
	_, err = b.Set("/w", nil, -1)
	require.NoError(t, err)
	a.hears(data, zk.EventNodeDataChanged, "/w")
	_, err = b.Create("/w/x", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	a.hears(absent, zk.EventNodeCreated, "/w/x")
	a.hears(kids, zk.EventNodeChildrenChanged, "/w")
}

// The library's own lock: two clients add to a number, which only the holder may do.
func goLock(a, b *golang) {
	t := a.t
	const rounds = 20
	sum := 0
	var both sync.WaitGroup
	for _, g := range []*golang{a, b} {
		both.Go(func() {
			for range rounds {
				lock := zk.NewLock(g.Conn, "/lock", zk.WorldACL(zk.PermAll))
				if !assert.NoError(t, lock.Lock()) {
					return
				}
				before := sum
				time.Sleep(time.Millisecond)
				sum = before + 1
				assert.NoError(t, lock.Unlock())
			}
		})
	}
	both.Wait()
	assert.Equal(t, 2*rounds, sum)
}

// The connection breaks. No watch is left during that: to set it again the library reads the last zxid while its own
// reader writes it, which the race detector reports as a failure of the test.
func goCut(server target, a *golang) {
	t := a.t
	session := a.SessionID()
	server.cut()
	a.becomes(zk.StateDisconnected)
	a.becomes(zk.StateHasSession)
	assert.Equal(t, session, a.SessionID())
	found, _, err := a.Exists("/ops/e")
	require.NoError(t, err)
	assert.True(t, found)
	_, _, watch, err := a.GetW("/ops")
	require.NoError(t, err)
	_, err = a.Set("/ops", []byte("after"), -1)
	require.NoError(t, err)
	a.hears(watch, zk.EventNodeDataChanged, "/ops")
}

func goExpiry(server target, a, b *golang) {
	t := a.t
	session := a.SessionID()
	kit.Soon(t, "the other one is back, too", func() bool { return b.State() == zk.StateHasSession })
	found, stat, gone, err := b.ExistsW("/ops/e")
	require.NoError(t, err)
	require.True(t, found)
	assert.Equal(t, session, stat.EphemeralOwner)
	server.expire(session)
	b.hears(gone, zk.EventNodeDeleted, "/ops/e")
	a.becomes(zk.StateExpired)
	a.becomes(zk.StateHasSession)
	assert.NotEqual(t, session, a.SessionID())
}

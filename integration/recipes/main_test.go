package recipes

import (
	"context"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/javapeer"
	"github.com/go-curator/curator/integration/zkserver"
)

const tick = 200 * time.Millisecond

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// release releases a hold.
type release = func(ctx context.Context) error

// world is a server, and a client of either language with the same default data.
type world struct {
	node   *zkserver.Node
	client *framework.Client
	peer   *javapeer.Peer
	// data is Java's default data, the address of the host.
	data string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	ctx := kit.Context(t)
	w := &world{node: zkserver.Start(t, zkserver.Options{TickTime: tick,
		ContainerCheckInterval: 500 * time.Millisecond, ExtendedTypes: true})}
	w.peer = w.java(t, 10*time.Second)
	barrier, err := w.peer.Barrier(ctx, "default data", "/default-data")
	require.NoError(t, err)
	require.NoError(t, barrier.Set(ctx))
	data, err := w.peer.Get(ctx, "/default-data")
	require.NoError(t, err)
	require.NoError(t, barrier.Remove(ctx))
	w.data = string(data)
	w.client = w.golang(t)
	return w
}

// golang returns one more client of this library.
func (w *world) golang(t *testing.T) *framework.Client {
	t.Helper()
	client, _ := kit.Connected(t, w.node.ConnectString(), framework.WithSessionTimeout(10*time.Second),
		framework.WithDefaultData([]byte(w.data)))
	return client
}

// java returns one more Java process.
func (w *world) java(t *testing.T, timeout time.Duration) *javapeer.Peer {
	t.Helper()
	peer := javapeer.Start(t)
	require.NoError(t, peer.Connect(kit.Context(t), w.node.ConnectString(), timeout))
	return peer
}

// count waits until a directory has so many children.
func (w *world) count(t *testing.T, path string, n int) {
	t.Helper()
	kit.Soon(t, "the right number of nodes in "+path, func() bool {
		names, err := w.client.GetChildren().ForPath(kit.Context(t), path)
		if err != nil {
			return assert.ErrorIs(t, err, framework.ErrNoNode) && n == 0
		}
		return len(names) == n
	})
}

var guid = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[48][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)

// nodes returns the nodes below path, sorted, as NAME KIND "DATA", with random parts of names replaced.
func (w *world) nodes(t *testing.T, path string) (all []string) {
	t.Helper()
	ctx := kit.Context(t)
	var visit func(name string)
	visit = func(name string) {
		var stat framework.Stat
		data, err := w.client.GetData().StoringStatIn(&stat).ForPath(ctx, path+name)
		require.NoError(t, err)
		kind := "ephemeral"
		if stat.EphemeralOwner == 0 {
			kind = "persistent" // or a container: the server does not report it
		}
		all = append(all, guid.ReplaceAllString(name, "GUID")+" "+kind+` "`+string(data)+`"`)
		names, err := w.client.GetChildren().ForPath(ctx, path+name)
		require.NoError(t, err)
		for _, child := range names {
			visit(name + "/" + child)
		}
	}
	visit("")
	slices.Sort(all)
	return all
}

// gone waits until a path is gone: the server removes it when it is empty, since all directories are containers.
func (w *world) gone(t *testing.T, path string) {
	t.Helper()
	ctx := kit.Context(t)
	kit.Soon(t, "nothing left of "+path, func() bool {
		stat, err := w.client.CheckExists().ForPath(ctx, path)
		return assert.NoError(t, err) && stat == nil
	})
}

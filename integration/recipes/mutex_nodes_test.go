package recipes

import (
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/javapeer"
	"github.com/go-curator/curator/integration/proxy"
	"github.com/go-curator/curator/integration/zkserver"
	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/recipes/mutex"
)

// created is a create as it was requested: only the request has the mode.
type created struct {
	Op      int32
	Request jute.CreateRequest
}

// creates records the creates that go through a proxy.
type creates struct {
	mu   sync.Mutex
	list []created
}

func (c *creates) tap(int) (toServer, toClient func([]byte)) {
	var buffer []byte
	connected := false
	return func(chunk []byte) {
		buffer = append(buffer, chunk...)
		for len(buffer) >= 4 {
			end := 4 + int(binary.BigEndian.Uint32(buffer))
			if len(buffer) < end {
				return
			}
			if connected && end >= 12 {
				c.request(int32(binary.BigEndian.Uint32(buffer[8:])), buffer[12:end])
			}
			connected, buffer = true, buffer[end:]
		}
	}, nil
}

func (c *creates) request(op int32, body []byte) {
	if op != jute.OpCreate && op != jute.OpCreate2 && op != jute.OpCreateContainer && op != jute.OpCreateTTL {
		return
	}
	entry := created{Op: op}
	if jute.Unmarshal(slices.Clone(body), &entry.Request) == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.list = append(c.list, entry)
	}
}

// seen returns the creates, each once, with the parts that must differ replaced.
func (c *creates) seen(root string) (list []created) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, entry := range c.list {
		path, ours := strings.CutPrefix(entry.Request.Path, root)
		if !ours {
			continue
		}
		entry.Request.Path = guid.ReplaceAllString(path, "GUID")
		if !slices.ContainsFunc(list, func(e created) bool { return assert.ObjectsAreEqual(e, entry) }) {
			list = append(list, entry)
		}
	}
	slices.SortFunc(list, func(a, b created) int { return strings.Compare(a.Request.Path, b.Request.Path) })
	return list
}

// dumped is a node in a dump of the tree.
type dumped struct {
	Path      string
	Data      string
	ACL       []framework.ACL
	Ephemeral bool
	Version   int32
	Aversion  int32
	Children  int32
}

func dump(t *testing.T, c *framework.Client, root, path string) (all []dumped) {
	t.Helper()
	ctx := kit.Context(t)
	var stat framework.Stat
	data, err := c.GetData().StoringStatIn(&stat).ForPath(ctx, path)
	require.NoError(t, err)
	acl, err := c.GetACL().ForPath(ctx, path)
	require.NoError(t, err)
	all = append(all, dumped{guid.ReplaceAllString(strings.TrimPrefix(path, root), "GUID"), string(data), acl,
		stat.EphemeralOwner != 0, stat.Version, stat.Aversion, stat.NumChildren})
	names, err := c.GetChildren().ForPath(ctx, path)
	require.NoError(t, err)
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(a[len(a)-10:], b[len(b)-10:]) })
	for _, name := range names {
		all = append(all, dump(t, c, root, path+"/"+name)...)
	}
	return all
}

// The mutex writes the same as Java, byte for byte: names, modes, data, ACLs; also the directories, which the server
// removes when they are not needed any more.
func TestNodesAreThoseOfJava(t *testing.T) {
	t.Parallel()
	node := zkserver.Start(t, zkserver.Options{TickTime: tick, ContainerCheckInterval: 500 * time.Millisecond})
	ctx := kit.Context(t)
	observer, _ := kit.Connected(t, node.ConnectString())

	var byJava creates
	toJava := proxy.NewTapped(t, node.Addr(), byJava.tap)
	peer, lock := javaLock(t, toJava.Addr(), "/java/locks/deep/orders", 4*time.Second)
	_, err := lock.Acquire(ctx, javapeer.Forever)
	require.NoError(t, err)
	second, err := peer.Mutex(ctx, "second", "/java/locks/deep/orders")
	require.NoError(t, err)
	granted := second.GoAcquire(javapeer.Forever)
	kit.Soon(t, "two are in line", func() bool {
		line, err := lock.Participants(ctx)
		return assert.NoError(t, err) && len(line) == 2
	})
	javaTree := dump(t, observer, "/java", "/java")

	// Java's default data is the address of the host; this library's is empty unless the application sets it.
	address := javaTree[len(javaTree)-1].Data
	assert.NotEmpty(t, address)
	var byGo creates
	toGo := proxy.NewTapped(t, node.Addr(), byGo.tap)
	client, _ := kit.Connected(t, toGo.Addr(), framework.WithDefaultData([]byte(address)))
	held, err := mutex.New(client, "/go/locks/deep/orders").Acquire(ctx)
	require.NoError(t, err)
	waiting, leave := context.WithCancel(ctx)
	queued := make(chan struct{}, 10)
	next := mutex.New(client, "/go/locks/deep/orders", mutex.OnWait(func(mutex.Position) { queued <- struct{}{} }))
	waiter := kit.Call(t, waiting, next.Acquire)
	kit.Receive(t, "the place in line", queued)
	goTree := dump(t, observer, "/go", "/go")

	assert.Equal(t, javaTree, goTree)
	for _, n := range goTree {
		t.Logf("%+v", n)
	}
	assert.Equal(t, byJava.seen("/java"), byGo.seen("/go"))
	for _, entry := range byGo.seen("/go") {
		t.Logf("operation %d: %+v", entry.Op, entry.Request)
	}

	leave()
	_, got := <-waiter
	assert.False(t, got)
	require.NoError(t, held.Release(ctx))
	require.NoError(t, lock.Release(ctx))
	_, err = granted(ctx)
	require.NoError(t, err)
	require.NoError(t, second.Release(ctx))
	kit.Soon(t, "the server has removed the directories", func() bool {
		names, err := observer.GetChildren().ForPath(ctx, "/")
		return assert.NoError(t, err) && assert.ObjectsAreEqual([]string{"zookeeper"}, names)
	})
	// They are created again when they are needed.
	require.NoError(t, mutex.New(client, "/go/locks/deep/orders").
		Do(ctx, func(context.Context) error { return nil }))
	_, err = lock.Acquire(ctx, javapeer.Forever)
	require.NoError(t, err)
	require.NoError(t, lock.Release(ctx))
}

package cache_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// grow makes n nodes below root, in directories of a hundred.
func grow(t *testing.T, srv *zktest.Server, root string, n int) {
	t.Helper()
	for i := range n {
		require.NoError(t, srv.Create(fmt.Sprintf("%s/dir-%04d/node-%08d", root, i/100, i),
			fmt.Appendf(nil, "value %d", i)))
	}
}

// reads counts the requests that read, except for the client's own.
func reads(srv *zktest.Server) (n int) {
	for op, k := range srv.Counts() {
		switch op {
		case "getData", "getChildren", "getChildren2", "exists", "multiRead":
			n += k
		}
	}
	return n - srv.Counts()["connect"] // with each connection the client reads the servers' configuration
}

func TestTrafficOfTenThousandNodes(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		const n = 10_000
		grow(t, srv, "/r", n)
		settle()
		srv.ResetCounts()
		tree := open(t, c, "/r")
		same(t, srv, tree)
		t.Logf("load: %v", requests(srv))
		assert.LessOrEqual(t, sum(requests(srv)), n/10, "at most 0.1 requests per node")
		assert.LessOrEqual(t, reads(srv), 3+n*12/10/100)
		assert.Equal(t, 1, len(srv.Watches()))
		nodes := tree.Len()
		assert.Equal(t, cache.Progress{Known: nodes, Loaded: nodes, Synced: true}, tree.Progress())

		srv.ResetCounts()
		srv.Cut(0)
		settle()
		assert.Equal(t, 1, reads(srv), "a reconnect without a change: %v", requests(srv))
		require.NoError(t, tree.WaitSynced(t.Context()))

		srv.ResetCounts()
		srv.Cut(0)
		require.NoError(t, srv.Set("/r/dir-0003/node-00000301", []byte("new")))
		create(t, srv, "/r/dir-0004/new")
		settle()
		same(t, srv, tree)
		t.Logf("compare after a reconnect: %v", requests(srv))
		assert.LessOrEqual(t, sum(requests(srv)), n/100)

		srv.ResetCounts()
		srv.Expire(srv.Sessions()[0].ID)
		create(t, srv, "/r/dir-0004/newer")
		settle()
		same(t, srv, tree)
		t.Logf("compare in a new session: %v", requests(srv))
		assert.LessOrEqual(t, sum(requests(srv)), n/100)
	})
}

func TestTrafficOfChanges(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		grow(t, srv, "/r", 100)
		tree := open(t, c, "/r")
		each := func(what string, most int, change func()) {
			t.Helper()
			settle()
			srv.ResetCounts()
			change()
			settle()
			assert.LessOrEqual(t, sum(requests(srv)), most, "%s: %v", what, requests(srv))
			same(t, srv, tree)
		}
		each("create", 1, func() { create(t, srv, "/r/dir-0000/new") })
		each("set", 1, func() { require.NoError(t, srv.Set("/r/dir-0000/new", []byte("x"))) })
		each("delete", 1, func() { require.NoError(t, srv.Delete("/r/dir-0000/new")) })
		srv.Delay(0, 10*time.Millisecond)
		const some = 3 // changes that come while a request is in flight share the next one
		each("set one after the other", 50/10+2, func() {
			for i := range 50 {
				require.NoError(t, srv.Set(fmt.Sprintf("/r/dir-0000/node-%08d", i), nil))
				time.Sleep(time.Millisecond)
			}
		})
		each("delete many", some, func() {
			for i := range 50 {
				require.NoError(t, srv.Delete(fmt.Sprintf("/r/dir-0000/node-%08d", i)))
			}
		})
		each("delete a directory", some, func() { require.NoError(t, srv.DeleteAll("/r/dir-0000")) })
		each("create it again", 1, func() { create(t, srv, "/r/dir-0000") })
	})
}

func TestTrafficOfOneShotWatches(t *testing.T) {
	bubble(t, zktest.Config{Profile: zktest.V35}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		grow(t, srv, "/r", 1000)
		settle()
		srv.ResetCounts()
		tree := open(t, c, "/r")
		same(t, srv, tree)
		nodes := tree.Len()
		t.Logf("load: %v", requests(srv))
		assert.LessOrEqual(t, srv.Counts()["getData"], nodes+2+10)
		assert.Equal(t, 1+1000/100, srv.Counts()["getChildren2"], "leaves are not listed")
		assert.LessOrEqual(t, srv.Counts()["setWatches"], nodes/50)
		assert.Equal(t, 2, srv.Counts()["checkWatches"], "what the server lacks is found out once")
		assert.Zero(t, srv.Counts()["addWatch"]+srv.Counts()["multiRead"])
		assert.Equal(t, 2*nodes, len(srv.Watches()), "of the data and of the children of each")
		srv.ResetCounts()
		create(t, srv, "/r/dir-0005/node-00000501/first", "/r/dir-0006/node-00000601/first/second")
		settle()
		same(t, srv, tree)
		t.Logf("the first children of leaves: %v", requests(srv))
		assert.LessOrEqual(t, sum(requests(srv)), 3*4, "reads of the node, its parent, their lists")

		srv.ResetCounts()
		srv.Cut(0)
		settle()
		assert.Equal(t, 1, reads(srv), "a reconnect without a change: %v", requests(srv))

		srv.ResetCounts()
		srv.Cut(0)
		require.NoError(t, srv.Set("/r/dir-0003/node-00000301", []byte("new")))
		create(t, srv, "/r/dir-0004/new")
		settle()
		same(t, srv, tree)
		t.Logf("after a reconnect: %v", requests(srv))
		assert.LessOrEqual(t, reads(srv), 5, "only what has changed: %v", requests(srv))
	})
}

// Large nodes are compared by their Stat alone, and no reply is too large.
func TestTrafficOfLargeNodes(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, _ *framework.Client) {
		require.NoError(t, srv.Create("/r", nil))
		const n, size = 400, 100 << 10
		for i := range n {
			require.NoError(t, srv.Create(fmt.Sprintf("/r/%d", i), []byte(strings.Repeat("x", size))))
		}
		meter := &meter{dial: srv.Dial}
		c := dial(t, srv, framework.WithDialer(meter.Dial))
		tree := open(t, c, "/r")
		same(t, srv, tree)
		assert.Less(t, meter.largest(), 8<<20, "one answer")
		assert.Less(t, srv.Counts()["multiRead"], n)
		meter.reset()
		srv.Cut(0)
		require.NoError(t, srv.Set("/r/7", []byte("new")))
		settle()
		same(t, srv, tree)
		assert.Less(t, meter.total(), 200<<10, "bytes read after a reconnect, of %d", n*size)
	})
}

// From 4 KiB of data on a node is compared by its Stat alone.
func TestTrafficOfNodesThatAreAlmostLarge(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		for _, size := range []int{4<<10 - 1, 4 << 10} {
			require.NoError(t, srv.Create(fmt.Sprintf("/r/%d", size), make([]byte, size)))
		}
		tree := open(t, c, "/r")
		srv.ResetCounts()
		srv.Cut(0)
		create(t, srv, "/other")
		settle()
		same(t, srv, tree)
		assert.Equal(t, 1, srv.Counts()["exists"], "%v", requests(srv))
	})
}

// More children than CuratorCache 5.4 can count.
func TestSeventyThousandChildren(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		const n = 70_000
		for i := range n {
			require.NoError(t, srv.Create(fmt.Sprintf("/r/%d", i), nil))
		}
		settle()
		srv.ResetCounts()
		tree := open(t, c, "/r")
		assert.Equal(t, n+1, tree.Len())
		t.Logf("%v", requests(srv))
		assert.LessOrEqual(t, sum(requests(srv)), n/100)
		create(t, srv, "/r/one-more")
		require.NoError(t, srv.Delete("/r/500"))
		settle()
		same(t, srv, tree)
	})
}

func TestProgress(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		grow(t, srv, "/r", 1000)
		hold := srv.Inject(zktest.Fault{Op: "multiRead", Action: zktest.Hold, After: 3})
		tree := started(cache.New(c, "/r"))(t)
		<-hold.Struck()
		settle()
		p := tree.Progress()
		assert.False(t, p.Synced)
		assert.Positive(t, p.Loaded)
		assert.Greater(t, p.Known, p.Loaded)
		assert.GreaterOrEqual(t, tree.Len(), p.Loaded, "what is there can be read already")
		hold.Release()
		require.NoError(t, tree.WaitSynced(t.Context()))
		assert.Equal(t, cache.Progress{Known: tree.Len(), Loaded: tree.Len(), Synced: true}, tree.Progress())
	})
}

// The memory of a node with little data: with the persistent watch, and with two one-shot watches for each node, including
// the client's part of them.
func TestHeapPerNode(t *testing.T) {
	t.Run("persistent watch", func(t *testing.T) { heapPerNode(t, zktest.V39, 100_000, 64, 120) })
	t.Run("one-shot watches", func(t *testing.T) { heapPerNode(t, zktest.V35, 20_000, 300, 500) })
}

func heapPerNode(t *testing.T, profile zktest.Profile, n int, least, most float64) {
	srv, err := zktest.NewServer(zktest.Config{Profile: profile})
	require.NoError(t, err)
	grow(t, srv, "/r", n)
	c, err := framework.New(srv.Addr(), framework.WithDialer(srv.Dial))
	require.NoError(t, err)
	require.NoError(t, c.WaitConnected(t.Context()))
	start := time.Now()
	tree, err := cache.New(c, "/r")
	require.NoError(t, err)
	require.NoError(t, tree.WaitSynced(t.Context()))
	took := time.Since(start)
	nodes := tree.Len()
	require.Equal(t, n+n/100+1, nodes)
	counts := requests(srv)
	srv.Close() // the server's watches do not count; the client keeps its own for the next connection
	with := cache.HeapInUse()
	runtime.KeepAlive(tree)
	require.NoError(t, tree.Close())
	tree = nil
	perNode := float64(with-cache.HeapInUse()) / float64(nodes)
	_ = c.Close() // there is no server to acknowledge it
	t.Logf("%d nodes: %.0f bytes of heap per node, loaded in %v (%.0f nodes/s), %v", nodes, perNode, took,
		float64(nodes)/took.Seconds(), counts)
	assert.LessOrEqual(t, perNode, most)
	assert.GreaterOrEqual(t, perNode, least, "this measures something else")
}

// With one-shot watches few reads of large nodes are in flight: the replies fill the memory. There may be many of small ones.
func TestReadsInFlight(t *testing.T) {
	for size, limits := range map[int][2]int{20 << 10: {32, 32}, 100: {33, 256}} {
		least, most := limits[0], limits[1]
		bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
			for i := range 700 {
				require.NoError(t, srv.Create(fmt.Sprintf("/r/%d", i), make([]byte, size)))
			}
			settle()
			hold := srv.Inject(zktest.Fault{Op: "getData", PathPrefix: "/r/", Action: zktest.HoldReply, After: 300})
			read := 1 + 300 + srv.Counts()["getData"] // before these
			tree := started(cache.NewTree(c, "/r", cache.WithOneShotWatches()))(t)
			settle()
			inFlight := srv.Counts()["getData"] - read
			assert.LessOrEqual(t, inFlight, most)
			assert.GreaterOrEqual(t, inFlight, least)
			hold.Release()
			require.NoError(t, tree.WaitSynced(t.Context()))
			same(t, srv, tree)
		})
	}
}

// One MultiRead of nodes whose size is not known is in flight. With the first reply it is known, and there may be more.
func TestMultiReadsInFlight(t *testing.T) {
	for replies, most := range []int{1, 8} {
		bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
			for i := range 5000 {
				require.NoError(t, srv.Create(fmt.Sprintf("/r/%d", i), nil))
			}
			hold := srv.Inject(zktest.Fault{Op: "multiRead", PathPrefix: "/r/", Action: zktest.HoldReply, After: replies})
			srv.ResetCounts()
			tree := started(cache.New(c, "/r"))(t)
			settle()
			assert.Equal(t, 2+replies+most, srv.Counts()["multiRead"], "the root, its list, and those of nodes")
			hold.Release()
			require.NoError(t, tree.WaitSynced(t.Context()))
			same(t, srv, tree)
		})
	}
}

// A reply does not have the lists of all large directories.
func TestTrafficOfLargeLists(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, _ *framework.Client) {
		const dirs, children = 12, 2000
		for i := range dirs * children {
			require.NoError(t, srv.Create(fmt.Sprintf("/r/%d/%020d", i/children, i), nil))
		}
		meter := &meter{dial: srv.Dial}
		c := dial(t, srv, framework.WithDialer(meter.Dial))
		tree := open(t, c, "/r", cache.WithFilter(func(path string) bool { return strings.Count(path, "/") < 3 }))
		assert.Equal(t, 1+dirs, tree.Len())
		assert.Less(t, meter.largest(), 400<<10)
	})
}

package cache_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

func TestTheRootComesAndGoes(t *testing.T) {
	ways(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		tree := open(t, c, "/far/root")
		l := listenTo(t, tree)
		settle()
		assert.Zero(t, tree.Len())
		assert.Equal(t, []string{"Initialized"}, l.take(), "a missing root is a tree that has been loaded")

		create(t, srv, "/far/root/a")
		settle()
		assert.Equal(t, []string{"Created /far/root", "Created /far/root/a"}, l.take())
		require.NoError(t, srv.DeleteAll("/far"))
		settle()
		assert.Equal(t, []string{"Deleted /far/root/a", "Deleted /far/root"}, l.take())
		same(t, srv, tree)

		create(t, srv, "/far/root/a")
		settle()
		l.take()
		srv.Cut(0)
		require.NoError(t, srv.DeleteAll("/far"))
		create(t, srv, "/far/root/a", "/far/root/b")
		settle()
		assert.Equal(t, []string{"Deleted /far/root/a", "Deleted /far/root", "Created /far/root",
			"Created /far/root/a", "Created /far/root/b"}, l.take(),
			"deleted and created again while there was no connection")
		same(t, srv, tree)

		srv.Cut(0)
		require.NoError(t, srv.DeleteAll("/far"))
		settle()
		gone := l.take()
		assert.ElementsMatch(t, []string{"Deleted /far/root/b", "Deleted /far/root/a", "Deleted /far/root"}, gone)
		assert.Equal(t, "Deleted /far/root", gone[2])
		l.replays(t, srv, "/far/root")
	})
}

func TestAContainerIsReaped(t *testing.T) {
	for _, profile := range []zktest.Profile{zktest.V37, zktest.V35} {
		bubble(t, zktest.Config{Profile: profile, ReapInterval: time.Minute}, func(
			t *testing.T, srv *zktest.Server, c *framework.Client,
		) {
			tree := open(t, c, "/workers", cache.WithRootCreated())
			l := listenTo(t, tree)
			settle()
			assert.Equal(t, zktest.Container, srv.Tree()["/workers"].Mode)
			create(t, srv, "/workers/1")
			require.NoError(t, srv.Delete("/workers/1"))
			settle()
			l.take()
			time.Sleep(2 * time.Minute)
			settle()
			assert.Equal(t, []string{"Deleted /workers", "Created /workers"}, l.take(), "reaped, and made again")
			create(t, srv, "/workers/2")
			settle()
			same(t, srv, tree)
		})
	}
}

// A deletion comes while a read that shows its parent's Stat is in flight; when the deleted node is read it is there again.
// The Stat of the parent has changed twice, and the read in flight has shown only the first change.
func TestANodeThatIsBackWhenItsDeletionIsRead(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		create(t, srv, "/r/a", "/r/b")
		tree := open(t, c, "/r")
		first := srv.Inject(zktest.Fault{Op: "multiRead", PathPrefix: "/r/a", Action: zktest.Hold})
		require.NoError(t, srv.Delete("/r/a"))
		<-first.Struck() // reads /r, too
		require.NoError(t, srv.Delete("/r/b"))
		second := srv.Inject(zktest.Fault{Op: "multiRead", PathPrefix: "/r/b", Action: zktest.Hold})
		first.Release()
		<-second.Struck()
		create(t, srv, "/r/b")
		second.Release()
		settle()
		same(t, srv, tree)
	})
}

func TestRecreatedWhileDisconnected(t *testing.T) {
	ways(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		create(t, srv, "/r/a/x", "/r/b")
		tree := open(t, c, "/r")
		l := listenTo(t, tree)
		settle()
		l.take()
		for _, interrupt := range []func(){
			func() { srv.Cut(0) },
			func() { srv.Expire(srv.Sessions()[0].ID) },
		} {
			interrupt()
			require.NoError(t, srv.DeleteAll("/r/a"))
			create(t, srv, "/r/a/x") // same data, same versions: only the czxid differs
			require.NoError(t, srv.Set("/r/b", []byte("data of /r/b")))
			settle()
			assert.ElementsMatch(t, []string{"Deleted /r/a/x", "Deleted /r/a", "Created /r/a", "Created /r/a/x",
				"Changed /r/b"}, l.take())
			same(t, srv, tree)
			l.replays(t, srv, "/r")
		}
	})
}

func TestANewSessionAnnouncesOnlyDifferences(t *testing.T) {
	ways(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		for i := range 100 {
			create(t, srv, fmt.Sprintf("/r/d%d/n%d", i%7, i))
		}
		tree := open(t, c, "/r")
		l := listenTo(t, tree)
		settle()
		l.all()
		srv.Stop()
		time.Sleep(time.Minute) // beyond the session timeout
		require.NoError(t, srv.Set("/r/d3/n3", []byte("new")))
		require.NoError(t, srv.Delete("/r/d4/n4"))
		create(t, srv, "/r/d5/n500")
		require.NoError(t, srv.Start())
		time.Sleep(30 * time.Second)
		require.NoError(t, tree.WaitSynced(t.Context()))
		settle()
		var states, changes []string
		for _, ev := range l.all() {
			if ev.Type == cache.ConnectionChanged {
				states = append(states, ev.State.String())
			} else {
				changes = append(changes, ev.String())
			}
		}
		assert.Equal(t, []string{"Suspended in epoch 1", "Lost in epoch 1", "Reconnected in epoch 2"}, states)
		assert.ElementsMatch(t, []string{"Changed /r/d3/n3", "Deleted /r/d4/n4", "Created /r/d5/n500"}, changes)
		same(t, srv, tree)
	})
}

func TestDepthAndFilters(t *testing.T) {
	ways(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		create(t, srv, "/r/a/b/c/d", "/r/x/y", "/r/tmp/1", "/r/lock/1")
		flat := open(t, c, "/r", cache.WithMaxDepth(1))
		alone := open(t, c, "/r", cache.WithMaxDepth(0))
		some := open(t, c, "/r",
			cache.WithFilter(func(path string) bool { return !strings.HasSuffix(path, "/tmp") }),
			cache.WithTraversal(func(path string) bool { return !strings.HasSuffix(path, "/lock") }))
		adds := open(t, c, "/r", // all options apply, as in some
			cache.WithFilter(func(path string) bool { return path != "/r/tmp" }),
			cache.WithTraversal(func(path string) bool { return path != "/r/lock" }),
			cache.WithFilter(func(path string) bool { return path != "/r/a/b" }),
			cache.WithTraversal(func(path string) bool { return path != "/r/x" }))
		settle()
		assert.Equal(t, []string{"/r", "/r/a", "/r/lock", "/r/x"}, keys(adds.All()))
		check := func(wantSome ...string) {
			t.Helper()
			settle()
			assert.Equal(t, []string{"/r", "/r/a", "/r/lock", "/r/tmp", "/r/x"}, keys(flat.All()))
			assert.Equal(t, []string{"/r"}, keys(alone.All()))
			assert.Equal(t, wantSome, keys(some.All()))
		}
		check("/r", "/r/a", "/r/a/b", "/r/a/b/c", "/r/a/b/c/d", "/r/lock", "/r/x", "/r/x/y")
		create(t, srv, "/r/a/e", "/r/tmp/2", "/r/lock/2")
		require.NoError(t, srv.Delete("/r/x/y"))
		require.NoError(t, srv.Set("/r/tmp", []byte("changed")))
		check("/r", "/r/a", "/r/a/b", "/r/a/b/c", "/r/a/b/c/d", "/r/a/e", "/r/lock", "/r/x")
		srv.Cut(0)
		create(t, srv, "/r/a/f", "/r/tmp/3", "/r/lock/3")
		check("/r", "/r/a", "/r/a/b", "/r/a/b/c", "/r/a/b/c/d", "/r/a/e", "/r/a/f", "/r/lock", "/r/x")
		n, _ := flat.Get("/r/tmp")
		assert.Equal(t, "changed", string(n.Data))
	})
}

func TestPathChildren(t *testing.T) {
	ways(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		create(t, srv, "/r/b/deep", "/r/a")
		kids := synced(cache.NewPathChildren(c, "/r"))(t)
		l := listen(t, kids.Events)
		settle()
		assert.Equal(t, []string{"Created /r/a", "Created /r/b", "Initialized"}, l.take(),
			"the parent is not among them")
		create(t, srv, "/r/c", "/r/b/deeper")
		require.NoError(t, srv.Set("/r/a", []byte("new")))
		require.NoError(t, srv.Set("/r", []byte("new")))
		settle()
		assert.ElementsMatch(t, []string{"Created /r/c", "Changed /r/a"}, l.take())
		assert.Equal(t, []string{"a", "b", "c"}, keys(kids.All()))
		assert.Equal(t, 3, kids.Len())
		n, ok := kids.Get("a")
		require.True(t, ok)
		assert.Equal(t, "new", string(n.Data))
		assert.Equal(t, "/r/a", n.Path)
		require.NoError(t, srv.DeleteAll("/r"))
		settle()
		assert.ElementsMatch(t, []string{"Deleted /r/a", "Deleted /r/b", "Deleted /r/c"}, l.take())
		assert.Equal(t, cache.Progress{Known: 1, Loaded: 1, Synced: true}, kids.Progress())
		assert.Equal(t, "/r", kids.Path())
	})
}

func TestSingle(t *testing.T) {
	ways(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		settle()
		srv.ResetCounts()
		node := synced(cache.NewNode(c, "/r"))(t)
		l := listen(t, node.Events)
		settle()
		_, ok := node.Get()
		assert.False(t, ok)
		create(t, srv, "/r/child")
		settle()
		require.NoError(t, srv.Set("/r", []byte("new")))
		settle()
		n, ok := node.Get()
		require.True(t, ok)
		assert.Equal(t, "new", string(n.Data))
		assert.Equal(t, map[string]int{"getData": 3, "exists": 1}, requests(srv),
			"one for the missing node, and one for each change")
		srv.ResetCounts()
		srv.Cut(0)
		settle()
		assert.Equal(t, 1+1, srv.Counts()["getData"],
			"after a reconnect one, to know that nothing was missed; the other is the client's, of the configuration")
		require.NoError(t, srv.DeleteAll("/r"))
		settle()
		assert.Equal(t, []string{"Initialized", "Created /r", "Changed /r", "Deleted /r"}, l.take())
		assert.Equal(t, "/r", node.Path())
		require.NoError(t, node.Close())
		settle()
		assert.Empty(t, srv.Watches())
	})
}

func TestWithoutData(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		create(t, srv, "/r/a")
		tree := open(t, c, "/r", cache.WithoutData())
		n, ok := tree.Get("/r/a")
		require.True(t, ok)
		assert.Nil(t, n.Data)
		assert.Equal(t, int32(len("data of /r/a")), n.Stat.DataLength)
	})
}

func zip(t *testing.T, text string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

func TestCompressedData(t *testing.T) {
	ways(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		require.NoError(t, srv.Create("/r", nil))
		require.NoError(t, srv.Create("/r/a", zip(t, "first")))
		require.NoError(t, srv.Create("/r/broken", []byte("plain")))
		require.NoError(t, srv.Create("/r/broken/child", zip(t, "child")))
		tree := open(t, c, "/r", cache.WithCompressedData())
		l := listenTo(t, tree)
		settle()
		assert.Equal(t, []string{"/r", "/r/a", "/r/broken/child"}, keys(tree.All()))
		n, _ := tree.Get("/r/a")
		assert.Equal(t, "first", string(n.Data))
		l.take()
		require.NoError(t, srv.Set("/r/a", []byte("plain, too")))
		settle()
		failed := l.all()
		require.Len(t, failed, 1)
		assert.Equal(t, "/r/a", failed[0].Path)
		assert.ErrorIs(t, failed[0].Err, framework.ErrDecompress)
		n, _ = tree.Get("/r/a")
		assert.Equal(t, "first", string(n.Data), "the last that could be read")
		require.NoError(t, srv.Set("/r/a", zip(t, "second")))
		require.NoError(t, srv.Set("/r/broken", zip(t, "healed")))
		settle()
		assert.ElementsMatch(t, []string{"Changed /r/a", "Created /r/broken"}, l.take())
		n, _ = tree.Get("/r/broken")
		assert.Equal(t, "healed", string(n.Data))
	})
}

// The caches of a client with WithCompression decompress, and keep data that are not compressed as they are stored.
func TestCachesOfAClientThatCompresses(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, _ *framework.Client) {
		packed, large := zip(t, "data"), zip(t, strings.Repeat("x", 1000))
		require.NoError(t, srv.Create("/r", packed))
		require.NoError(t, srv.Create("/r/plain", []byte("data")))
		require.NoError(t, srv.Create("/r/empty", nil))
		require.NoError(t, srv.Create("/r/large", large))
		c := dial(t, srv, framework.WithCompression())
		data := func(tree *cache.Cache, path string) string {
			n, _ := tree.Get(path)
			return string(n.Data)
		}
		asStored := cache.WithDecoder(func(_ string, data []byte) ([]byte, error) { return data, nil })
		for _, opts := range [][]cache.TreeOption{{}, {cache.WithOneShotWatches()}} {
			tree := open(t, c, "/r", opts...)
			assert.Equal(t, "data", data(tree, "/r"))
			assert.Equal(t, "data", data(tree, "/r/plain"))
			assert.Empty(t, data(tree, "/r/empty"))
			assert.Len(t, data(tree, "/r/large"), 1000)
			assert.Equal(t, string(packed), data(open(t, c, "/r", append(opts, asStored)...), "/r"))
			tree = open(t, c, "/r", append(opts, cache.WithDataLimit(100))...)
			assert.Equal(t, "data", data(tree, "/r"))
			assert.Empty(t, data(tree, "/r/large"), "there is no room")
		}
	})
}

// A subscriber that never reads costs a few states per node, however many changes there are.
func TestASubscriberThatNeverReads(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		grow(t, srv, "/r", 100)
		tree := open(t, c, "/r", cache.WithBuffer(10))
		stuck := make(chan struct{})
		done := make(chan int)
		go func() {
			n := 0
			for ev, err := range tree.Events(t.Context()) {
				assert.NoError(t, err)
				if n++; ev.Type == cache.Initialized {
					n = 0
					<-stuck
				}
				if ev.New != nil && string(ev.New.Data) == "the last" {
					break
				}
			}
			done <- n
		}()
		settle()
		// Each change has a kilobyte: all of them would be 20 MB, two states per node 0.2 MB.
		before := cache.HeapInUse()
		for i := range 20_000 {
			require.NoError(t, srv.Set(fmt.Sprintf("/r/dir-0000/node-%08d", i%100),
				[]byte(strings.Repeat("x", 1000)+fmt.Sprint(i))))
			if i%100 == 99 {
				synctest.Wait() // so that the cache sees every state
			}
		}
		settle()
		runtime.KeepAlive(srv)
		grown := cache.HeapInUse() - before
		t.Logf("the heap has grown by %d KB", grown>>10)
		assert.Less(t, grown, int64(6<<20))
		close(stuck)
		require.NoError(t, srv.Set("/r/dir-0000/node-00000099", []byte("the last")))
		assert.LessOrEqual(t, <-done, 10+2*100+1, "events after all those changes")
	})
}

func TestWhatMayNotBeRead(t *testing.T) {
	ways(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		create(t, srv, "/r/a", "/r/secret/x")
		revoke(t, srv, "/r/secret")
		tree := open(t, c, "/r")
		l := listenTo(t, tree)
		settle()
		assert.Equal(t, []string{"/r", "/r/a"}, keys(tree.All()))
		time.Sleep(3 * time.Minute)
		settle()
		l.take()
		grant(t, srv, "/r/secret")
		time.Sleep(61 * time.Second)
		settle()
		assert.Equal(t, []string{"Created /r/secret", "Created /r/secret/x"}, l.take(),
			"found out within a minute: nobody tells")
		same(t, srv, tree)

		revoke(t, srv, "/r/secret")
		require.NoError(t, srv.Set("/r/secret", []byte("new")))
		require.NoError(t, srv.Set("/r/secret", []byte("newer")))
		settle()
		if got := l.take(); len(got) > 0 { // later servers send no event of it
			assert.Equal(t, []string{"Failed /r/secret: getData /r/secret: no permission"}, got)
		}
		n, ok := tree.Get("/r/secret")
		require.True(t, ok)
		assert.Equal(t, "", string(n.Data), "the last that could be read")
	})
}

func TestTwoCachesShareAClient(t *testing.T) {
	ways(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		create(t, srv, "/r/a", "/r/b")
		one, two, inner := open(t, c, "/r"), open(t, c, "/r"), open(t, c, "/r/b")
		create(t, srv, "/r/c", "/r/b/d")
		settle()
		same(t, srv, one)
		require.NoError(t, one.Close())
		settle()
		create(t, srv, "/r/b/e")
		require.NoError(t, srv.Set("/r/c", []byte("new")))
		settle()
		same(t, srv, two)
		same(t, srv, inner)
	})
}

func TestNamespaces(t *testing.T) {
	ways(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		create(t, srv, "/app/team/r/a", "/r/outside")
		deep := dial(t, srv, framework.WithNamespace("app"))
		for _, view := range []*framework.Client{deep.UsingNamespace("app/team"), c.UsingNamespace("app/team")} {
			tree := open(t, view, "/r")
			whole := open(t, view, "/")
			l := listenTo(t, tree)
			create(t, srv, "/app/team/r/b")
			settle()
			assert.Equal(t, []string{"/r", "/r/a", "/r/b"}, keys(tree.All()))
			assert.Equal(t, []string{"/", "/r", "/r/a", "/r/b"}, keys(whole.All()))
			assert.Equal(t, []string{"r"}, keys(whole.Children("/")))
			assert.Contains(t, l.take(), "Created /r/b")
			require.NoError(t, srv.Delete("/app/team/r/b"))
		}
	})
}

// A cache never writes: the root of a namespace stays missing until another client creates it.
func TestMissingRootOfANamespace(t *testing.T) {
	for _, opts := range [][]cache.TreeOption{nil, {cache.WithOneShotWatches()}} {
		ways(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
			view := c.UsingNamespace("app/team")
			whole := open(t, view, "/", opts...)
			id := srv.Zxid()
			settle()
			srv.Cut(0)
			settle()
			require.NoError(t, whole.WaitSynced(t.Context()))
			assert.False(t, srv.Exists("/app"))
			assert.Empty(t, keys(whole.All()))
			assert.Equal(t, id, srv.Zxid(), "nothing is written")
			create(t, srv, "/app/team/a")
			settle()
			assert.Equal(t, []string{"/", "/a"}, keys(whole.All()))
			require.NoError(t, srv.Delete("/app/team/a"))
			require.NoError(t, srv.Delete("/app/team"))
			settle()
			assert.Empty(t, keys(whole.All()))
			assert.False(t, srv.Exists("/app/team"))
		})
	}
}

func TestEnds(t *testing.T) {
	ways(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		create(t, srv, "/r/a")
		own := dial(t, srv)
		tree := open(t, own, "/r")
		l, quitter := listenTo(t, tree), listenTo(t, tree)
		settle()
		quitter.cancel()
		<-quitter.done
		require.ErrorIs(t, quitter.err, context.Canceled)
		require.NoError(t, own.Close())
		<-l.done
		require.ErrorIs(t, l.err, framework.ErrClosed)
		require.ErrorIs(t, tree.WaitSynced(t.Context()), framework.ErrClosed)
		_, ok := tree.Get("/r/a")
		assert.True(t, ok, "what it held can still be read")
		late := listenTo(t, tree)
		<-late.done
		require.ErrorIs(t, late.err, framework.ErrClosed)
		require.NoError(t, tree.Close())

		tree = open(t, c, "/r")
		require.NoError(t, tree.Close())
		require.NoError(t, tree.Close())
		require.ErrorIs(t, tree.WaitSynced(t.Context()), cache.ErrClosed)

		s, err := c.Session(t.Context())
		require.NoError(t, err)
		tree = open(t, s.Client(), "/r")
		srv.Expire(s.ID())
		settle()
		require.ErrorIs(t, tree.WaitSynced(t.Context()), framework.ErrSessionLost,
			"the view of a session ends with it")
		synctest.Wait()
	})
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		srv.Pause()
		tree := started(cache.New(c, "/r"))(t)
		var none context.Context
		require.ErrorIs(t, tree.WaitSynced(none), framework.ErrNilContext)
		for _, err := range tree.Events(none) {
			require.ErrorIs(t, err, framework.ErrNilContext)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() { time.Sleep(time.Second); cancel(errWhy) }()
		err := tree.WaitSynced(ctx)
		require.ErrorIs(t, err, errWhy)
		require.ErrorIs(t, err, ctx.Err())
		assert.False(t, tree.Progress().Synced)
		srv.Resume()
	})
}

var errWhy = errors.New("why")

func TestBadOptions(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		for _, opt := range []cache.TreeOption{cache.WithBuffer(0), cache.WithDecoder(nil), cache.WithMaxDepth(-1),
			cache.WithFilter(nil), cache.WithTraversal(nil), nil} {
			_, err := cache.NewTree(c, "/r", opt)
			require.ErrorIs(t, err, framework.ErrInvalidOption)
		}
		_, err := cache.New(c, "r")
		require.ErrorIs(t, err, framework.ErrInvalidPath)
		require.EqualError(t, err, `cache: invalid path "r": it must start with "/"`)
		_, err = cache.New(nil, "/r")
		require.ErrorIs(t, err, framework.ErrInvalidOption)
		_, err = cache.NewNode(c, "/r/")
		require.ErrorIs(t, err, framework.ErrInvalidPath)
		_, err = cache.NewPathChildren(c, "", cache.WithoutData())
		require.ErrorIs(t, err, framework.ErrInvalidPath)
	})
}

type limits struct{ Rate int }

func TestTyped(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		require.NoError(t, srv.Create("/r/a", []byte(`{"Rate": 5}`)))
		require.NoError(t, srv.Create("/r/b", []byte(`{"Rate":`)))
		kids := synced(cache.NewPathChildren(c, "/r"))(t)
		typed := cache.NewTyped(kids, cache.JSON[limits])
		a, ok := typed.Get("a")
		require.True(t, ok)
		require.NoError(t, a.Err)
		assert.Equal(t, limits{5}, a.Value)
		assert.Equal(t, "/r/a", a.Path)
		_, ok = typed.Get("none")
		assert.False(t, ok)
		for name, e := range typed.All() {
			if name == "b" {
				require.EqualError(t, e.Err, "decode /r/b: unexpected end of JSON input")
				assert.Zero(t, e.Value)
			}
		}
		assert.Equal(t, []string{"a", "b"}, keys(typed.All()))
		changed := false
		for ev, err := range typed.Events(t.Context()) {
			require.NoError(t, err)
			switch ev.Type {
			case cache.Initialized:
				require.NoError(t, srv.Set("/r/a", []byte(`{"Rate": 6}`)))
			case cache.Changed:
				assert.Equal(t, limits{5}, ev.Old.Value)
				assert.Equal(t, limits{6}, ev.New.Value)
				changed = true
			}
			if changed {
				break
			}
		}
		assert.True(t, changed)

		tree := cache.NewTyped(open(t, c, "/r"), cache.JSON[limits])
		a, _ = tree.Get("/r/a")
		assert.Equal(t, limits{6}, a.Value)
		assert.Equal(t, []string{"/r", "/r/a", "/r/b"}, keys(tree.All()))
		node := synced(cache.NewNode(c, "/r/a"))(t)
		single := cache.NewTyped(node, cache.JSON[limits])
		a, ok = single.Get("/r/a")
		require.True(t, ok)
		assert.Equal(t, limits{6}, a.Value)
		assert.Equal(t, []string{"/r/a"}, keys(single.All()))
	})
}

// A subscriber that stops reading delays no other one, and catches up in few steps.
func TestASlowSubscriber(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		create(t, srv, "/r/a", "/r/b", "/r/c")
		tree := open(t, c, "/r", cache.WithBuffer(10))
		quick := listenTo(t, tree)
		asleep := make(chan struct{})
		slow := listen(t, slowed(tree.Events, func(cache.Event) { <-asleep }))
		settle()
		for i := range 500 {
			require.NoError(t, srv.Set("/r/a", fmt.Append(nil, i)))
			if i%10 == 0 {
				require.NoError(t, srv.Delete("/r/b"))
				create(t, srv, "/r/b", fmt.Sprintf("/r/passing-%d", i))
			} else if i%10 == 5 {
				require.NoError(t, srv.Delete(fmt.Sprintf("/r/passing-%d", i-5)))
			}
			synctest.Wait()
		}
		settle()
		same(t, srv, tree)
		quick.replays(t, srv, "/r")
		assert.GreaterOrEqual(t, len(quick.take()), 500+100+100)
		close(asleep)
		settle()
		slow.replays(t, srv, "/r")
		assert.LessOrEqual(t, len(slow.all()), 1+4+10+2*5+2)
	})
}

func TestLoadAndFollow(t *testing.T) {
	ways(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		create(t, srv, "/r/a/x", "/r/a/y", "/r/a-b", "/r/b", "/other")
		tree := open(t, c, "/r")
		l := listenTo(t, tree)
		settle()
		same(t, srv, tree)
		assert.Equal(t, []string{"Created /r", "Created /r/a", "Created /r/a/x", "Created /r/a/y", "Created /r/a-b",
			"Created /r/b", "Initialized"}, l.take())
		assert.Equal(t, []string{"/r", "/r/a", "/r/a/x", "/r/a/y", "/r/a-b", "/r/b"}, keys(tree.All()),
			"parents first, siblings by name")
		assert.Equal(t, []string{"a", "a-b", "b"}, keys(tree.Children("/r")))

		create(t, srv, "/r/c/d")
		settle()
		assert.Equal(t, []string{"Created /r/c", "Created /r/c/d"}, l.take())
		require.NoError(t, srv.Set("/r/c/d", []byte("new")))
		settle()
		assert.Equal(t, []string{"Changed /r/c/d"}, l.take())
		n, ok := tree.Get("/r/c/d")
		require.True(t, ok)
		assert.Equal(t, "new", string(n.Data))
		assert.Equal(t, "d", n.Name())
		require.NoError(t, srv.DeleteAll("/r/c"))
		settle()
		assert.Equal(t, []string{"Deleted /r/c/d", "Deleted /r/c"}, l.take())
		same(t, srv, tree)
		l.replays(t, srv, "/r")
		_, ok = tree.Get("/r/c")
		assert.False(t, ok)
		_, ok = tree.Get("/other")
		assert.False(t, ok)

		require.NoError(t, tree.Close())
		settle()
		assert.Empty(t, srv.Watches(), "nothing is left on the server")
		<-l.done
		require.Error(t, l.err)
	})
}

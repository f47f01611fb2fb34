package cache_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// A late subscriber also gets the failures, before Initialized; and Failures returns them.
func TestFailuresForALateSubscriber(t *testing.T) {
	ways(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		create(t, srv, "/r/a", "/r/secret", "/r/b")
		revoke(t, srv, "/r/secret")
		tree := open(t, c, "/r", cache.WithBuffer(1), cache.WithDecoder(func(
			path string, data []byte,
		) ([]byte, error) {
			if path == "/r/b" {
				return nil, assert.AnError
			}
			return data, nil
		}))
		settle()
		for range 2 {
			late := listenTo(t, tree)
			settle()
			events := late.take()
			require.Len(t, events, 5)
			assert.Equal(t, []string{"Created /r", "Created /r/a"}, events[:2])
			assert.Equal(t, "Failed /r/b: decode: "+assert.AnError.Error(), events[2])
			assert.Equal(t, "Failed /r/secret: getData /r/secret: no permission", events[3])
			assert.Equal(t, "Initialized", events[4])
		}
		assert.Equal(t, []string{"/r/b", "/r/secret"}, keys(tree.Failures()))
		assert.ErrorIs(t, maps.Collect(tree.Failures())["/r/secret"], framework.ErrNoAuth)

		grant(t, srv, "/r/secret")
		require.NoError(t, srv.Delete("/r/b"))
		time.Sleep(time.Minute)
		settle()
		assert.Empty(t, keys(tree.Failures()), "read again, and gone")
		late := listenTo(t, tree)
		settle()
		assert.Equal(t, []string{"Created /r", "Created /r/a", "Created /r/secret", "Initialized"}, late.take())
	})
}

// The same for the other kinds of caches: if the parent cannot be read there are no children.
func TestFailuresOfChildrenAndOfOneNode(t *testing.T) {
	ways(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		create(t, srv, "/r/a")
		revoke(t, srv, "/r")
		kids := started(cache.NewPathChildren(c, "/r"))(t)
		node := started(cache.NewNode(c, "/r"))(t)
		settle()
		assert.Equal(t, []string{"/r"}, keys(kids.Failures()))
		assert.ErrorIs(t, node.Failure(), framework.ErrNoAuth)
		late := listen(t, node.Events)
		settle()
		assert.Equal(t, []string{"Failed /r: getData /r: no permission", "Initialized"}, late.take())

		grant(t, srv, "/r")
		time.Sleep(time.Minute)
		settle()
		assert.Empty(t, keys(kids.Failures()))
		assert.NoError(t, node.Failure())
	})
}

// size returns the size of a cache's data.
func size(tree *cache.Cache) (sum int) {
	for _, n := range tree.All() {
		sum += len(n.Data)
	}
	return sum
}

// Nodes for which there is no room are reported as failures, and all others are held. A node that is deleted or becomes
// smaller frees its room.
func TestDataLimit(t *testing.T) {
	text := func(size int) string { return strings.Repeat("x", size) }
	inflate := func(_ string, data []byte) ([]byte, error) { return bytes.Repeat(data, 400), nil }
	for name, kind := range map[string]struct {
		with cache.Option
		data func(t *testing.T, size int) []byte
	}{
		"compressed": {cache.WithCompressedData(), func(t *testing.T, n int) []byte { return zip(t, text(n)) }},
		"decoded":    {cache.WithDecoder(inflate), func(_ *testing.T, n int) []byte { return make([]byte, n/400) }},
		"as it is":   {cache.WithDataLimit(1000), func(_ *testing.T, n int) []byte { return make([]byte, n) }},
	} {
		t.Run(name, func(t *testing.T) {
			ways(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
				require.NoError(t, srv.Create("/r", nil))
				require.NoError(t, srv.Create("/r/a", kind.data(t, 400)))
				require.NoError(t, srv.Create("/r/b", kind.data(t, 400)))
				tree := open(t, c, "/r", kind.with, cache.WithDataLimit(1000))
				l := listenTo(t, tree)
				settle()
				l.take()
				require.NoError(t, srv.Create("/r/c", kind.data(t, 400)))
				require.NoError(t, srv.Create("/r/c/kid", nil))
				settle()
				told := map[string]cache.Event{}
				for _, ev := range l.all() {
					told[ev.Path] = ev
				}
				assert.Equal(t, cache.Failed, told["/r/c"].Type)
				assert.ErrorIs(t, told["/r/c"].Err, cache.ErrDataLimit)
				assert.Equal(t, cache.Created, told["/r/c/kid"].Type, "what is below it is held")
				assert.ErrorIs(t, maps.Collect(tree.Failures())["/r/c"], cache.ErrDataLimit)
				assert.Equal(t, 800, size(tree))

				require.NoError(t, srv.Set("/r/a", kind.data(t, 800)))
				time.Sleep(10 * time.Minute)
				settle()
				n, _ := tree.Get("/r/a")
				assert.Len(t, n.Data, 400, "what it had")
				assert.Equal(t, []string{"/r/a", "/r/c"}, keys(tree.Failures()))
				assert.Len(t, l.take(), 1, "it is said once")
				srv.ResetCounts()
				time.Sleep(10 * time.Minute)
				assert.Zero(t, reads(srv), "nothing is tried without more room")

				require.NoError(t, srv.Delete("/r/b"))
				time.Sleep(61 * time.Second)
				settle()
				if _, held := tree.Get("/r/c"); held { // either of the two may be read first
					assert.Equal(t, []string{"/r/a"}, keys(tree.Failures()))
				} else {
					assert.Equal(t, []string{"/r/c"}, keys(tree.Failures()))
				}
				require.NoError(t, srv.Set("/r/a", nil))
				time.Sleep(61 * time.Second)
				settle()
				assert.Empty(t, keys(tree.Failures()))
				assert.Equal(t, 400, size(tree))
				require.NoError(t, srv.Delete("/r/c/kid"))
				require.NoError(t, srv.Delete("/r/c"))
				require.NoError(t, srv.Set("/r/a", kind.data(t, 800)))
				settle()
				assert.Empty(t, keys(tree.Failures()), "the room of nodes that are gone is given back")
				require.NoError(t, srv.Delete("/r/a"))
				require.NoError(t, srv.Create("/r/a", kind.data(t, 800)))
				settle()
				assert.Empty(t, keys(tree.Failures()), "and of those that were made anew")
			})
		})
	}
}

// Room that is still too little is tried once, also while another node is retried every minute.
func TestANodeForWhichThereIsStillNoRoom(t *testing.T) {
	ways(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		require.NoError(t, srv.Create("/r", nil))
		for name, size := range map[string]int{"/a": 400, "/b": 400, "/secret": 0} {
			require.NoError(t, srv.Create("/r"+name, make([]byte, size)))
		}
		revoke(t, srv, "/r/secret")
		var tries atomic.Int32
		tree := open(t, c, "/r", cache.WithDataLimit(1000), cache.WithDecoder(func(path string, data []byte) ([]byte, error) {
			if path == "/r/c" {
				tries.Add(1)
			}
			return data, nil
		}))
		require.NoError(t, srv.Create("/r/c", make([]byte, 900)))
		settle()
		require.Equal(t, []string{"/r/c", "/r/secret"}, keys(tree.Failures()))
		require.NoError(t, srv.Delete("/r/b"))
		time.Sleep(61 * time.Second)
		require.EqualValues(t, 2, tries.Load())
		time.Sleep(20 * time.Minute)
		assert.EqualValues(t, 2, tries.Load())
		assert.Equal(t, []string{"/r/c", "/r/secret"}, keys(tree.Failures()))
	})
}

func TestDataThatJustFit(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		require.NoError(t, srv.Create("/r", make([]byte, 400)))
		require.NoError(t, srv.Create("/r/a", make([]byte, 600)))
		tree := open(t, c, "/r", cache.WithDataLimit(1000))
		assert.Empty(t, keys(tree.Failures()))
		require.NoError(t, srv.Set("/r/a", make([]byte, 601)))
		settle()
		assert.Equal(t, []string{"/r/a"}, keys(tree.Failures()))
	})
}

// Nodes that cannot be decoded, and change again and again, do not fill the log. Failures still has each.
func TestNodesThatCannotBeDecodedDoNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		var log bytes.Buffer // written by one goroutine, read in between
		lines := func() int { synctest.Wait(); return strings.Count(log.String(), "cannot read a node") }
		c := dial(t, srv, framework.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		require.NoError(t, srv.Create("/r", nil))
		require.NoError(t, srv.Create("/r/flaps", nil))
		tree := open(t, c, "/r", cache.WithCompressedData())
		for i := range 200 {
			require.NoError(t, srv.Set("/r/flaps", []byte("not packed"))) // reported each time: in between it can be read
			synctest.Wait()
			require.NoError(t, srv.Set("/r/flaps", zip(t, "packed")))
			synctest.Wait()
			require.NoError(t, srv.Create(fmt.Sprintf("/r/n%d", i), []byte("not packed")))
			synctest.Wait()
		}
		assert.Equal(t, 16, lines())
		assert.Equal(t, 1, strings.Count(log.String(), "see Failures"))
		failing := 0
		for range tree.Failures() {
			failing++
		}
		assert.Equal(t, 200, failing)

		time.Sleep(time.Minute)
		require.NoError(t, srv.Set("/r/flaps", []byte("not packed")))
		assert.Equal(t, 17, lines())
	})
}

// Each retry comes later, up to a minute, and every node that is still unreadable is retried. When all can be read again, the
// next failure is retried after a second.
func TestRetriesBeginAnewWhenEverythingIsReadable(t *testing.T) {
	bothWays(t, zktest.Config{Profile: zktest.V37}, func(
		t *testing.T, srv *zktest.Server, c *framework.Client, opts ...cache.TreeOption,
	) {
		create(t, srv, "/r/a", "/r/b", "/r/c", "/r/d")
		unreadable := []string{"/r/a", "/r/b", "/r/c"}
		revoke(t, srv, unreadable...)
		tree := open(t, c, "/r", opts...)
		assert.Equal(t, unreadable, keys(tree.Failures()))
		time.Sleep(10 * time.Minute)
		for len(unreadable) > 0 {
			grant(t, srv, unreadable[0])
			unreadable = unreadable[1:]
			time.Sleep(61 * time.Second)
			assert.ElementsMatch(t, unreadable, keys(tree.Failures()))
		}
		createUnreadable(t, c, "/r/e")
		settle()
		require.Equal(t, []string{"/r/e"}, keys(tree.Failures()))
		grant(t, srv, "/r/e")
		time.Sleep(3 * time.Second)
		assert.Empty(t, keys(tree.Failures()))
	})
}

// Nodes that become unreadable while others wait for their retry do not delay it.
func TestLaterFailuresDoNotPutOffARetry(t *testing.T) {
	bothWays(t, zktest.Config{Profile: zktest.V37}, func(
		t *testing.T, srv *zktest.Server, c *framework.Client, opts ...cache.TreeOption,
	) {
		create(t, srv, "/r/a")
		revoke(t, srv, "/r/a")
		tree := open(t, c, "/r", opts...)
		time.Sleep(10 * time.Minute)
		grant(t, srv, "/r/a")
		for _, name := range []string{"b", "c", "d", "e"} {
			createUnreadable(t, c, "/r/"+name)
			time.Sleep(20 * time.Second)
		}
		assert.Equal(t, []string{"/r/b", "/r/c", "/r/d", "/r/e"}, keys(tree.Failures()))
	})
}

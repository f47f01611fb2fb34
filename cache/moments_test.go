package cache_test

import (
	"fmt"
	"slices"
	"strconv"
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

// replacements replaces a node 200 times, each time in one transaction, by another of the same or of a different name.
// Every read of the cache in between must return a state that the tree has had.
func replacements(t *testing.T, names []string, rest func(i int) time.Duration) {
	// The events of a transaction arrive one by one, and replies take time.
	bothWays(t, zktest.Config{Pace: 300 * time.Microsecond}, func(
		t *testing.T, srv *zktest.Server, c *framework.Client, opts ...cache.TreeOption,
	) {
		create(t, srv, "/r/d/"+names[0])
		writer := dial(t, srv)
		tree := open(t, c, "/r", opts...)
		kids, err := cache.NewPathChildren(c, "/r/d", slices.Collect(func(yield func(cache.Option) bool) {
			if opts != nil {
				yield(cache.WithOneShotWatches())
			}
		})...)
		require.NoError(t, err)
		defer kids.Close()
		require.NoError(t, kids.WaitSynced(t.Context()))
		l := listenTo(t, tree)
		srv.Delay(0, 2*time.Millisecond)
		done, looks, versions := make(chan struct{}), 0, map[int64]bool{}
		go func() {
			defer close(done)
			for i := range 200 {
				op := writer.TransactionOp()
				from, to := names[i%len(names)], names[(i+1)%len(names)]
				_, err := writer.Transaction(t.Context(), op.Delete().ForPath("/r/d/"+from),
					op.Create().ForPath("/r/d/"+to, fmt.Append(nil, i)))
				assert.NoError(t, err)
				time.Sleep(rest(i))
			}
		}()
		for running := true; running; {
			select {
			case <-done:
				running = false
			case <-time.After(130 * time.Microsecond):
			}
			looks++
			var there, listed []string
			for _, name := range names {
				if n, ok := tree.Get("/r/d/" + name); ok {
					there = append(there, name)
					versions[n.Stat.Czxid] = true
				}
			}
			all, under, some := keys(tree.All()), keys(tree.Children("/r/d")), keys(kids.All())
			for _, path := range all[min(2, len(all)):] {
				listed = append(listed, strings.TrimPrefix(path, "/r/d/"))
			}
			// Each list is one read of the cache; a read of one node after the other is several.
			lists := [][]string{listed, under, some}
			if len(names) == 1 {
				lists = append(lists, there)
			}
			for i, found := range lists {
				require.Len(t, found, 1, "look %d, list %d", looks, i)
			}
			require.Equal(t, 3, tree.Len())
			require.Equal(t, 1, kids.Len())
			require.True(t, tree.Progress().Synced)
		}
		srv.Delay(0, 0)
		settle()
		same(t, srv, tree)
		l.replays(t, srv, "/r")
		t.Logf("%d looks have found %d of 200", looks, len(versions))
		if opts == nil {
			assert.Greater(t, len(versions), 20, "what is read together is shown at once, however soon the next comes")
		}
	})
}

func TestANodeReplacedByATransaction(t *testing.T) {
	for _, names := range [][]string{{"x"}, {"x", "y"}} {
		for _, pause := range []time.Duration{0, time.Millisecond} {
			t.Run(fmt.Sprint(names, pause), func(t *testing.T) {
				replacements(t, names, func(i int) time.Duration { return time.Duration(i%7) * pause })
			})
		}
	}
	t.Run("after a while", func(t *testing.T) { // a time after which withheld changes have been shown
		replacements(t, []string{"x", "y"}, func(i int) time.Duration {
			if i == 10 {
				return 2 * time.Second
			}
			return time.Duration(i%7) * time.Millisecond
		})
	})
}

// When changes come so fast that the cache never has read everything, they are not withheld for long, and the cache stays
// in sync.
func TestChangesWithoutAPause(t *testing.T) {
	bothWays(t, zktest.Config{Pace: 100 * time.Microsecond}, func(
		t *testing.T, srv *zktest.Server, c *framework.Client, opts ...cache.TreeOption,
	) {
		grow(t, srv, "/r", 100)
		require.NoError(t, srv.Create("/r/clock", []byte("0")))
		tree := open(t, c, "/r", opts...)
		l := listenTo(t, tree)
		srv.Delay(0, 20*time.Millisecond)
		for i := range 10_000 {
			require.NoError(t, srv.Set(fmt.Sprintf("/r/dir-0000/node-%08d", i%100), fmt.Append(nil, i)))
			if i%10 == 0 {
				require.NoError(t, srv.Set("/r/clock", fmt.Append(nil, i)))
			}
			time.Sleep(time.Millisecond)
			n, _ := tree.Get("/r/clock")
			at, err := strconv.Atoi(string(n.Data))
			require.NoError(t, err)
			require.Less(t, i-at, 1500, "milliseconds behind")
			require.True(t, tree.Progress().Synced)
		}
		settle()
		same(t, srv, tree)
		l.replays(t, srv, "/r")
	})
}

// watching holds the options of a cache with the persistent watch and of one with one-shot watches.
var watching = map[string][]cache.TreeOption{"persistent": nil, "one-shot": {cache.WithOneShotWatches()}}

// optionStory is a test with options for the cache that it opens.
type optionStory func(t *testing.T, srv *zktest.Server, c *framework.Client, opts ...cache.TreeOption)

// bothWays runs f with each way of watching.
func bothWays(t *testing.T, cfg zktest.Config, f optionStory) {
	for name, opts := range watching {
		t.Run(name, func(t *testing.T) {
			bubble(t, cfg, func(t *testing.T, srv *zktest.Server, c *framework.Client) { f(t, srv, c, opts...) })
		})
	}
}

// outage cuts the connection, calls meanwhile during the outage, and calls back when the client is connected again and the
// cache waits for the first reply to its reads.
func outage(t *testing.T, srv *zktest.Server, meanwhile, back func()) {
	t.Helper()
	var holds []*zktest.Injection
	for _, op := range []string{"multiRead", "getData", "getChildren2"} {
		holds = append(holds, srv.Inject(zktest.Fault{Op: op, PathPrefix: "/r", Action: zktest.Hold}))
	}
	srv.Cut(0)
	meanwhile()
	settle()
	back()
	settle()
	for _, hold := range holds {
		hold.Release()
		hold.Remove()
	}
	settle()
}

// A node is created during an outage, and its child after the reconnect, before the cache has read the changes that it
// missed.
func TestAChildBeforeItsParentIsRead(t *testing.T) {
	bothWays(t, zktest.Config{}, func(
		t *testing.T, srv *zktest.Server, c *framework.Client, opts ...cache.TreeOption,
	) {
		tree := open(t, c, "/r", opts...)
		l := listenTo(t, tree)
		settle()
		l.take()
		outage(t, srv, func() { create(t, srv, "/r") }, func() { create(t, srv, "/r/kid") })
		assert.Equal(t, []string{"Created /r", "Created /r/kid"}, l.take())
		l.replays(t, srv, "/r")
		same(t, srv, tree)
	})
}

// A node is deleted and created again during an outage. A child that is created after the reconnect never was a child of
// the old node.
func TestAChildOfAnotherNodeOfThatName(t *testing.T) {
	for name, root := range map[string]string{"root": "/r", "below": "/r/dir"} {
		t.Run(name, func(t *testing.T) {
			bothWays(t, zktest.Config{}, func(
				t *testing.T, srv *zktest.Server, c *framework.Client, opts ...cache.TreeOption,
			) {
				create(t, srv, root+"/0")
				tree := open(t, c, "/r", opts...)
				l := listenTo(t, tree)
				settle()
				l.take()
				outage(t, srv, func() {
					require.NoError(t, srv.DeleteAll(root))
					create(t, srv, root)
				}, func() { create(t, srv, root+"/1") })
				want := []string{"Deleted " + root + "/0", "Deleted " + root, "Created " + root, "Created " + root + "/1"}
				assert.Equal(t, want, l.take())
				l.replays(t, srv, "/r")
				same(t, srv, tree)
			})
		})
	}
}

// The same for a subscriber that reads slowly and drops all nodes below a deleted one.
func TestAChildOfAnotherNodeOfThatNameForASlowSubscriber(t *testing.T) {
	bothWays(t, zktest.Config{}, func(
		t *testing.T, srv *zktest.Server, c *framework.Client, opts ...cache.TreeOption,
	) {
		create(t, srv, "/r/0")
		tree := open(t, c, "/r", append(opts, cache.WithBuffer(3))...)
		stuck := make(chan struct{})
		l := listenBelow(t, "/r", slowed(tree.Events, func(ev cache.Event) {
			if ev.Type == cache.Initialized {
				<-stuck
			}
		}))
		settle()
		l.take()
		outage(t, srv, func() { // room for two changes of the connection, and one more event
			require.NoError(t, srv.DeleteAll("/r"))
			create(t, srv, "/r")
		}, func() { create(t, srv, "/r/1") })
		close(stuck)
		settle()
		assert.Equal(t, []string{"Deleted /r/0", "Deleted /r", "Created /r", "Created /r/1"}, l.take())
		l.replays(t, srv, "/r")
	})
}

// A node and its child are replaced during the first load. Until the cache has read everything once, it shows each read.
// The reply about the child, which was requested earlier, counts only when it is known which node the child is below: not
// while the cache does not know whether it missed events, not when the comparison of a node with much data has only found
// that its data must be read, and not when the reply about the node itself did not count.
func TestAChildOfAnotherNodeOfThatNameInTheFirstLoad(t *testing.T) {
	for _, big := range []string{"none", "/r", "/r/dir"} {
		t.Run(big, func(t *testing.T) {
			bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
				grow := func(path string) {
					create(t, srv, path)
					if path == big {
						require.NoError(t, srv.Set(path, make([]byte, 10_000)))
					}
				}
				grow("/r")
				grow("/r/dir")
				create(t, srv, "/r/dir/kid")
				hold := srv.Inject(zktest.Fault{Op: "multiRead", PathPrefix: "/r/dir/kid", Action: zktest.Hold})
				tree := started(cache.NewTree(c, "/r"))(t)
				l := listenTo(t, tree)
				settle()
				assert.Equal(t, []string{"Created /r", "Created /r/dir"}, l.take())
				srv.Cut(0)
				require.NoError(t, srv.DeleteAll("/r/dir"))
				grow("/r/dir")
				create(t, srv, "/r/dir/kid")
				hold.Release()
				hold.Remove()
				srv.Delay(0, 50*time.Millisecond)
				settle()
				settle()
				assert.Equal(t, []string{"Deleted /r/dir", "Created /r/dir", "Created /r/dir/kid", "Initialized"},
					l.take())
				l.replays(t, srv, "/r")
				same(t, srv, tree)
			})
		})
	}
}

// A reconnect is reported before the changes that it has revealed.
func TestReconnectedComesFirst(t *testing.T) {
	bothWays(t, zktest.Config{}, func(
		t *testing.T, srv *zktest.Server, c *framework.Client, opts ...cache.TreeOption,
	) {
		create(t, srv, "/r")
		tree := open(t, c, "/r", opts...)
		l := listenTo(t, tree)
		settle()
		l.all()
		for i := range 300 {
			srv.Cut(0)
			path := fmt.Sprintf("/r/%d", i)
			create(t, srv, path)
			time.Sleep(5 * time.Second)
			settle()
			var got []string
			for _, ev := range l.all() {
				got = append(got, ev.String())
			}
			require.Equal(t, []string{"ConnectionChanged: Suspended in epoch 1",
				"ConnectionChanged: Reconnected in epoch 1", "Created " + path}, got)
		}
	})
}

// The cache is not in sync as long as it may have missed changes, or has not read all nodes that one-shot watches have
// reported.
func TestNotInSyncWhileItIsOpenWhatWasMissed(t *testing.T) {
	bothWays(t, zktest.Config{}, func(
		t *testing.T, srv *zktest.Server, c *framework.Client, opts ...cache.TreeOption,
	) {
		create(t, srv, "/r/a")
		tree := open(t, c, "/r", opts...)
		for _, path := range []string{"/r", "/r/a"} {
			var holds []*zktest.Injection
			for _, op := range []string{"multiRead", "getData"} {
				hold := srv.Inject(zktest.Fault{Op: op, PathPrefix: path, Action: zktest.Hold})
				holds = append(holds, hold)
			}
			srv.Cut(0)
			require.NoError(t, srv.Set("/r/a", []byte("missed, with "+path+" held")))
			settle()
			assert.False(t, tree.Progress().Synced, path)
			for _, hold := range holds {
				hold.Release()
				hold.Remove()
			}
			require.NoError(t, tree.WaitSynced(t.Context()))
			same(t, srv, tree)
		}
	})
}

// A second connection is lost while the cache decodes the last node of the comparison after the first. The cache is not in
// sync until the changes of the second gap are read:
//
//  1. The comparison after the first gap has read /r/a, and publishes nothing: there has been a later connection.
//  2. The second reconnect is reported. /r/b has changed in that gap, and its event has not come.
func TestNotInSyncAfterASecondReconnect(t *testing.T) {
	bothWays(t, zktest.Config{}, func(
		t *testing.T, srv *zktest.Server, c *framework.Client, opts ...cache.TreeOption,
	) {
		create(t, srv, "/r/a", "/r/b")
		decoding, decoded := make(chan struct{}), make(chan struct{})
		tree := open(t, c, "/r", append(opts, cache.WithDecoder(func(_ string, data []byte) ([]byte, error) {
			if string(data) == "first gap" {
				close(decoding)
				<-decoded
			}
			return data, nil
		}))...)
		gap := func(path, data string) {
			connect := srv.Inject(zktest.Fault{Op: zktest.OpConnect, Action: zktest.Hold})
			srv.Cut(0)
			<-connect.Struck()
			require.NoError(t, srv.Set(path, []byte(data)))
			connect.Release()
		}
		gap("/r/a", "first gap")
		<-decoding
		var holds []*zktest.Injection
		for _, op := range []zktest.Op{zktest.OpSetWatches, zktest.OpSetWatches2} {
			holds = append(holds, srv.Inject(zktest.Fault{Op: op, Action: zktest.Hold}))
		}
		gap("/r/b", "second gap")
		synctest.Wait()
		close(decoded)
		synctest.Wait()
		assert.False(t, tree.Progress().Synced)
		for _, hold := range holds {
			hold.Release()
		}
		require.NoError(t, tree.WaitSynced(t.Context()))
		same(t, srv, tree)
	})
}

// A second connection is lost while the comparison after the first gap is in progress, and nothing has changed in the
// second gap. The first reply of the comparison has brought the newest zxid, so the server's zxid shows no change: the
// reads that were in flight find the changes of the first gap.
func TestASecondReconnectDuringTheComparison(t *testing.T) {
	bothWays(t, zktest.Config{}, func(
		t *testing.T, srv *zktest.Server, c *framework.Client, opts ...cache.TreeOption,
	) {
		const nodes = 700 // several MultiReads
		var paths []string
		for i := range nodes {
			paths = append(paths, fmt.Sprintf("/r/%03d", i))
		}
		create(t, srv, paths...)
		tree := open(t, c, "/r", opts...)
		l := listenTo(t, tree)
		settle()
		l.all()
		connect := srv.Inject(zktest.Fault{Op: zktest.OpConnect, Action: zktest.Hold})
		srv.Cut(0)
		<-connect.Struck()
		changed := []string{paths[0], paths[nodes/2], paths[nodes-1]}
		var holds []*zktest.Injection
		for _, path := range changed {
			require.NoError(t, srv.Set(path, []byte("first gap")))
		}
		for _, op := range []zktest.Op{zktest.OpMultiRead, zktest.OpGetData} {
			holds = append(holds, srv.Inject(zktest.Fault{Op: op, PathPrefix: changed[2], Action: zktest.Hold}))
		}
		connect.Release()
		settle()
		assert.False(t, tree.Progress().Synced)
		srv.Cut(0)
		for _, hold := range holds {
			hold.Release()
			hold.Remove()
		}
		require.NoError(t, tree.WaitSynced(t.Context()))
		settle()
		var got []string
		for _, ev := range l.all() {
			if ev.Type == cache.Changed {
				got = append(got, ev.Path)
			}
		}
		slices.Sort(got)
		assert.Equal(t, changed, got)
		same(t, srv, tree)
	})
}

// A change is withheld, since another is still to be read, when the connection or the session is lost. Then the changes since
// are shown together, too: their second begins with the comparison, not with the earlier change.
func TestAChangeThatIsWithheldWhenAGapBegins(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, srv *zktest.Server, c *framework.Client){
		"connection": func(_ *testing.T, srv *zktest.Server, _ *framework.Client) { srv.Cut(0) },
		"session":    expire,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, zktest.Config{Pace: 300 * time.Microsecond}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
				const nodes = 600 // of three requests
				path := func(i int) string { return fmt.Sprintf("/r/n%d", i) }
				require.NoError(t, srv.Create("/r", nil))
				for i := range nodes {
					create(t, srv, path(i))
				}
				tree := open(t, c, "/r")
				first := srv.Inject(zktest.Fault{Op: "multiRead", Action: zktest.Hold})
				require.NoError(t, srv.Set(path(0), []byte("withheld")))
				<-first.Struck()
				require.NoError(t, srv.Set(path(1), nil))
				time.Sleep(time.Millisecond)
				second := srv.Inject(zktest.Fault{Op: "multiRead", Action: zktest.Hold})
				first.Release()
				<-second.Struck()
				time.Sleep(2 * time.Second)
				n, _ := tree.Get(path(0))
				require.Equal(t, "data of "+path(0), string(n.Data))

				srv.Delay(0, 2*time.Millisecond)
				lose(t, srv, c)
				for i := range nodes {
					require.NoError(t, srv.Set(path(i), []byte("new")))
				}
				second.Release()
				synced := make(chan error, 1)
				go func() { synced <- tree.WaitSynced(t.Context()) }()
				for shown := 0; shown < nodes; time.Sleep(130 * time.Microsecond) {
					shown = 0
					for _, n := range tree.All() {
						if string(n.Data) == "new" {
							shown++
						}
					}
					require.Contains(t, []int{0, nodes}, shown, "all or none")
				}
				require.NoError(t, <-synced)
				srv.Delay(0, 0)
				settle()
				same(t, srv, tree)
			})
		})
	}
}

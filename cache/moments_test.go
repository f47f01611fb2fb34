package cache_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// replacements has a node replaced 200 times, each time in one transaction, by one of the same or of another
// name, and every look in between find a state that was.
func replacements(t *testing.T, names []string, rest func(i int) time.Duration) {
	// What a server has to say of a transaction arrives piece by piece, and an answer takes its time.
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
			// Each is a look of its own; to ask for one node after the other is as many.
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
}

// Changes that come so fast that there never is a moment at which all is known are not kept back for long,
// and the cache stays in sync.
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

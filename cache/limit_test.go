package cache_test

import (
	"bytes"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// size is how much data a cache holds.
func size(tree *cache.Cache) (sum int) {
	for _, n := range tree.All() {
		sum += len(n.Data)
	}
	return sum
}

// What there is no room for is said, everything else is held, and the room of what is deleted or becomes
// smaller is given back.
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
				if _, held := tree.Get("/r/c"); held { // which of the two has its turn first is open
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

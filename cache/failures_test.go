package cache_test

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// Whoever comes late hears of what cannot be read, too, before being told that this is all; and it can be
// asked for.
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

// The same for the other kinds of caches: a parent that cannot be read is why there are no children.
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

package cache_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

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

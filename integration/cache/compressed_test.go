package cache

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/javapeer"
	"github.com/go-curator/curator/integration/zkserver"
)

// The cache has the uncompressed data of nodes that Curator has compressed, and reports data that are not compressed.
func TestDataThatCuratorHasCompressed(t *testing.T) {
	kit.Interop(t, "compression", kit.JavaToGo)
	ctx := kit.Context(t)
	node := zkserver.Start(t, zkserver.Options{})
	client, _ := kit.Connected(t, node.ConnectString())
	_, err := client.Create().ForPath(ctx, "/packed", nil)
	require.NoError(t, err)
	c, err := cache.New(client, "/packed", cache.WithCompressedData())
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.WaitSynced(ctx))
	peer := javapeer.Start(t)
	require.NoError(t, peer.Connect(ctx, node.ConnectString(), kit.Patience))
	for _, data := range []string{"", "little", strings.Repeat("much ", 100_000)} {
		require.NoError(t, peer.SetCompressed(ctx, "/packed", []byte(data)))
		kit.Soon(t, "the data", func() bool {
			n, _ := c.Get("/packed")
			return n.Stat.Version > 0 && string(n.Data) == data
		})
		n, _ := c.Get("/packed")
		assert.NotEqual(t, int(n.Stat.DataLength), len(data), "it was not compressed")
	}
	_, err = peer.Set(ctx, "/packed", []byte("plain"))
	require.NoError(t, err)
	for ev, err := range c.Events(ctx) {
		require.NoError(t, err)
		if ev.Type == cache.Initialized {
			_, err = peer.Set(ctx, "/packed", []byte("plain, too"))
			require.NoError(t, err)
			_, err = peer.Create(ctx, "/packed/broken", []byte("plain"), "PERSISTENT")
			require.NoError(t, err)
		}
		if ev.Type == cache.Failed && ev.Path == "/packed/broken" {
			assert.ErrorIs(t, ev.Err, framework.ErrDecompress)
			break
		}
	}
}

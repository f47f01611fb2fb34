package framework

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/javapeer"
	"github.com/go-curator/curator/integration/zkserver"
)

// Each language reads data that the other has compressed, in creates and sets, by default and per call, from empty data
// to data that are hard to compress.
func TestCompressionWithJava(t *testing.T) {
	t.Parallel()
	kit.Interop(t, "compression", kit.GoToJava, kit.JavaToGo)
	node, c := serve(t, zkserver.Options{})
	ctx := kit.Context(t)
	always, _ := kit.Connected(t, node.ConnectString(), framework.WithSessionTimeout(calm),
		framework.WithCompression())
	peer := javapeer.Start(t)
	require.NoError(t, peer.Connect(ctx, node.ConnectString(), calm))

	random := make([]byte, 100_000)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(random)
	for name, data := range map[string][]byte{"empty": {}, "byte": {0}, "text": []byte("configuration"),
		"long": bytes.Repeat([]byte("the same again "), 20_000), "random": random} {
		// Java reads Go's data.
		_, err := c.Create().Compressed().ForPath(ctx, "/go-"+name, data)
		require.NoError(t, err)
		got, err := peer.Call(ctx, "compressed-get", "/go-"+name)
		require.NoError(t, err, name)
		assert.Equal(t, string(data), got[0], name)
		_, err = always.SetData().ForPath(ctx, "/go-"+name, append([]byte("more "), data...))
		require.NoError(t, err)
		got, err = peer.Call(ctx, "compressed-get", "/go-"+name)
		require.NoError(t, err, name)
		assert.Equal(t, "more "+string(data), got[0], name)

		// Go reads Java's data.
		_, err = peer.Call(ctx, "compressed-create", "/java-"+name, string(data))
		require.NoError(t, err)
		read, err := c.GetData().Decompressed().ForPath(ctx, "/java-"+name)
		require.NoError(t, err, name)
		assert.Equal(t, string(data), string(read), name)
		_, err = peer.Call(ctx, "compressed-set", "/java-"+name, "more "+string(data))
		require.NoError(t, err)
		read, err = always.GetData().ForPath(ctx, "/java-"+name)
		require.NoError(t, err, name)
		assert.Equal(t, "more "+string(data), string(read), name)
	}

	// The empty value is fixed, except for the byte that names the system: newer releases of Curator and of the JDK
	// write "unknown".
	_, err := c.Create().Compressed().ForPath(ctx, "/go", []byte{})
	require.NoError(t, err)
	_, err = peer.Call(ctx, "compressed-create", "/java", "")
	require.NoError(t, err)
	ours, err := c.GetData().ForPath(ctx, "/go")
	require.NoError(t, err)
	theirs, err := c.GetData().ForPath(ctx, "/java")
	require.NoError(t, err)
	const system = 9
	theirs[system] = ours[system]
	assert.Equal(t, theirs, ours)

	// Neither reads data that are not gzip, or have bytes after it.
	for name, bad := range map[string][]byte{"plain": []byte("plain text"),
		"after": append(bytes.Clone(theirs), 1)} {
		_, err = c.Create().ForPath(ctx, "/bad-"+name, bad)
		require.NoError(t, err)
		_, err = c.GetData().Decompressed().ForPath(ctx, "/bad-"+name)
		assert.ErrorIs(t, err, framework.ErrDecompress, name)
		_, err = peer.Call(ctx, "compressed-get", "/bad-"+name)
		var thrown *javapeer.Error
		require.ErrorAs(t, err, &thrown, name)
		t.Log("Java:", thrown)
	}
}

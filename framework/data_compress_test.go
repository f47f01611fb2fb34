package framework

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

func TestGzip(t *testing.T) {
	for _, text := range []string{"", "a", strings.Repeat("configuration ", 5000)} {
		packed, err := Gzip{}.Compress("/a", []byte(text))
		require.NoError(t, err)
		assert.Equal(t, []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0}, packed[:10], "Java's header")
		plain, err := Gzip{}.Decompress("/a", packed)
		require.NoError(t, err)
		assert.Equal(t, text, string(plain))
	}
	empty, err := Gzip{}.Compress("/a", nil)
	require.NoError(t, err)
	assert.Equal(t, "H4sIAAAAAAAAAAMAAAAAAAAAAAA=", base64.StdEncoding.EncodeToString(empty))

	// Header fields that other writers set.
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Name, w.Comment, w.Extra = "name", "comment", []byte("extra")
	_, _ = w.Write([]byte("text"))
	require.NoError(t, w.Close())
	plain, err := Gzip{}.Decompress("/a", b.Bytes())
	require.NoError(t, err)
	assert.Equal(t, "text", string(plain))
}

func TestGzipRefuses(t *testing.T) {
	good, err := Gzip{}.Compress("/a", []byte("some text that is long enough to be damaged"))
	require.NoError(t, err)
	damaged := bytes.Clone(good)
	damaged[len(damaged)-6] ^= 1 // of the checksum
	for name, data := range map[string][]byte{
		"nothing": nil, "text": []byte("plain text"), "header": good[:10], "half": good[:len(good)/2],
		"checksum": damaged,
		"behind":   append(bytes.Clone(good), 0), "twice": append(bytes.Clone(good), good...),
	} {
		plain, err := Gzip{}.Decompress("/a", data)
		assert.ErrorIs(t, err, ErrDecompress, name)
		assert.NotErrorIs(t, err, ErrDecompressedTooLarge, name)
		assert.NotErrorIs(t, err, io.EOF, name)
		assert.Nil(t, plain, name)
	}

	bomb, err := Gzip{}.Compress("/a", make([]byte, 1<<20))
	require.NoError(t, err)
	assert.Less(t, len(bomb), 2000)
	_, err = Gzip{Limit: 1<<20 - 1}.Decompress("/a", bomb)
	assert.ErrorIs(t, err, ErrDecompressedTooLarge)
	assert.ErrorIs(t, err, ErrDecompress)
	plain, err := Gzip{Limit: 1 << 20}.Decompress("/a", bomb)
	require.NoError(t, err)
	assert.Len(t, plain, 1<<20)
}

func gunzip(t *testing.T, data []byte) string {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(data))
	require.NoError(t, err)
	plain, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(plain)
}

func TestCompressedPerCall(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx, op := t.Context(), c.TransactionOp()
		_, err := c.Create().CreatingParentsIfNeeded().Compressed().ForPath(ctx, "/p/a", []byte("one"))
		require.NoError(t, err)
		assert.Equal(t, "one", gunzip(t, srv.Tree()["/p/a"].Data))
		assert.Empty(t, srv.Tree()["/p"].Data, "parents have no data")

		data, err := c.GetData().ForPath(ctx, "/p/a")
		require.NoError(t, err)
		assert.Equal(t, srv.Tree()["/p/a"].Data, data, "as they are")
		var stat Stat
		data, err = c.GetData().Decompressed().StoringStatIn(&stat).ForPath(ctx, "/p/a")
		require.NoError(t, err)
		assert.Equal(t, "one", string(data))
		assert.Equal(t, int32(len(srv.Tree()["/p/a"].Data)), stat.DataLength, "of what is stored")
		data, err = c.GetData().Decompressed().ForPath(ctx, "/p")
		require.NoError(t, err, "there is nothing to unpack")
		assert.Empty(t, data)

		_, err = c.SetData().Compressed().ForPath(ctx, "/p/a", []byte("two"))
		require.NoError(t, err)
		assert.Equal(t, "two", gunzip(t, srv.Tree()["/p/a"].Data))
		_, err = c.Create().OrSetData().Compressed().ForPath(ctx, "/p/a", []byte("three"))
		require.NoError(t, err)
		assert.Equal(t, "three", gunzip(t, srv.Tree()["/p/a"].Data))
		_, err = c.Transaction(ctx, op.SetData().Compressed().ForPath("/p/a", []byte("four")),
			op.Create().Compressed().ForPath("/p/b", []byte("five")))
		require.NoError(t, err)
		assert.Equal(t, "four", gunzip(t, srv.Tree()["/p/a"].Data))
		assert.Equal(t, "five", gunzip(t, srv.Tree()["/p/b"].Data))

		data, watch, err := c.GetData().Decompressed().WithWatch().ForPath(ctx, "/p/a")
		require.NoError(t, err)
		assert.Equal(t, "four", string(data))
		watch.Stop()
		r, err := c.GetData().Decompressed().InBackground().ForPath(ctx, "/p/a").Wait(ctx)
		require.NoError(t, err)
		assert.Equal(t, "four", string(r.Data))

		make1(t, c, "/plain", "plain")
		_, _, err = c.GetData().Decompressed().WithWatch().ForPath(ctx, "/plain")
		assert.ErrorIs(t, err, ErrDecompress)
		var opErr *OpError
		require.ErrorAs(t, err, &opErr)
		assert.Equal(t, "/plain", opErr.Path)
		time.Sleep(time.Second)
		assert.Empty(t, srv.Watches(), "a read that fails leaves no watch")
		_, err = c.GetData().Decompressed().InBackground().ForPath(ctx, "/plain").Wait(ctx)
		assert.ErrorIs(t, err, ErrDecompress)

		reads, err := c.MultiRead().Decompressed().ForReads(ctx, ReadData("/p/a"), ReadData("/plain"),
			ReadData("/none"), ReadChildren("/p"), ReadData("/p"))
		require.NoError(t, err)
		assert.Equal(t, "four", string(reads[0].Data))
		assert.ErrorIs(t, reads[1].Err, ErrDecompress)
		assert.ErrorIs(t, reads[2].Err, ErrNoNode)
		assert.ElementsMatch(t, []string{"a", "b"}, reads[3].Children)
		assert.NoError(t, reads[4].Err)
	})
}

func TestCompressedByDefault(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx, op := t.Context(), c.TransactionOp()
		_, err := c.Create().CreatingParentsIfNeeded().ForPath(ctx, "/p/a", nil)
		require.NoError(t, err)
		assert.Equal(t, "default", gunzip(t, srv.Tree()["/p/a"].Data))
		assert.Empty(t, srv.Tree()["/p"].Data)
		data, err := c.GetData().ForPath(ctx, "/p/a")
		require.NoError(t, err)
		assert.Equal(t, "default", string(data))
		data, err = c.GetData().Undecompressed().ForPath(ctx, "/p/a")
		require.NoError(t, err)
		assert.Equal(t, "default", gunzip(t, data))

		_, err = c.SetData().Uncompressed().ForPath(ctx, "/p/a", []byte("plain"))
		require.NoError(t, err)
		assert.Equal(t, "plain", string(srv.Tree()["/p/a"].Data))
		_, err = c.Create().Uncompressed().ForPath(ctx, "/b", []byte("plain"))
		require.NoError(t, err)
		assert.Equal(t, "plain", string(srv.Tree()["/b"].Data))
		_, err = c.Transaction(ctx, op.SetData().Uncompressed().ForPath("/b", []byte("bare")),
			op.Create().Uncompressed().ForPath("/c", []byte("bare")),
			op.Create().ForPath("/d", []byte("packed")))
		require.NoError(t, err)
		assert.Equal(t, "bare", string(srv.Tree()["/b"].Data))
		assert.Equal(t, "bare", string(srv.Tree()["/c"].Data))
		assert.Equal(t, "packed", gunzip(t, srv.Tree()["/d"].Data))
		reads, err := c.MultiRead().ForReads(ctx, ReadData("/d"), ReadData("/b"))
		require.NoError(t, err)
		assert.Equal(t, "packed", string(reads[0].Data))
		assert.ErrorIs(t, reads[1].Err, ErrDecompress)
		reads, err = c.MultiRead().Undecompressed().ForReads(ctx, ReadData("/b"))
		require.NoError(t, err)
		assert.Equal(t, "bare", string(reads[0].Data))
	}, WithCompression(), WithDefaultData([]byte("default")))
}

// reversing is a provider whose errors are its own.
type reversing struct{ fail error }

func (r reversing) Compress(path string, data []byte) ([]byte, error) {
	return []byte(path + "!" + string(data)), r.fail
}
func (r reversing) Decompress(path string, data []byte) ([]byte, error) {
	plain, ok := bytes.CutPrefix(data, []byte(path+"!"))
	if !ok {
		return nil, r.fail
	}
	return plain, nil
}

func TestCompressionProvider(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		team := c.UsingNamespace("team")
		_, err := team.Create().Compressed().ForPath(ctx, "/a", []byte("x"))
		require.NoError(t, err)
		assert.Equal(t, "/team/a!x", string(srv.Tree()["/team/a"].Data), "the full path")
		data, err := team.GetData().Decompressed().ForPath(ctx, "/a")
		require.NoError(t, err)
		assert.Equal(t, "x", string(data))
	}, WithCompressionProvider(reversing{}))

	mine := errors.New("mine")
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		_, err := c.Create().Compressed().ForPath(ctx, "/a", []byte("x"))
		assert.ErrorIs(t, err, mine)
		_, err = c.SetData().Compressed().ForPath(ctx, "/a", []byte("x"))
		assert.ErrorIs(t, err, mine)
		_, err = c.Transaction(ctx, c.TransactionOp().Create().Compressed().ForPath("/a", nil),
			c.TransactionOp().SetData().Compressed().ForPath("/a", nil))
		assert.ErrorIs(t, err, mine)
		assert.Len(t, srv.Tree(), 1, "nothing is sent")
		make1(t, c, "/a", "plain")
		_, err = c.GetData().Decompressed().ForPath(ctx, "/a")
		assert.ErrorIs(t, err, ErrDecompress)
		assert.ErrorIs(t, err, mine)
	}, WithCompressionProvider(reversing{mine}))

	_, err := New("h", WithCompressionProvider(nil))
	assert.ErrorIs(t, err, ErrInvalidOption)
}

func FuzzGunzip(f *testing.F) {
	good, _ := Gzip{}.Compress("/a", []byte("some text"))
	f.Add(good)
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		plain, err := Gzip{Limit: 1 << 16}.Decompress("/a", data)
		if err != nil {
			assert.ErrorIs(t, err, ErrDecompress)
			return
		}
		assert.LessOrEqual(t, len(plain), 1<<16)
	})
}

func bomb(t *testing.T, size int) []byte {
	t.Helper()
	packed, err := Gzip{}.Compress("/", make([]byte, size))
	require.NoError(t, err)
	return packed
}

func TestGzipHasALimitByDefault(t *testing.T) {
	plain, err := Gzip{}.Decompress("/a", bomb(t, 8<<20))
	require.NoError(t, err)
	assert.Len(t, plain, 8<<20)
	_, err = Gzip{}.Decompress("/a", bomb(t, 8<<20+1))
	assert.ErrorIs(t, err, ErrDecompressedTooLarge)
	_, err = decompressUpTo(Gzip{Limit: 99}, "/a", bomb(t, 100), 100)
	assert.ErrorIs(t, err, ErrDecompressedTooLarge)
	_, err = decompressUpTo(Gzip{Limit: 100}, "/a", bomb(t, 100), 99)
	assert.ErrorIs(t, err, ErrDecompressedTooLarge)
	plain, err = decompressUpTo(Gzip{}, "/a", emptyGzip, 0)
	require.NoError(t, err)
	assert.Empty(t, plain)
	_, err = decompressUpTo(&Gzip{}, "/a", bomb(t, 100), 10)
	assert.ErrorContains(t, err, "limit of 10 bytes")
	assert.NotContains(t, err.Error(), "they have", "it stops there, too")
	_, err = decompressUpTo(Gzip{}, "/a", bomb(t, 1), 0)
	assert.ErrorIs(t, err, ErrDecompressedTooLarge)
}

// plainGzip is a provider that knows no limits.
type plainGzip struct{}

func (plainGzip) Compress(path string, data []byte) ([]byte, error) {
	return Gzip{}.Compress(path, data)
}
func (plainGzip) Decompress(path string, data []byte) ([]byte, error) {
	return Gzip{Limit: 1 << 30}.Decompress(path, data)
}

// The sum of the decompressed data of a multi-read is limited, even if each node's data are small enough. The nodes for
// which there is room are read.
func TestDecompressedInSum(t *testing.T) {
	for name, p := range map[string]CompressionProvider{"gzip": Gzip{},
		"one that knows no limits": plainGzip{}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
				ctx := t.Context()
				var reads []Read
				for i, size := range []int{400, 400, 400, 100, 200} {
					path := fmt.Sprintf("/%d", i)
					require.NoError(t, srv.Create(path, bomb(t, size)))
					reads = append(reads, ReadData(path))
				}
				check := func(results []ReadResult, err error) {
					t.Helper()
					require.NoError(t, err)
					for i, size := range []int{400, 400, 0, 100, 0} {
						assert.Len(t, results[i].Data, size)
						if size == 0 {
							assert.ErrorIs(t, results[i].Err, ErrDecompressedTooLarge)
						} else {
							assert.NoError(t, results[i].Err)
						}
					}
				}
				check(c.MultiRead().Decompressed().ForReads(ctx, reads...))
				r, err := c.MultiRead().Decompressed().InBackground().ForReads(ctx, reads...).Wait(ctx)
				check(r.Results, err)

				require.NoError(t, srv.Create("/large", bomb(t, 1001)))
				_, err = c.GetData().Decompressed().ForPath(ctx, "/large")
				assert.ErrorIs(t, err, ErrDecompressedTooLarge, "one node is a call, too")
			}, WithCompressionProvider(p), WithDecompressedLimit(1000))
		})
	}
	_, err := New("h", WithDecompressedLimit(0))
	assert.ErrorIs(t, err, ErrInvalidOption)
}

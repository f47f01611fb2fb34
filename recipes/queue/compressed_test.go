package queue_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/queue"
	"github.com/go-curator/curator/zktest"
)

// isPacked reports whether the only node below a path, whose name begins with prefix, has compressed data.
func isPacked(t *testing.T, s *zktest.Server, dir, prefix string) bool {
	t.Helper()
	names, err := s.Children(dir)
	require.NoError(t, err)
	require.Len(t, names, 1)
	require.True(t, strings.HasPrefix(names[0], prefix), names[0])
	data, _, err := s.Get(dir + "/" + names[0])
	require.NoError(t, err)
	return bytes.HasPrefix(data, []byte("\x1f\x8b"))
}

// A client with WithCompression puts compressed items, as Curator does, and takes compressed and uncompressed items. An item that
// is put back keeps its stored bytes.
func TestItemsOfClientsThatCompress(t *testing.T) {
	eachMode(t, func(t *testing.T, s *zktest.Server, opts []queue.Option) {
		packs, plain := newClient(t, s, framework.WithCompression()), newClient(t, s)
		put(t, queue.New(packs, path, opts...), "packed")
		assert.True(t, isPacked(t, s, path, "queue-"))
		put(t, queue.New(plain, path, opts...), "plain")
		var all handled
		failed := false
		stop := consuming(t, queue.New(packs, path, append(opts, queue.OnFailure(func(*queue.ItemError) queue.Fate {
			return queue.Requeue
		}))...), func(ctx context.Context, item []byte) error {
			if !failed && string(item) == "packed" && len(opts) > 0 {
				failed = true
				return errPoison
			}
			return all.handle(ctx, item)
		})
		assert.ElementsMatch(t, []string{"packed", "plain"}, all.wait(2))
		stop()
		tidy(t, s, packs, plain)
	})
}

func TestSimpleItemsOfClientsThatCompress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		packs, plain := newClient(t, s, framework.WithCompression()), newClient(t, s)
		require.NoError(t, queue.NewSimple(packs, path).Offer(background, []byte("packed")))
		assert.True(t, isPacked(t, s, path, "qn-"))
		require.NoError(t, queue.NewSimple(plain, path).Offer(background, []byte("plain")))
		for _, want := range []string{"packed", "plain"} {
			item, err := queue.NewSimple(packs, path).Poll(background)
			require.NoError(t, err)
			assert.Equal(t, want, string(item))
		}
		bomb, err := framework.Gzip{}.Compress("", make([]byte, 9<<20))
		require.NoError(t, err)
		require.NoError(t, s.Create(path+"/qn-9000000000", bomb))
		_, err = queue.NewSimple(packs, path).Poll(background)
		require.ErrorIs(t, err, queue.ErrUnreadable)
		require.ErrorIs(t, err, framework.ErrDecompressedTooLarge)
		assert.True(t, s.Exists(path+"/qn-9000000000"), "an item that cannot be read is not lost")
	})
}

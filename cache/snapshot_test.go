package cache_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// written returns a snapshot that was written and read.
func written(t *testing.T, s *cache.Snapshot) *cache.Snapshot {
	t.Helper()
	read, err := cache.ReadSnapshot(bytes.NewReader(bytesOf(t, s)))
	require.NoError(t, err)
	assert.Equal(t, s.Len(), read.Len())
	assert.Equal(t, s.Root(), read.Root())
	return read
}

func bytesOf(t *testing.T, s *cache.Snapshot) []byte {
	t.Helper()
	var b bytes.Buffer
	n, err := s.WriteTo(&b)
	require.NoError(t, err)
	require.EqualValues(t, b.Len(), n)
	return b.Bytes()
}

// saved returns a snapshot of a tree with nodes of all kinds.
func saved(t *testing.T, srv *zktest.Server, c *framework.Client, opts ...cache.TreeOption) *cache.Snapshot {
	t.Helper()
	if _, exists := srv.Tree()["/r"]; !exists {
		create(t, srv, "/r/a/b/c", "/r/a/d", "/r/e", "/r/f", "/r/g/h", "/r/i/j")
		require.NoError(t, srv.Set("/r/e", []byte("changed")))
		require.NoError(t, srv.Set("/r/f", nil))
	}
	tree := open(t, c, "/r", opts...)
	settle()
	if len(opts) == 0 {
		same(t, srv, tree)
	}
	require.NoError(t, tree.Close())
	return written(t, tree.Snapshot())
}

// Only changes since the snapshot are reported; until they are known readers see the snapshot.
func TestSnapshots(t *testing.T) {
	ways(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		snapshot := saved(t, srv, c)
		require.NoError(t, srv.Set("/r/a/b", []byte("new")))
		require.NoError(t, srv.Delete("/r/e"))
		require.NoError(t, srv.DeleteAll("/r/g"))
		create(t, srv, "/r/f/child", "/r/g", "/r/k/l")
		require.NoError(t, srv.Delete("/r/i/j"))
		create(t, srv, "/r/i/m") // as many children as before

		srv.Pause()
		tree := started(cache.New(c, "/r", cache.WithSnapshot(snapshot)))(t)
		events := listenTo(t, tree)
		settle()
		assert.Equal(t, snapshot.Len(), tree.Len())
		assert.Equal(t, cache.Progress{Known: 11, Loaded: 0}, tree.Progress())
		node, _ := tree.Get("/r/e")
		assert.Equal(t, "changed", string(node.Data))
		assert.Equal(t, []string{"Created /r", "Created /r/a", "Created /r/a/b", "Created /r/a/b/c",
			"Created /r/a/d", "Created /r/e", "Created /r/f", "Created /r/g", "Created /r/g/h", "Created /r/i",
			"Created /r/i/j"}, events.take())

		srv.Resume()
		require.NoError(t, tree.WaitSynced(t.Context()))
		settle()
		same(t, srv, tree)
		assert.Equal(t, []string{"Deleted /r/i/j", "Deleted /r/g/h", "Deleted /r/g", "Deleted /r/e",
			"Changed /r/a/b", "Created /r/f/child", "Created /r/g", "Created /r/i/m", "Created /r/k",
			"Created /r/k/l", "Initialized"}, events.take())
		events.replays(t, srv, "/r")
		create(t, srv, "/r/a/b/c/late", "/r/i/late")
		settle()
		same(t, srv, tree)
	})
}

func TestSnapshotOfAnUnchangedTree(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, _ *framework.Client) {
		const n, size = 100, 64 << 10
		for i := range n {
			require.NoError(t, srv.Create(fmt.Sprintf("/r/%d", i), []byte(strings.Repeat("x", size))))
		}
		meter := &meter{dial: srv.Dial}
		c := dial(t, srv, framework.WithDialer(meter.Dial))
		first := open(t, c, "/r")
		require.NoError(t, first.Close())
		meter.reset()
		srv.ResetCounts()
		tree := open(t, c, "/r", cache.WithSnapshot(written(t, first.Snapshot())))
		same(t, srv, tree)
		assert.Less(t, meter.total(), 50<<10, "bytes read, of %d", n*size)
		assert.LessOrEqual(t, sum(requests(srv)), n+4, "%v", requests(srv))
	})
}

// Children that the snapshot has are not listed again.
func TestListsOfAnUnchangedTree(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		s := saved(t, srv, c)
		srv.Inject(zktest.Fault{
			Op: "multiRead", Times: -1, Action: zktest.ReplyError, Err: zktest.ErrUnimplemented,
		})
		srv.ResetCounts()
		same(t, srv, open(t, c, "/r", cache.WithSnapshot(s)))
		assert.Zero(t, srv.Counts()["getChildren2"])
	})
}

// The filters, the depth and the kind of cache may differ from those of the snapshot's cache.
func TestSnapshotsAndFilters(t *testing.T) {
	leaf := func(p string) bool { return path.Base(p) != "b" && path.Base(p) != "i" }
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		whole := saved(t, srv, c)
		part := saved(t, srv, c, cache.WithFilter(leaf))
		flat := saved(t, srv, c, cache.WithMaxDepth(1))
		assert.Equal(t, []int{11, 7, 6}, []int{whole.Len(), part.Len(), flat.Len()})
		for _, s := range []*cache.Snapshot{whole, part, flat} {
			same(t, srv, open(t, c, "/r", cache.WithSnapshot(s)))
			tree := open(t, c, "/r", cache.WithFilter(leaf), cache.WithSnapshot(s))
			assert.Equal(t, 7, tree.Len())
			children := synced(cache.NewPathChildren(c, "/r", cache.WithSnapshot(s)))(t)
			assert.Equal(t, []string{"a", "e", "f", "g", "i"}, keys(children.All()))
			assert.Equal(t, 5, children.Len())
			node := synced(cache.NewNode(c, "/r", cache.WithSnapshot(s)))(t)
			assert.Equal(t, 1, node.Len())
			assert.Equal(t, 6, written(t, children.Snapshot()).Len(), "with the parent")
		}
	})
}

func TestSnapshotsThatDoNotFit(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		s := saved(t, srv, c)
		for name, opts := range map[string][]cache.Option{
			"other data": {cache.WithoutData()}, "decoded": {cache.WithCompressedData()},
			"no room": {cache.WithDataLimit(20)},
		} {
			_, err := cache.New(c, "/r", append(opts, cache.WithSnapshot(s))...)
			assert.ErrorIs(t, err, cache.ErrSnapshot, name)
			assert.ErrorIs(t, err, framework.ErrInvalidOption, name)
		}
		data := size(open(t, c, "/r"))
		same(t, srv, open(t, c, "/r", cache.WithDataLimit(data), cache.WithSnapshot(s)))
		_, err := cache.New(c, "/other", cache.WithSnapshot(s))
		assert.ErrorIs(t, err, cache.ErrSnapshot)
		same(t, srv, open(t, c, "/r", cache.WithSnapshot(nil)))

		// A snapshot of another ensemble: all of it is compared.
		other := zktest.RunT(t, zktest.Config{})
		create(t, other, "/r/x/a", "/r/a/y", "/r/e/z")
		same(t, other, open(t, dial(t, other), "/r", cache.WithSnapshot(s)))
	})
}

// A snapshot with decoded data, or without data, is for a cache with the same option.
func TestSnapshotsOfOtherData(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		require.NoError(t, srv.Create("/r", zip(t, "text")))
		for _, form := range []cache.Option{cache.WithCompressedData(), cache.WithoutData()} {
			s := written(t, open(t, c, "/r", form).Snapshot())
			tree := open(t, c, "/r", form, cache.WithSnapshot(s))
			assert.Equal(t, 1, tree.Len())
			_, err := cache.New(c, "/r", cache.WithSnapshot(s))
			assert.ErrorIs(t, err, cache.ErrSnapshot)
		}
	})
}

func TestSnapshotOfNothing(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		s := written(t, open(t, c, "/r").Snapshot())
		assert.Zero(t, s.Len())
		b := bytesOf(t, s)
		assert.Equal(t, "curator cache snapshot 1\n\x00\x02/r\x04", string(b[:len(b)-8]), "other releases read it, too")
		create(t, srv, "/r/a")
		same(t, srv, open(t, c, "/r", cache.WithSnapshot(s)))
		assert.Zero(t, written(t, (&cache.Cache{}).Snapshot()).Len())
	})
}

// Any wrong or missing byte makes the snapshot invalid, and has no other effect.
func TestDamagedSnapshots(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		good := bytesOf(t, saved(t, srv, c))
		for i := range good {
			_, err := cache.ReadSnapshot(bytes.NewReader(good[:i]))
			require.ErrorIs(t, err, cache.ErrSnapshot, "%d bytes", i)
			for _, by := range []byte{1, 0x80, 0xff} {
				bad := bytes.Clone(good)
				bad[i] ^= by
				s, err := cache.ReadSnapshot(bytes.NewReader(bad))
				require.ErrorIs(t, err, cache.ErrSnapshot, "byte %d", i)
				require.Nil(t, s)
			}
		}
		broken := errors.New("broken")
		for i := range 100 {
			in := io.MultiReader(bytes.NewReader(good[:i]), iotest.ErrReader(broken))
			_, err := cache.ReadSnapshot(in)
			require.ErrorIs(t, err, broken)
		}
		_, err := cache.ReadSnapshot(nil)
		require.ErrorIs(t, err, cache.ErrSnapshot)
		_, err = written(t, saved(t, srv, c)).WriteTo(failing{broken})
		require.ErrorIs(t, err, broken)
	})
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

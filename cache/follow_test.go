package cache_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// followed records the states that a loop over Follow gets. It is for a test that waits until all goroutines wait.
type followed struct {
	seen []map[string]cache.Node
	err  error
}

func follow(ctx context.Context, source cache.Source) *followed {
	f := &followed{}
	go func() {
		for nodes, err := range cache.Follow(ctx, source) {
			if err != nil {
				f.err = err
				return
			}
			f.seen = append(f.seen, nodes)
		}
	}()
	return f
}

func (f *followed) names() (all [][]string) {
	synctest.Wait()
	for _, nodes := range f.seen {
		all = append(all, slices.Sorted(maps.Keys(nodes)))
	}
	return all
}

func TestFollow(t *testing.T) {
	ways(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		require.NoError(t, srv.Create("/jobs", nil))
		jobs := synced(cache.NewPathChildren(c, "/jobs"))(t)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		f := follow(ctx, jobs)
		assert.Equal(t, [][]string{nil}, f.names(), "an empty list is one, too")

		require.NoError(t, srv.Create("/jobs/b", nil))
		time.Sleep(time.Second)
		_, err := c.Transaction(t.Context(),
			c.TransactionOp().Create().ForPath("/jobs/a", nil),
			c.TransactionOp().Delete().ForPath("/jobs/b"),
			c.TransactionOp().Create().ForPath("/jobs/c", nil))
		require.NoError(t, err)
		time.Sleep(time.Second)
		assert.Equal(t, [][]string{nil, {"b"}, {"a", "c"}}, f.names(), "a transaction is one change")

		// All changes during an outage are one change, and an outage without a change is none.
		srv.Cut(0)
		time.Sleep(time.Minute)
		assert.Len(t, f.names(), 3)
		srv.Pause()
		time.Sleep(time.Second)
		assert.Len(t, f.names(), 3)
		srv.Resume()
		require.NoError(t, srv.Create("/jobs/d", nil))
		require.NoError(t, srv.Delete("/jobs/a"))
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"c", "d"}, f.names()[len(f.seen)-1])

		require.NoError(t, srv.Set("/jobs/d", []byte("x")))
		time.Sleep(time.Second)
		f.names()
		assert.Equal(t, "x", string(f.seen[len(f.seen)-1]["d"].Data))
		stop()
		synctest.Wait()
		assert.ErrorIs(t, f.err, context.Canceled)
	})
}

// A slow loop gets the last state.
func TestFollowSlowly(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		require.NoError(t, srv.Create("/n", []byte("0")))
		node := synced(cache.NewNode(c, "/n"))(t)
		var seen []string
		for nodes, err := range cache.Follow(t.Context(), node) {
			require.NoError(t, err)
			seen = append(seen, string(nodes["/n"].Data))
			if len(seen) == 2 {
				break
			}
			for _, data := range []string{"1", "2", "3"} {
				require.NoError(t, srv.Set("/n", []byte(data)))
				time.Sleep(time.Second)
			}
		}
		assert.Equal(t, []string{"0", "3"}, seen)
	})
}

func TestFollowEnds(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		tree := synced(cache.New(c, "/n"))(t)
		f := follow(t.Context(), tree)
		assert.Len(t, f.names(), 1)
		require.NoError(t, tree.Close())
		synctest.Wait()
		assert.ErrorIs(t, f.err, cache.ErrClosed)
		//lint:ignore SA1012 that is what is tested
		for _, err := range cache.Follow(nil, tree) { //nolint:staticcheck
			assert.ErrorIs(t, err, framework.ErrNilContext)
		}
		for _, err := range cache.Follow(t.Context(), &cache.Cache{}) {
			assert.Error(t, err)
		}
	})
}

func TestFilter(t *testing.T) {
	node := func(kind cache.EventType, path string) cache.Event { return cache.Event{Type: kind, Path: path} }
	all := []cache.Event{
		node(cache.ConnectionChanged, ""), node(cache.Created, "/a"), node(cache.Created, "/a/b"),
		node(cache.Initialized, ""), node(cache.Changed, "/a/b"), node(cache.Created, "/ab"), node(cache.Deleted, "/a"),
	}
	over := errors.New("over")
	stream := func(yield func(cache.Event, error) bool) {
		for _, ev := range all {
			if !yield(ev, nil) {
				return
			}
		}
		yield(cache.Event{}, over)
	}
	got := func(keep ...func(cache.Event) bool) (texts []int) {
		var last error
		for ev, err := range cache.Filter(stream, keep...) {
			if last = err; err == nil {
				texts = append(texts, slices.Index(all, ev))
			}
		}
		assert.Equal(t, over, last, "the error is no event")
		return texts
	}
	assert.Equal(t, []int{0, 1, 2, 3, 4, 5, 6}, got())
	assert.Equal(t, []int{1, 2, 5, 6}, got(cache.OfType(cache.Created, cache.Deleted)))
	assert.Equal(t, []int{0, 1, 2, 3, 4, 6}, got(cache.Below("/a")))
	assert.Equal(t, []int{0, 1, 2, 3, 4, 5, 6}, got(cache.Below("/")))
	assert.Equal(t, []int{4, 5, 6}, got(cache.AfterInitialized()))
	assert.Equal(t, []int{4, 6}, got(cache.AfterInitialized(), cache.Below("/a")))
	for range cache.Filter(stream, cache.OfType(cache.Changed)) {
		break
	}
}

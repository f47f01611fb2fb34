package cache_test

import (
	"context"
	"maps"
	"runtime"
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

// latest returns the state that waits in a channel of FollowNode, and fails if there is none.
func latest(t *testing.T, states <-chan *cache.Node) *cache.Node {
	t.Helper()
	synctest.Wait()
	select {
	case n, open := <-states:
		require.True(t, open)
		return n
	default:
		require.Fail(t, "no state")
		return nil
	}
}

func isClosed[T any](states <-chan T) bool {
	synctest.Wait()
	select {
	case _, open := <-states:
		return !open
	default:
		return false
	}
}

func TestFollowNode(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		ctx, stop := context.WithCancel(t.Context())
		require.NoError(t, c.WaitConnected(ctx))
		synctest.Wait()
		plain := synced(cache.NewNode(c, "/limits"))(t)
		synctest.Wait()
		ofCache := runtime.NumGoroutine()
		require.NoError(t, plain.Close())
		first, states, err := cache.FollowNode(ctx, c, "/limits")
		require.NoError(t, err)
		assert.Nil(t, first)
		synctest.Wait()
		assert.LessOrEqual(t, runtime.NumGoroutine(), ofCache, "no goroutine beside the cache's")

		require.NoError(t, srv.Create("/limits", []byte("1")))
		assert.Equal(t, "1", string(latest(t, states).Data))
		for _, data := range []string{"2", "3", "4"} {
			require.NoError(t, srv.Set("/limits", []byte(data)))
			synctest.Wait()
		}
		assert.Equal(t, "4", string(latest(t, states).Data), "a slow receiver gets the last state")

		// A change during an outage, and an outage without a change.
		for _, data := range []string{"5", ""} {
			srv.Pause()
			srv.Cut(0)
			time.Sleep(time.Second)
			if data != "" {
				require.NoError(t, srv.Set("/limits", []byte(data)))
			}
			assert.Empty(t, states)
			srv.Resume()
			time.Sleep(time.Minute)
			if data != "" {
				assert.Equal(t, data, string(latest(t, states).Data))
			}
		}
		assert.Empty(t, states)
		require.NoError(t, srv.Delete("/limits"))
		assert.Nil(t, latest(t, states))
		stop()
		assert.True(t, isClosed(states))
		assert.Less(t, runtime.NumGoroutine(), ofCache)
	})
}

func TestFollowChildren(t *testing.T) {
	ways(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		require.NoError(t, srv.Create("/jobs", nil))
		require.NoError(t, srv.Create("/jobs/b", nil))
		first, states, err := cache.FollowChildren(t.Context(), c, "/jobs")
		require.NoError(t, err)
		names := func(nodes map[string]cache.Node) []string { return slices.Sorted(maps.Keys(nodes)) }
		assert.Equal(t, []string{"b"}, names(first))
		_, err = c.Transaction(t.Context(),
			c.TransactionOp().Create().ForPath("/jobs/a", []byte("x")),
			c.TransactionOp().Delete().ForPath("/jobs/b"))
		require.NoError(t, err)
		time.Sleep(time.Second)
		nodes := <-states
		assert.Equal(t, []string{"a"}, names(nodes), "a transaction is one change")
		assert.Equal(t, "x", string(nodes["a"].Data))
		assert.Empty(t, states)
		require.NoError(t, c.Close())
		assert.True(t, isClosed(states), "the client is closed")
	})
}

// The error is returned, and the cache has ended.
func TestFollowNodeFails(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		require.NoError(t, c.WaitConnected(t.Context()))
		synctest.Wait()
		before, watches := runtime.NumGoroutine(), len(srv.Watches())
		require.NoError(t, srv.Create("/secret", nil))
		require.NoError(t, srv.SetACL("/secret", zktest.ACL{Perms: int32(framework.PermWrite), Scheme: "world", ID: "anyone"}))
		soon, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var none context.Context
		for name, tc := range map[string]struct {
			ctx  context.Context
			path string
			opts []cache.Option
			want error
		}{
			"no permission": {soon, "/secret", nil, framework.ErrNoAuth},
			"data too large": {soon, "/large", []cache.Option{cache.WithDecoder(func(string, []byte) ([]byte, error) {
				return nil, framework.ErrDecompressedTooLarge
			})}, framework.ErrDecompressedTooLarge},
			"path":    {soon, "none", nil, framework.ErrInvalidPath},
			"context": {none, "/a", nil, framework.ErrNilContext},
		} {
			if name == "data too large" {
				require.NoError(t, srv.Create("/large", []byte("x")))
			}
			node, states, err := cache.FollowNode(tc.ctx, c, tc.path, tc.opts...)
			require.ErrorIs(t, err, tc.want, name)
			assert.Nil(t, node)
			assert.Nil(t, states)
			nodes, children, err := cache.FollowChildren(tc.ctx, c, tc.path, tc.opts...)
			require.ErrorIs(t, err, tc.want, name)
			assert.Nil(t, nodes)
			assert.Nil(t, children)
		}
		synctest.Wait()
		assert.Len(t, srv.Watches(), watches, "before the client is closed")
		srv.Stop()
		_, _, err := cache.FollowNode(soon, c, "/a")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_ = c.Close() // without a server the close is not acknowledged
		synctest.Wait()
		assert.Less(t, runtime.NumGoroutine(), before)
		_, _, err = cache.FollowNode(t.Context(), c, "/a")
		require.ErrorIs(t, err, framework.ErrClosed)
	})
}

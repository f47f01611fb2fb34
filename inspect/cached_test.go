package inspect_test

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/inspect"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/semaphore"
	"github.com/go-curator/curator/zktest"
)

func newCache(t *testing.T, c *framework.Client, root string, opts ...cache.Option) *cache.Cache {
	t.Helper()
	copied, err := cache.New(c, root, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, copied.Close()) })
	require.NoError(t, copied.WaitSynced(t.Context()))
	return copied
}

// The result from a cache in sync is the same as the servers'.
func TestACacheTellsWhatTheServersTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		first, second := newClient(t, s), newClient(t, s)
		stand(t, first, "/all/java", java1+numbered("lock-", 1), java2+numbered("lock-", 2))
		stand(t, first, "/all/latch", java1+numbered("latch-", 1), ours+numbered("latch-", 2))
		stand(t, first, "/all/kazoo", kaz1+numbered("__rlock__", 1), kaz2+numbered("__lock__", 2))
		stand(t, first, "/all/rw", java1+numbered("__READ__", 1), java2+numbered("__WRIT__", 2), "foreign")
		stand(t, first, "/all/members", uuid1, uuid2)
		stand(t, first, "/all/queue", numbered("queue-", 1))
		require.NoError(t, s.Create("/all/leaf", []byte("x")))
		for _, locks := range []struct {
			client *framework.Client
			hold   string
		}{{first, "/all/a"}, {second, "/all/b"}} {
			_, err := mutex.New(locks.client, locks.hold).Acquire(background)
			require.NoError(t, err)
			_, err = semaphore.New(locks.client, "/all/deep/er/permits", 2).Acquire(background, 1)
			require.NoError(t, err)
		}
		wait(t, func(ctx context.Context) { _, _ = mutex.New(first, "/all/b").Acquire(ctx) })
		wait(t, func(ctx context.Context) { _, _ = mutex.New(second, "/all/a").Acquire(ctx) })
		wait(t, func(ctx context.Context) { _, _ = semaphore.New(second, "/all/deep/er/permits", 2).Acquire(ctx, 1) })

		copied := newCache(t, second, "/")
		s.ResetCounts()
		cached, err := inspect.WhyIn(copied)
		require.NoError(t, err)
		assert.Empty(t, s.Counts(), "nothing is asked")
		asked, err := inspect.Why(background, second, "/")
		require.NoError(t, err)
		assert.Equal(t, asked, cached)
		assert.Len(t, cached.Circles, 1)
		assert.Len(t, cached.Lines, 9)
	})
}

func TestACachesLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		stand(t, c, "/lock", ours+numbered("lock-", 1), ours+numbered("lock-", 2), ours+numbered("lock-", 3))
		require.NoError(t, s.Set("/lock/"+ours+numbered("lock-", 1), bytes.Repeat([]byte("x"), 2000)))
		time.Sleep(time.Second)
		g, err := inspect.WhyIn(newCache(t, c, "/lock"), inspect.WithMostNodes(3))
		require.NoError(t, err)
		require.Len(t, g.Lines, 1)
		assert.Nil(t, g.Lines[0].Holders[0].Data)
		assert.Equal(t, 2000, g.Lines[0].Holders[0].DataLength)
		assert.Equal(t, 1, g.Lines[0].More)

		g, err = inspect.WhyIn(newCache(t, c, "/lock", cache.WithoutData()))
		require.NoError(t, err)
		assert.Equal(t, 4, g.Lines[0].Waiting[0].DataLength)
		assert.Nil(t, g.Lines[0].Waiting[0].Data)
	})
}

// A node that may not be read does not hide other nodes, and has its place in the line by its name.
func TestWhatACacheCannotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		owner := newClient(t, s, framework.WithAuth("digest", []byte("o:w")))
		stand(t, owner, "/all/lock", java1+numbered("lock-", 1), java2+numbered("lock-", 2))
		require.NoError(t, s.Create("/all/dir", nil))
		for _, path := range []string{"/all/lock/" + java1 + numbered("lock-", 1), "/all/dir"} {
			_, err := owner.SetACL().WithACL(framework.DigestACL(framework.PermAll, "o", "w")).ForPath(background, path)
			require.NoError(t, err)
		}
		g, err := inspect.WhyIn(newCache(t, newClient(t, s), "/all"))
		require.NoError(t, err)
		require.Len(t, g.Lines, 1)
		require.Len(t, g.Lines[0].Holders, 1)
		assert.Equal(t, java1+numbered("lock-", 1), g.Lines[0].Holders[0].Name)
		assert.ErrorIs(t, g.Lines[0].Holders[0].Err, framework.ErrNoAuth)
		assert.Equal(t, []string{java2 + numbered("lock-", 2)}, names(g.Lines[0].Waiting))
		assert.Equal(t, []string{"/all/dir"}, g.Unreadable)
		assert.Equal(t, 1, g.UnreadableCount)
	})
}

func TestWhyInRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		_, err := inspect.WhyIn(nil)
		assert.ErrorIs(t, err, framework.ErrNoClient)
		missing := newCache(t, c, "/missing")
		_, err = inspect.WhyIn(missing)
		assert.ErrorIs(t, err, framework.ErrNoNode)
		_, err = inspect.WhyIn(missing, inspect.WithMostDepth(-1))
		assert.ErrorIs(t, err, framework.ErrInvalidOption)
		require.NoError(t, s.Create("/missing", nil))
		_, err = c.SetACL().WithACL(framework.DigestACL(framework.PermAll, "o", "w")).ForPath(background, "/missing")
		require.NoError(t, err)
		closed, err := cache.New(c, "/missing")
		require.NoError(t, err)
		defer closed.Close()
		time.Sleep(time.Second)
		_, err = inspect.WhyIn(closed)
		assert.ErrorIs(t, err, framework.ErrNoAuth)
	})
}

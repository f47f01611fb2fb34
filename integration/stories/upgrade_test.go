package stories

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/framework/tree"
	"github.com/go-curator/curator/integration/internal/jvm"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/zkserver"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/recipes/mutex"
)

// The members of an ensemble are restarted with a newer release, one after the other, during a lock, an election, a
// cache and writes.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	from, to := jvm.Upgrade()
	if _, err := exec.LookPath("mvn"); err != nil {
		t.Skipf("lacks: Maven, which fetches ZooKeeper %s and %s", from, to)
	}
	servers := zkserver.StartEnsemble(t, 3, zkserver.Options{Version: from, TickTime: 500 * time.Millisecond})
	require.Equal(t, from, servers.Version())
	// A member is down for as long as a JVM takes to start, and then a leader is elected.
	dial := func() *framework.Client {
		client, _ := kit.Connected(t, servers.ConnectString(), framework.WithSessionTimeout(10*time.Second))
		return client
	}
	ctx, stop := context.WithCancel(kit.Context(t))
	defer stop()
	var all sync.WaitGroup

	holder := dial()
	lock, err := mutex.New(holder, "/lock").Acquire(ctx)
	require.NoError(t, err)
	waiter := kit.Call(t, kit.Context(t), mutex.New(dial(), "/lock").Acquire)

	copied, err := cache.NewTree(dial(), "/data")
	require.NoError(t, err)
	t.Cleanup(func() { copied.Close() })

	var leading, terms atomic.Int32
	for i := range 3 {
		latch, err := leader.NewLatch(dial(), "/election", leader.WithID(fmt.Sprint(i)))
		require.NoError(t, err)
		t.Cleanup(func() { latch.Close() })
		all.Go(func() {
			for {
				term, err := latch.Await(ctx)
				if ctx.Err() != nil {
					return
				}
				if !assert.NoError(t, err) {
					return
				}
				assert.EqualValues(t, 1, leading.Add(1), "leaders")
				terms.Add(1)
				select {
				case <-term.Context().Done():
				case <-time.After(500 * time.Millisecond):
				case <-ctx.Done():
				}
				leading.Add(-1)
				_ = term.Resign(kit.Context(t)) // it may have ended
			}
		})
	}

	written := map[string]string{} // acknowledged writes
	var unknown int
	var slowest time.Duration
	writer := dial()
	all.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			path, data := fmt.Sprintf("/data/%06d", i), fmt.Sprint("value ", i)
			began := time.Now()
			_, err := writer.Create().CreatingParentsIfNeeded().ForPath(t.Context(), path, []byte(data))
			slowest = max(slowest, time.Since(began))
			switch {
			case err == nil:
				written[path] = data
			case errors.Is(err, framework.ErrOutcomeUnknown), errors.Is(err, framework.ErrNodeExists):
				unknown++ // a retry may find the node that an earlier try has created
			case !assert.ErrorIs(t, err, framework.ErrNotConnected):
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	})

	for i := range servers.Size() {
		require.NoError(t, servers.Stop(i))
		servers.SetVersion(i, to)
		require.NoError(t, servers.Start(i))
		require.NoError(t, servers.AwaitServing(ctx))
		at, err := servers.VersionOf(ctx, i)
		require.NoError(t, err)
		require.Equal(t, to, at)
	}
	before := terms.Load()
	kit.Soon(t, "another term", func() bool { return terms.Load() > before })
	stop()
	all.Wait()

	ctx = kit.Context(t)
	assert.True(t, lock.Valid())
	assert.NoError(t, lock.Context().Err(), "the lock is held through")
	assert.EqualValues(t, 1, holder.State().Epoch)
	assert.Empty(t, waiter)
	require.NoError(t, lock.Release(ctx))
	require.NoError(t, kit.Receive(t, "the lock", waiter).Release(ctx))

	require.NoError(t, writer.Sync().ForPath(ctx, "/data"))
	there := map[string]string{}
	for n, err := range tree.Walk(writer).ForPath(ctx, "/data") {
		require.NoError(t, err)
		there[n.Path] = fmt.Sprintf("%s, mzxid %d", n.Data, n.Stat.Mzxid)
		if want, acknowledged := written[n.Path]; acknowledged {
			assert.Equal(t, want, string(n.Data), n.Path)
			delete(written, n.Path)
		}
	}
	assert.Empty(t, written, "acknowledged, and lost")
	kit.Soon(t, "the cache has all", func() bool { return copied.Len() >= len(there) })
	require.NoError(t, copied.WaitSynced(ctx))
	cached := map[string]string{}
	for path, n := range copied.All() {
		cached[path] = fmt.Sprintf("%s, mzxid %d", n.Data, n.Stat.Mzxid)
	}
	assert.Equal(t, there, cached)
	kit.Figure(t, "%d nodes written while three servers went from %s to %s, %d with an unknown outcome, the slowest in %v; %d terms",
		len(there)-1, from, to, unknown, slowest.Round(time.Millisecond), terms.Load())
}
